// SPDX-License-Identifier: GPL-2.0

//! The traits that a server transport implements.

use kernel::prelude::*;

use super::receive::{Incoming, Receipt};
use super::reply::Reply;
use super::xprt::{Connected, Listening, SvcXprt};
use crate::mem::{Net, SockAddr};

/// Arguments of [`Listener::new`].
pub(crate) struct ListenArgs<'a, C> {
    /// The address to listen at. A wildcard address means this family only.
    pub(crate) addr: SockAddr,
    pub(crate) net: &'a Net,
    /// The value that was given to [`register`](super::register).
    pub(crate) context: &'a C,
    /// Maximum number of payload bytes that the service allows in one RPC.
    pub(crate) max_payload: u32,
    /// The new transport, for a [`handle`](SvcXprt::handle).
    pub(crate) xprt: &'a SvcXprt<Listening>,
}

/// Arguments of [`Connection::new`].
pub(crate) struct AcceptArgs<'a> {
    pub(crate) net: &'a Net,
    /// The new transport, for a [`handle`](SvcXprt::handle).
    pub(crate) xprt: &'a SvcXprt<Connected>,
}

/// A port at which connections arrive, and its class.
///
/// SUNRPC calls all methods in process context, and they may sleep. [`Self::new`] runs on the task
/// that configures the service, which holds a mutex of the service. [`Self::next`] runs on a thread
/// of the service, one at a time for each listener.
///
/// Requests that are still queued are dropped with the listener; dropping one refuses it.
///
/// # Examples
///
/// ```ignore
/// impl Listener for Null {
///     type Connection = Dialogue;
///     /// Whether listening fails.
///     type Context = bool;
///
///     const NAME: &'static CStr = c"rdma";
///     /// `XPRT_TRANSPORT_RDMA`.
///     const IDENT: i32 = 256;
///     const MAX_PAYLOAD: u32 = 65536;
///     // ...
///     fn next(&self) -> Option<Request> {
///         self.requests.lock().pop()
///     }
///     // ...
/// }
/// ```
pub(crate) trait Listener: Send + Sync + Sized + 'static {
    /// The connections of this class.
    type Connection: Connection;

    /// The value shared by all listeners of the class.
    type Context: Send + Sync + 'static;

    /// Name of the class, as in `/proc/fs/nfsd/portlist`.
    const NAME: &'static CStr;
    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;
    /// Maximum number of payload bytes of one RPC.
    const MAX_PAYLOAD: u32;

    /// Starts to listen at an address.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` if the transport does not support the address's family, which the service
    /// tolerates for IPv6; any other error reaches the user that requested the listener.
    fn new(args: ListenArgs<'_, Self::Context>) -> impl PinInit<Self, Error>;

    /// Reports that there is no listener at an address, because [`Self::new`] or an allocation
    /// failed.
    fn failed(_addr: &SockAddr, _error: Error) {}

    /// Returns the address at which it listens, with the port.
    fn local(&self) -> SockAddr;

    /// Removes and returns the oldest request for a connection. The listener called
    /// [`SvcXprt::connection_arrived`] after it queued the request.
    fn next(&self) -> Option<<Self::Connection as Connection>::Request>;

    /// Stops listening. Called once, and before the listener is dropped. Causes all handles of
    /// `xprt` to be dropped.
    fn detach(&self, xprt: &SvcXprt<Listening>);
}

/// A connection.
///
/// Contexts of the methods:
///
/// - [`new`](Self::new): a thread of the service; may sleep.
/// - [`has_room`](Self::has_room): any context that enqueues the transport, also softirq. It only
///   reads atomics.
/// - [`receive`](Self::receive): a thread of the service, one at a time until
///   [`Incoming::received`]; may sleep.
/// - [`mark_payload`](Self::mark_payload) and [`send`](Self::send): threads of the service,
///   possibly several at once and concurrently with `detach`; may sleep.
/// - [`release`](Self::release): a thread of the service or a worker of a cache, also after
///   `detach`; may sleep.
/// - [`detach`](Self::detach): a thread of the service or the task that shuts it down; may sleep.
///
/// # Examples
///
/// ```ignore
/// impl Connection for Dialogue {
///     type Request = Request;
///     type Call = Context;
///     // ...
///     fn receive<'a>(
///         &self,
///         _xprt: &SvcXprt<Connected>,
///         incoming: Incoming<'a, Context>,
///     ) -> Receipt<'a> {
///         let Some(step) = self.pop(&incoming) else {
///             return incoming.received().nothing();
///         };
///         // ...
///     }
///     // ...
/// }
/// ```
pub(crate) trait Connection: Send + Sync + Sized + 'static {
    /// A request for a connection, as [`Listener::next`] returns it. Dropping it refuses the
    /// connection.
    type Request: Send;

    /// The context of a call, which the connection keeps until the reply is sent.
    type Call: Send + 'static;

    /// Creates the connection.
    ///
    /// # Errors
    ///
    /// Any; after an error the connection is not established.
    fn new(request: Self::Request, args: AcceptArgs<'_>) -> impl PinInit<Self, Error>;

    /// Returns the address at which the peer reached this host.
    fn local(&self) -> SockAddr;

    /// Returns the peer's address. The duplicate reply cache compares it, so it must not change
    /// when the same peer reconnects: a port that the peer does not choose must be 0.
    fn remote(&self) -> SockAddr;

    /// Returns whether the connection can accept a reply. `busy` is the number of its calls that
    /// threads of the service have, with that of a thread that looks for a call. When the result
    /// becomes true again with the same number, the connection must call
    /// [`SvcXprt::room_regained`].
    fn has_room(&self, busy: u32) -> bool;

    /// Receives a call, if there is one.
    fn receive<'a>(
        &self,
        xprt: &SvcXprt<Connected>,
        incoming: Incoming<'a, Self::Call>,
    ) -> Receipt<'a>;

    /// Marks `len` bytes of the reply from `offset` on as a payload. The offset does not count
    /// bytes that Kerberos adds.
    ///
    /// A payload cannot be refused here, because the service has produced the data. If it cannot be
    /// sent, [`Self::send`] answers with an error.
    fn mark_payload(&self, call: &mut Self::Call, offset: u32, len: u32);

    /// Sends a reply.
    ///
    /// # Errors
    ///
    /// Any; SUNRPC only traces it.
    fn send(&self, xprt: &SvcXprt<Connected>, reply: Reply<'_, Self::Call>) -> Result;

    /// Releases the context of a call that was answered, dropped or aborted.
    fn release(&self, call: KBox<Self::Call>);

    /// Disconnects. Called once, and before the connection is dropped. Causes all handles of `xprt`
    /// to be dropped soon.
    fn detach(&self, xprt: &SvcXprt<Connected>);
}
