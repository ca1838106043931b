// SPDX-License-Identifier: GPL-2.0

//! The operations of a listener and of a connection that SUNRPC calls.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::call::context::{Call, Calls};
use super::conn::accept::Prepared;
use super::conn::endpoint::{Accepted, Endpoint};
use super::conn::failure::name;
use super::conn::listener::{Listener, Service};
use super::recv::recvfrom;
use super::{log, send};
use crate::compat::code::ENOTCONN;
use crate::mem::SockAddr;
use crate::sunrpc::svc::receive::{Incoming, Receipt};
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::svc::transport::{self, AcceptArgs, Connection, ListenArgs};
use crate::sunrpc::svc::xprt::{Connected, Listening, SvcXprt};

impl transport::Listener for Listener {
    type Connection = Server;
    type Context = Arc<Service>;

    const NAME: &'static CStr = c"rdma";
    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    /// 4 MiB, the limit of SUNRPC.
    const MAX_PAYLOAD: u32 = 4 << 20;

    fn new(args: ListenArgs<'_, Arc<Service>>) -> impl PinInit<Self, Error> {
        Listener::new(&args)
    }

    fn failed(addr: &SockAddr, error: Error) {
        log::listen_failed(&name(addr), error);
    }

    fn local(&self) -> SockAddr {
        self.addr
    }

    fn next(&self) -> Option<Prepared> {
        Listener::next(self)
    }

    fn detach(&self, _xprt: &SvcXprt<Listening>) {
        self.close();
    }
}

/// A connected transport of the service.
#[pin_data]
pub(crate) struct Server {
    local: SockAddr,
    /// The peer's address without the port, which changes with each connection.
    remote: SockAddr,
    accepted: Arc<Accepted>,
    calls: Arc<Calls>,
}

impl Server {
    /// Returns the connection, unless it is being closed.
    pub(crate) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.accepted.endpoint()
    }
}

impl Connection for Server {
    type Request = Prepared;
    type Call = Call;

    fn new(request: Prepared, args: AcceptArgs<'_>) -> impl PinInit<Self, Error> {
        let (local, remote) = (request.local(), request.remote());
        let calls = request.calls();
        let net = args.net.cookie();
        try_pin_init!(Self {
            local,
            remote,
            calls,
            // This is the last step, because nothing may fail after the connection has been
            // accepted.
            accepted: request.accept(args.xprt, net)?,
        }? Error)
    }

    fn local(&self) -> SockAddr {
        self.local
    }

    fn remote(&self) -> SockAddr {
        self.remote
    }

    fn has_room(&self, busy: u32) -> bool {
        self.calls.load.has_room(busy)
    }

    fn receive<'a>(&self, _xprt: &SvcXprt<Connected>, incoming: Incoming<'a, Call>) -> Receipt<'a> {
        let Some(ep) = self.endpoint() else {
            incoming.mark_empty();
            return incoming.received().nothing();
        };
        recvfrom::receive(&ep, incoming)
    }

    #[inline(always)]
    fn mark_payload(&self, call: &mut Call, offset: u32, len: u32) {
        call.mark(offset, len);
    }

    fn send(&self, _xprt: &SvcXprt<Connected>, mut reply: Reply<'_, Call>) -> Result {
        send::disown_truncated(&mut reply);
        let ep = self.endpoint().ok_or(ENOTCONN)?;
        send::reply(&ep, reply)
    }

    fn release(&self, call: KBox<Call>) {
        self.calls.put(call);
    }

    fn detach(&self, _xprt: &SvcXprt<Connected>) {
        self.accepted.give_up();
    }
}
