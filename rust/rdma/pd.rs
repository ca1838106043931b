// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};
use kernel::sync::Arc;
use kernel::task::might_sleep;

use super::device::{Device, Lease, Limits};
use crate::mem::{MemCache, MemallocScope, NumaAlloc};
use crate::raw as bindings;
use crate::work::Queue;

/// A protection domain. A queue pair can only use the buffers and memory regions of its own
/// protection domain.
///
/// A `Pd` has at most one queue pair throughout its lifetime. A peer can reach the regions of a
/// protection domain through any of its queue pairs, so draining a queue pair proves that regions
/// are out of reach only if there is no other queue pair. A later queue pair would break this as
/// well: a region that was live when the first one was drained stays registered until it is
/// destroyed.
///
/// # Invariants
///
/// - `pd` is a protection domain of the leased device, and is freed with this value.
/// - `taken` is set before a queue pair is made, and cleared only if making it fails.
pub(crate) struct Pd {
    pd: NonNull<bindings::ib_pd>,
    cache: Option<Arc<MemCache>>,
    lease: Lease,
    taken: AtomicFlag,
}

// SAFETY: Any task may call verbs for a protection domain, and free it.
unsafe impl Send for Pd {}
// SAFETY: Several tasks may call verbs for one protection domain at the same time; `taken` is
// atomic.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain. Process context, may sleep.
    ///
    /// It keeps the lease, so the device is not removed while the protection domain, or anything
    /// made from it, exists. Buffers, regions and queues take memory from `cache` first, and return
    /// their memory to it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or another error of the driver.
    pub(crate) fn new(lease: Lease, cache: Option<Arc<MemCache>>) -> Result<Arc<Self>> {
        if let Some(cache) = &cache {
            cache.open(lease.device().node());
        }
        // SAFETY: The device exists while it is leased. The name is static.
        let pd = unsafe { bindings::__ib_alloc_pd(lease.device().as_ptr(), 0, super::caller()) };
        let pd = NonNull::new(from_err_ptr(pd)?).ok_or(ENOMEM)?;
        // INVARIANT: The protection domain was allocated above. If there is no memory for the
        // `Arc`, the value is dropped, which frees it.
        Ok(Arc::new(
            Self {
                pd,
                cache,
                lease,
                taken: AtomicFlag::new(false),
            },
            GFP_KERNEL,
        )?)
    }

    /// Marks the protection domain as taken, before its queue pair is made.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is or was a queue pair.
    pub(super) fn attach(&self) -> Result {
        let taken = self.taken.cmpxchg(false, true, Full);
        taken.map(drop).map_err(|_| EBUSY)
    }

    /// Undoes [`Self::attach`], because making the queue pair has failed.
    pub(super) fn detach(&self) {
        self.taken.store(false, Release);
    }

    /// Returns the protection domain for C functions.
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_pd {
        self.pd.as_ptr()
    }

    /// Returns the device for C functions. It exists while `self` does.
    pub(super) fn device(&self) -> *mut bindings::ib_device {
        self.lease.device().as_ptr()
    }

    /// Returns the limits of the device.
    pub(crate) fn limits(&self) -> Limits {
        self.as_device().limits()
    }

    /// Returns the device.
    pub(crate) fn as_device(&self) -> &Device {
        self.lease.device()
    }

    /// Returns the allocator of the objects that are made from the protection domain.
    pub(crate) fn allocator(&self) -> NumaAlloc<'_> {
        NumaAlloc::new(self.as_device().node(), self.cache.as_ref())
    }

    /// Returns the workqueue for completions, which exists while `self` does, or `None` if it is
    /// that of `ib_core`.
    pub(super) fn completions(&self) -> Option<&Queue> {
        self.lease.completions()
    }

    /// Returns the L_key of all memory that is mapped for the device.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant `pd` is valid. The field is constant after allocation.
        unsafe { (*self.pd.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        might_sleep();
        let _scope = MemallocScope::noio();
        // SAFETY: By the type invariant `pd` is valid. Everything that was made from it keeps this
        // value, so nothing of it is left.
        let error =
            unsafe { bindings::ib_dealloc_pd_user(self.pd.as_ptr(), core::ptr::null_mut()) };
        if error != 0 {
            pr_warn!("a protection domain could not be freed: {}\n", error);
        }
    }
}
