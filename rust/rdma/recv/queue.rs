// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: its buffers, and posting them.

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::raw as bindings;
use crate::rdma::buffer::{Buffer, DmaDirection};
use crate::rdma::cq::Done;
use crate::rdma::numa;
use crate::rdma::pd::Pd;

/// A Receive: its completion entry, work request and buffer.
///
/// # Invariants
///
/// - `cqe` is the first field, so that a pointer to it is a pointer to the slot.
/// - After `link`, `wr` points to `cqe` and `sge`, and `sge` describes the buffer; the slot does
///   not move any more.
#[repr(C)]
pub(in super::super) struct Slot {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_recv_wr,
    sge: bindings::ib_sge,
    pub(super) buffer: KBox<Buffer>,
    pub(super) index: u32,
}

/// The Receives of a queue pair.
///
/// # Invariants
///
/// - `slots` are neither moved nor dropped while one of them is posted.
/// - A slot is in `idle`'s chain, or posted, or belongs to one [`Received`](super::Received).
#[pin_data]
pub(in super::super) struct RecvQueue {
    slots: KVVec<Slot>,
    batch: u32,
    /// Number of Receives that have completed, modulo 2^32. Only the completion worker writes it.
    completed: Atomic<u32>,
    #[pin]
    idle: SpinLock<Idle>,
}

/// Receives that are to be posted, chained through their work requests.
///
/// # Invariants
///
/// `head` is the first of `count` work requests that are chained by `next`. All of them belong to
/// slots of one receive queue, and neither the device nor a [`Received`](super::Received) has them.
struct Idle {
    head: *mut bindings::ib_recv_wr,
    count: u32,
    /// Number of Receives that were posted, or whose posting failed, modulo 2^32.
    posted: u32,
    /// Whether Receives may still be posted.
    open: bool,
}

// SAFETY: By the type invariant the chain's members belong to the receive queue. They are accessed
// under the lock around this value only.
unsafe impl Send for Idle {}
// SAFETY: A slot is used by the device, through the lock of `idle`, or by the one `Received` that
// owns it; none of these depends on the task.
unsafe impl Send for RecvQueue {}
// SAFETY: Through a shared reference, slots are reached only under the lock of `idle`; a `Received`
// reaches its own slot, and no other value does.
unsafe impl Sync for RecvQueue {}

impl RecvQueue {
    /// Allocates and maps `count` buffers of `size` bytes. They are posted in chains of at least
    /// `batch`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a size that is 0 or does not fit a work request; `ENOMEM`; `EIO` if the device
    /// cannot map the memory.
    pub(in super::super) fn new(
        pd: &Arc<Pd>,
        count: u32,
        size: usize,
        batch: u32,
        done: Done,
    ) -> Result<impl PinInit<Self>> {
        // CAST: `usize` has at least 32 bits.
        let mut slots: KVVec<_> =
            numa::with_capacity(count as usize, GFP_KERNEL, numa::node(&pd.as_device()))?;
        for index in 0..count {
            let buffer = Buffer::new(pd, size, DmaDirection::FromDevice, GFP_KERNEL)?;
            slots.push(Slot::new(index, buffer, pd.lkey(), done), GFP_KERNEL)?;
        }
        let mut idle = Idle {
            head: core::ptr::null_mut(),
            count: 0,
            posted: 0,
            open: true,
        };
        // INVARIANT: `slots` is complete, so its members do not move any more.
        for slot in slots.iter_mut() {
            slot.link();
            idle.add(slot);
        }
        Ok(pin_init!(Self {
            slots,
            batch: batch.clamp(1, count.max(1)),
            completed: Atomic::new(0),
            idle <- new_spinlock!(idle, "rdma::RecvQueue::idle"),
        }))
    }

    /// Posts all idle Receives on `qp`, the queue pair that owns this queue.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is closed, or the error of the driver. Receives that could not be
    /// posted then stay unused.
    pub(in super::super) fn post_all(&self, qp: *mut bindings::ib_qp) -> Result {
        self.post(qp, &mut self.idle.lock())
    }

    /// Closes the queue: no Receive is posted after this.
    pub(in super::super) fn close(&self) {
        self.idle.lock().open = false;
    }

    /// Notes that a Receive has completed, successfully or not. Called by the completion worker.
    #[inline]
    pub(in super::super) fn note_completed(&self) {
        // Nothing else writes the counter, so a load and a store will do.
        let before = self.completed.load(Relaxed);
        self.completed.store(before.wrapping_add(1), Relaxed);
    }

    /// Returns whether as many Receives have completed as were posted. The answer is final once the
    /// queue is closed.
    pub(in super::super) fn is_flushed(&self) -> bool {
        self.completed.load(Relaxed) == self.idle.lock().posted
    }

    /// Adds a slot of this queue, which its [`Received`](super::Received) gives up, to the idle
    /// Receives. Posts these on `qp`, the queue pair that owns this queue, if they are a batch.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    #[inline]
    pub(super) fn recycle(&self, qp: *mut bindings::ib_qp, slot: &mut Slot) -> Result {
        let mut idle = self.idle.lock();
        idle.add(slot);
        if idle.count < self.batch || !idle.open {
            return Ok(());
        }
        self.post(qp, &mut idle)
    }

    /// Posts the chain of idle Receives.
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
        // SAFETY: By the invariant of `Idle`, these are work requests of slots that nothing uses.
        // The queue pair owns this queue, so it exists, and the slots outlive it.
        to_result(unsafe { bindings::rr_ib_post_recv(qp, chain, &raw mut bad) })
    }
}

impl Idle {
    /// Adds the work request of a slot, which nothing else uses, to the chain.
    #[inline]
    fn add(&mut self, slot: &mut Slot) {
        slot.wr.next = self.head;
        // INVARIANT: The slot is borrowed exclusively, so neither the device nor a `Received` has
        // it.
        self.head = &raw mut slot.wr;
        self.count += 1;
    }
}

impl Slot {
    /// Makes a slot, whose pointers are not set yet.
    fn new(index: u32, buffer: KBox<Buffer>, lkey: u32, done: Done) -> Self {
        Self {
            cqe: bindings::ib_cqe { done: Some(done) },
            wr: pin_init::zeroed(),
            sge: bindings::ib_sge {
                addr: buffer.addr(),
                // CAST: `Buffer::new` refuses lengths that do not fit.
                length: buffer.len() as u32,
                lkey,
            },
            buffer,
            index,
        }
    }

    /// Sets the pointers of the work request. The slot must not move after this.
    fn link(&mut self) {
        self.wr.__bindgen_anon_1.wr_cqe = &raw mut self.cqe;
        self.wr.sg_list = &raw mut self.sge;
        self.wr.num_sge = 1;
    }
}
