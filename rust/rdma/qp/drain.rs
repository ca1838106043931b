// SPDX-License-Identifier: GPL-2.0

//! Taking a queue pair out of use: draining, and what is done where draining cannot be relied on.
//!
//! `ib_drain_qp()` moves the queue pair to the error state, posts a marker on each queue, and waits
//! for the markers. It returns nothing: if the device refuses the state, or its driver refuses a
//! marker, it warns and returns at once. So drain does not believe it. It changes the state itself,
//! posts a marker of its own before those of `ib_core`, and counts Receives. If the state could not
//! be changed, or the marker or a Receive is missing, the queue pair is destroyed before anybody is
//! told that it is drained. (Destroying it every time would do as well, but some drivers wait for
//! the peer then, c4iw for a minute.)

use super::*;

/// Work requests that draining posts on the send queue: ours, and that of `ib_core`.
pub(crate) const SEND_WRS: u32 = 2;
/// The same on the receive queue: that of `ib_core`.
pub(super) const RECV_WRS: u32 = 1;
/// Completions of both.
pub(crate) const ENTRIES: u32 = SEND_WRS + RECV_WRS;

/// The last work request that we post on a send queue.
///
/// # Invariants
///
/// `cqe` comes first, so that a completion leads here.
#[repr(C)]
pub(super) struct Marker {
    cqe: bindings::ib_cqe,
    /// It has completed, and so has everything that was posted before it.
    seen: AtomicFlag,
}

impl Marker {
    /// One that has not been posted.
    pub(super) const fn new() -> Self {
        Self {
            cqe: bindings::ib_cqe {
                done: Some(Self::done),
            },
            seen: AtomicFlag::new(false),
        }
    }

    /// The marker has completed, which in the error state is to be flushed.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` with a completion whose entry is that of a marker that is in place.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: As this function asks for; the entry is the marker's first field.
        let marker = unsafe { &*(*wc).__bindgen_anon_1.wr_cqe.cast::<Self>() };
        marker.seen.store(true, Relaxed);
    }
}

impl<C: Completions> Inner<C> {
    /// See [`Qp::drain`].
    pub(super) fn drain(&self) {
        // Drivers allocate, and a file system may wait for who waits for this lock.
        let _scope = NoIo::enter();
        let _draining = self.draining.lock();
        if self.gate.is_drained() {
            return;
        }
        self.flushed.store(true, Relaxed);
        // Posting happens under these locks, so nothing is posted behind the markers.
        self.books.lock().open = false;
        self.ring.close();
        self.ident.disconnect();
        if !self.flush() {
            pr_warn!(
                "queue pair {} could not be drained: destroyed\n",
                self.number
            );
            self.destroy();
        }
        self.gate.close();
    }

    /// Flushes both queues, and waits until all completions have been handled. `false`: that is not
    /// known to have happened.
    fn flush(&self) -> bool {
        let mut attributes = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..pin_init::zeroed()
        };
        // CAST: a flag.
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as i32;
        // SAFETY: By the type invariant, and the attributes are valid.
        if unsafe { bindings::ib_modify_qp(self.qp, &raw mut attributes, mask) } != 0 {
            return false;
        }
        // A queue on which nothing was ever posted may not take a marker.
        let used = self.books.lock().books.is_used();
        if used && !self.post_marker() {
            return false;
        }
        // SAFETY: By the type invariant. The queues have room for the markers.
        unsafe { bindings::ib_drain_qp(self.qp) };
        (!used || self.marker.seen.load(Relaxed)) && self.ring.is_flushed()
    }

    /// Posts [`Self::marker`]. `false`: the driver refuses it.
    fn post_marker(&self) -> bool {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        wr.wr.__bindgen_anon_1.wr_cqe = (&raw const self.marker.cqe).cast_mut();
        let mut bad = core::ptr::null();
        // SAFETY: By the type invariant. The driver copies the work request, which refers to no memory
        // but the marker, and that stays as long as the queue pair.
        unsafe { bindings::rr_ib_post_send(self.qp, &raw const wr.wr, &raw mut bad) == 0 }
    }

    /// Destroys the queue pair and its completion queue, if that has not been done: the device uses
    /// nothing of theirs after that, and no completion is being or will be handled. Process context,
    /// may sleep; not twice at the same time.
    pub(super) fn destroy(&self) {
        if self.destroyed.xchg(true, FullOrder) {
            return;
        }
        self.ident.exclusively(|id| {
            // SAFETY: The queue pair was created through this identifier, and has not been destroyed.
            // Nothing is posted any more, since both queues are closed.
            unsafe { bindings::rdma_destroy_qp(id) }
        });
        // SAFETY: The queue pair is gone. What follows does not use the completion queue.
        unsafe { self.cq.free() };
    }
}
