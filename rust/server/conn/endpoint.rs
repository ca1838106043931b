// SPDX-License-Identifier: GPL-2.0

//! A responder's connection: the state that completions reach, the endpoint that owns the objects,
//! and the reference from the `svc_xprt` to the endpoint.

use core::ops::Deref;

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::{Work, WorkItem};

use super::failure::{Silence, Watch};
use super::listener::Service;
use super::owner::Owner;
use crate::conn::connection::{Connection, Parts};
use crate::conn::lifecycle::Lifecycle;
use crate::conn::registry::{DebugInfo, Registered};
use crate::conn::role::{self, ConnOf, QpOf};
use crate::conn::traced;
use crate::observe::connections::{self, Counts, Credits, Regions, Up};
use crate::observe::trace;
use crate::proto::responder::limits::Limits;
use crate::rdma::device::Name;
use crate::rdma::mr::MrPool;
use crate::rdma::qp::Remote;
use crate::server::call::budget::{Budget, Permit};
use crate::server::call::context::{Calls, EXCESS};
use crate::server::call::in_flight::{Broken, InFlight, Operation, Outgoing};
use crate::server::call::memory::{Spare, PAUSING};
use crate::server::call::queue::ReadyQueue;
use crate::server::config::{Sizes, REGIONS_PER_READ};
use crate::server::quirks::Quirks;
use crate::wire::Segment;

/// The state of a connection that the completion worker and the threads of the service share.
#[pin_data]
pub(crate) struct Responder {
    pub(crate) lifecycle: Arc<Lifecycle<Owner>>,
    /// Messages and calls that wait for a thread of the service.
    pub(crate) ready: Arc<ReadyQueue>,
    /// The calls in progress.
    pub(crate) calls: Arc<Calls>,
    /// The limits of a call.
    pub(crate) limits: Limits,
    /// The number of pages that calls of all connections may use while they are being fetched.
    pub(crate) budget: Arc<Budget>,
    watch: Arc<Watch>,
    #[pin]
    pub(crate) in_flight: InFlight,
    #[pin]
    pub(crate) spare: Spare,
    #[pin]
    pub(crate) quirks: Quirks,
    /// The device, for traces.
    pub(crate) device: Name,
    /// The sizes of the connection.
    sizes: Sizes,
    /// The connection is being closed because of a breach by the requester.
    pub(crate) breached: AtomicFlag,
    /// The credits that the requester requests, if it may have no other Receives. A requester that
    /// has Receives for operations counts as requesting the maximum.
    pub(crate) requested: Atomic<u32>,
}

/// The state of a responder's connection that completions reach.
pub(crate) type Conn = ConnOf<Responder>;
/// The queue pair of a responder's connection.
pub(crate) type QueuePair = QpOf<Responder>;
/// A message from the requester.
pub(crate) type Incoming<'a> = role::Incoming<'a, Responder>;

impl Responder {
    /// Makes the responder's state of a connection whose calls wait in `ready`. `regions` are for
    /// RDMA Reads, if the device needs them. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        sizes: Sizes,
        service: &Service,
        ready: Arc<ReadyQueue>,
        lifecycle: Arc<Lifecycle<Owner>>,
        device: Name,
        regions: Option<Arc<MrPool>>,
    ) -> Result<impl PinInit<Self> + use<>> {
        let credits = sizes.queues.credits;
        let (operations, most) = in_use(&sizes, sizes.queues.receives);
        let calls = Calls::new(credits, service.budget.total)?;
        let spare = Spare::new(regions, REGIONS_PER_READ * sizes.limits.read_wrs);
        let in_flight = InFlight::new(operations, most, sizes.queues.send_wr, calls.clone())?;
        let (limits, budget) = (sizes.limits, service.budget.clone());
        let watch = service.watch.clone();
        Ok(pin_init!(Self {
            lifecycle,
            ready,
            calls,
            limits,
            budget,
            watch,
            in_flight <- in_flight,
            spare <- spare,
            quirks <- Quirks::new(),
            device,
            sizes,
            breached: AtomicFlag::new(false),
            requested: Atomic::new(u32::MAX),
        }))
    }

    /// Makes the tables of calls and operations large enough for `receives` Receives. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[cold]
    pub(crate) fn grow_tables(&self, receives: u32) -> Result {
        let (operations, calls) = in_use(&self.sizes, receives);
        self.in_flight.grow(operations, calls)?;
        self.ready.grow(receives, calls)
    }

    /// Returns a permit without pages of the budget.
    pub(crate) fn permit(&self) -> Permit {
        Permit::new(&self.budget, &self.ready)
    }

    /// Takes more pages of the budget, until `permit` has `pages`. Returns false if they are in
    /// use.
    #[inline(always)]
    pub(crate) fn grow(&self, permit: &mut Permit, pages: usize) -> bool {
        permit.grow(pages, || self.pages_used())
    }

    /// Resumes the queue of the connection when `pages` pages are free.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn wait_for_pages(&self, pages: usize) -> Result {
        let used = |must_return| {
            if must_return {
                self.watch.free_kept();
            }
            self.pages_used()
        };
        self.budget.wait(pages, used, &self.ready)
    }

    /// Returns how many pages the requester keeps from others. The pages of its fetches count if
    /// others wait for pages, those of its replies (in units) if it has more than it leaves, and
    /// both while a thread waits for space in the DMA layer; `None` if neither counts. A fetched
    /// call waits for a thread of the service, and not for the requester.
    pub(crate) fn hoard(&self) -> Option<usize> {
        let (load, kept) = (&self.calls.load, self.pages_kept());
        let paused = PAUSING.load(Relaxed) != 0;
        let short = paused || (kept != 0 && self.budget.is_short_beside(&self.ready));
        let loaded = paused || !load.leaves_enough();
        let pages = [short.then_some(kept), loaded.then(|| load.pages())];
        pages.into_iter().flatten().reduce(|kept, sent| kept + sent)
    }

    /// Returns the pages that the connection keeps, and then how many pages of the budget it uses.
    /// Counts each operation.
    #[cold]
    fn pages_used(&self) -> usize {
        self.calls.free_kept();
        self.ready.pages() + self.pages_kept()
    }

    /// Returns how many pages of the budget the connection uses for operations that wait for the
    /// requester.
    #[cold]
    fn pages_kept(&self) -> usize {
        self.in_flight.pages() + self.quirks.pages()
    }
}

/// Returns the operations that may be in flight, and the calls that may be in progress, while a
/// connection has `receives` Receives.
pub(super) fn in_use(sizes: &Sizes, receives: u32) -> (u32, u32) {
    let calls = receives.min(sizes.queues.credits);
    (2 * calls, calls + EXCESS)
}

/// Traces that the memory for `len` bytes of the requester's memory could not be mapped.
#[cold]
pub(crate) fn unmapped(qp: &QueuePair, remote: Remote, len: u32, error: Error) {
    let segment = Segment {
        handle: remote.rkey,
        length: len,
        offset: remote.addr,
    };
    // CAST: a small constant.
    let pages = len.div_ceil(PAGE_SIZE as u32);
    trace::server::dma_map_rw_err(qp.cq_id(), &segment, pages, error.to_errno());
}

/// Frees the pages of all replies that are known to have been sent.
#[inline(always)]
pub(crate) fn free_sent(conn: &Conn, qp: &QueuePair) {
    let room = conn.role().in_flight.free_sent(|number, source| {
        let cid = traced::cid(qp, number);
        trace::server::wc_send(cid);
        trace::server::cc_release(cid, source.work_requests());
    });
    if room {
        conn.owner().room_regained();
    }
}

/// Posts parked operations, if any: they may be waiting for a slot.
pub(crate) fn resume_parked(conn: &Conn, qp: &QueuePair) {
    if conn.role().calls.load.has_parked() {
        resume(conn, qp);
    }
}

/// Posts parked operations while there is space.
#[cold]
pub(crate) fn resume(conn: &Conn, qp: &QueuePair) {
    posted(conn, conn.role().in_flight.resume(qp));
}

/// Announces that the connection accepts replies again, if parked operations were posted; or closes
/// the connection.
#[inline(always)]
pub(crate) fn posted(conn: &Conn, result: Result<bool, Broken>) {
    match result {
        Ok(false) => {}
        Ok(true) => conn.owner().room_regained(),
        Err(Broken) => conn.force_close(),
    }
}

/// A responder's connection. The endpoint is separate from the `svc_xprt`: when SUNRPC detaches the
/// transport, a worker closes the connection, so that a device can be removed while the service is
/// still processing calls. No thread of the service waits for that worker, which may wait for the
/// device, the connection manager or the requester for long; SUNRPC may free the transport before.
#[pin_data]
pub(crate) struct Endpoint {
    #[pin]
    conn: Connection<Responder>,
    /// How long the requester has been silent. Only the watch changes the value.
    #[pin]
    pub(crate) silence: SpinLock<Silence>,
    /// The debugfs entry, from when the connection is accepted until it is closed.
    #[pin]
    pub(super) registered: SpinLock<Option<Registered>>,
    #[pin]
    close: Work<Endpoint>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Endpoint { self.close }
}

impl Deref for Endpoint {
    type Target = Connection<Responder>;

    fn deref(&self) -> &Connection<Responder> {
        &self.conn
    }
}

impl Endpoint {
    /// Makes an endpoint of the parts of a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(parts: Parts<Responder>) -> Result<Arc<Self>> {
        Arc::try_pin_init(
            try_pin_init!(Self {
                conn <- Connection::new(parts),
                silence <- new_spinlock!(Silence::default(), "rpcrdma::Endpoint::silence"),
                registered <- new_spinlock!(None, "rpcrdma::Endpoint::registered"),
                close <- kernel::new_work!("rpcrdma::Endpoint::close"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the responder's part of the connection.
    pub(crate) fn role(&self) -> &Responder {
        self.shared().role()
    }

    /// Closes the connection. Then drops all messages and calls that were not received, and all
    /// operations: a message keeps the device, and the owner of the connection with it. May sleep.
    pub(super) fn end(&self) {
        self.close();
        // A thread of the service may also close the client transport.
        self.shared().owner().end_backchannel();
        let role = self.role();
        role.ready.clear();
        role.in_flight.clear();
        role.quirks.clear();
        role.spare.clear();
    }

    /// Posts a message, now or when there is space on the send queue, or closes the connection.
    /// Does not sleep.
    #[inline(always)]
    pub(crate) fn send(&self, out: Outgoing) {
        let in_flight = &self.role().in_flight;
        posted(
            self.shared(),
            in_flight.start(self.qp(), Operation::Reply(out)),
        );
    }
}

impl DebugInfo for Endpoint {
    fn show(&self) -> Up {
        let role = self.role();
        let (granted, used) = role.calls.credits();
        let (read, write) = role.in_flight.under_way();
        let regions = role.spare.regions();
        Up {
            credits: Credits {
                limit: role.sizes.queues.credits,
                granted,
                used,
            },
            calls: connections::Calls {
                inline: used.saturating_sub(read),
                read,
                write,
                ..connections::Calls::default()
            },
            regions: regions.map_or_else(Regions::default, |pool| pool.counts().into()),
            silent: self.silence.lock().silent,
            ..self.describe()
        }
    }

    fn counts(&self) -> Counts {
        self.shared().tally().counts()
    }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // No reader uses the connection once it is closed.
        let registered = this.registered.lock().take();
        drop(registered);
        this.end();
    }
}

/// The connection of a transport, from when it is accepted until it is closed.
///
/// A thread of the service detaches a transport, but all threads may be busy. The removal of a
/// device does not wait for that: it orders the close of the connection itself.
#[pin_data]
pub(crate) struct Accepted {
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    pub(super) service: Arc<Service>,
}

impl Accepted {
    /// Makes the value without a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(service: &Arc<Service>) -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            endpoint <- new_spinlock!(None, "rpcrdma::Accepted::endpoint"),
            service: service.clone(),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Returns the connection, unless it is being closed.
    pub(crate) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// Sets the connection.
    pub(crate) fn set(&self, ep: Arc<Endpoint>) {
        *self.endpoint.lock() = Some(ep);
    }

    /// Makes a worker close the connection, unless that was ordered before. May sleep.
    pub(crate) fn give_up(&self) {
        let taken = self.endpoint.lock().take();
        if let Some(ep) = taken {
            self.service.watch.remove(&ep);
            // SUNRPC frees the transport, which nobody needs any more, without waiting for the
            // worker. A thread that waits for pages from now on finds no transport.
            ep.role().ready.set_xprt(None);
            ep.role().budget.forget(&ep.role().ready);
            // Nobody else reaches these pages now, and the queue pair may take long to drain.
            ep.role().calls.clear();
            // The queue refuses an item that is queued already. That item suffices.
            let _ = self.service.workers.kernel().enqueue(ep);
        }
    }
}
