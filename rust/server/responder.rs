// SPDX-License-Identifier: GPL-2.0

//! The responder's part of a connection.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::budget::Budget;
use super::call::Call;
use super::calls::{self, Calls};
use super::configured::Configured;
use super::exposed::Exposures;
use super::flights::Flights;
use super::owner::Owner;
use super::ring::Ring;
use super::service::Service;
use super::sizes::Sizes;
use super::spare::Spare;
use crate::conn::lifecycle::Lifecycle;
use crate::conn::role::{self, ConnOf, QpOf};
use crate::mem::PagePool;
use crate::observe::trace;
use crate::proto::responder::limits::Limits;
use crate::rdma::device::Name;
use crate::rdma::mr::MrPool;
use crate::rdma::qp::Remote;
use crate::rdma::recv::Held;
use crate::wire::Segment;
use crate::work::Once;

/// What the completion worker and the threads of the service share of a connection.
#[pin_data]
pub(crate) struct Responder {
    pub(super) lifecycle: Arc<Lifecycle<Owner>>,
    #[pin]
    arrivals: SpinLock<Arrivals>,
    /// Whether `arrivals` is starved, or the requester bounds the RDMA Reads, for readers without
    /// the lock.
    starved: Atomic<bool>,
    /// The calls in progress.
    pub(super) calls: Arc<Calls>,
    /// What a call may ask for.
    pub(super) limits: Limits,
    /// Pages for calls that are being fetched, of all connections.
    pub(super) pages: Arc<PagePool>,
    /// How many pages such calls may use.
    pub(super) budget: Arc<Budget>,
    #[pin]
    pub(super) flights: Flights,
    #[pin]
    pub(super) spare: Spare,
    /// The replies that are exposed as read chunks.
    #[pin]
    pub(super) exposures: Exposures,
    /// The device, for traces.
    pub(super) device: Name,
    /// The most credits that the requester may be granted.
    pub(super) credits: u32,
    /// The connection is being closed because of what the requester did.
    pub(super) breached: AtomicFlag,
    /// The credits that a requester asks for which may have no other Receives. A requester that has
    /// Receives for operations counts as one with the most credits.
    pub(super) requested: Atomic<u32>,
    /// The inline threshold that the session was told last, in bytes.
    pub(super) inline: Atomic<u32>,
    /// What the client has said by the Connection Configuration Protocol.
    pub(super) configured: Configured,
}

/// What a thread of the service is to receive.
pub(super) enum Arrival {
    /// A message.
    Message(Held),
    /// A call whose RDMA Reads have completed.
    Whole(KBox<Call>),
}

struct Arrivals {
    messages: Ring<Held>,
    whole: Ring<KBox<Call>>,
    /// The oldest message is a call for which there are no pages, or no memory regions.
    starved: bool,
}

impl Arrivals {
    /// Returns the number of pages of the budget that calls use.
    fn pages(&self) -> usize {
        self.whole.iter().map(|call| call.pages()).sum()
    }
}

/// The state of a responder's connection that completions reach.
pub(crate) type Conn = ConnOf<Responder>;
/// The queue pair of a responder's connection.
pub(crate) type QueuePair = QpOf<Responder>;
/// A message from the requester.
pub(super) type Incoming<'a> = role::Incoming<'a, Responder>;

impl Responder {
    /// Makes the responder's part of a connection. `regions` are for RDMA Reads, where the device
    /// needs them. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        sizes: &Sizes,
        service: &Service,
        lifecycle: Arc<Lifecycle<Owner>>,
        device: Name,
        regions: Option<Arc<MrPool>>,
    ) -> Result<impl PinInit<Self> + use<>> {
        let credits = sizes.queues.credits;
        let most = credits + calls::SPARE;
        let arrivals = Arrivals {
            messages: Ring::new(sizes.queues.receives_max)?,
            // An excess ends the connection, so no more calls are fetched at a time.
            whole: Ring::new(most)?,
            starved: false,
        };
        let calls = Calls::new(credits)?;
        let spare = Spare::new(regions, sizes.limits.read_wrs)?;
        let flights = Flights::new(sizes.operations, most, sizes.queues.send_wr, calls.clone())?;
        let (limits, pages) = (sizes.limits, service.pages.clone());
        let budget = service.budget.clone();
        Ok(pin_init!(Self {
            lifecycle,
            arrivals <- new_spinlock!(arrivals, "rpcrdma::Responder::arrivals"),
            starved: Atomic::new(false),
            calls,
            limits,
            pages,
            budget,
            flights <- flights,
            spare <- spare,
            exposures <- Exposures::new(),
            device,
            credits,
            breached: AtomicFlag::new(false),
            requested: Atomic::new(u32::MAX),
            inline: Atomic::new(0),
            configured: Configured::new(),
        }))
    }

    /// Queues what has arrived. Returns it if the queue was emptied for good.
    #[inline]
    pub(super) fn arrived(&self, message: Held) -> Result<(), Held> {
        self.arrivals.lock().messages.push(message)
    }

    /// Queues a call that has been fetched. Returns it if the queue was emptied for good.
    #[inline(always)]
    pub(super) fn fetched(&self, call: KBox<Call>) -> Result<(), KBox<Call>> {
        self.arrivals.lock().whole.push(call)
    }

    /// Puts back a message for whose call there are no pages or no memory regions. No message is
    /// received until [`Self::refill`] is called.
    #[cold]
    pub(super) fn starve(&self, message: Held) {
        let mut arrivals = self.arrivals.lock();
        arrivals.starved = true;
        self.starved.store(true, Relaxed);
        let refused = arrivals.messages.push_front(message);
        drop(arrivals);
        drop(refused);
    }

    /// Returns whether a message waits for pages or memory regions, or the requester bounds the
    /// RDMA Reads: threads fetch calls then. A thread may change that at any time.
    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        self.starved.read_once()
    }

    /// Lets messages be received again, if one waits for pages or memory regions. Returns whether
    /// one does. The lock orders this with [`Self::starve`]: a caller that comes too early has
    /// given back before what the thread looks for after it.
    pub(super) fn refill(&self) -> bool {
        let mut arrivals = self.arrivals.lock();
        if !arrivals.starved {
            return false;
        }
        arrivals.starved = false;
        self.starved.store(!self.configured.is_free(), Relaxed);
        !arrivals.messages.is_empty()
    }

    /// Takes over how many RDMA Reads the requester can have active.
    pub(super) fn bound_reads(&self, theirs: u32) {
        let arrivals = self.arrivals.lock();
        self.configured.set_theirs(theirs);
        let starved = arrivals.starved || !self.configured.is_free();
        self.starved.store(starved, Relaxed);
    }

    /// Removes and returns what has arrived first. Calls `emptied` if nothing is left, under the
    /// lock that new arrivals take.
    #[inline]
    pub(super) fn next(&self, emptied: impl FnOnce()) -> Option<Arrival> {
        let mut arrivals = self.arrivals.lock();
        let next = match arrivals.whole.pop() {
            Some(call) => Some(Arrival::Whole(call)),
            None if arrivals.starved => None,
            None => arrivals.messages.pop().map(Arrival::Message),
        };
        let idle = arrivals.starved || arrivals.messages.is_empty();
        if idle && arrivals.whole.is_empty() {
            emptied();
        }
        next
    }

    /// Returns how many pages of the budget the connection uses: those of calls that are being
    /// fetched or wait for a thread, and of replies that are exposed. It looks at each of them.
    #[cold]
    pub(super) fn pages_used(&self) -> usize {
        let fetched = self.arrivals.lock().pages();
        fetched + self.flights.pages() + self.exposures.pages()
    }

    /// Drops everything that has not been received, and what was being sent: the queue pair is
    /// drained. May sleep.
    pub(super) fn clear(&self) {
        let mut arrivals = self.arrivals.lock();
        let dropped = (arrivals.messages.take(), arrivals.whole.take());
        drop(arrivals);
        drop(dropped);
        self.flights.clear();
        self.exposures.clear();
        self.spare.clear();
    }
}

/// Traces that the memory for `len` bytes of the requester's memory could not be mapped.
#[cold]
pub(super) fn unmapped(qp: &QueuePair, remote: Remote, len: u32, error: Error) {
    let segment = Segment {
        handle: remote.rkey,
        length: len,
        offset: remote.addr,
    };
    // CAST: a small constant.
    let pages = len.div_ceil(PAGE_SIZE as u32);
    trace::server::dma_map_rw_err(qp.cq_id(), &segment, pages, error.to_errno());
}
