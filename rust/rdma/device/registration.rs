// SPDX-License-Identifier: GPL-2.0

//! The registration as a client of `ib_core`, which reports devices as they are added and removed.

use core::ptr::NonNull;

use kernel::error::{from_result, to_result};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::types::Opaque;

use super::lease::{Changed, Lease, LeasedDevice};
use super::Device;
use crate::compat::code::ENETUNREACH;
use crate::mem::MemallocScope;
use crate::raw as bindings;
use crate::work::Queue;

/// The module's registration as a client of `ib_core`. There is at most one.
///
/// Dropping it unregisters, which waits for all leases. Drop it in process context, and not from
/// [`Changed`].
///
/// # Examples
///
/// ```
/// let devices = Registration::new(c"rdma_ping", true)?;
/// ```
///
/// # Invariants
///
/// From [`Registration::new`] until the value is dropped, `client` is registered, and
/// [`REGISTRATION`] points to this value.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration {
    #[pin]
    client: Opaque<bindings::ib_client>,
    #[pin]
    devices: Mutex<KVec<Arc<LeasedDevice>>>,
    completions: Option<Arc<Queue>>,
}

// SAFETY: `ib_core` locks the client; the devices are behind a lock, and the workqueue may be used
// by any task.
unsafe impl Send for Registration {}
// SAFETY: `ib_core` locks the client; the devices are behind a lock, and the workqueue may be used
// by several tasks at once.
unsafe impl Sync for Registration {}

/// The one registration. The callbacks need it, because `ib_core` passes no context to them.
static REGISTRATION: Atomic<*mut Registration> = Atomic::new(core::ptr::null_mut());

impl Registration {
    /// Registers with `ib_core`, under a name that diagnostics show. With `own_queue`, completions
    /// are handled on a workqueue of our own, whose name begins with `name`; otherwise on that of
    /// `ib_core`. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is a registration already; `ENOMEM`.
    pub(crate) fn new(name: &'static CStr, own_queue: bool) -> Result<Arc<Self>> {
        let client = bindings::ib_client {
            name: name.as_char_ptr(),
            add: Some(Self::add),
            remove: Some(Self::remove),
            ..pin_init::zeroed()
        };
        // `register` checks this as well, but only after the second workqueue of that name has
        // failed with a less clear error.
        if !REGISTRATION.load(Acquire).is_null() {
            return Err(EBUSY);
        }
        let queue = || Ok::<_, Error>(Arc::new(Queue::tunable(name, c"completion")?, GFP_KERNEL)?);
        let completions = own_queue.then(queue).transpose()?;
        let this = Arc::pin_init(
            pin_init!(Self {
                client: Opaque::new(client),
                devices <- new_mutex!(KVec::new(), "rdma::Registration::devices"),
                completions,
            }),
            GFP_KERNEL,
        )?;
        this.register()?;
        Ok(this)
    }

    /// Registers the client. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is a registration already, or the error of `ib_core`.
    fn register(&self) -> Result {
        let this = core::ptr::from_ref(self).cast_mut();
        let none = core::ptr::null_mut();
        // ORDERING: the callbacks see the initialised fields.
        REGISTRATION.cmpxchg(none, this, Full).map_err(|_| EBUSY)?;
        // SAFETY: The client is initialised, and stays at its address until it is unregistered.
        let result = to_result(unsafe { bindings::ib_register_client(self.client.get()) });
        if result.is_err() {
            // A failed registration leaves no client behind, so `drop` must not unregister it.
            REGISTRATION.store(none, Release);
        }
        result
    }

    /// Returns the entry of a device, unless it is being removed. May sleep.
    fn entry(&self, device: *mut bindings::ib_device) -> Option<Arc<LeasedDevice>> {
        let devices = self.devices.lock();
        let entry = devices.iter().find(|e| e.device.as_ptr() == device);
        entry.cloned()
    }

    /// Leases a device. `changed` is called when the device changes. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` if the device is being removed already; `ENOMEM`.
    pub(crate) fn lease(&self, device: &Device, changed: Arc<Changed>) -> Result<Lease> {
        let entry = self.entry(device.as_ptr()).ok_or(ENETUNREACH)?;
        entry.lease(changed)
    }

    /// Handles a device that was added.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` for a registered client.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> kernel::ffi::c_int {
        from_result(|| {
            // SAFETY: The client is registered, so by the type invariant the pointer is that of a
            // `Registration`, which cannot be dropped before this callback has returned.
            let this = unsafe { REGISTRATION.load(Acquire).as_ref() }.ok_or(ENODEV)?;
            let device = NonNull::new(device).ok_or(ENODEV)?;
            let entry = LeasedDevice::new(device, this.completions.clone(), Self::event)?;
            // Connecting takes this lock, and a file system may wait for a connection, so an
            // allocation under the lock must not start I/O.
            let _scope = MemallocScope::noio();
            this.devices.lock().push(entry.clone(), GFP_KERNEL)?;
            // SAFETY: The handler is initialised. It stays in place and is valid until `remove` has
            // unregistered it, because the list of devices has a reference to the entry.
            unsafe { bindings::ib_register_event_handler(entry.events.get()) };
            Ok(0)
        })
    }

    /// Handles an event of a device. A worker of `ib_core` runs it, and may sleep.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` for the handler of an entry, with a valid event.
    unsafe extern "C" fn event(_: *mut bindings::ib_event_handler, event: *mut bindings::ib_event) {
        // SAFETY: The client is registered, so by the type invariant the pointer is that of a
        // `Registration`, which unregisters its handlers before it is dropped. The caller promises
        // a valid event.
        let (this, event) = unsafe { (REGISTRATION.load(Acquire).as_ref(), &*event) };
        let entry = this.and_then(|this| this.entry(event.device));
        if let (Some(entry), bindings::ib_event_type_IB_EVENT_PORT_ERR) = (entry, event.event) {
            // SAFETY: This type of event has the number of a port.
            entry.port_down(unsafe { event.element.port_num });
        }
    }

    /// Handles a device that is being removed. `ib_core` keeps it until this returns.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` for a registered client, with a device that was passed to `add`.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, _: *mut kernel::ffi::c_void) {
        // SAFETY: The client is registered, so by the type invariant the pointer is that of a
        // `Registration`, which cannot be dropped before this callback has returned.
        let Some(this) = (unsafe { REGISTRATION.load(Acquire).as_ref() }) else {
            return;
        };
        let mut devices = this.devices.lock();
        let index = devices.iter().position(|e| e.device.as_ptr() == device);
        let entry = index.and_then(|i| devices.remove(i).ok());
        drop(devices);
        if let Some(entry) = entry {
            // SAFETY: `add` has registered the handler, whose device still exists.
            unsafe { bindings::ib_unregister_event_handler(entry.events.get()) };
            entry.remove();
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Registration {
    fn drop(self: Pin<&mut Self>) {
        if core::ptr::eq(REGISTRATION.load(Acquire), &*self) {
            // SAFETY: By the type invariant the client is registered. When the call returns, no
            // callback is running or will be called.
            unsafe { bindings::ib_unregister_client(self.client.get()) };
            REGISTRATION.store(core::ptr::null_mut(), Release);
        }
    }
}
