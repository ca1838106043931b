// SPDX-License-Identifier: GPL-2.0

//! A connection as the service sees it.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::accepted::Accepted;
use super::call::Call;
use super::calls::Calls;
use super::endpoint::Endpoint;
use super::owner::Place as _;
use super::prepare::Prepared;
use super::receiver::Receiver;
use super::{intake, reply};
use crate::mem::SockAddr;
use crate::sunrpc::svc::receive::{Incoming, Receipt};
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::svc::transport::{AcceptArgs, Connection};
use crate::sunrpc::svc::xprt::{Connected, SvcXprt};

/// The most replies that may wait for the send queue before the service takes no more calls.
const MOST_PARKED: u32 = 16;

/// One RDMA transport of the service.
#[pin_data]
pub(crate) struct Server {
    local: SockAddr,
    /// The peer's address without its port, which changes with each connection.
    remote: SockAddr,
    accepted: Arc<Accepted>,
    calls: Arc<Calls>,
}

impl Server {
    /// Returns the connection, unless it was given up.
    #[inline]
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.accepted.endpoint()
    }
}

impl Connection for Server {
    type Request = Prepared;
    type Call = Call;

    fn new(request: Prepared, args: AcceptArgs<'_>) -> impl PinInit<Self, Error> {
        let (local, remote) = (request.local(), request.remote());
        let calls = request.calls();
        let (net, xprt) = (args.net.cookie(), args.xprt.handle());
        try_pin_init!(Self {
            local,
            remote,
            calls,
            // The last step: once the connection is accepted, nothing may fail.
            accepted: request.accept(xprt, net)?,
        }? Error)
    }

    fn local(&self) -> SockAddr {
        self.local
    }

    fn remote(&self) -> SockAddr {
        self.remote
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.calls.parked() < MOST_PARKED
    }

    #[inline]
    fn receive<'a>(&self, _xprt: &SvcXprt<Connected>, incoming: Incoming<'a, Call>) -> Receipt<'a> {
        let Some(ep) = self.endpoint() else {
            incoming.mark_empty();
            return incoming.received().nothing();
        };
        intake::receive(&Receiver { ep: &ep }, incoming)
    }

    #[inline]
    fn mark_payload(&self, call: &mut Call, offset: u32, len: u32) {
        call.mark(offset, len);
    }

    #[inline]
    fn send(&self, _xprt: &SvcXprt<Connected>, mut reply: Reply<'_, Call>) -> Result {
        reply::disown_truncated(&mut reply);
        let ep = self.endpoint().ok_or(ENOTCONN)?;
        reply::send(&ep, reply)
    }

    #[inline]
    fn release(&self, call: KBox<Call>) {
        self.calls.put(call);
    }

    fn detach(&self, _xprt: &SvcXprt<Connected>) {
        self.accepted.give_up();
    }
}
