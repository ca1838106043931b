// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full};
use kernel::sync::Arc;

use super::pd::Pd;
use crate::raw as bindings;

/// A completion queue that a worker polls (`IB_POLL_WORKQUEUE`): completions are handled in process
/// context, one after the other. The workqueue is one that memory reclaim can rely on: `ib_core`'s, or,
/// if the [`Registration`](super::device::Registration) was made so, one of our own.
///
/// The workers of `ib_core`'s have a priority of their own. Those of ours are those of other workqueues
/// as well, so that the one that handles a completion can go on with what that sets in motion there,
/// if it is quicker than an idle one that is woken for it.
///
/// # Invariants
///
/// `cq` is a completion queue of `pd`'s device, unless it is `freed`.
pub(crate) struct Cq {
    cq: NonNull<bindings::ib_cq>,
    freed: AtomicFlag,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called from any task.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue for `entries` completions, on any completion vector of the device.
    /// Process context, may sleep.
    ///
    /// Give as many entries as there are work requests on the queues that complete here; what
    /// draining needs is added.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no queue that long; `ENOMEM`, or what the driver says.
    pub(crate) fn new(pd: &Arc<Pd>, entries: u32) -> Result<Self> {
        let entries = entries
            .checked_add(super::qp::DRAIN_ENTRIES)
            .ok_or(EINVAL)?;
        // SAFETY: The device is there by `Pd`'s invariant. The name is static, and there is no
        // private pointer yet.
        let cq = unsafe {
            bindings::__ib_alloc_cq_any(
                pd.device(),
                core::ptr::null_mut(),
                i32::try_from(entries).map_err(|_| EINVAL)?,
                // Drivers know this context and that of softirq (`handle_drain_completion()` of mlx5
                // and mlx4), whatever the workqueue.
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
                super::caller(),
            )
        };
        let cq = NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?;
        if let Some(queue) = pd.completions() {
            // SAFETY: Just allocated, and nothing completes on it yet. `ib_core` looks here each time
            // that it queues the worker, which is over when the completion queue is freed; until then
            // `pd` is there, and with it the workqueue.
            unsafe { (*cq.as_ptr()).comp_wq = queue.as_ptr() };
        }
        // INVARIANT: just allocated.
        Ok(Self {
            cq,
            freed: AtomicFlag::new(false),
            pd: pd.clone(),
        })
    }

    /// For `ib_core`.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Number of the queue, as resource tracking shows it (`rdma resource show cq`).
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        // SAFETY: By the type invariant: the queue is asked before it has a queue pair, so it has not
        // been freed.
        unsafe { (*self.as_ptr()).res.id }
    }

    /// The protection domain that was given.
    #[inline]
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Frees the queue before the value is dropped, so that its worker has left what both refer to.
    /// The second call does nothing. Process context, may sleep; not from the worker.
    ///
    /// # Safety
    ///
    /// The queue pair that completes on it is gone. After this the value is only freed once more, or
    /// dropped.
    pub(super) unsafe fn free(&self) {
        if !self.freed.xchg(true, Full) {
            // SAFETY: By the type invariant, and nobody else frees it. This waits for the worker.
            unsafe { bindings::ib_free_cq(self.cq.as_ptr()) };
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: A queue pair owns the queue it completes on, and is destroyed before it. This is the
        // last use.
        unsafe { self.free() };
    }
}
