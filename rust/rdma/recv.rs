// SPDX-License-Identifier: GPL-2.0

//! The Receives of a queue pair: buffers that the device writes messages into.
//!
//! A buffer belongs either to the device, from posting to completion, and then nobody can look
//! into it; or to a [`Received`], which lends its bytes out and puts it back into the ring when it
//! is dropped.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::buffer::{Buffer, Way};
use super::gate::Gate;
use super::local;
use super::pd::Pd;
use super::qp::{Completions, Qp};
use crate::raw as bindings;

/// A Receive: its completion entry, work request and buffer.
///
/// # Invariants
///
/// `cqe` comes first, so that a completion leads here. `wr` refers to `cqe` and `sge`, and `sge` to
/// the buffer; the value does not move once that is so.
#[repr(C)]
pub(super) struct Slot {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_recv_wr,
    sge: bindings::ib_sge,
    buffer: KBox<Buffer>,
    index: u32,
}

/// All Receives of a queue pair.
///
/// # Invariants
///
/// - `slots` are not moved or dropped while one of them is posted.
/// - A slot is either in `idle`'s chain, or posted, or belongs to one [`Received`].
#[pin_data]
pub(super) struct Ring {
    slots: KVVec<Slot>,
    batch: u32,
    /// Receives that have completed; counts round. Only the completion worker writes it.
    completed: Atomic<u32>,
    #[pin]
    idle: SpinLock<Idle>,
}

/// Receives to be posted, chained through their work requests.
struct Idle {
    head: *mut bindings::ib_recv_wr,
    count: u32,
    /// Receives that were posted, or should have been; counts round.
    posted: u32,
    /// Nothing is posted any more once this is false.
    open: bool,
}

// SAFETY: The chain's members belong to the ring, and are touched under its lock only.
unsafe impl Send for Idle {}
// SAFETY: The slots are the device's, or reached through the lock, or through the one `Received`
// that owns them.
unsafe impl Send for Ring {}
// SAFETY: As above.
unsafe impl Sync for Ring {}

/// What a completion handler for Receives looks like to `ib_core`.
type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

impl Ring {
    /// Allocates and maps `count` buffers of `size` bytes, to be posted in chains of `batch` at
    /// least.
    pub(super) fn new(
        pd: &Arc<Pd>,
        count: u32,
        size: usize,
        batch: u32,
        done: Done,
    ) -> Result<impl PinInit<Self>> {
        // CAST: `usize` has at least 32 bits.
        let mut slots: KVVec<_> =
            local::with_capacity(count as usize, GFP_KERNEL, local::node(&pd.as_device()))?;
        for index in 0..count {
            let buffer = Buffer::new(pd, size, Way::In, GFP_KERNEL)?;
            slots.push(Slot::new(index, buffer, pd.lkey(), done), GFP_KERNEL)?;
        }
        let mut idle = Idle {
            head: core::ptr::null_mut(),
            count: 0,
            posted: 0,
            open: true,
        };
        // INVARIANT: `slots` is complete, so that its members stay where they are.
        for slot in slots.iter_mut() {
            slot.link_up();
            idle.add(&raw mut slot.wr);
        }
        Ok(pin_init!(Self {
            slots,
            batch: batch.clamp(1, count.max(1)),
            completed: Atomic::new(0),
            idle <- new_spinlock!(idle, "rdma::Ring::idle"),
        }))
    }

    /// Posts all that are idle.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the ring is closed, or what the driver says; those that could not be posted
    /// are lost to the ring.
    pub(super) fn post_all(&self, qp: *mut bindings::ib_qp) -> Result {
        self.post(qp, &mut self.idle.lock())
    }

    /// No Receive is posted after this.
    pub(super) fn close(&self) {
        self.idle.lock().open = false;
    }

    /// A Receive has completed, successfully or not. Completion worker.
    #[inline]
    pub(super) fn completed(&self) {
        // Nobody else writes it, so this need not be one operation.
        let before = self.completed.load(Relaxed);
        self.completed.store(before.wrapping_add(1), Relaxed);
    }

    /// Whether as many have completed as were posted. To be asked when the ring is closed.
    pub(super) fn is_flushed(&self) -> bool {
        self.completed.load(Relaxed) == self.idle.lock().posted
    }

    /// Takes a slot back, and posts the idle ones if they are enough.
    #[inline]
    fn put(&self, qp: *mut bindings::ib_qp, slot: NonNull<Slot>) -> Result {
        let mut idle = self.idle.lock();
        // SAFETY: The slot is one of `slots`, and the caller gives it up.
        idle.add(unsafe { &raw mut (*slot.as_ptr()).wr });
        if idle.count < self.batch || !idle.open {
            return Ok(());
        }
        self.post(qp, &mut idle)
    }

    fn post(&self, qp: *mut bindings::ib_qp, idle: &mut Idle) -> Result {
        if !idle.open {
            return Err(ENOTCONN);
        }
        let chain = core::mem::replace(&mut idle.head, core::ptr::null_mut());
        idle.posted = idle.posted.wrapping_add(idle.count);
        idle.count = 0;
        if chain.is_null() {
            return Ok(());
        }
        let mut bad = core::ptr::null();
        // SAFETY: By the type invariant, these are work requests of slots that nobody uses, and the
        // queue pair exists (it owns the ring).
        to_result(unsafe { bindings::rr_ib_post_recv(qp, chain, &raw mut bad) })
    }
}

impl Idle {
    #[inline]
    fn add(&mut self, wr: *mut bindings::ib_recv_wr) {
        // SAFETY: The caller hands over a work request of the ring.
        unsafe { (*wr).next = self.head };
        self.head = wr;
        self.count += 1;
    }
}

impl Slot {
    fn new(index: u32, buffer: KBox<Buffer>, lkey: u32, done: Done) -> Self {
        Self {
            cqe: bindings::ib_cqe { done: Some(done) },
            wr: pin_init::zeroed(),
            sge: bindings::ib_sge {
                addr: buffer.addr(),
                // CAST: `Buffer::new` saw to it.
                length: buffer.len() as u32,
                lkey,
            },
            buffer,
            index,
        }
    }

    /// To be called where the slot stays.
    fn link_up(&mut self) {
        self.wr.__bindgen_anon_1.wr_cqe = &raw mut self.cqe;
        self.wr.sg_list = &raw mut self.sge;
        self.wr.num_sge = 1;
    }
}

/// A message that has arrived, in its Receive buffer. Dropping it gives the buffer back to the
/// device.
///
/// # Invariants
///
/// `slot` is a slot of `qp`'s ring that completed successfully, and belongs to this value.
pub(crate) struct Received<'a, C: Completions> {
    qp: &'a Qp<C>,
    slot: NonNull<Slot>,
    len: usize,
    invalidated: Option<u32>,
}

impl<'a, C: Completions> Received<'a, C> {
    /// # Safety
    ///
    /// `wc` is a successful completion of a Receive of `qp`'s ring, which nobody else handles.
    #[inline]
    pub(super) unsafe fn new(qp: &'a Qp<C>, wc: &bindings::ib_wc) -> Self {
        // SAFETY: The completion of a Receive leads to its entry, the first field of a slot.
        let cqe = unsafe { wc.__bindgen_anon_1.wr_cqe };
        let slot = cqe.cast::<Slot>();
        // SAFETY: As above: the slot is there, and ours. The entry is not null.
        let (slot, buffer) = unsafe { (NonNull::new_unchecked(slot), &(*slot).buffer) };
        // What the device claims to have written cannot be more than there is room for.
        // CAST: `usize` has at least 32 bits.
        let len = (wc.byte_len as usize).min(buffer.len());
        buffer.take(len);
        // CAST: a flag.
        let with_invalidate = bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;
        let invalidated = if wc.wc_flags & with_invalidate != 0 {
            // SAFETY: The flag says that this field is in use.
            Some(unsafe { wc.ex.invalidate_rkey })
        } else {
            None
        };
        // INVARIANT: as the caller promises.
        Self {
            qp,
            slot,
            len,
            invalidated,
        }
    }

    /// The message.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant the slot is ours, so the device does not write to it.
        let buffer = unsafe { &(*self.slot.as_ptr()).buffer };
        buffer.bytes().get(..self.len).unwrap_or_default()
    }

    /// The R_key that the message has invalidated, if it came by Send With Invalidate.
    #[inline]
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.invalidated
    }

    /// Number of the Receive, for traces.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        // SAFETY: By the type invariant the slot is ours.
        unsafe { (*self.slot.as_ptr()).index }
    }

    /// The queue pair that it came on.
    #[inline]
    pub(super) fn gate(&self) -> &Arc<Gate> {
        self.qp.gate()
    }
}

impl<C: Completions> Drop for Received<'_, C> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { (*self.slot.as_ptr()).buffer.give(self.len) };
        if self.qp.ring().put(self.qp.as_ptr(), self.slot).is_err() {
            // `broken` is called when the message has been handled, not from in here: the
            // consumer may hold a lock.
            self.qp.receives_lost();
        }
    }
}
