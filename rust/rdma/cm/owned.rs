// SPDX-License-Identifier: GPL-2.0

//! An identifier of the connection manager that has one owner.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::mem::{MemallocScope, NetRef, SockAddr, Storage};
use crate::raw as bindings;
use crate::rdma::device::Device;

/// The connection manager's type of a handler of events.
type EventHandler =
    unsafe extern "C" fn(*mut bindings::rdma_cm_id, *mut bindings::rdma_cm_event) -> c_int;

/// An identifier that is destroyed with this value. Dropping it may sleep, and waits for a handler
/// that is running. If the identifier has a connection request, this rejects the request.
///
/// # Invariants
///
/// The identifier is valid, and nothing else destroys it.
pub(in super::super) struct OwnedId(NonNull<bindings::rdma_cm_id>);

// SAFETY: Any task may call the connection manager for an identifier, and destroy it.
unsafe impl Send for OwnedId {}
// SAFETY: Through a shared reference, the methods only read fields, as argued in each. Functions of
// the connection manager need a pointer, so `unsafe` code calls them.
unsafe impl Sync for OwnedId {}

impl OwnedId {
    /// Makes an identifier for a reliable connection, or for listening, in a network namespace.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `handler` may be called with an identifier whose context is `context` until this value has
    /// been dropped.
    pub(in super::super) unsafe fn new(
        net: NetRef<'_>,
        handler: EventHandler,
        context: *mut c_void,
    ) -> Result<Self> {
        // SAFETY: By the invariant of `NetRef` the namespace is referenced; the identifier takes a
        // reference of its own. The name is static. The caller vouches for handler and context.
        let id = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_ptr(),
                Some(handler),
                context,
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                crate::rdma::caller(),
            )
        };
        let id = NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?;
        // INVARIANT: The identifier was created above.
        Ok(Self(id))
    }

    /// Takes ownership of an identifier.
    ///
    /// # Safety
    ///
    /// `id` is valid, and nothing else destroys it after this call.
    pub(in super::super) unsafe fn from_raw(id: NonNull<bindings::rdma_cm_id>) -> Self {
        // INVARIANT: The caller promises it.
        Self(id)
    }

    /// Returns the identifier as the connection manager takes it. It is valid as long as `self`.
    #[inline]
    pub(in super::super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.0.as_ptr()
    }

    /// Returns the device, or `None` if the identifier is not bound to one.
    pub(in super::super) fn device(&self) -> Option<Device<'_>> {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the identifier is valid. The connection manager may write
        // the field at the same time, so it is read atomically; once set, it does not change.
        let device = unsafe { Atomic::from_ptr(&raw mut (*id).device) }.load(Relaxed);
        // SAFETY: The connection manager keeps a device registered as long as an identifier is
        // bound to it, and the identifier lives as long as `self`.
        Some(unsafe { Device::new(NonNull::new(device)?) })
    }

    /// Returns the port of the device, or 0 if the identifier is not bound to one.
    pub(in super::super) fn port(&self) -> u32 {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the identifier is valid. The connection manager may write
        // the field at the same time, so it is read atomically.
        unsafe { Atomic::from_ptr(&raw mut (*id).port_num) }.load(Relaxed)
    }

    /// Returns the local address. It is meaningful when the identifier is bound, when the peer's
    /// address has been resolved, and for an identifier that came with a request.
    pub(in super::super) fn local_addr(&self) -> SockAddr {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the identifier is valid, and all of the storage is
        // initialised. Once meaningful, the address does not change; a copy made before that may be
        // of an address that is half written, which is harmless.
        SockAddr::from_storage(unsafe {
            (&raw const (*id).route.addr.src_addr)
                .cast::<Storage>()
                .read()
        })
    }

    /// Returns the peer's address. It is meaningful when it has been resolved, and for an
    /// identifier that came with a request.
    pub(in super::super) fn peer_addr(&self) -> SockAddr {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the identifier is valid, and all of the storage is
        // initialised. Once meaningful, the address does not change; a copy made before that may be
        // of an address that is half written, which is harmless.
        SockAddr::from_storage(unsafe {
            (&raw const (*id).route.addr.dst_addr)
                .cast::<Storage>()
                .read()
        })
    }
}

impl Drop for OwnedId {
    fn drop(&mut self) {
        let _scope = MemallocScope::noio();
        // SAFETY: By the type invariant this value owns the valid identifier, and this is its last
        // use.
        unsafe { bindings::rdma_destroy_id(self.as_ptr()) };
    }
}
