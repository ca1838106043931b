// SPDX-License-Identifier: GPL-2.0

//! `struct svc_xprt_ops`: the functions through which SUNRPC calls a server transport.
//!
//! Listeners and connections have separate tables, although they belong to one class.
//! `svc_xprt_init()` sets the table of the class; [`New`] replaces it.
//!
//! SUNRPC calls the operations of a transport only with
//!
//! - an `svc_xprt` that [`New`] has completed for the type parameter and that is alive during the
//!   call; `xpo_free` also with one that could not be completed;
//! - an `svc_rqst` of the calling thread, whose `rq_xprt` is such a transport.

use kernel::bindings as k;
use kernel::ffi::{c_int, c_uint, c_void};
use kernel::prelude::*;
use kernel::types::ForeignOwnable;

use super::class::Class;
use super::receive::Incoming;
use super::reply::Reply;
use super::transport::{AcceptArgs, Connection, ListenArgs, Listener};
use super::xprt::{finds_room, Connected, Implementation, Listening, New, Origin, SvcXprt, Xprt};
use crate::mem::SockAddr;
use crate::raw;

/// The operations are also those of the class. SUNRPC neither receives nor sends on a listener, and
/// does not age it.
impl<L: Listener> Implementation<Listening> for L {
    const OPS: raw::svc_xprt_ops = raw::svc_xprt_ops {
        xpo_create: Some(create::<L>),
        xpo_accept: Some(accept::<L>),
        xpo_has_wspace: Some(always),
        xpo_recvfrom: None,
        xpo_sendto: None,
        xpo_result_payload: None,
        xpo_release_ctxt: Some(no_context),
        xpo_detach: Some(detach::<Listening, L>),
        xpo_free: Some(free::<Listening, L>),
        xpo_kill_temp_xprt: None,
        xpo_handshake: None,
    };

    fn detach(&self, xprt: &SvcXprt<Listening>) {
        Listener::detach(self, xprt);
    }
}

impl<C: Connection> Implementation<Connected> for C {
    const OPS: raw::svc_xprt_ops = raw::svc_xprt_ops {
        xpo_create: None,
        xpo_accept: None,
        xpo_has_wspace: Some(has_wspace::<C>),
        xpo_recvfrom: Some(recvfrom::<C>),
        xpo_sendto: Some(sendto::<C>),
        xpo_result_payload: Some(result_payload::<C>),
        xpo_release_ctxt: Some(release_ctxt::<C>),
        xpo_detach: Some(detach::<Connected, C>),
        xpo_free: Some(free::<Connected, C>),
        xpo_kill_temp_xprt: Some(kill_temp),
        xpo_handshake: None,
    };

    fn detach(&self, xprt: &SvcXprt<Connected>) {
        Connection::detach(self, xprt);
    }
}

/// Implements `xpo_create`. The service's mutex is held; may sleep.
///
/// # Safety
///
/// SUNRPC calls this for the class of `L`, with valid arguments, and holds a reference to the
/// module.
unsafe extern "C" fn create<L: Listener>(
    serv: *mut raw::svc_serv,
    net: *mut k::net,
    addr: *mut k::sockaddr,
    len: c_int,
    _flags: c_int,
) -> *mut raw::svc_xprt {
    // SAFETY: SUNRPC calls an operation of the class of `L`.
    let class = unsafe { Class::<L>::registered() };
    // SAFETY: SUNRPC passes a valid namespace and service, and holds a reference to the module.
    let origin = unsafe { Origin::new(net, class.as_raw(), serv) };
    let len = usize::try_from(len).unwrap_or_default();
    // SAFETY: SUNRPC passes an address of this length.
    let addr = SockAddr::from_bytes(unsafe { core::slice::from_raw_parts(addr.cast(), len) });
    let made = addr
        .and_then(|addr| listen(class, origin, addr).inspect_err(|error| L::failed(&addr, *error)));
    made.unwrap_or_else(|error| error.to_ptr())
}

/// Creates a listener.
fn listen<L: Listener>(
    class: &Class<L>,
    origin: Origin,
    addr: SockAddr,
) -> Result<*mut raw::svc_xprt> {
    let new = New::<Listening, L>::allocate(origin)?;
    new.base().set(raw::XPT_LISTENER);
    let args = ListenArgs {
        addr,
        net: new.base().net(),
        context: &class.context,
        max_payload: new.base().max_payload(),
        xprt: new.base(),
    };
    // SAFETY: This is the first call.
    let listener = unsafe { new.init(L::new(args)) }?;
    new.base().set_local(&listener.local());
    // SAFETY: `init` has succeeded.
    Ok(unsafe { new.into_raw() })
}

/// Implements `xpo_accept`. Thread of the service; the listener is busy; may sleep.
///
/// # Safety
///
/// SUNRPC calls this with a complete listener of `L`, and holds a module reference for the new
/// transport.
unsafe extern "C" fn accept<L: Listener>(xprt: *mut raw::svc_xprt) -> *mut raw::svc_xprt {
    // SAFETY: SUNRPC passes a complete listener, and its service and namespace stay alive during
    // the call. It has taken a module reference for the new transport.
    let (listener, origin) = unsafe {
        let origin = Origin::new((*xprt).xpt_net, (*xprt).xpt_class, (*xprt).xpt_server);
        (Xprt::<Listening, L>::from_raw(xprt), origin)
    };
    // Cleared before the queue is read, so that a request that arrives later sets the bit again.
    listener.base().clear(raw::XPT_CONN);
    // SAFETY: The listener is complete.
    let Some(request) = unsafe { listener.data() }.next() else {
        return core::ptr::null_mut();
    };
    // There may be more requests. SUNRPC enqueues the listener after this call.
    listener.base().set(raw::XPT_CONN);
    connect::<L::Connection>(origin, request).unwrap_or(core::ptr::null_mut())
}

/// Creates a connection.
fn connect<C: Connection>(origin: Origin, request: C::Request) -> Result<*mut raw::svc_xprt> {
    let new = New::<Connected, C>::allocate(origin)?;
    let args = AcceptArgs {
        net: new.base().net(),
        xprt: new.base(),
    };
    // SAFETY: This is the first call.
    let connection = unsafe { new.init(C::new(request, args)) }?;
    new.base().set_local(&connection.local());
    new.base().set_remote(&connection.remote());
    // SAFETY: `init` has succeeded.
    Ok(unsafe { new.into_raw() })
}

/// Implements `xpo_has_wspace` of a listener, which sends nothing.
///
/// # Safety
///
/// None; it is an operation.
unsafe extern "C" fn always(_xprt: *mut raw::svc_xprt) -> c_int {
    1
}

/// Implements `xpo_has_wspace`. Any context that enqueues the transport; does not sleep.
///
/// # Safety
///
/// SUNRPC calls this with a complete connection of `C`.
unsafe extern "C" fn has_wspace<C: Connection>(xprt: *mut raw::svc_xprt) -> c_int {
    let has_room = || {
        // SAFETY: SUNRPC passes a complete connection. It changes the number of calls atomically,
        // and a volatile access to an integer is atomic in the kernel's memory model.
        let (connection, busy) = unsafe {
            let busy = (&raw const (*xprt).xpt_nr_rqsts.counter).read_volatile();
            (connection::<C>(xprt).1, busy)
        };
        // CAST: the number is not negative. SUNRPC looks for room after it has fallen
        // (`svc_xprt_release_slot()`).
        connection.has_room(busy as u32)
    };
    c_int::from(finds_room(has_room))
}

/// Returns a connection with its transport.
///
/// # Safety
///
/// `xprt` is a complete connection of `C` that is alive during `'a`.
unsafe fn connection<'a, C: Connection>(
    xprt: *mut raw::svc_xprt,
) -> (&'a SvcXprt<Connected>, &'a C) {
    // SAFETY: By the safety requirements `xprt` is a complete connection of `C` that is alive.
    unsafe {
        let xprt = Xprt::<Connected, C>::from_raw(xprt);
        (xprt.base(), xprt.data())
    }
}

/// Implements `xpo_recvfrom`. Thread of the service; the connection is busy; may sleep. Returns the
/// length of the call, or 0.
///
/// # Safety
///
/// SUNRPC calls this with the calling thread's request, which has no call. Its transport is a busy
/// connection of `C`.
unsafe extern "C" fn recvfrom<C: Connection>(rqst: *mut raw::svc_rqst) -> c_int {
    // SAFETY: SUNRPC passes the request of this thread, whose transport is busy and complete, and
    // whose pages `svc_alloc_arg()` has allocated.
    let (xprt, connection, incoming) = unsafe {
        let (xprt, connection) = connection::<C>((*rqst).rq_xprt);
        (xprt, connection, Incoming::new(rqst))
    };
    if !incoming.owns_reply_pages() {
        return incoming.received().nothing().len();
    }
    connection.receive(xprt, incoming).len()
}

/// Implements `xpo_sendto`. Thread of the service; may sleep.
///
/// # Safety
///
/// SUNRPC calls this with the calling thread's request, which has an encoded reply. Its transport
/// is a complete connection of `C`.
unsafe extern "C" fn sendto<C: Connection>(rqst: *mut raw::svc_rqst) -> c_int {
    // SAFETY: SUNRPC passes the request of this thread, whose transport is complete. Its reply is
    // encoded, and its context is that of a call of this connection, or null.
    let (xprt, connection, reply) = unsafe {
        let (xprt, connection) = connection::<C>((*rqst).rq_xprt);
        (xprt, connection, Reply::new(rqst))
    };
    let sent = reply
        .ok_or(EIO)
        .and_then(|reply| connection.send(xprt, reply));
    sent.map_or_else(Error::to_errno, |()| 0)
}

/// Implements `xpo_result_payload`. Thread of the service, which encodes a reply.
///
/// Always returns 0: whether a payload can be sent is decided when the whole reply is encoded. A
/// payload that RPCSEC_GSS wraps is not marked, so it is sent with the rest of the reply.
///
/// # Safety
///
/// SUNRPC calls this with the calling thread's request, whose transport is a complete connection of
/// `C`.
unsafe extern "C" fn result_payload<C: Connection>(
    rqst: *mut raw::svc_rqst,
    offset: c_uint,
    len: c_uint,
) -> c_int {
    // SAFETY: SUNRPC passes the request of this thread, whose transport is complete. The context is
    // that of a call of this connection, which only this thread accesses, or null.
    let (connection, call, flavor) = unsafe {
        let (_, connection) = connection::<C>((*rqst).rq_xprt);
        let call = (*rqst).rq_xprt_ctxt.cast::<C::Call>().as_mut();
        (connection, call, (*rqst).rq_cred.cr_flavor)
    };
    if let Some(call) = call.filter(|_| !wraps_results(flavor)) {
        connection.mark_payload(call, offset, len);
    }
    0
}

/// Returns whether a flavour signs or encrypts results as a whole. Such results have no data item
/// (RFC 8267 section 2).
fn wraps_results(flavor: u32) -> bool {
    use raw::{rpc_auth_flavors_RPC_AUTH_GSS_KRB5I, rpc_auth_flavors_RPC_AUTH_GSS_KRB5P};
    let wrapping = rpc_auth_flavors_RPC_AUTH_GSS_KRB5I..=rpc_auth_flavors_RPC_AUTH_GSS_KRB5P;
    wrapping.contains(&flavor)
}

/// Implements `xpo_release_ctxt` of a listener, whose contexts are null.
///
/// # Safety
///
/// None; it is an operation.
unsafe extern "C" fn no_context(_xprt: *mut raw::svc_xprt, _context: *mut c_void) {}

/// Implements `xpo_release_ctxt`. Process context; may run after `xpo_detach`.
///
/// # Safety
///
/// SUNRPC calls this with a complete connection of `C`, and with null or a context that a call of
/// it passed to SUNRPC.
unsafe extern "C" fn release_ctxt<C: Connection>(xprt: *mut raw::svc_xprt, context: *mut c_void) {
    // SUNRPC also releases the context of a receive that found nothing.
    if context.is_null() {
        return;
    }
    // SAFETY: SUNRPC passes a complete connection. The context is the foreign form of a box that
    // `Arriving::call` passed to SUNRPC, which returns it once.
    let (connection, call) = unsafe {
        let (_, connection) = connection::<C>(xprt);
        (connection, KBox::<C::Call>::from_foreign(context))
    };
    connection.release(call);
}

/// Implements `xpo_detach`. Process context; may sleep.
///
/// # Safety
///
/// SUNRPC calls this with a complete transport of `T`.
unsafe extern "C" fn detach<K, T: Implementation<K>>(xprt: *mut raw::svc_xprt) {
    // SAFETY: SUNRPC passes a complete transport.
    unsafe { Xprt::<K, T>::from_raw(xprt).detach() };
}

/// Implements `xpo_free`. Process context; may sleep.
///
/// # Safety
///
/// SUNRPC calls this with a transport of `T` to which no reference is left.
unsafe extern "C" fn free<K, T: Implementation<K>>(xprt: *mut raw::svc_xprt) {
    // SAFETY: SUNRPC passes a transport to which no reference is left.
    unsafe { Xprt::<K, T>::free(xprt) };
}

/// Implements `xpo_kill_temp_xprt`: the address was removed, and SUNRPC detaches the connection
/// next. No action is needed before that.
///
/// # Safety
///
/// None; it is an operation.
unsafe extern "C" fn kill_temp(_xprt: *mut raw::svc_xprt) {}
