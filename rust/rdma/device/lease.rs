// SPDX-License-Identifier: GPL-2.0

//! Leases: the right to use a device, and how it ends.

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Completion, Mutex};
use kernel::types::Opaque;

use super::Device;
use crate::compat::code::ENETUNREACH;
use crate::mem::MemallocScope;
use crate::raw as bindings;
use crate::work::Queue;

/// A change of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The device is being removed. The handler releases what was created with the device, so that
    /// the [`Lease`] is dropped. This need not have happened when the handler returns; the removal
    /// waits for it. The handler may sleep.
    Removed,
    /// The port with this number has lost its link. The handler does not sleep.
    PortDown(u32),
}

/// The handler of a device's changes. Process context.
///
/// The removal is reported at most once for a lease, possibly while the lease is being dropped. The
/// handler must not drop the [`Registration`](super::Registration).
pub(crate) type Changed = dyn Fn(Change) + Send + Sync;

/// A device of the [`Registration`](super::Registration), with its leases.
#[pin_data]
pub(super) struct LeasedDevice {
    /// Valid while there is a lease, and until [`LeasedDevice::remove`] returns.
    pub(super) device: NonNull<bindings::ib_device>,
    /// The handler of the device's events, for `ib_core`.
    #[pin]
    pub(super) events: Opaque<bindings::ib_event_handler>,
    #[pin]
    leases: Mutex<Leases>,
    /// Completed when the device is being removed and the last lease has been dropped.
    #[pin]
    unused: Completion,
    /// The workqueue for completions, or `None` if it is that of `ib_core`.
    completions: Option<Arc<Queue>>,
}

// SAFETY: The device is only passed to verbs, which any task may call, and the handler to
// `ib_core`, which locks its list of handlers.
unsafe impl Send for LeasedDevice {}
// SAFETY: The device is only passed to verbs, which any task may call, and the handler to
// `ib_core`, which locks its list of handlers. The leases are behind a lock, and a `Completion` may
// be used by several tasks.
unsafe impl Sync for LeasedDevice {}

/// The leases of a device.
struct Leases {
    /// Whether the device is being removed, so that there are no new leases.
    removing: bool,
    count: usize,
    /// The handlers of leases, apart from those to which the removal was reported.
    handlers: KVVec<Arc<Changed>>,
}

impl LeasedDevice {
    /// Creates the entry of a device without leases, with a handler that is not registered. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        device: NonNull<bindings::ib_device>,
        completions: Option<Arc<Queue>>,
        event: unsafe extern "C" fn(*mut bindings::ib_event_handler, *mut bindings::ib_event),
    ) -> Result<Arc<Self>> {
        let events = bindings::ib_event_handler {
            device: device.as_ptr(),
            handler: Some(event),
            ..pin_init::zeroed()
        };
        let leases = Leases {
            removing: false,
            count: 0,
            handlers: KVVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                device,
                events: Opaque::new(events),
                leases <- new_mutex!(leases, "rdma::LeasedDevice::leases"),
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
    pub(super) fn lease(self: Arc<Self>, changed: Arc<Changed>) -> Result<Lease> {
        // Connecting takes this lock, and a file system may wait for a connection, so an allocation
        // under the lock must not start I/O.
        let _scope = MemallocScope::noio();
        let mut leases = self.leases.lock();
        if leases.removing {
            return Err(ENETUNREACH);
        }
        leases.handlers.push(changed.clone(), GFP_KERNEL)?;
        leases.count += 1;
        drop(leases);
        // INVARIANT: The lease was counted above.
        Ok(Lease {
            changed,
            entry: self,
        })
    }

    /// Refuses new leases, notifies the holders, and waits until the last lease has been dropped.
    /// May sleep.
    pub(super) fn remove(&self) {
        let mut leases = self.leases.lock();
        leases.removing = true;
        if leases.count == 0 {
            self.unused.complete_all();
        }
        drop(leases);
        while let Some(changed) = self.next_to_notify() {
            changed(Change::Removed);
        }
        self.unused.wait_for_completion();
    }

    /// Reports to the holders that a port has lost its link.
    pub(super) fn port_down(&self, port: u32) {
        let leases = self.leases.lock();
        for changed in &leases.handlers {
            changed(Change::PortDown(port));
        }
    }

    /// Returns one more handler, which is not called after that.
    fn next_to_notify(&self) -> Option<Arc<Changed>> {
        self.leases.lock().handlers.pop()
    }
}

/// The right to use a device until [`Change::Removed`] is reported. While the lease exists, the
/// removal of the device waits.
///
/// The handler of changes must not own the lease, directly or indirectly, or the two would keep
/// each other alive. Drop the lease in process context; that may sleep.
///
/// # Invariants
///
/// The entry counts this value, so the removal of the device waits for it.
pub(crate) struct Lease {
    changed: Arc<Changed>,
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
        leases.count -= 1;
        if leases.removing && leases.count == 0 {
            self.entry.unused.complete_all();
        }
        // This is not the last reference to the handler, whose destructor can do anything.
        let handlers = &mut leases.handlers;
        handlers.retain(|changed| !Arc::ptr_eq(changed, &self.changed));
    }
}
