// SPDX-License-Identifier: GPL-2.0

//! The responder's part of a connection.

use kernel::prelude::*;
use kernel::sync::atomic::AtomicFlag;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::flights::Flights;
use super::owner::Owner;
use super::pulled::Pull;
use super::ring::Ring;
use super::sizes::Sizes;
use super::spare::Spare;
use crate::conn::lifecycle::Lifecycle;
use crate::conn::role::{self, ConnOf, QpOf};
use crate::proto::responder::grant::Grant;
use crate::rdma::device::Name;
use crate::rdma::recv::Held;

/// Calls beyond the grant that are served all the same.
const SPARE_CALLS: u32 = 16;

/// What the completion worker and the threads of the service share of a connection.
#[pin_data]
pub(crate) struct Responder {
    pub(super) lifecycle: Arc<Lifecycle<Owner>>,
    #[pin]
    arrivals: SpinLock<Arrivals>,
    /// The requester's credits.
    #[pin]
    pub(super) grant: SpinLock<Grant>,
    #[pin]
    pub(super) flights: Flights,
    #[pin]
    pub(super) spare: Spare,
    /// The device, for traces.
    pub(super) device: Name,
    /// The connection is being closed because of what the requester did.
    pub(super) breached: AtomicFlag,
}

/// What a thread of the service is to receive.
pub(super) enum Arrival {
    /// A message.
    Message(Held),
    /// A call whose RDMA Reads have completed.
    Whole(Pull),
}

struct Arrivals {
    messages: Ring<Held>,
    whole: Ring<Pull>,
    /// The oldest message is a call for which there are no pages.
    starved: bool,
}

/// The state of a responder's connection that completions reach.
pub(crate) type Conn = ConnOf<Responder>;
/// The queue pair of a responder's connection.
pub(crate) type QueuePair = QpOf<Responder>;
/// A message from the requester.
pub(super) type Incoming<'a> = role::Incoming<'a, Responder>;

impl Responder {
    /// Makes the responder's part of a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        sizes: &Sizes,
        lifecycle: Arc<Lifecycle<Owner>>,
        device: Name,
    ) -> Result<impl PinInit<Self> + use<>> {
        let arrivals = Arrivals {
            messages: Ring::new(sizes.queues.receives_max)?,
            whole: Ring::new(sizes.operations)?,
            starved: false,
        };
        let grant = Grant::new(sizes.queues.credits, SPARE_CALLS);
        let spare = Spare::new()?;
        let calls = sizes.queues.credits + SPARE_CALLS;
        let flights = Flights::new(sizes.operations, calls)?;
        Ok(pin_init!(Self {
            lifecycle,
            arrivals <- new_spinlock!(arrivals, "rpcrdma::Responder::arrivals"),
            grant <- new_spinlock!(grant, "rpcrdma::Responder::grant"),
            flights <- flights,
            spare <- spare,
            device,
            breached: AtomicFlag::new(false),
        }))
    }

    /// Queues what has arrived. Returns it if the queue was emptied for good.
    #[inline]
    pub(super) fn arrived(&self, message: Held) -> Result<(), Held> {
        self.arrivals.lock().messages.push(message)
    }

    /// Queues a call that has been fetched. Returns it if the queue was emptied for good.
    pub(super) fn fetched(&self, pull: Pull) -> Result<(), Pull> {
        self.arrivals.lock().whole.push(pull)
    }

    /// Puts back a message for whose call there are no pages. No message is received until
    /// [`Self::refill`] is called.
    #[cold]
    pub(super) fn starve(&self, message: Held) {
        let mut arrivals = self.arrivals.lock();
        arrivals.starved = true;
        let refused = arrivals.messages.push_front(message);
        drop(arrivals);
        drop(refused);
    }

    /// Lets messages be received again. Returns whether there are any.
    pub(super) fn refill(&self) -> bool {
        let mut arrivals = self.arrivals.lock();
        arrivals.starved = false;
        !arrivals.messages.is_empty()
    }

    /// Removes and returns what has arrived first. Calls `emptied` if nothing is left, under the
    /// lock that new arrivals take.
    #[inline]
    pub(super) fn next(&self, emptied: impl FnOnce()) -> Option<Arrival> {
        let mut arrivals = self.arrivals.lock();
        let next = match arrivals.whole.pop() {
            Some(pull) => Some(Arrival::Whole(pull)),
            None if arrivals.starved => None,
            None => arrivals.messages.pop().map(Arrival::Message),
        };
        let idle = arrivals.starved || arrivals.messages.is_empty();
        if idle && arrivals.whole.is_empty() {
            emptied();
        }
        next
    }

    /// Drops everything that has not been received, and what was being sent: the queue pair is
    /// drained. May sleep.
    pub(super) fn clear(&self) {
        let mut arrivals = self.arrivals.lock();
        let dropped = (arrivals.messages.take(), arrivals.whole.take());
        drop(arrivals);
        drop(dropped);
        self.flights.clear();
        self.spare.clear();
    }
}
