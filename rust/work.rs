// SPDX-License-Identifier: GPL-2.0

//! Workqueues of this module's own, for the rooms `rdma` and `sunrpc`. Neutral ground, as
//! [`mem`](crate::mem) is.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::str::CStrExt;

/// A workqueue whose work runs on any processor, at normal priority: its workers are those that
/// SUNRPC's `rpciod` and other such queues have.
///
/// Dropping it waits for everything queued, until the functions have returned. Process context; not
/// from its own work.
///
/// # Invariants
///
/// The queue was allocated by [`Self::with_flags`], and is destroyed with this value.
pub(crate) struct Queue(NonNull<bindings::workqueue_struct>);

// SAFETY: Workqueues may be used from any thread.
unsafe impl Send for Queue {}
// SAFETY: As above.
unsafe impl Sync for Queue {}

impl Queue {
    /// A queue called `owner_purpose`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(owner: &CStr, purpose: &CStr) -> Result<Self> {
        Self::with_flags(owner, purpose, 0)
    }

    /// One that memory reclaim may wait for: it has a rescuer. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reliable(owner: &CStr, purpose: &CStr) -> Result<Self> {
        Self::with_flags(owner, purpose, bindings::wq_flags_WQ_MEM_RECLAIM)
    }

    /// One that memory reclaim may wait for, and that an administrator can tune in
    /// `/sys/devices/virtual/workqueue` (processors, priority). May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn tunable(owner: &CStr, purpose: &CStr) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_MEM_RECLAIM | bindings::wq_flags_WQ_SYSFS;
        Self::with_flags(owner, purpose, flags)
    }

    fn with_flags(owner: &CStr, purpose: &CStr, flags: u32) -> Result<Self> {
        // SAFETY: The format takes two strings, which follow. May sleep.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s_%s".as_char_ptr(),
                flags | bindings::wq_flags_WQ_UNBOUND,
                0,
                owner.as_char_ptr(),
                purpose.as_char_ptr(),
            )
        };
        // INVARIANT: just allocated.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// The queue, which lives as long as `self`.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::workqueue_struct {
        self.0.as_ptr()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this is the last use.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
