// SPDX-License-Identifier: GPL-2.0

//! Listening: from a request for a connection to one that is ready to be accepted.

use kernel::prelude::*;
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::workqueue::{Work, WorkItem};

use super::chosen::Chosen;
use super::failure::name;
use super::log;
use super::owner;
use super::prepare::Prepared;
use super::ring::Ring;
use super::service::Service;
use super::transport::Server;
use crate::mem::{Net, SockAddr};
use crate::observe::stats::{requester_breach, RequesterBreach};
use crate::rdma::listen::{self, ListenHandler, Lost};
use crate::sunrpc::svc::transport::{ListenArgs, Listener};
use crate::sunrpc::svc::xprt::{Handle, Listening, SvcXprt};

/// The most requests that wait to be prepared, and the most connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// A listener of the service.
#[pin_data]
pub(crate) struct Port {
    addr: SockAddr,
    gate: Arc<Gate>,
}

/// What the connection manager, the worker and the listener share.
#[pin_data]
struct Gate {
    service: Arc<Service>,
    /// The largest payload of the service in bytes.
    max_payload: u32,
    /// Present while the service listens.
    #[pin]
    listener: Mutex<Option<listen::Listener>>,
    #[pin]
    ready: SpinLock<Ready>,
    #[pin]
    work: Work<Gate>,
}

/// Connections that are ready to be accepted.
struct Ready {
    queue: Ring<Prepared>,
    /// The transport, until it is detached.
    xprt: Option<Handle<Listening>>,
}

/// The gate as the connection manager has it.
struct OnRequest {
    gate: Arc<Gate>,
    /// The address that is listened on.
    addr: SockAddr,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Gate { self.work }
}

impl Listener for Port {
    type Connection = Server;
    type Context = Arc<Service>;

    const NAME: &'static CStr = c"rdma";
    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    /// 4 MiB, the limit of SUNRPC.
    const MAX_PAYLOAD: u32 = 4 << 20;

    fn new(args: ListenArgs<'_, Arc<Service>>) -> impl PinInit<Self, Error> {
        let port = Gate::new(&args).and_then(|gate| gate.listen(args.net, &args.addr));
        let parts = port.map(|port| (port.addr, port.gate));
        try_pin_init!(Self {
            addr: parts.as_ref().map_err(|error| *error)?.0,
            gate: parts?.1,
        }? Error)
    }

    fn failed(addr: &SockAddr, error: Error) {
        log::listen_failed(&name(addr), error);
    }

    fn local(&self) -> SockAddr {
        self.addr
    }

    fn next(&self) -> Option<Prepared> {
        let mut ready = self.gate.ready.lock();
        let was_full = ready.queue.is_full();
        let next = ready.queue.pop();
        drop(ready);
        if was_full && next.is_some() {
            // The worker has left requests in the backlog.
            self.gate.request_work();
        }
        next
    }

    fn detach(&self, _xprt: &SvcXprt<Listening>) {
        self.gate.close();
    }
}

impl Gate {
    /// Makes a gate that does not listen. May sleep.
    fn new(args: &ListenArgs<'_, Arc<Service>>) -> Result<Arc<Self>> {
        let ready = Ready {
            queue: Ring::new(BACKLOG)?,
            xprt: Some(args.xprt.handle()),
        };
        Arc::pin_init(
            pin_init!(Self {
                service: args.context.clone(),
                max_payload: args.max_payload,
                listener <- new_mutex!(None, "rpcrdma::Gate::listener"),
                ready <- new_spinlock!(ready, "rpcrdma::Gate::ready"),
                work <- kernel::new_work!("rpcrdma::Gate::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins to listen. May sleep.
    fn listen(self: Arc<Self>, net: &Net, addr: &SockAddr) -> Result<Port> {
        let handler = OnRequest {
            gate: self.clone(),
            addr: *addr,
        };
        let handler = Arc::new(handler, GFP_KERNEL)?;
        let listener =
            listen::Listener::new(net, addr, BACKLOG, handler).inspect_err(|_| self.close())?;
        let addr = listener.local_addr();
        log::listening(&name(&addr), false);
        *self.listener.lock() = Some(listener);
        // A request may have come before the listener was in its place.
        self.request_work();
        Ok(Port { addr, gate: self })
    }

    /// Has a worker drop the connections that have gone, and prepare the requests that are queued.
    /// Does not sleep.
    fn request_work(self: &Arc<Self>) {
        // The queue refuses an item that is queued already, and that one suffices.
        let _ = self.service.workers.kernel().enqueue(self.clone());
    }

    /// Ends listening, and refuses what was not accepted. May sleep.
    fn close(&self) {
        let listener = self.listener.lock().take();
        drop(listener);
        let mut ready = self.ready.lock();
        let dropped = (ready.xprt.take(), ready.queue.take());
        drop(ready);
        drop(dropped);
    }

    /// Queues a connection for a thread of the service. Returns it if the gate is closed. The
    /// caller has found room, and nobody else queues connections.
    fn push(&self, prepared: Prepared) -> Result<(), Prepared> {
        let mut ready = self.ready.lock();
        ready.queue.push(prepared)?;
        if let Some(xprt) = &ready.xprt {
            xprt.connection_arrived();
        }
        Ok(())
    }

    /// Removes and returns a connection that has gone before it was accepted.
    fn next_gone(&self) -> Option<Prepared> {
        self.ready.lock().queue.take_first(Prepared::has_gone)
    }

    /// Returns the oldest request that is worth preparing; `None` if there is none, or no room for
    /// its connection.
    fn next_request(&self) -> Option<listen::Request> {
        if self.ready.lock().queue.is_full() {
            return None;
        }
        let listener = self.listener.lock();
        let listener = listener.as_ref()?;
        loop {
            let request = listener.next()?;
            if !request.has_gone() {
                return Some(request);
            }
        }
    }
}

impl owner::Gate for Gate {
    fn drop_gone(self: Arc<Self>) {
        self.request_work();
    }
}

impl ListenHandler for OnRequest {
    fn request_queued(&self) {
        self.gate.request_work();
    }

    fn refused(&self) {
        requester_breach(RequesterBreach::Backlog);
        log::backlog_full(&name(&self.addr), BACKLOG);
    }

    fn lost(&self, why: Lost) {
        log::listener_lost(&name(&self.addr), why);
    }

    fn restored(&self) {
        log::listening(&name(&self.addr), true);
    }
}

impl WorkItem for Gate {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            // Requests may come without end, and the removal of a device does not wait for them.
            while let Some(gone) = this.next_gone() {
                drop(gone);
            }
            let Some(request) = this.next_request() else {
                break;
            };
            let chosen = Chosen::now(this.max_payload);
            let peer = request.peer_addr();
            match Prepared::new(&this.service, this.clone(), chosen, request) {
                Ok(prepared) => drop(this.push(prepared)),
                Err(failure) => failure.report(&peer),
            }
        }
    }
}
