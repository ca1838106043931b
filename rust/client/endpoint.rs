// SPDX-License-Identifier: GPL-2.0

//! One connection's objects.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::Work;

use super::backward::Outbox;
use super::config::Sizing;
use super::events::Events;
use super::link::Link;
use super::pools::Pools;
use crate::proto::conn::Event;
use crate::proto::inline::Thresholds;
use crate::rdma::cm::CmId;
use crate::rdma::pd::Pd;
use crate::rdma::qp::Qp;
use crate::rdma::send::SendBuf;

/// A connection that has been established, until its last user lets go.
///
/// Field order is teardown order: the queue pair is drained and destroyed, then nothing refers
/// to memory regions and buffers any more, and the connection's identifier goes. The protection
/// domain keeps the device.
#[pin_data]
pub(super) struct Endpoint {
    /// Number of the connection, never zero, different from the one before.
    pub(super) epoch: u32,
    /// What both peers agreed on.
    pub(super) thresholds: Thresholds,
    /// What was asked of the device.
    pub(super) sizing: Sizing,
    /// Set once, when the connection is given up: nothing may be prepared for it any more. Read
    /// under a request's lock, and set before the sweep takes these locks.
    closed: Atomic<bool>,
    /// The last order of memory regions could not be filled.
    dry: Atomic<bool>,
    pub(super) qp: Qp<Link>,
    /// Buffers of RPCs that were given up after their Send was posted.
    #[pin]
    spent: SpinLock<KVVec<SendBuf>>,
    /// For replies to the server's calls.
    #[pin]
    pub(super) outbox: Outbox,
    pd: Arc<Pd>,
    pub(super) pools: Pools,
    /// Kept: it is destroyed after the queue pair.
    cm: CmId<Events>,
    events: Arc<Events>,
    pub(super) link: Arc<Link>,
    #[pin]
    supply: Work<Endpoint, SUPPLY>,
    #[pin]
    closing: Work<Endpoint, CLOSING>,
}

/// Number of the work item that makes more memory regions; see [`super::supply`].
pub(super) const SUPPLY: u64 = 0;
/// Number of the work item that closes the connection; see [`super::fence`].
pub(super) const CLOSING: u64 = 1;

/// What [`Endpoint::new`] is made of.
pub(super) struct Parts {
    pub(super) epoch: u32,
    pub(super) thresholds: Thresholds,
    pub(super) sizing: Sizing,
    pub(super) qp: Qp<Link>,
    pub(super) pd: Arc<Pd>,
    pub(super) pools: Pools,
    pub(super) cm: CmId<Events>,
    pub(super) events: Arc<Events>,
    pub(super) link: Arc<Link>,
}

kernel::impl_has_work! {
    impl HasWork<Self, SUPPLY> for Endpoint { self.supply }
    impl HasWork<Self, CLOSING> for Endpoint { self.closing }
}

impl Endpoint {
    /// Publishes nothing yet; see [`super::connect`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(parts: Parts) -> Result<Arc<Self>> {
        // CAST: `usize` has at least 32 bits.
        let spent = KVVec::with_capacity(parts.sizing.credits as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                epoch: parts.epoch,
                thresholds: parts.thresholds,
                sizing: parts.sizing,
                closed: Atomic::new(false),
                dry: Atomic::new(false),
                qp: parts.qp,
                spent <- new_spinlock!(spent, "rpcrdma::Endpoint::spent"),
                outbox <- Outbox::new(),
                pd: parts.pd,
                pools: parts.pools,
                cm: parts.cm,
                events: parts.events,
                link: parts.link,
                supply <- kernel::new_work!("rpcrdma::Endpoint::supply"),
                closing <- kernel::new_work!("rpcrdma::Endpoint::closing"),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether the connection was given up.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Whether no more memory regions could be made.
    pub(super) fn is_dry(&self) -> bool {
        self.dry.load(Relaxed)
    }

    /// Notes whether an order of memory regions could not be filled.
    pub(super) fn note_dry(&self, dry: bool) {
        self.dry.store(dry, Relaxed);
    }

    /// Gives the connection up: disconnects, and waits until no work request is outstanding. Every
    /// request's memory is out of the peer's reach afterwards. May sleep; with or without the send
    /// lock. The second call waits for the first, and does nothing.
    pub(super) fn close(&self) {
        // ORDERING: whoever takes a request's lock after the sweep has had it sees this store.
        self.closed.store(true, Relaxed);
        // What follows from that is no news.
        self.qp.shut();
        self.events.on(Event::Close);
        self.qp.drain();
        self.link.close();
    }

    /// Gets ready to answer calls of the server. May sleep; the second call does nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn serve_backward(&self) -> Result {
        self.outbox.fill(&self.pd, &self.thresholds)
    }

    /// A send buffer in place of one that the device may still be reading. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn exchange(&self, old: SendBuf) -> Result<SendBuf> {
        let len = old.capacity();
        match self.keep(old) {
            Some(buf) => Ok(buf),
            None => SendBuf::new(&self.pd, len, GFP_ATOMIC),
        }
    }

    /// Keeps `old`, and returns another one that the device has finished with, if there is one.
    fn keep(&self, old: SendBuf) -> Option<SendBuf> {
        let mut spent = self.spent.lock();
        if let Some(done) = spent.iter_mut().find(|buf| !buf.in_flight()) {
            return Some(core::mem::replace(done, old));
        }
        // Without room it goes back when the queue pair is drained.
        let _ = spent.push_within_capacity(old);
        None
    }
}
