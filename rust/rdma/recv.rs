// SPDX-License-Identifier: GPL-2.0

//! Messages that have arrived.
//!
//! A Receive buffer belongs to the device from posting to completion, and nothing can read it then.
//! After completion it belongs to a [`Received`], which lends the bytes out and returns the buffer
//! to the receive queue when it is dropped.

use core::ptr::NonNull;

use kernel::sync::Arc;

use super::progress::Progress;
use super::qp::{Completions, Qp};
use crate::raw as bindings;

pub(super) mod queue;

use queue::Slot;

/// A message that has arrived, in its Receive buffer. Dropping it returns the buffer to the receive
/// queue, which posts it again.
///
/// # Examples
///
/// A consumer copies the message, and asks which R_key the peer has invalidated with it:
///
/// ```
/// fn received(&self, _qp: &Qp<Self>, msg: Received<'_, Self>) {
///     let bytes = msg.bytes().try_into().ok();
///     self.completed.change(|h| {
///         if let Some(region) = &mut h.offered {
///             h.invalidated = region.remotely_invalidated(&msg);
///         }
///         h.message = bytes;
///     });
/// }
/// ```
///
/// # Invariants
///
/// `slot` is a slot of `qp`'s receive queue that has completed successfully, and belongs to this
/// value.
pub(crate) struct Received<'a, C: Completions> {
    qp: &'a Qp<C>,
    slot: NonNull<Slot>,
    len: usize,
    invalidated: Option<u32>,
}

impl<'a, C: Completions> Received<'a, C> {
    /// Takes ownership of the Receive that has completed.
    ///
    /// # Safety
    ///
    /// `wc` is a successful completion of a Receive of `qp`'s receive queue, and this is called
    /// once for it.
    #[inline]
    pub(super) unsafe fn new(qp: &'a Qp<C>, wc: &bindings::ib_wc) -> Self {
        // SAFETY: Completions of a receive queue identify the work request by `wr_cqe`.
        let cqe = unsafe { wc.__bindgen_anon_1.wr_cqe };
        // By the invariant of `Slot`, the completion entry is its first field.
        let slot = cqe.cast::<Slot>();
        // SAFETY: The caller promises that the entry belongs to a slot of `qp`'s receive queue, so
        // the pointer is valid and not null. The Receive has completed, so the device does not use
        // the slot, and as this is called once, nothing else does.
        let (slot, buffer) = unsafe { (NonNull::new_unchecked(slot), &(*slot).buffer) };
        // The length comes from the device: it is limited to the buffer in any case.
        // CAST: `usize` has at least 32 bits.
        let len = (wc.byte_len as usize).min(buffer.len());
        buffer.sync_for_cpu(len);
        // CAST: a flag.
        let with_invalidate = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;
        let invalidated = if wc.wc_flags & with_invalidate != 0 {
            // SAFETY: The flag says that this member of the union is in use.
            Some(unsafe { wc.ex.invalidate_rkey })
        } else {
            None
        };
        // INVARIANT: The caller promises that the slot completed successfully and is passed once.
        Self {
            qp,
            slot,
            len,
            invalidated,
        }
    }

    /// Returns the message.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant the slot is valid and belongs to this value, so the device
        // does not write its buffer.
        let buffer = unsafe { &(*self.slot.as_ptr()).buffer };
        buffer.bytes().get(..self.len).unwrap_or_default()
    }

    /// Returns the R_key that the message has invalidated, if it came by Send With Invalidate.
    #[inline]
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.invalidated
    }

    /// Returns the number of the Receive, for traces.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        // SAFETY: By the type invariant the slot is valid and belongs to this value.
        unsafe { (*self.slot.as_ptr()).index }
    }

    /// Returns the progress of the queue pair that the message came on.
    #[inline]
    pub(super) fn progress(&self) -> &Arc<Progress> {
        self.qp.progress()
    }
}

impl<C: Completions> Drop for Received<'_, C> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant the slot is valid and belongs to this value alone.
        let slot = unsafe { &mut *self.slot.as_ptr() };
        slot.buffer.sync_for_device(self.len);
        if self
            .qp
            .recv_queue()
            .recycle(self.qp.as_ptr(), slot)
            .is_err()
        {
            // The consumer may hold a lock while it drops the message, so `Completions::broken` is
            // called after `Completions::received` has returned, and not here.
            self.qp.note_lost_receives();
        }
    }
}
