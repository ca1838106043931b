// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full};
use kernel::sync::Arc;

use super::pd::Pd;
use crate::raw as bindings;

/// Number of completions that draining a queue pair needs.
pub(crate) const DRAIN_ENTRIES: u32 = 3;

/// The type of a completion handler, as `ib_core` calls it.
pub(super) type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

/// Whose workers poll a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// Those of `ib_core`'s workqueue. They have high priority (`WQ_HIGHPRI`), run on the processor
    /// of the completion's interrupt, and run no work of ordinary workqueues.
    Core,
    /// Those of our own workqueue, if the [`Registration`](super::device::Registration) has one;
    /// otherwise [`Workers::Core`]. They are shared with other unbound workqueues, so the worker
    /// that handles a completion can also run the work that the completion queues there, unless an
    /// idle worker starts it first.
    Shared,
}

/// A completion queue that a worker polls (`IB_POLL_WORKQUEUE`), so that completions are handled in
/// process context, one after the other. Either workqueue has `WQ_MEM_RECLAIM`.
///
/// # Invariants
///
/// Until `freed` is set, `cq` is a completion queue of `pd`'s device.
pub(crate) struct Cq {
    cq: NonNull<bindings::ib_cq>,
    freed: AtomicFlag,
    /// Number of entries without those for draining.
    entries: u32,
    pd: Arc<Pd>,
}

// SAFETY: Any task may call verbs for a completion queue.
unsafe impl Send for Cq {}
// SAFETY: Verbs synchronise their callers; `freed` is atomic and `pd` immutable.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue for `entries` completions, on any completion vector of the device. Process
    /// context, may sleep.
    ///
    /// `entries` is the number of work requests on the queues that complete here. The entries for
    /// draining are added. `workers` handle the completions.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no queue of that length; `ENOMEM`, or another error of the
    /// driver.
    pub(crate) fn new(pd: &Arc<Pd>, entries: u32, workers: Workers) -> Result<Self> {
        let all = entries.checked_add(DRAIN_ENTRIES).ok_or(EINVAL)?;
        // SAFETY: By the invariant of `Pd` the device exists. The name is static, and the context
        // may be null.
        let cq = unsafe {
            bindings::__ib_alloc_cq_any(
                pd.device(),
                core::ptr::null_mut(),
                i32::try_from(all).map_err(|_| EINVAL)?,
                // Drivers distinguish this context from that of softirq
                // (`handle_drain_completion()` of mlx5 and mlx4). They do not depend on the
                // workqueue.
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
                super::caller(),
            )
        };
        let cq = NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?;
        let own = pd.completions().filter(|_| workers == Workers::Shared);
        if let Some(queue) = own {
            // SAFETY: The completion queue was allocated just now, and nothing completes on it yet.
            // `ib_core` reads this field each time that it queues the worker, until the completion
            // queue has been freed. `pd` lives longer, and keeps the workqueue.
            unsafe { (*cq.as_ptr()).comp_wq = queue.as_ptr() };
        }
        // INVARIANT: The completion queue was allocated above.
        Ok(Self {
            cq,
            freed: AtomicFlag::new(false),
            entries,
            pd: pd.clone(),
        })
    }

    /// Returns the queue for C functions.
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Returns the number of the queue in resource tracking (`rdma resource show cq`).
    pub(crate) fn id(&self) -> u32 {
        // SAFETY: After `free` the value is only passed to that or dropped, as `free` demands. So
        // `freed` is not set, and by the type invariant the queue is valid. Its number is constant.
        unsafe { (*self.as_ptr()).res.id }
    }

    /// Returns the number of completions that the queue has room for, without those of draining.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the protection domain that the queue was made for.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Frees the queue before the value is dropped; a second call has no effect. When this returns,
    /// the worker has ended. Process context, may sleep; not from the worker.
    ///
    /// # Safety
    ///
    /// The queue pair that completes on the queue has been destroyed. After this call, the value is
    /// only passed to this function, or dropped.
    pub(super) unsafe fn free(&self) {
        if !self.freed.xchg(true, Full) {
            // SAFETY: `freed` was not set, so by the type invariant the queue is valid, and no
            // other call frees it. The caller promises that no queue pair uses it.
            unsafe { bindings::ib_free_cq(self.cq.as_ptr()) };
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: A queue pair owns the completion queue that it completes on, and is destroyed
        // before it drops that. This is the last use of the value.
        unsafe { self.free() };
    }
}
