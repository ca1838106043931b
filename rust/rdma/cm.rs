// SPDX-License-Identifier: GPL-2.0

//! Connection manager: identifiers, events, connecting.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::error::{from_err_ptr, to_result};
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed, Release};
use kernel::sync::{new_mutex, Arc, Mutex};

use super::device::Device;
use super::noio::NoIo;
use crate::mem::{NetRef, SockAddr, Storage};
use crate::raw as bindings;

/// What the connection manager reports. Codes are its own: negative errno, or a reason of the
/// transport for [`CmEvent::Rejected`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum CmEvent<'a> {
    /// The address was resolved: a device was found.
    AddrResolved,
    /// It was not.
    AddrError(i32),
    /// The route was resolved: a connection can be requested.
    RouteResolved,
    /// It was not.
    RouteError(i32),
    /// The connection is up.
    Established {
        /// What the peer sent along, padded with zeroes by the transport.
        private_data: &'a [u8],
        /// RDMA Reads we may have outstanding.
        initiator_depth: u8,
        /// RDMA Reads the peer may have outstanding.
        responder_resources: u8,
    },
    /// Connecting failed.
    ConnectError(i32),
    /// The peer did not answer; or the neighbour that an established connection leads to has
    /// another Ethernet address now.
    Unreachable(i32),
    /// The peer refused.
    Rejected {
        /// Reason, in the transport's own terms.
        reason: i32,
        /// The peer took us for a connection that is already gone: worth another try.
        stale: bool,
        /// What the peer sent along.
        private_data: &'a [u8],
    },
    /// The connection is over.
    Disconnected,
    /// The device is going away.
    DeviceRemoval,
    /// The address went to another network device.
    AddrChange,
    /// The queue pair's number may be used again.
    TimewaitExit,
    /// Anything else, by number (`enum rdma_cm_event_type`).
    Other(u32),
}

/// Told of the events of one identifier.
pub(crate) trait CmHandler: Send + Sync + 'static {
    /// Something happened. Process context, may sleep; events of one identifier come one at a
    /// time. The identifier is locked meanwhile: do not call any method of its [`CmId`] from here, nor
    /// drop it. One that is under way may be waiting for this to return.
    fn event(&self, event: CmEvent<'_>);
}

/// How to connect, or to accept. See `struct rdma_conn_param`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectParams<'a> {
    /// What to send along; 56 bytes at most when connecting over InfiniBand or RoCE.
    pub(crate) private_data: &'a [u8],
    /// RDMA Reads that the peer may have outstanding.
    pub(crate) responder_resources: u8,
    /// RDMA Reads that we may have outstanding.
    pub(crate) initiator_depth: u8,
    /// How often the device repeats a packet, at most 7. Ignored when accepting.
    pub(crate) retry_count: u8,
    /// How often it repeats a message for which the peer had no Receive; 7 stands for ever.
    pub(crate) rnr_retry_count: u8,
    /// End-to-end flow control of the transport.
    pub(crate) flow_control: bool,
}

impl ConnectParams<'_> {
    fn raw(&self) -> Result<bindings::rdma_conn_param> {
        Ok(bindings::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).map_err(|_| EINVAL)?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control.into(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            ..pin_init::zeroed()
        })
    }
}

/// Something whose only purpose is to stay alive.
trait Keep: Send + Sync {}
impl<T: Send + Sync> Keep for T {}

/// A connection identifier with what its events need.
///
/// # Invariants
///
/// - `id` is a valid `rdma_cm_id`, destroyed with this value.
/// - Its context points to the handler that `_handler` keeps (an `H` in the [`CmId<H>`] it was made
///   for), or is null.
/// - `has_queue_pair` is set while a queue pair is attached.
#[pin_data(PinnedDrop)]
pub(super) struct Ident {
    id: NonNull<bindings::rdma_cm_id>,
    has_queue_pair: AtomicFlag,
    /// One call at a time: the connection manager leaves that to its users. Taken before the
    /// connection manager's own lock, under which events are handled.
    #[pin]
    calls: Mutex<()>,
    _handler: Arc<dyn Keep>,
}

// SAFETY: The connection manager locks identifiers; calls that it does not are under `calls`.
unsafe impl Send for Ident {}
// SAFETY: As above.
unsafe impl Sync for Ident {}

impl Ident {
    /// Takes ownership of `id`.
    ///
    /// # Safety
    ///
    /// - `id` is a valid identifier that nobody else destroys.
    /// - Its context is null, or points to what `handler` points to.
    unsafe fn new(id: NonNull<bindings::rdma_cm_id>, handler: Arc<dyn Keep>) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                id,
                has_queue_pair: AtomicFlag::new(false),
                calls <- new_mutex!((), "rdma::Ident::calls"),
                _handler: handler,
            }),
            GFP_KERNEL,
        );
        if this.is_err() {
            // SAFETY: The caller gave it to us. `handler` may be gone, but there are no events
            // before the first call.
            unsafe { bindings::rdma_destroy_id(id.as_ptr()) };
        }
        this
    }

    /// The identifier, valid as long as `self` is.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Marks that a queue pair is being attached.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one.
    pub(super) fn attach(&self) -> Result {
        match self.has_queue_pair.cmpxchg(false, true, Full) {
            Ok(_) => Ok(()),
            Err(_) => Err(EBUSY),
        }
    }

    /// Undoes [`Self::attach`].
    pub(super) fn detach(&self) {
        self.has_queue_pair.store(false, Release);
    }

    /// Runs `call` alone among the calls of this identifier; the queue pair's creation and destruction
    /// are among them. May sleep; not from [`CmHandler::event`].
    pub(super) fn exclusively<R>(&self, call: impl FnOnce(*mut bindings::rdma_cm_id) -> R) -> R {
        let _calls = self.calls.lock();
        call(self.as_ptr())
    }

    /// Ends the connection, if there is one; the queue pair goes into the error state. If connecting
    /// is under way, waits until that call has returned, and over iWARP for its end. May sleep; not
    /// from [`CmHandler::event`].
    pub(super) fn disconnect(&self) {
        self.exclusively(|id| {
            // SAFETY: By the type invariant. It looks for the connection without a lock: only calls
            // make and destroy one while the identifier lives, and this is the only one now.
            // (Events do not, as `on_event` never asks for it.) It fails when there is nothing to
            // end, which is fine.
            let _ = unsafe { bindings::rdma_disconnect(id) };
        });
    }
}

#[pinned_drop]
impl PinnedDrop for Ident {
    fn drop(self: Pin<&mut Self>) {
        let _scope = NoIo::enter();
        // SAFETY: By the type invariant; the queue pair keeps the identifier, so there is none.
        // This waits for a handler that is running.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// A connection identifier (`struct rdma_cm_id`): one end of a connection, from resolving the
/// peer's address on.
///
/// The identifier is destroyed when both the `CmId` and the [`Qp`](super::qp::Qp) made with it
/// are gone; after that, no event is being or will be handled. Do not let the last of them go in
/// the handler: destruction waits for it.
///
/// The methods are called in process context and may sleep.
pub(crate) struct CmId<H: CmHandler> {
    ident: Arc<Ident>,
    handler: PhantomData<fn(&H)>,
}

impl<H: CmHandler> CmId<H> {
    /// Makes an identifier for a reliable connection in a network namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: NetRef<'_>, handler: Arc<H>) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast::<c_void>();
        // SAFETY: `net` is referenced by its invariant (the identifier takes a reference of its own),
        // and the name is static. The handler fits the context, which lives as long as the identifier.
        let id = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_ptr(),
                Some(on_event::<H>),
                context,
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                super::caller(),
            )
        };
        let id = NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?;
        // SAFETY: Just made, with this context.
        let ident = unsafe { Ident::new(id, handler) }?;
        Ok(Self {
            ident,
            handler: PhantomData,
        })
    }

    /// Takes over an identifier that came with a connection request.
    ///
    /// # Safety
    ///
    /// `id` is valid, and the caller stops using it, whatever this returns.
    pub(super) unsafe fn adopt(id: NonNull<bindings::rdma_cm_id>, handler: Arc<H>) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast::<c_void>();
        // SAFETY: The context of such an identifier is null.
        let ident = unsafe { Ident::new(id, handler) }?;
        let raw = ident.as_ptr();
        // SAFETY: It is valid; under this lock no event is being handled. The context is the
        // handler that `ident` keeps.
        unsafe {
            bindings::rdma_lock_handler(raw);
            (*raw).context = context;
            (*raw).event_handler = Some(on_event::<H>);
            bindings::rdma_unlock_handler(raw);
        }
        Ok(Self {
            ident,
            handler: PhantomData,
        })
    }

    pub(super) fn ident(&self) -> &Arc<Ident> {
        &self.ident
    }

    /// Starts to resolve the peer's address; the outcome is [`CmEvent::AddrResolved`] or
    /// [`CmEvent::AddrError`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for an identifier past that, or what the connection manager says: there is no
    /// route (`ENETUNREACH`), no RDMA device on the way (`ENODEV`).
    pub(crate) fn resolve_addr(&self, peer: &SockAddr, timeout_ms: u32) -> Result {
        self.ident.exclusively(|id| {
            // SAFETY: Both are valid; the address is copied.
            to_result(unsafe {
                bindings::rdma_resolve_addr(
                    id,
                    core::ptr::null_mut(),
                    peer.as_ptr(),
                    timeout_ms as usize,
                )
            })
        })
    }

    /// Starts to resolve the route; the outcome is [`CmEvent::RouteResolved`] or
    /// [`CmEvent::RouteError`].
    ///
    /// # Errors
    ///
    /// `EINVAL` unless the address was resolved last; `ENOMEM`, `ENODEV`.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        self.ident.exclusively(|id| {
            // SAFETY: By `Ident`'s invariant.
            to_result(unsafe { bindings::rdma_resolve_route(id, timeout_ms as usize) })
        })
    }

    /// The device, once the address is resolved.
    pub(crate) fn device(&self) -> Option<Device<'_>> {
        let id = self.ident.as_ptr();
        // SAFETY: By `Ident`'s invariant. The field is set before the address counts as resolved,
        // and stays until the identifier is destroyed.
        let device = unsafe { Atomic::from_ptr(&raw mut (*id).device) }.load(Relaxed);
        // SAFETY: The connection manager keeps the device in place as long as an identifier is
        // bound to it.
        Some(unsafe { Device::new(NonNull::new(device)?) })
    }

    /// The address on our side, once that of the peer is resolved.
    pub(crate) fn local_addr(&self) -> SockAddr {
        let id = self.ident.as_ptr();
        // SAFETY: By `Ident`'s invariant; all of the storage is initialised. The address does not
        // change once it is resolved; before that, the copy may be of a half-written one.
        SockAddr::from_storage(unsafe {
            (&raw const (*id).route.addr.src_addr)
                .cast::<Storage>()
                .read()
        })
    }

    /// Requests a connection; needs a queue pair. The outcome is one of [`CmEvent::Established`],
    /// [`CmEvent::ConnectError`], [`CmEvent::Unreachable`], [`CmEvent::Rejected`].
    ///
    /// # Errors
    ///
    /// `EINVAL` unless the route was resolved last, or if the private data is too long; devices that
    /// connect at once (iWARP) say here what others report by an event: `ECONNREFUSED`,
    /// `ETIMEDOUT`, `EHOSTUNREACH`.
    pub(crate) fn connect(&self, params: &ConnectParams<'_>) -> Result {
        let mut params = params.raw()?;
        self.ident.exclusively(|id| {
            // SAFETY: Both are valid, and the parameters are copied.
            to_result(unsafe { bindings::rdma_connect(id, &raw mut params) })
        })
    }

    /// Accepts the connection request that came with the identifier; needs a queue pair. The
    /// outcome is [`CmEvent::Established`] or [`CmEvent::Disconnected`]. On failure the
    /// connection manager has refused the request.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an identifier that did not come with a request, or whose peer has gone.
    pub(crate) fn accept(&self, params: &ConnectParams<'_>) -> Result {
        let mut params = params.raw()?;
        self.ident.exclusively(|id| {
            // SAFETY: Both are valid, and the parameters are copied. Accepting asks for this
            // lock.
            to_result(unsafe {
                bindings::rdma_lock_handler(id);
                let error = bindings::rdma_accept(id, &raw mut params);
                bindings::rdma_unlock_handler(id);
                error
            })
        })
    }

    /// Ends the connection, if there is one; the queue pair goes into the error state. If connecting
    /// is under way, waits until that call has returned, and over iWARP for its end. May sleep.
    pub(crate) fn disconnect(&self) {
        self.ident.disconnect();
    }
}

/// Translates an event and hands it on.
///
/// # Safety
///
/// Called by the connection manager, for an identifier whose context is an `H` that outlives it.
unsafe extern "C" fn on_event<H: CmHandler>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: As this function asks for; both are valid during the call.
    let (handler, event) = unsafe { (&*(*id).context.cast::<H>(), &*event) };
    // SAFETY: This is the event the connection manager gave.
    handler.event(unsafe { translate(event) });
    // Otherwise the identifier would be destroyed, which is `Ident`'s business.
    0
}

/// # Safety
///
/// `event` comes from the connection manager, so that the parameters fit the event.
unsafe fn translate(event: &bindings::rdma_cm_event) -> CmEvent<'_> {
    use bindings as b;
    match event.event {
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => CmEvent::AddrResolved,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => CmEvent::AddrError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => CmEvent::RouteResolved,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => CmEvent::RouteError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
            // SAFETY: An event about a connection.
            let (private_data, conn) = unsafe { connection(event) };
            CmEvent::Established {
                private_data,
                initiator_depth: conn.initiator_depth,
                responder_resources: conn.responder_resources,
            }
        }
        b::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => CmEvent::ConnectError(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => CmEvent::Unreachable(event.status),
        b::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => CmEvent::Rejected {
            reason: event.status,
            stale: u32::try_from(event.status) == Ok(b::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN),
            // SAFETY: An event about a connection.
            private_data: unsafe { connection(event) }.0,
        },
        b::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => CmEvent::Disconnected,
        b::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => CmEvent::DeviceRemoval,
        b::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => CmEvent::AddrChange,
        b::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => CmEvent::TimewaitExit,
        other => CmEvent::Other(other),
    }
}

/// The private data and parameters of an event about a connection.
///
/// # Safety
///
/// `event` is such an event, as the connection manager gave it.
pub(super) unsafe fn connection(
    event: &bindings::rdma_cm_event,
) -> (&[u8], &bindings::rdma_conn_param) {
    // SAFETY: The caller promises that this is the part of the union in use; all of them are
    // plain data.
    let conn = unsafe { &event.param.conn };
    if conn.private_data.is_null() {
        return (&[], conn);
    }
    // SAFETY: The connection manager gives a pointer to as many bytes, for the length of the
    // callback.
    let data = unsafe {
        core::slice::from_raw_parts(conn.private_data.cast(), conn.private_data_len.into())
    };
    (data, conn)
}
