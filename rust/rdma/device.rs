// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: what they can do, and when they go away.
//!
//! ```text
//!   ib_core: remove ──► every Lease's `Removal::device_removed` ──► wait until the last
//!                                                                  Lease is gone
//! ```
//!
//! `ib_core` tells its clients last registered first, so this happens before the connection
//! manager, which registered before us, gives up the device's connections.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::error::{from_result, to_result};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::{new_mutex, Arc, Completion, Mutex};
use kernel::types::Opaque;

use super::noio::NoIo;
use crate::raw as bindings;
use crate::work::Queue;

// CAST: flags, of types that bindgen chooses.
const MEM_MGT_EXTENSIONS: u64 = bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
const SG_GAPS: u64 = bindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG as u64;

/// Told that a device is going away.
pub(crate) trait Removal: Send + Sync {
    /// The device is about to go: give up what was made with it, so that the [`Lease`] is dropped.
    /// It need not be by the time this returns; the removal waits.
    ///
    /// Process context, may sleep. Called at most once for a lease, possibly while it is being
    /// dropped. Must not drop the [`Registration`].
    fn device_removed(&self);
}

/// What a device can do. Counts, unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Work requests on either queue of a queue pair.
    pub(crate) max_qp_wr: u32,
    /// Scatter/gather entries of a Send.
    pub(crate) max_sge: u32,
    /// Pages of a fast-registered memory region.
    pub(crate) max_frmr_depth: u32,
    /// RDMA Reads that a queue pair serves at the same time.
    pub(crate) max_qp_rd_atom: u8,
    /// Entries of a completion queue.
    pub(crate) max_cqe: u32,
    /// Fast registration, local and remote invalidation (`IB_DEVICE_MEM_MGT_EXTENSIONS`).
    pub(crate) mem_mgt_extensions: bool,
    /// Memory regions may have gaps between pages (`IBK_SG_GAPS_REG`).
    pub(crate) sg_gaps: bool,
    /// Mapping a memory region may sleep, which no other driver does: that of HiSilicon's hns allocates
    /// in `hns_roce_map_mr_sg()`.
    pub(crate) map_sleeps: bool,
}

/// Longest name of a device, with its terminator (`IB_DEVICE_NAME_MAX`).
const NAME_MAX: usize = 64;

/// Name of a device, as it was when asked for.
pub(crate) struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl kernel::fmt::Display for Name {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        let name = self.bytes.get(..self.len).unwrap_or_default();
        f.write_str(core::str::from_utf8(name).unwrap_or("?"))
    }
}

/// A device that somebody keeps in place for at least `'a`.
///
/// # Invariants
///
/// `device` is a registered device that cannot go away during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Device<'a> {
    device: NonNull<bindings::ib_device>,
    keeper: PhantomData<&'a ()>,
}

impl Device<'_> {
    /// # Safety
    ///
    /// As the type invariant says.
    pub(super) unsafe fn new(device: NonNull<bindings::ib_device>) -> Self {
        // INVARIANT: the caller promises it.
        Self {
            device,
            keeper: PhantomData,
        }
    }

    /// For `ib_core`.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_device {
        self.device.as_ptr()
    }

    /// What it can do.
    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: By the type invariant; attributes and driver do not change after registration.
        let (attrs, driver) = unsafe {
            let device = self.device.as_ptr();
            (&(*device).attrs, (*device).ops.driver_id)
        };
        let flags = attrs.device_cap_flags;
        Limits {
            max_qp_wr: attrs.max_qp_wr,
            max_sge: attrs.max_send_sge,
            max_frmr_depth: attrs.max_fast_reg_page_list_len,
            // CAST: clamped.
            max_qp_rd_atom: attrs.max_qp_rd_atom.min(u8::MAX.into()) as u8,
            max_cqe: attrs.max_cqe,
            mem_mgt_extensions: flags & MEM_MGT_EXTENSIONS != 0,
            sg_gaps: attrs.kernel_cap_flags & SG_GAPS != 0,
            map_sleeps: driver == bindings::rdma_driver_id_RDMA_DRIVER_HNS,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> Name {
        // SAFETY: By the type invariant. A device may be renamed meanwhile; bytes that change
        // under the copy make for an odd name, no more.
        let bytes = unsafe { (&raw const (*self.device.as_ptr()).name).read() };
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(0);
        Name { bytes, len }
    }

    /// The NUMA node it is attached to, negative if that is not known.
    pub(crate) fn node(&self) -> i32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::rr_ibdev_to_node(self.device.as_ptr()) }
    }
}

/// A device known to the [`Registration`], and who uses it.
#[pin_data]
struct Entry {
    /// Valid as long as there is a lease, and until [`Entry::clear`] returns.
    device: NonNull<bindings::ib_device>,
    #[pin]
    tenants: Mutex<Tenants>,
    /// Completed once the device is going and the last lease is gone.
    #[pin]
    idle: Completion,
    /// Where completions are handled, if not on `ib_core`'s workqueue.
    completions: Option<Arc<Queue>>,
}

// SAFETY: The device is only passed to verbs, which any task may call.
unsafe impl Send for Entry {}
// SAFETY: As above; the rest is behind a lock.
unsafe impl Sync for Entry {}

struct Tenants {
    going: bool,
    /// Number of the last lease.
    last: u64,
    leases: KVec<Tenant>,
}

struct Tenant {
    number: u64,
    told: bool,
    who: Arc<dyn Removal>,
}

impl Entry {
    fn new(
        device: NonNull<bindings::ib_device>,
        completions: Option<Arc<Queue>>,
    ) -> Result<Arc<Self>> {
        let tenants = Tenants {
            going: false,
            last: 0,
            leases: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                device,
                tenants <- new_mutex!(tenants, "rdma::Entry::tenants"),
                idle <- Completion::new(),
                completions,
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a lease, unless the device is going.
    fn lease(self: Arc<Self>, who: Arc<dyn Removal>) -> Result<Lease> {
        let mut tenants = self.tenants.lock();
        if tenants.going {
            return Err(ENETUNREACH);
        }
        let number = tenants.last + 1;
        let tenant = Tenant {
            number,
            told: false,
            who,
        };
        tenants.leases.push(tenant, GFP_KERNEL)?;
        tenants.last = number;
        drop(tenants);
        // INVARIANT: just added.
        Ok(Lease {
            number,
            entry: self,
        })
    }

    /// Stops new leases, tells everybody, and waits until the last lease is gone.
    fn clear(&self) {
        let mut tenants = self.tenants.lock();
        tenants.going = true;
        if tenants.leases.is_empty() {
            self.idle.complete_all();
        }
        drop(tenants);
        while let Some(who) = self.next_untold() {
            who.device_removed();
        }
        self.idle.wait_for_completion();
    }

    fn next_untold(&self) -> Option<Arc<dyn Removal>> {
        let mut tenants = self.tenants.lock();
        let tenant = tenants.leases.iter_mut().find(|t| !t.told)?;
        tenant.told = true;
        Some(tenant.who.clone())
    }
}

/// The right to use a device, until [`Removal::device_removed`] asks for it back. It keeps the
/// device in place.
///
/// Whoever is told of the removal must not be what owns the lease, directly or not: the two would
/// keep each other. Drop it in process context; may sleep.
///
/// # Invariants
///
/// The entry lists it under `number`, so that the removal of the device waits for it.
pub(crate) struct Lease {
    number: u64,
    entry: Arc<Entry>,
}

impl Lease {
    /// The device, which is there as long as the lease is.
    #[inline]
    pub(crate) fn device(&self) -> Device<'_> {
        // SAFETY: By the type invariant it cannot go as long as `self` is borrowed.
        unsafe { Device::new(self.entry.device) }
    }

    /// The workqueue for completions, which is there as long as the lease is; `None`: `ib_core`'s.
    #[inline]
    pub(super) fn completions(&self) -> Option<&Queue> {
        self.entry.completions.as_deref()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut tenants = self.entry.tenants.lock();
        let place = tenants.leases.iter().position(|t| t.number == self.number);
        let tenant = place.and_then(|i| tenants.leases.remove(i).ok());
        if tenants.going && tenants.leases.is_empty() {
            self.entry.idle.complete_all();
        }
        drop(tenants);
        // Not under the lock: it may be the last reference, and do anything.
        drop(tenant);
    }
}

/// Our registration as a client of `ib_core`. There is one at most; dropping it unregisters,
/// which waits for all leases. Drop it in process context, not from [`Removal`].
///
/// # Invariants
///
/// - `client` is registered, and [`REGISTRATION`] points here, from [`Registration::new`] until
///   the value is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration {
    #[pin]
    client: Opaque<bindings::ib_client>,
    #[pin]
    devices: Mutex<KVec<Arc<Entry>>>,
    completions: Option<Arc<Queue>>,
}

// SAFETY: The client belongs to `ib_core`, which locks it; the rest is behind a lock.
unsafe impl Send for Registration {}
// SAFETY: As above.
unsafe impl Sync for Registration {}

/// The one registration: `ib_core` does not say whose callback it is calling.
static REGISTRATION: Atomic<*mut Registration> = Atomic::new(core::ptr::null_mut());

impl Registration {
    /// Registers with `ib_core`, under a name that is seen in diagnostics. With `own_queue` completions
    /// are handled on a workqueue of our own, whose name begins with it; otherwise on `ib_core`'s.
    /// Process context, may sleep.
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
        // Two queues of one name would clash, too, but less clearly.
        if !REGISTRATION.load(Acquire).is_null() {
            return Err(EBUSY);
        }
        let completions = if own_queue {
            Some(Arc::new(Queue::tunable(name, c"completion")?, GFP_KERNEL)?)
        } else {
            None
        };
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

    fn register(&self) -> Result {
        let this = core::ptr::from_ref(self).cast_mut();
        let none = core::ptr::null_mut();
        // ORDERING: what was initialised is visible to the callbacks.
        REGISTRATION.cmpxchg(none, this, Full).map_err(|_| EBUSY)?;
        // SAFETY: The client is initialised, and stays in place until it is unregistered.
        let result = to_result(unsafe { bindings::ib_register_client(self.client.get()) });
        if result.is_err() {
            // Failed registration leaves no client behind; nor does `drop` unregister it then.
            REGISTRATION.store(none, Release);
        }
        result
    }

    fn is_registered(&self) -> bool {
        core::ptr::eq(REGISTRATION.load(Acquire), self)
    }

    /// Leases a device. `who` is told when it is going away. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` if the device is going away already; `ENOMEM`.
    pub(crate) fn lease(&self, device: &Device<'_>, who: Arc<dyn Removal>) -> Result<Lease> {
        let devices = self.devices.lock();
        let entry = devices.iter().find(|e| e.device == device.device);
        let entry = entry.ok_or(ENETUNREACH)?.clone();
        drop(devices);
        entry.lease(who)
    }

    /// A device has come.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` only.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> kernel::ffi::c_int {
        from_result(|| {
            // SAFETY: By the type invariant: callbacks come only while the client is registered.
            let this = unsafe { REGISTRATION.load(Acquire).as_ref() }.ok_or(ENODEV)?;
            let device = NonNull::new(device).ok_or(ENODEV)?;
            let entry = Entry::new(device, this.completions.clone())?;
            // Connecting takes this lock, and a file system may wait for that.
            let _scope = NoIo::enter();
            this.devices.lock().push(entry, GFP_KERNEL)?;
            Ok(0)
        })
    }

    /// A device is going. `ib_core` keeps it in place until this returns.
    ///
    /// # Safety
    ///
    /// Called by `ib_core` only.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, _: *mut kernel::ffi::c_void) {
        // SAFETY: As in `add`; unregistering waits for this callback to return.
        let Some(this) = (unsafe { REGISTRATION.load(Acquire).as_ref() }) else {
            return;
        };
        let mut devices = this.devices.lock();
        let place = devices.iter().position(|e| e.device.as_ptr() == device);
        let entry = place.and_then(|i| devices.remove(i).ok());
        drop(devices);
        if let Some(entry) = entry {
            entry.clear();
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Registration {
    fn drop(self: Pin<&mut Self>) {
        if self.is_registered() {
            // SAFETY: By the type invariant. Callbacks are over when it returns.
            unsafe { bindings::ib_unregister_client(self.client.get()) };
            REGISTRATION.store(core::ptr::null_mut(), Release);
        }
    }
}
