// SPDX-License-Identifier: GPL-2.0

//! A connection as the service sees it.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::call::Call;
use super::calls::Calls;
use super::endpoint::Endpoint;
use super::prepare::Prepared;
use super::receiver::Receiver;
use super::service::Service;
use super::{intake, reply};
use crate::conn::registry::Enrolled;
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
    /// The connection, until it is detached.
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    /// The entry that shows the connection, as long as there is one.
    #[pin]
    enrolled: SpinLock<Option<Enrolled>>,
    calls: Arc<Calls>,
    service: Arc<Service>,
}

impl Server {
    /// Returns the connection, unless it was detached.
    #[inline]
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }
}

impl Connection for Server {
    type Request = Prepared;
    type Call = Call;

    fn new(request: Prepared, args: AcceptArgs<'_>) -> impl PinInit<Self, Error> {
        let (local, remote) = (request.local(), request.remote());
        let (service, calls) = (request.service(), request.calls());
        let (net, xprt) = (args.net.cookie(), args.xprt.handle());
        try_pin_init!(Self {
            local,
            remote,
            calls,
            service,
            enrolled <- new_spinlock!(request.enrol(net), "rpcrdma::Server::enrolled"),
            // The last step: once the connection is accepted, nothing may fail.
            endpoint <- {
                let endpoint = request.accept(xprt)?;
                new_spinlock!(Some(endpoint), "rpcrdma::Server::endpoint")
            },
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
    fn send(&self, _xprt: &SvcXprt<Connected>, reply: Reply<'_, Call>) -> Result {
        let ep = self.endpoint().ok_or(ENOTCONN)?;
        reply::send(&ep, reply)
    }

    #[inline]
    fn release(&self, call: KBox<Call>) {
        self.calls.put(call);
    }

    fn detach(&self, _xprt: &SvcXprt<Connected>) {
        // No reader uses the connection any more when it is closed.
        let enrolled = self.enrolled.lock().take();
        drop(enrolled);
        let endpoint = self.endpoint.lock().take();
        if let Some(ep) = endpoint {
            self.service.watch.remove(&*ep);
            self.service.budget.forget(&*ep);
            Endpoint::close_later(ep, &self.service);
        }
    }
}
