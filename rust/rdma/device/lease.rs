// SPDX-License-Identifier: GPL-2.0

//! Leases: the right to use a device, and how it ends.

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Completion, Mutex};

use super::Device;
use crate::compat::code::ENETUNREACH;
use crate::mem::MemallocScope;
use crate::raw as bindings;
use crate::work::Queue;

/// The handler of a device's removal. It releases what was created with the device, so that the
/// [`Lease`] is dropped. This need not have happened when the function returns; the removal waits
/// for it.
///
/// Process context, may sleep. It is called at most once for a lease, possibly while the lease is
/// being dropped. It must not drop the [`Registration`](super::Registration).
pub(crate) type Removal = dyn Fn() + Send + Sync;

/// A device of the [`Registration`](super::Registration), with its leases.
#[pin_data]
pub(super) struct LeasedDevice {
    /// Valid while there is a lease, and until [`LeasedDevice::remove`] returns.
    pub(super) device: NonNull<bindings::ib_device>,
    #[pin]
    leases: Mutex<Leases>,
    /// Completed when the device is being removed and the last lease has been dropped.
    #[pin]
    unused: Completion,
    /// The workqueue for completions, or `None` if it is that of `ib_core`.
    completions: Option<Arc<Queue>>,
}

// SAFETY: The device is only passed to verbs, which any task may call.
unsafe impl Send for LeasedDevice {}
// SAFETY: The device is only passed to verbs, which any task may call. The leases are behind a
// lock, and a `Completion` may be used by several tasks.
unsafe impl Sync for LeasedDevice {}

/// The leases of a device.
struct Leases {
    /// Whether the device is being removed, so that there are no new leases.
    removing: bool,
    /// Number of the latest lease.
    last: u64,
    holders: KVec<Holder>,
}

/// The holder of a lease.
struct Holder {
    /// Number of the lease.
    number: u64,
    /// Whether `removal` was called, or is being called.
    notified: bool,
    removal: Arc<Removal>,
}

impl LeasedDevice {
    /// Creates the entry of a device without leases. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        device: NonNull<bindings::ib_device>,
        completions: Option<Arc<Queue>>,
    ) -> Result<Arc<Self>> {
        let leases = Leases {
            removing: false,
            last: 0,
            holders: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                device,
                leases <- new_mutex!(leases, "rdma::Entry::leases"),
                unused <- Completion::new(),
                completions,
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a lease. May sleep.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` if the device is being removed; `ENOMEM`.
    pub(super) fn lease(self: Arc<Self>, removal: Arc<Removal>) -> Result<Lease> {
        // Connecting takes this lock, and a file system may wait for a connection, so an allocation
        // under the lock must not start I/O.
        let _scope = MemallocScope::noio();
        let mut leases = self.leases.lock();
        if leases.removing {
            return Err(ENETUNREACH);
        }
        let number = leases.last + 1;
        let holder = Holder {
            number,
            notified: false,
            removal,
        };
        leases.holders.push(holder, GFP_KERNEL)?;
        leases.last = number;
        drop(leases);
        // INVARIANT: The holder was added under `number` above.
        Ok(Lease {
            number,
            entry: self,
        })
    }

    /// Refuses new leases, notifies the holders, and waits until the last lease has been dropped.
    /// May sleep.
    pub(super) fn remove(&self) {
        let mut leases = self.leases.lock();
        leases.removing = true;
        if leases.holders.is_empty() {
            self.unused.complete_all();
        }
        drop(leases);
        while let Some(removal) = self.next_to_notify() {
            removal();
        }
        self.unused.wait_for_completion();
    }

    /// Marks one more holder as notified, and returns its handler.
    fn next_to_notify(&self) -> Option<Arc<Removal>> {
        let mut leases = self.leases.lock();
        let holder = leases.holders.iter_mut().find(|h| !h.notified)?;
        holder.notified = true;
        Some(holder.removal.clone())
    }
}

/// The right to use a device until its [`Removal`] is called. While the lease exists, the removal
/// of the device waits.
///
/// The handler of the removal must not own the lease, directly or indirectly, or the two would keep
/// each other alive. Drop the lease in process context; that may sleep.
///
/// # Invariants
///
/// The entry has a holder with `number`, so the removal of the device waits for this value.
pub(crate) struct Lease {
    number: u64,
    entry: Arc<LeasedDevice>,
}

impl Lease {
    /// Returns the device, which exists while the lease does.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: By the type invariant the removal of the device waits for this value, which is
        // borrowed while the result is.
        unsafe { Device::from_raw(self.entry.device.as_ptr()) }
    }

    /// Returns the workqueue for completions, which exists while the lease does, or `None` if it is
    /// that of `ib_core`.
    pub(in super::super) fn completions(&self) -> Option<&Queue> {
        self.entry.completions.as_deref()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.entry.leases.lock();
        let index = leases.holders.iter().position(|h| h.number == self.number);
        let holder = index.and_then(|i| leases.holders.remove(i).ok());
        if leases.removing && leases.holders.is_empty() {
            self.entry.unused.complete_all();
        }
        drop(leases);
        // This may be the last reference to the handler, whose destructor can do anything, so it is
        // dropped after the lock has been released.
        drop(holder);
    }
}
