// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};
use kernel::sync::Arc;
use kernel::task::might_sleep;

use super::device::{Device, Lease, Limits};
use super::noio::NoIo;
use crate::raw as bindings;
use crate::work::Queue;

/// A protection domain: buffers, memory regions and a queue pair of the same one fit together.
///
/// One queue pair in all its life, not more: a peer can reach the regions of a protection domain
/// through any of its queue pairs, so only with a single one does draining it mean that regions are
/// out of reach. That holds for a later one, too: a region that was live when the queue pair was
/// drained stays registered until it is destroyed.
///
/// # Invariants
///
/// - `pd` is a protection domain of the leased device; it is freed when this is dropped.
/// - `taken` is set before a queue pair is made, and cleared only if making it fails.
pub(crate) struct Pd {
    pd: NonNull<bindings::ib_pd>,
    lease: Lease,
    taken: AtomicFlag,
}

// SAFETY: Verbs may be called from any task, for one protection domain at the same time.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates one. Process context, may sleep.
    ///
    /// It keeps the lease, so the device cannot go away while it, or anything made from it, exists.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the device driver says.
    pub(crate) fn new(lease: Lease) -> Result<Arc<Self>> {
        // SAFETY: The device is there as long as it is leased. The name is static.
        let pd = unsafe { bindings::__ib_alloc_pd(lease.device().as_ptr(), 0, super::caller()) };
        let pd = NonNull::new(from_err_ptr(pd)?).ok_or(ENOMEM)?;
        // INVARIANT: just allocated. If there is no memory left, the value is dropped.
        Ok(Arc::new(
            Self {
                pd,
                lease,
                taken: AtomicFlag::new(false),
            },
            GFP_KERNEL,
        )?)
    }

    /// Marks that the queue pair is being made. For good, unless that fails.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is or was one.
    pub(super) fn attach(&self) -> Result {
        match self.taken.cmpxchg(false, true, Full) {
            Ok(_) => Ok(()),
            Err(_) => Err(EBUSY),
        }
    }

    /// Undoes [`Self::attach`]: there is no queue pair, and was none.
    pub(super) fn detach(&self) {
        self.taken.store(false, Release);
    }

    /// For `ib_core`.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_pd {
        self.pd.as_ptr()
    }

    /// The device, which is there as long as `self` is.
    #[inline]
    pub(super) fn device(&self) -> *mut bindings::ib_device {
        self.lease.device().as_ptr()
    }

    /// What the device can do.
    pub(crate) fn limits(&self) -> Limits {
        self.as_device().limits()
    }

    /// The device, to be asked what it is.
    pub(super) fn as_device(&self) -> Device<'_> {
        self.lease.device()
    }

    /// The workqueue for completions, which is there as long as `self` is; `None`: `ib_core`'s.
    pub(super) fn completions(&self) -> Option<&Queue> {
        self.lease.completions()
    }

    /// The key of local memory that is mapped for the device.
    #[inline]
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant; the field is constant after allocation.
        unsafe { (*self.pd.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        might_sleep();
        let _scope = NoIo::enter();
        // SAFETY: By the type invariant. Everything made from it keeps it, so nothing is left.
        let error =
            unsafe { bindings::ib_dealloc_pd_user(self.pd.as_ptr(), core::ptr::null_mut()) };
        if error != 0 {
            pr_warn!("a protection domain could not be freed: {}\n", error);
        }
    }
}
