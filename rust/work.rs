// SPDX-License-Identifier: GPL-2.0

//! Workqueues of this module's own, and waiting for a limited time, for all rooms above. Neutral
//! ground, as [`mem`](crate::mem) is.
//!
//! C headers: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h),
//! [`include/linux/completion.h`](srctree/include/linux/completion.h)

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::time::Jiffies;
use kernel::types::Opaque;

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

/// Tells one task that something has changed, for which it waits for a limited time, signals or not.
/// (The kernel crate's `CondVar` cannot do both, and its `Completion` neither.)
///
/// A change that is announced while nobody waits ends the next wait at once, so the task looks first
/// and waits then. Announcing again adds nothing.
///
/// # Invariants
///
/// `completion` is initialised.
#[pin_data]
pub(crate) struct Change {
    #[pin]
    completion: Opaque<bindings::completion>,
}

// SAFETY: A completion may be used from any thread.
unsafe impl Send for Change {}
// SAFETY: As above.
unsafe impl Sync for Change {}

impl Change {
    /// Nothing has been announced.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            completion <- Opaque::ffi_init(|completion| {
                // SAFETY: The memory is ours, and pinned.
                unsafe { bindings::init_completion(completion) }
            }),
        })
    }

    /// Announces a change. Any context.
    pub(crate) fn announce(&self) {
        let completion = self.completion.get();
        // SAFETY: By the type invariant. Two that announce at the same time do so twice, which makes
        // the task look once more than it need.
        unsafe {
            if !bindings::completion_done(completion) {
                bindings::complete(completion);
            }
        }
    }

    /// Waits for a change, at most so many jiffies; returns how many are left, 0 if there was none.
    /// Process context; sleeps, and no signal ends that.
    pub(crate) fn wait(&self, limit: Jiffies) -> Jiffies {
        // SAFETY: By the type invariant.
        unsafe { bindings::wait_for_completion_timeout(self.completion.get(), limit) }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_work)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_waited_for_no_longer_than_the_limit() -> Result {
        let change = KBox::pin_init(Change::new(), GFP_KERNEL)?;
        assert_eq!(change.wait(1), 0);
        Ok(())
    }

    #[test]
    fn a_change_ends_one_wait_however_often_it_is_announced() -> Result {
        let change = KBox::pin_init(Change::new(), GFP_KERNEL)?;
        change.announce();
        change.announce();
        assert!(change.wait(100) > 0);
        assert_eq!(change.wait(1), 0);
        Ok(())
    }
}
