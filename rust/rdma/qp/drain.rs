// SPDX-License-Identifier: GPL-2.0

//! Taking a queue pair out of use: draining it, or destroying it where draining fails.
//!
//! `ib_drain_qp()` moves the queue pair to the error state, posts a marker on each queue, and waits
//! for the markers to complete. It returns nothing: if the device refuses the state or the driver
//! refuses a marker, it prints a warning and returns at once. Therefore [`Qp::drain`] verifies the
//! result. It changes the state itself, posts a marker of its own before those of `ib_core`, and
//! counts Receives. If the state could not be changed, or if the marker or a Receive has not
//! completed, the queue pair is destroyed before it counts as drained. Destroying it every time
//! would be correct as well, but some drivers wait for the peer then (c4iw for a minute).
//!
//! Over iWARP, disconnecting first closes the connection in order, and what was posted is still
//! sent. If the peer is dead, c4iw waits for its answer when the queue pair is destroyed.
//! [`Qp::abort`] has the device reset the connection instead.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full as FullOrder, Relaxed};

use super::{Completions, Qp};
use crate::mem::MemallocScope;
use crate::raw as bindings;
use crate::rdma::cq::DRAIN_ENTRIES;

/// Number of work requests that draining posts on the send queue: our marker, and that of
/// `ib_core`.
pub(crate) const SEND_WRS: u32 = 2;
/// Number of work requests that draining posts on the receive queue: the marker of `ib_core`.
pub(super) const RECV_WRS: u32 = 1;

const _: () = assert!(SEND_WRS + RECV_WRS == DRAIN_ENTRIES);

/// The last work request that we post on a send queue.
///
/// # Invariants
///
/// `cqe` is the first field, so that a pointer to it is a pointer to the marker.
#[repr(C)]
pub(super) struct Marker {
    cqe: bindings::ib_cqe,
    /// Whether the marker has completed, and with it everything that was posted before it.
    completed: AtomicFlag,
}

impl Marker {
    /// Returns a marker that was not posted.
    pub(super) const fn new() -> Self {
        Self {
            cqe: bindings::ib_cqe {
                done: Some(Self::done),
            },
            completed: AtomicFlag::new(false),
        }
    }

    /// Handles the completion of a marker. Its status does not matter: in the error state work
    /// requests are flushed.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` with a completion whose entry is that of a marker that still exists.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The caller promises a valid completion, and that its entry belongs to a marker;
        // by the type invariant the entry is the marker's first field.
        let marker = unsafe { &*(*wc).__bindgen_anon_1.wr_cqe.cast::<Self>() };
        marker.completed.store(true, Relaxed);
    }
}

impl<C: Completions> Qp<C> {
    /// Resets an established connection whose peer is lost or not trusted any more, so that no
    /// driver waits for the peer. Call [`Self::drain`] next.
    ///
    /// An attempt to connect may still be in progress if the connection is not known to be
    /// established. Do not call this then: some drivers flush only when the attempt has ended.
    ///
    /// Process context, may sleep; not from [`Completions`] or [`CmHandler`].
    ///
    /// [`CmHandler`]: super::super::cm::CmHandler
    pub(crate) fn abort(&self) {
        let _scope = MemallocScope::noio();
        let _draining = self.draining.lock();
        // A device that refuses does so again when the queue pair is drained.
        let _ = self.progress.is_drained() || self.enter_error();
    }

    /// Ends the connection, if there is one, and takes the queue pair out of use. Nothing can be
    /// posted any more, outstanding work requests are flushed, and all completions have been
    /// handled when this returns. After that the peer cannot reach any memory through the queue
    /// pair.
    ///
    /// Over iWARP, a connection attempt in progress delays this until the attempt has ended,
    /// because some drivers flush only then.
    ///
    /// If the device or its driver refuses to drain the queue pair, the queue pair is destroyed
    /// instead.
    ///
    /// Process context, may sleep; not from [`Completions`] or [`CmHandler`]. A second call only
    /// waits for the first one.
    ///
    /// [`CmHandler`]: super::super::cm::CmHandler
    pub(crate) fn drain(&self) {
        // Drivers allocate memory here. Reclaim may wait for a file system that itself waits for a
        // task that waits for this lock, so allocations must not start I/O.
        let _scope = MemallocScope::noio();
        let _draining = self.draining.lock();
        if self.progress.is_drained() {
            return;
        }
        self.flushed.store(true, Relaxed);
        // Work requests are posted under the locks that these two calls take, so none is posted
        // behind the markers.
        self.sending.lock().open = false;
        self.recv_queue.close();
        self.ident.disconnect();
        if !self.flush() {
            pr_warn!(
                "queue pair {} could not be drained: destroyed\n",
                self.number
            );
            self.destroy();
        }
        self.progress.set_drained();
    }

    /// Moves the queue pair to the error state. The caller holds `draining`, and the queue pair has
    /// not been drained. Returns whether the device has accepted.
    fn enter_error(&self) -> bool {
        let mut attributes = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..pin_init::zeroed()
        };
        // CAST: a flag.
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as i32;
        // SAFETY: By the type invariant the queue pair exists, because `destroyed` is not set: only
        // `drain` sets it before this value is dropped, at its end and with `draining` held.
        unsafe { bindings::ib_modify_qp(self.qp, &raw mut attributes, mask) == 0 }
    }

    /// Flushes both queues, and waits until all completions have been handled. Returns whether that
    /// is known to have happened.
    fn flush(&self) -> bool {
        if !self.enter_error() {
            return false;
        }
        // If nothing was posted before, there is nothing that our marker could prove to have
        // completed.
        let used = self.sending.lock().queue.posted() != 0;
        if used && !self.post_marker() {
            return false;
        }
        // SAFETY: By the type invariant the queue pair exists, because `destroyed` is not set. The
        // queues were made with room for the markers.
        unsafe { bindings::ib_drain_qp(self.qp) };
        (!used || self.marker.completed.load(Relaxed)) && self.recv_queue.is_flushed()
    }

    /// Posts [`Self::marker`]. Returns whether the driver has accepted it.
    fn post_marker(&self) -> bool {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        wr.wr.__bindgen_anon_1.wr_cqe = (&raw const self.marker.cqe).cast_mut();
        let mut bad = core::ptr::null();
        // SAFETY: By the type invariant the queue pair exists, because `destroyed` is not set. The
        // driver copies the work request, which refers to no memory but the marker; that exists as
        // long as the queue pair.
        unsafe { bindings::rr_ib_post_send(self.qp, &raw const wr.wr, &raw mut bad) == 0 }
    }

    /// Destroys the queue pair and its completion queue, unless that has been done. After that the
    /// device uses none of their memory, and no completion is being or will be handled. Process
    /// context, may sleep; not from two tasks at once.
    pub(super) fn destroy(&self) {
        if self.destroyed.xchg(true, FullOrder) {
            return;
        }
        self.ident.exclusively(|id| {
            // SAFETY: The queue pair was created through this cm_id, and `destroyed` was not set,
            // so it exists. Both queues have been closed, so nothing is posted any more.
            unsafe { bindings::rdma_destroy_qp(id) }
        });
        // SAFETY: The queue pair was destroyed just now. After this, the completion queue is only
        // dropped.
        unsafe { self.cq.free() };
    }
}
