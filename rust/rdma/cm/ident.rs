// SPDX-License-Identifier: GPL-2.0

//! Ownership of a cm_id: [`OwnedId`] with its context, and [`Ident`], which [`CmId`](super::CmId)
//! and the queue pair share.

use core::ptr::{read_volatile, NonNull};

use kernel::error::from_err_ptr;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed, Release};
use kernel::sync::{new_mutex, Arc, ArcBorrow, Mutex};
use kernel::types::ForeignOwnable;

use crate::mem::{MemallocScope, Net, SockAddr};
use crate::raw as bindings;
use crate::rdma::device::Device;

/// The context of a cm_id, which handles its events.
pub(in super::super) trait Context: Send + Sync + 'static {
    /// Handles an event. A result other than 0 makes the connection manager destroy the cm_id.
    /// Process context, may sleep; the cm_id is locked meanwhile.
    ///
    /// # Safety
    ///
    /// The connection manager calls this for `id`, which is valid and whose context is `this`, or
    /// was copied from that of a listening cm_id. `event` comes from the connection manager.
    unsafe fn on_event(
        this: ArcBorrow<'_, Self>,
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
    ) -> c_int;
}

/// Passes an event to the context of its cm_id.
///
/// # Safety
///
/// The connection manager calls this for a cm_id whose context is an `Arc<T>` that
/// [`ForeignOwnable::into_foreign`] converted and that outlives the call.
unsafe extern "C" fn on_event<T: Context>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The connection manager passes a valid cm_id and a valid event. The caller promises
    // that the context is an `Arc<T>` that is not released meanwhile.
    unsafe {
        let context = <Arc<T> as ForeignOwnable>::borrow((*id).context);
        T::on_event(context, NonNull::new_unchecked(id), &*event)
    }
}

/// Releases a context.
///
/// # Safety
///
/// [`ForeignOwnable::into_foreign`] of an `Arc<T>` returned `context`, which is not used after
/// this.
unsafe fn release<T: Context>(context: *mut c_void) {
    // SAFETY: The caller promises that the pointer is that of an `Arc<T>`, and its last use.
    drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(context) });
}

/// A cm_id that is destroyed with this value (`struct rdma_cm_id`). Dropping the value may sleep,
/// and waits for a handler that runs. If the cm_id arrived with a connection request, the request
/// is rejected.
///
/// # Invariants
///
/// - The cm_id is valid, and nothing else destroys it.
/// - Its context is an `Arc<T>` that `into_foreign()` converted and that this value owns. `release`
///   is [`release::<T>`], and its handler is [`on_event::<T>`].
pub(in super::super) struct OwnedId {
    id: NonNull<bindings::rdma_cm_id>,
    release: unsafe fn(*mut c_void),
}

// SAFETY: Any task may call the connection manager for a cm_id, and destroy it. Contexts are
// `Send`.
unsafe impl Send for OwnedId {}
// SAFETY: Through a shared reference, the methods only read fields, as argued in each. Functions of
// the connection manager need a pointer, so `unsafe` code calls them. Contexts are `Sync`.
unsafe impl Sync for OwnedId {}

impl OwnedId {
    /// Creates a cm_id for a reliable connection, or for listening, in a network namespace. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in super::super) fn new<T: Context>(net: &Net, context: Arc<T>) -> Result<Self> {
        let context = context.into_foreign();
        // SAFETY: By the invariant of `Net` the namespace is referenced; the cm_id takes a
        // reference of its own. The name is static. The context is an `Arc<T>`, as the handler
        // expects, and is released after the cm_id was destroyed.
        let id = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_ptr(),
                Some(on_event::<T>),
                context,
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                crate::rdma::caller(),
            )
        };
        let id = from_err_ptr(id).and_then(|id| NonNull::new(id).ok_or(ENOMEM));
        // SAFETY: `into_foreign()` returned the context, and there is no cm_id that has it.
        let id = id.inspect_err(|_| unsafe { release::<T>(context) })?;
        // INVARIANT: The cm_id was created above, with this context and handler.
        Ok(Self {
            id,
            release: release::<T>,
        })
    }

    /// Takes ownership of a cm_id, and gives it another context.
    ///
    /// # Safety
    ///
    /// `id` is valid, and nothing else destroys it after this call. Its handler is locked, and
    /// nothing owns its present context for it.
    pub(in super::super) unsafe fn from_raw<T: Context>(
        id: NonNull<bindings::rdma_cm_id>,
        context: Arc<T>,
    ) -> Self {
        // SAFETY: The caller promises a valid cm_id with a locked handler, so that context and
        // handler change together.
        unsafe {
            (*id.as_ptr()).context = context.into_foreign();
            (*id.as_ptr()).event_handler = Some(on_event::<T>);
        }
        // INVARIANT: The caller promises the ownership. Context and handler were set above.
        Self {
            id,
            release: release::<T>,
        }
    }

    /// Gives the cm_id another context, unless `keep` returns `true` while its handler is locked.
    /// Returns whether the context changed. May sleep.
    pub(in super::super) fn exchange<T: Context>(
        &mut self,
        context: Arc<T>,
        keep: impl FnOnce() -> bool,
    ) -> bool {
        let id = self.as_ptr();
        // SAFETY: By the type invariants the cm_id is valid, and `self.release` belongs to its
        // context, which is not used any more after the exchange. While the handler is locked, no
        // event is handled, so context and handler change together.
        unsafe {
            bindings::rdma_lock_handler(id);
            if keep() {
                bindings::rdma_unlock_handler(id);
                return false;
            }
            let old = core::mem::replace(&mut (*id).context, context.into_foreign());
            (*id).event_handler = Some(on_event::<T>);
            bindings::rdma_unlock_handler(id);
            core::mem::replace(&mut self.release, release::<T>)(old);
        }
        true
    }

    /// Returns the cm_id for C functions. It is valid while `self` exists.
    pub(in super::super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Returns the device, or `None` if the cm_id is not bound to one.
    pub(in super::super) fn device(&self) -> Option<&Device> {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the cm_id is valid. The connection manager may write the
        // field at the same time, so it is read atomically; once set, it does not change.
        let device = unsafe { Atomic::from_ptr(&raw mut (*id).device) }.load(Relaxed);
        // SAFETY: The connection manager keeps a device registered while a cm_id is bound to it,
        // and the cm_id lives while `self` does.
        (!device.is_null()).then(|| unsafe { Device::from_raw(device) })
    }

    /// Returns the port of the device, or 0 if the cm_id is not bound to one.
    pub(in super::super) fn port(&self) -> u32 {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the cm_id is valid. The connection manager may write the
        // field at the same time, so it is read atomically.
        unsafe { Atomic::from_ptr(&raw mut (*id).port_num) }.load(Relaxed)
    }

    /// Returns the local address. It is meaningful when the cm_id is bound, when the peer's address
    /// was resolved, and for a cm_id that arrived with a request.
    pub(in super::super) fn local_addr(&self) -> SockAddr {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the cm_id is valid, and all of the storage is initialised.
        // Once meaningful, the address does not change; an earlier copy may be of an address that
        // is half written, which is harmless. The read is volatile.
        let addr = unsafe { read_volatile((&raw const (*id).route.addr.src_addr).cast()) };
        SockAddr::from_storage(addr)
    }

    /// Returns the peer's address. It is meaningful when it was resolved, and for a cm_id that
    /// arrived with a request.
    pub(in super::super) fn peer_addr(&self) -> SockAddr {
        let id = self.as_ptr();
        // SAFETY: By the type invariant the cm_id is valid, and all of the storage is initialised.
        // Once meaningful, the address does not change; an earlier copy may be of an address that
        // is half written, which is harmless. The read is volatile.
        let addr = unsafe { read_volatile((&raw const (*id).route.addr.dst_addr).cast()) };
        SockAddr::from_storage(addr)
    }
}

impl Drop for OwnedId {
    fn drop(&mut self) {
        let _scope = MemallocScope::noio();
        // SAFETY: By the type invariants this value owns the valid cm_id and its context, to which
        // `release` belongs. No handler runs after the destruction, and this is the last use of
        // both.
        unsafe {
            let context = (*self.as_ptr()).context;
            bindings::rdma_destroy_id(self.as_ptr());
            (self.release)(context);
        }
    }
}

/// A cm_id whose calls are serialised.
///
/// # Invariants
///
/// `has_queue_pair` is set while a queue pair is attached. A queue pair keeps its `Ident`, so `id`
/// has none when it is destroyed.
#[pin_data]
pub(in super::super) struct Ident {
    pub(super) id: OwnedId,
    has_queue_pair: AtomicFlag,
    /// Serialises calls, which the connection manager leaves to its users. This lock is taken
    /// before the connection manager's own lock, under which events are handled.
    #[pin]
    calls: Mutex<()>,
}

impl Ident {
    /// Takes ownership of `id`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; after an error `id` has been destroyed.
    pub(super) fn new(id: OwnedId) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                id,
                has_queue_pair: AtomicFlag::new(false),
                calls <- new_mutex!((), "rdma::Ident::calls"),
            }),
            GFP_KERNEL,
        )
    }

    /// Marks the cm_id as used by a queue pair.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the cm_id has a queue pair.
    pub(in super::super) fn attach(&self) -> Result {
        let before = self.has_queue_pair.cmpxchg(false, true, Full);
        before.map(drop).map_err(|_| EBUSY)
    }

    /// Undoes [`Self::attach`].
    pub(in super::super) fn detach(&self) {
        self.has_queue_pair.store(false, Release);
    }

    /// Runs `call` while no other call for this cm_id is running. Creating and destroying the queue
    /// pair are such calls. May sleep; not from [`CmHandler::event`](super::CmHandler::event).
    pub(in super::super) fn exclusively<R>(
        &self,
        call: impl FnOnce(*mut bindings::rdma_cm_id) -> R,
    ) -> R {
        let _calls = self.calls.lock();
        call(self.id.as_ptr())
    }

    /// Reports to the connection manager that a message arrived, which proves that the peer regards
    /// the connection as established. Any context.
    pub(in super::super) fn note_established(&self) {
        // SAFETY: By the invariant of `OwnedId` the cm_id is valid. It has a device, since it has a
        // queue pair. The call takes no lock that may sleep. It fails if the handshake has ended,
        // or was begun by this side; no action is needed in that case.
        let _ = unsafe {
            bindings::rdma_notify(self.id.as_ptr(), bindings::ib_event_type_IB_EVENT_COMM_EST)
        };
    }

    /// Ends the connection, if there is one, which moves the queue pair to the error state. If a
    /// call that connects is running, waits for its return, and over iWARP for the end of the
    /// attempt. May sleep; not from [`CmHandler::event`](super::CmHandler::event).
    pub(in super::super) fn disconnect(&self) {
        self.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid. The function reads the
            // state of the connection without a lock, but only calls for the cm_id create and
            // destroy a connection, and `exclusively` makes this the only one. Events do not
            // destroy it, since the handler always returns 0. The call fails if there is no
            // connection, and then there is nothing to end.
            let _ = unsafe { bindings::rdma_disconnect(id) };
        });
    }
}
