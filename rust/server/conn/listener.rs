// SPDX-License-Identifier: GPL-2.0

//! Listeners: from a connection request to a connection that is ready to be accepted; and the state
//! that all listeners and connections share.

use kernel::prelude::*;
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{Work, WorkItem};

use super::accept::Prepared;
use super::failure::{name, Watch, INTERVAL_MS};
use crate::conn::registry::Registry;
use crate::mem::{self, SockAddr};
use crate::observe::stats::{requester_breach, RequesterBreach};
use crate::rdma::device::Registration;
use crate::rdma::listen::{self, ListenEvent};
use crate::server::call::budget::Budget;
use crate::server::call::queue::Ring;
use crate::server::config::{ConnConfig, TRAFFIC_CLASS};
use crate::server::log;
use crate::sunrpc::svc::transport::ListenArgs;
use crate::sunrpc::svc::xprt::{Handle, Listening};
use crate::work::{Queue, Ticker};

/// The maximum number of requests that wait to be prepared, and of connections that wait to be
/// accepted.
const BACKLOG: u32 = 64;

/// The divisor that yields the share of the memory for calls that are being fetched, and for pages
/// that connections keep for such calls.
const BUDGET_SHARE: usize = 16;

/// The state that all listeners and connections of the module share.
pub(crate) struct Service {
    pub(crate) devices: Arc<Registration>,
    /// The number of pages that calls which are being fetched may use.
    pub(crate) budget: Arc<Budget>,
    /// Makes and closes connections. The queue is emptied before the module is unloaded.
    pub(crate) workers: Queue,
    pub(crate) watch: Arc<Watch>,
    pub(crate) connections: Arc<Registry>,
}

/// The owner of the [`Service`]. Dropping the owner ends the ticker, and then waits for the
/// workers. Otherwise one of them could drop the last reference to the service, and no worker can
/// wait for itself.
pub(crate) struct ServiceOwner {
    _ticker: Ticker,
    service: Served,
}

/// The service, which no ticker uses.
struct Served(Arc<Service>);

impl ServiceOwner {
    /// Makes the service. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(devices: Arc<Registration>, connections: Arc<Registry>) -> Result<Self> {
        let watch = Arc::pin_init(Watch::new(), GFP_KERNEL)?;
        let budget = Budget::new(mem::total_pages() / BUDGET_SHARE)?;
        let (watched, offered) = (watch.clone(), budget.clone());
        let service = Service {
            devices,
            budget,
            workers: Queue::reliable(c"rpcrdma", c"server")?,
            watch,
            connections,
        };
        let service = Served(Arc::new(service, GFP_KERNEL)?);
        let interval = msecs_to_jiffies(INTERVAL_MS);
        let ticker = Ticker::new(interval, move || {
            watched.check_all();
            offered.offer_again();
        })?;
        Ok(Self {
            _ticker: ticker,
            service,
        })
    }

    /// Returns the service, for the registration of the class.
    pub(crate) fn service(&self) -> Arc<Service> {
        self.service.0.clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.workers.flush();
    }
}

/// A listening transport of the service.
pub(crate) struct Listener {
    /// The address, with the port.
    pub(crate) addr: SockAddr,
    state: Arc<ListenerState>,
}

/// The state that the connection manager, the worker and the transport share.
#[pin_data]
pub(crate) struct ListenerState {
    service: Arc<Service>,
    /// The largest payload of the service in bytes.
    max_payload: u32,
    /// Present while the service listens.
    #[pin]
    listener: Mutex<Option<listen::Listener>>,
    #[pin]
    backlog: SpinLock<Backlog>,
    #[pin]
    work: Work<ListenerState>,
}

/// Connections that are ready to be accepted.
struct Backlog {
    queue: Ring<Prepared>,
    /// The transport, until it is detached.
    xprt: Option<Handle<Listening>>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for ListenerState { self.work }
}

impl Listener {
    /// Begins to listen. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`listen::Listener::new`]; `ENOMEM`.
    pub(crate) fn new(args: &ListenArgs<'_, Arc<Service>>) -> Result<Self> {
        let state = ListenerState::new(args)?;
        let (to, addr) = (state.clone(), args.addr);
        let handler = Arc::new(move |event| to.on(&addr, event), GFP_KERNEL)?;
        let class = TRAFFIC_CLASS.byte();
        let listener = listen::Listener::new(args.net, &args.addr, class, BACKLOG, handler)
            .inspect_err(|_| state.close())?;
        let addr = listener.local_addr();
        log::listening(&name(&addr), false);
        *state.listener.lock() = Some(listener);
        // A request may have arrived before the listener was stored.
        state.request_work();
        Ok(Self { addr, state })
    }

    /// Removes and returns the oldest connection that is ready to be accepted.
    pub(crate) fn next(&self) -> Option<Prepared> {
        let mut backlog = self.state.backlog.lock();
        let was_full = backlog.queue.room() == 0;
        let next = backlog.queue.pop();
        drop(backlog);
        if was_full && next.is_some() {
            // The worker has left requests in the queue of the connection manager's listener.
            self.state.request_work();
        }
        next
    }

    /// Stops listening. May sleep.
    pub(crate) fn close(&self) {
        self.state.close();
    }
}

impl ListenerState {
    /// Makes the state of a listener that does not listen. May sleep.
    fn new(args: &ListenArgs<'_, Arc<Service>>) -> Result<Arc<Self>> {
        let backlog = Backlog {
            queue: Ring::new(BACKLOG)?,
            xprt: Some(args.xprt.handle()),
        };
        Arc::pin_init(
            pin_init!(Self {
                service: args.context.clone(),
                max_payload: args.max_payload,
                listener <- new_mutex!(None, "rpcrdma::ListenerState::listener"),
                backlog <- new_spinlock!(backlog, "rpcrdma::ListenerState::backlog"),
                work <- kernel::new_work!("rpcrdma::ListenerState::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes a worker drop the connections that are gone, and prepare the queued requests. Does not
    /// sleep.
    pub(super) fn request_work(self: &Arc<Self>) {
        // The queue refuses an item that is queued already. That item suffices.
        let _ = self.service.workers.kernel().enqueue(self.clone());
    }

    /// Handles an event of the connection manager's listener on `addr`. Does not sleep.
    fn on(self: &Arc<Self>, addr: &SockAddr, event: ListenEvent) {
        match event {
            ListenEvent::RequestQueued => self.request_work(),
            ListenEvent::Refused => {
                requester_breach(RequesterBreach::Backlog);
                log::backlog_full(&name(addr), BACKLOG);
            }
            ListenEvent::Lost(why) => log::listener_lost(&name(addr), why),
            ListenEvent::Restored => log::listening(&name(addr), true),
        }
    }

    /// Stops listening, and refuses the connections that were not accepted. May sleep.
    fn close(&self) {
        let listener = self.listener.lock().take();
        drop(listener);
        let mut backlog = self.backlog.lock();
        // The connections are dropped without the lock.
        let _dropped = (backlog.xprt.take(), backlog.queue.take());
        drop(backlog);
    }

    /// Queues a connection for a thread of the service. Returns the connection if the listener is
    /// closed. The caller has found space, and no other context queues connections.
    fn push(&self, prepared: Prepared) -> Result<(), Prepared> {
        let mut backlog = self.backlog.lock();
        backlog.queue.push(prepared)?;
        if let Some(xprt) = &backlog.xprt {
            xprt.connection_arrived();
        }
        Ok(())
    }

    /// Removes and returns a connection that ended before it was accepted.
    fn next_gone(&self) -> Option<Prepared> {
        self.backlog.lock().queue.take_first(Prepared::has_gone)
    }

    /// Returns the oldest request that is worth preparing; `None` if there is none, or no space
    /// for its connection.
    fn next_request(&self) -> Option<listen::Request> {
        if self.backlog.lock().queue.room() == 0 {
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

impl WorkItem for ListenerState {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            // Requests may arrive endlessly, and the removal of a device does not wait for them.
            while let Some(gone) = this.next_gone() {
                drop(gone);
            }
            let Some(request) = this.next_request() else {
                break;
            };
            let config = ConnConfig::sample(this.max_payload);
            let peer = request.peer_addr();
            match Prepared::new(&this.service, this.clone(), config, request) {
                Ok(prepared) => drop(this.push(prepared)),
                Err(failure) => failure.report(&peer),
            }
        }
    }
}
