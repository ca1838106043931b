// SPDX-License-Identifier: GPL-2.0

//! Received messages.
//!
//! A Receive buffer belongs to the device from posting to completion, and nothing can read it then.
//! After completion it belongs to a [`Received`], which gives access to the bytes and returns the
//! buffer to the receive queue when it is dropped. [`Received::hold`] turns it into a [`Held`],
//! which does the same later, on any thread.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::sync::Arc;

use super::progress::Progress;
use super::qp::{Completions, Qp};
use crate::compat::casts::u32_as_usize;
use crate::raw as bindings;

pub(super) mod queue;
mod slots;

use queue::RecvQueue;
use slots::Slot;

/// A slot with a message in it.
///
/// # Invariants
///
/// `slot` is a slot of a receive queue that exists while this value is used. It has completed, and
/// belongs to this value.
struct FilledSlot {
    slot: NonNull<Slot>,
    len: usize,
    invalidated: Option<u32>,
}

impl FilledSlot {
    /// Makes the value from a completion.
    ///
    /// # Safety
    ///
    /// `wc` is a successful completion of a Receive of a [`RecvQueue`], which exists while the
    /// value is used. Nothing else uses the slot.
    unsafe fn new(wc: &bindings::ib_wc) -> Self {
        // SAFETY: Completions of a receive queue identify the work request by `wr_cqe`.
        let cqe = unsafe { wc.__bindgen_anon_1.wr_cqe };
        // By the invariant of `Slot`, the completion entry is its first field.
        let slot = cqe.cast::<Slot>();
        // SAFETY: The caller promises that the entry belongs to a slot, so the pointer is valid and
        // not null, and that nothing else uses the slot.
        let (slot, buffer) = unsafe { (NonNull::new_unchecked(slot), &(*slot).buffer) };
        // The length is the device's, so it is limited to the buffer.
        let len = buffer.sync_for_cpu(u32_as_usize(wc.byte_len));
        // CAST: a flag.
        let with_invalidate = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;
        let invalidated = match wc.wc_flags & with_invalidate {
            0 => None,
            // SAFETY: The flag says that this member of the union is in use.
            _ => Some(unsafe { wc.ex.invalidate_rkey }),
        };
        // INVARIANT: The caller promises that the Receive has completed, and that nothing else uses
        // its slot.
        Self {
            slot,
            len,
            invalidated,
        }
    }

    /// Returns the message.
    fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant the slot is valid, its Receive has completed, and it
        // belongs to this value. So the device does not write its buffer.
        let bytes = unsafe { self.slot.as_ref().buffer.bytes() };
        bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the number of the slot.
    fn index(&self) -> u32 {
        // SAFETY: By the type invariant the slot is valid and belongs to this value.
        unsafe { (*self.slot.as_ptr()).index }
    }

    /// Returns the slot to its receive queue.
    ///
    /// # Safety
    ///
    /// The slot is one of `queue`, and this value is not used after this.
    #[inline(always)]
    unsafe fn give_back(&mut self, queue: &RecvQueue) {
        // SAFETY: By the type invariant the slot is valid and belongs to this value.
        let slot = unsafe { &mut *self.slot.as_ptr() };
        slot.buffer.sync_for_device(self.len.max(1));
        queue.recycle(slot);
    }

    /// Returns the slot to its receive queue from the completion worker.
    ///
    /// # Safety
    ///
    /// As for [`Self::give_back`]; and the caller is the completion worker.
    #[inline]
    unsafe fn give_back_in_worker(&mut self, queue: &RecvQueue) {
        // SAFETY: By the type invariant the slot is valid and belongs to this value.
        let slot = unsafe { &mut *self.slot.as_ptr() };
        slot.buffer.sync_for_device(self.len.max(1));
        // SAFETY: The caller promises that this is the completion worker.
        unsafe { queue.recycle_in_worker(slot) };
    }
}

/// A received message in its Receive buffer. Dropping it returns the buffer to the receive queue,
/// which posts it again.
///
/// # Examples
///
/// A consumer copies the message, and checks which R_key the peer has invalidated with it:
///
/// ```
/// fn received(&self, _qp: &Qp<Self>, msg: Received<'_, Self>) {
///     let bytes = msg.bytes().try_into().ok();
///     self.completed.change(|h| {
///         if let Some(region) = &mut h.offered {
///             h.invalidated = region.remotely_invalidated(&msg);
///         }
///         h.message = bytes;
///         // ...
///     });
/// }
/// ```
///
/// # Invariants
///
/// - The slot of `filled` is one of `qp`'s receive queue.
/// - The value exists only in the completion worker, while that handles the completion: it borrows
///   `qp` from the handler, and is not `Send`.
pub(crate) struct Received<'a, C: Completions> {
    qp: &'a Qp<C>,
    filled: FilledSlot,
}

impl<'a, C: Completions> Received<'a, C> {
    /// Takes ownership of a completed Receive.
    ///
    /// # Safety
    ///
    /// `wc` is a successful completion of a Receive of `qp`'s receive queue, and this is called
    /// once for it, by the handler of the completion, for which alone `qp` is borrowed.
    pub(super) unsafe fn new(qp: &'a Qp<C>, wc: &bindings::ib_wc) -> Self {
        // INVARIANT: The caller promises that the Receive is one of this queue, and that this is
        // the handler.
        Self {
            qp,
            // SAFETY: The Receive has completed, so the device does not use the slot, and as this
            // is called once, nothing else does. The queue pair is borrowed and keeps the queue.
            filled: unsafe { FilledSlot::new(wc) },
        }
    }

    /// Returns the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.filled.bytes()
    }

    /// Returns the R_key that the message has invalidated, if it arrived by Send With Invalidate.
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.filled.invalidated
    }

    /// Returns the number of the Receive, for traces.
    pub(crate) fn index(&self) -> u32 {
        self.filled.index()
    }

    /// Keeps the message beyond the handler of its completion. The Receive is not posted again
    /// before the result is dropped. The consumer sets [`Completions::HOLDS`].
    pub(crate) fn hold(self) -> Held {
        // The slot is handed over, so it must not be given back here.
        let this = ManuallyDrop::new(self);
        let filled = FilledSlot { ..this.filled };
        // INVARIANT: By the type invariant the slot is one of this queue.
        Held {
            queue: this.qp.recv_queue().clone(),
            filled,
        }
    }

    /// Returns the progress of the queue pair on which the message arrived.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        self.qp.progress()
    }
}

impl<C: Completions> Drop for Received<'_, C> {
    fn drop(&mut self) {
        let queue = self.qp.recv_queue();
        // SAFETY: By the type invariant the slot is one of this queue, and this is the completion
        // worker. This is the destructor, so the value is not used after this.
        unsafe {
            if C::HOLDS {
                self.filled.give_back(queue);
            } else {
                self.filled.give_back_in_worker(queue);
            }
        }
    }
}

/// A received message in its Receive buffer, which its owner may keep and pass to another thread.
/// Dropping it posts the Receive again. It may outlive the queue pair; dropping it then frees the
/// buffer.
///
/// # Examples
///
/// A handler keeps messages while there is space for them:
///
/// ```
/// if h.held.len() < h.held.capacity() {
///     drop(h.held.push_within_capacity(msg.hold()));
/// }
/// ```
///
/// # Context
///
/// A message may be dropped in process context, with spinlocks held, but not in an interrupt or
/// softirq. Dropping the last object of a [`Pd`](super::pd::Pd) sleeps, and a message keeps the
/// `Pd`. An owner that drops messages with spinlocks held must therefore keep the `Pd` alive
/// meanwhile, as the queue pair does. A message also delays the removal of the device.
///
/// # Invariants
///
/// The slot of `filled` is one of `queue`.
pub(crate) struct Held {
    queue: Arc<RecvQueue>,
    filled: FilledSlot,
}

// SAFETY: A held message owns its slot and a reference to the queue, both of which any task may
// use.
unsafe impl Send for Held {}
// SAFETY: Through a shared reference, the slot is only read.
unsafe impl Sync for Held {}

impl Held {
    /// Returns the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.filled.bytes()
    }

    /// Returns the number of the Receive, for traces.
    pub(crate) fn index(&self) -> u32 {
        self.filled.index()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the slot is one of `queue`. This is the destructor, so the
        // value is not used after this.
        unsafe { self.filled.give_back(&self.queue) };
    }
}
