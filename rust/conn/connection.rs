// SPDX-License-Identifier: GPL-2.0

//! The objects of one connection, in the order of their teardown; the lengths of its queues; its
//! close; and the fields of the file `connections` that do not depend on the role.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{Arc, SetOnce};

use super::backward::ReplyBuffers;
use super::lifecycle::Lifecycle;
use super::role::{ConnOf, OwnedQpOf, QpOf, Role, XprtRef};
use super::traced;
use crate::observe::connections::{Calls, Credits, Loss, Regions, Up};
use crate::observe::trace;
use crate::proto::conn::{Event, State};
use crate::proto::inline::Thresholds;
use crate::proto::version::Cause;
use crate::rdma::cm::CmId;
use crate::rdma::cq::{Cq, DRAIN_ENTRIES};
use crate::rdma::device::Limits;
use crate::rdma::mr::PoolCounts;
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Qp, QpConfig, DRAIN_SEND_WRS};
use crate::wire::Version;

/// An established connection.
///
/// Field order is teardown order. Once the parts are gone, no device refers to a buffer.
#[pin_data]
pub(crate) struct Connection<R: Role> {
    /// Set once, when the connection is closed; no call is prepared for it afterwards. Readers hold
    /// the lock of the request that they prepare. The sweep after the close takes the same locks,
    /// and takes back a call that was prepared concurrently.
    closed: AtomicFlag,
    /// Why the connection was lost, from when its close begins.
    lost: SetOnce<Loss>,
    pub(super) parts: Parts<R>,
    #[pin]
    replies: ReplyBuffers,
}

/// The parts that [`Connection::new`] puts together.
///
/// Field order is teardown order: the queue pair is drained and destroyed first, then the cm_id.
/// Regions and buffers also hold the protection domain, and through it the device.
pub(crate) struct Parts<R: Role> {
    pub(crate) qp: OwnedQpOf<R>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) cm: CmId<Lifecycle<R::Owner>>,
    pub(crate) lifecycle: Arc<Lifecycle<R::Owner>>,
    pub(crate) shared: Arc<ConnOf<R>>,
}

impl<R: Role> Connection<R> {
    /// Puts a connection together.
    pub(crate) fn new(parts: Parts<R>) -> impl PinInit<Self> {
        pin_init!(Self {
            closed: AtomicFlag::new(false),
            lost: SetOnce::new(),
            parts,
            replies <- ReplyBuffers::new(),
        })
    }

    /// Returns the number of the connection.
    pub(crate) fn epoch(&self) -> u32 {
        self.shared().epoch()
    }

    /// Returns the effective thresholds.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.shared().thresholds()
    }

    /// Returns the queue pair.
    pub(crate) fn qp(&self) -> &QpOf<R> {
        &self.parts.qp
    }

    /// Returns the state that completions reach.
    pub(crate) fn shared(&self) -> &ConnOf<R> {
        &self.parts.shared
    }

    /// Returns the cause of the loss of the connection.
    pub(crate) fn cause(&self) -> Cause {
        match self.loss() {
            Loss::Device | Loss::Closed => Cause::Local,
            _ if self.shared().owner().is_abandoned() => Cause::Local,
            Loss::Forced => Cause::Forced,
            _ => Cause::Peer,
        }
    }

    /// Returns the send buffers for replies to the peer's calls.
    pub(crate) fn replies(&self) -> &ReplyBuffers {
        &self.replies
    }

    /// Returns the protection domain.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.parts.pd
    }

    /// Returns whether the connection was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Closes the connection: disconnects, and waits until no work request is outstanding.
    /// Afterwards the peer can reach no memory of this host. A connection that is lost, or that
    /// this side was forced to close, is reset. A second call waits for the first. May sleep.
    pub(crate) fn close(&self) {
        // ORDERING: the sweep takes the lock of each request after this store; a context that takes
        // such a lock after the sweep sees it.
        self.closed.store(true, Relaxed);
        // The failures that follow are expected, and the role is not notified of them.
        self.qp().expect_flush();
        let loss = self.loss();
        // A second call changes nothing.
        let _ = self.lost.populate(loss);
        let lost = self.parts.lifecycle.was_up() && loss != Loss::Closed;
        self.parts.lifecycle.on(Event::Close);
        if lost {
            self.qp().abort();
        }
        self.qp().drain();
        self.shared().close();
    }

    /// Returns whether the connection speaks version two and was ever at work: between two calls of
    /// this method at least [`MESSAGES`], and at least as many as there are Receives, have arrived.
    /// Only the watch calls this.
    pub(crate) fn is_at_work(&self) -> bool {
        let session = &self.shared().session;
        let (arrived, (_, receives)) = (self.qp().arrived(), self.qp().receives());
        let since = arrived.wrapping_sub(session.arrived.xchg(arrived, Relaxed));
        if since >= receives.max(MESSAGES) && self.shared().version() == Version::Two {
            session.at_work.store(true, Relaxed);
        }
        session.at_work.load(Relaxed)
    }

    /// Returns whether the session requests Receives of another size.
    pub(crate) fn wants_receives(&self) -> bool {
        self.shared().session.wanted_receives().is_some()
    }

    /// Gives the Receives buffers of the size that the session requests, and notifies the session.
    /// May sleep.
    pub(crate) fn follow_session(&self) {
        let Some(size) = self.shared().session.wanted_receives() else {
            return;
        };
        // CAST: `usize` has at least 32 bits.
        let smaller = self.qp().enlarge_receives(size as usize);
        trace::recvs_grow(traced::peer(self.shared().owner()), size, smaller);
        self.shared().receives_posted(size, smaller);
        // The last smaller Receive may have completed before the session knew of the growth.
        self.shared().count_receives(self.qp());
        self.shared().pump(self.qp());
    }

    /// Returns the fields of both roles. The role adds credits, calls, regions and silence.
    pub(crate) fn describe(&self) -> Up {
        let (shared, qp) = (self.shared(), self.qp());
        let terms = shared.terms();
        Up {
            device: self.pd().as_device().name(),
            port: self.parts.cm.port(),
            thresholds: terms.thresholds(),
            generation: shared
                .with_session(|session, _| session.terms().generation)
                .unwrap_or(0),
            backward: terms.permits_backward(),
            credits: Credits::default(),
            calls: Calls::default(),
            regions: Regions::default(),
            receives: qp.receives(),
            send_queue: qp.send_queue(),
            silent: 0,
            transport: None,
        }
    }

    /// Returns why the connection is being lost, or was lost.
    pub(crate) fn loss(&self) -> Loss {
        let lifecycle = &self.parts.lifecycle;
        let now = if lifecycle.ended_here() {
            Loss::Device
        } else if lifecycle.state() != State::Up {
            Loss::Peer
        } else if self.qp().is_broken() {
            Loss::Failed
        } else if self.shared().is_forced() {
            Loss::Forced
        } else {
            Loss::Closed
        };
        // ORDERING: a close sets the loss before it changes the state that was read above.
        self.lost.copy().unwrap_or(now)
    }
}

/// Returns the regions of a pool.
impl From<PoolCounts> for Regions {
    fn from(counts: PoolCounts) -> Self {
        Self {
            total: counts.total,
            idle: counts.idle,
            unusable: counts.unusable,
        }
    }
}

/// Makes the queue pair of a connection, with its completion queue. `tags` is the number of tags
/// that the role uses, `receive_size` the length of a Receive buffer in bytes. May sleep.
///
/// # Errors
///
/// Those of [`Cq::new`] and [`Qp::new`].
// The state of the connection, which the caller makes, would make the stack frame too large.
#[inline(never)]
pub(crate) fn queue_pair<R: Role>(
    cm: &CmId<Lifecycle<R::Owner>>,
    pd: &Arc<Pd>,
    queues: &Queues,
    (tags, receive_size): (u32, usize),
    shared: Arc<ConnOf<R>>,
) -> Result<OwnedQpOf<R>> {
    let cq = Cq::new(pd, queues.send_wr + queues.receives_max, R::WORKERS)?;
    let config = QpConfig {
        send_wr: queues.send_wr,
        recv_wr: queues.receives,
        recv_max: queues.receives_max,
        send_sge: queues.sges,
        tags,
        recv_size: receive_size,
        recv_batch: queues.receive_batch,
    };
    Qp::new(cm, pd, cq, &config, shared)
}

/// Posts all Receives. The queue pair reposts each after its message has been handled. May sleep.
///
/// # Errors
///
/// Those of [`Qp::post_receives`].
pub(crate) fn post_receives<R: Role>(
    owner: &impl XprtRef,
    qp: &QpOf<R>,
    queues: &Queues,
) -> Result {
    let posted = qp.post_receives();
    let (peer, cq) = (traced::peer(owner), qp.cq_id());
    match posted {
        Ok(()) => trace::post_recvs(peer, cq, queues.receives, queues.receives),
        Err(error) => trace::post_recvs_err(peer, cq, error.to_errno()),
    }
    posted
}

/// A connection is at work only if this many messages have arrived between two checks of the watch.
const MESSAGES: u32 = 128;

/// A quarter of the Receives is posted in one batch.
const RECEIVE_BATCHES: u32 = 4;

/// The demand of a role. All members are counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// RPCs in flight at the same time.
    pub(crate) credits: u32,
    /// Work requests on the send queue for each of them.
    pub(crate) send_wr_per_credit: u32,
    /// Messages of the backward direction in flight at the same time. Each needs one Send and one
    /// Receive, even if the queues are short.
    pub(crate) backward: u32,
    /// Further work requests on the send queue.
    pub(crate) extra_send_wr: u32,
    /// Receives that are reposted together; `None` for a quarter of the Receives.
    pub(crate) receive_batch: Option<u32>,
}

/// The lengths of a connection's queues. All members are counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    /// RPCs in flight at the same time.
    pub(crate) credits: u32,
    /// Work requests on the send queue.
    pub(crate) send_wr: u32,
    /// Scatter/gather elements of a work request on the send queue.
    pub(crate) sges: u32,
    /// Receives that are posted at first.
    pub(crate) receives: u32,
    /// The maximum number of posted Receives.
    pub(crate) receives_max: u32,
    /// Receives that are reposted together.
    pub(crate) receive_batch: u32,
}

impl Demand {
    /// Fits the demand to a device; `None` if the queues cannot hold a single RPC.
    pub(crate) fn fit(&self, limits: &Limits) -> Option<Queues> {
        let fixed = self.backward + self.extra_send_wr;
        // Draining the send queue takes part of the device's limit.
        let room = limits.max_qp_wr.saturating_sub(DRAIN_SEND_WRS + fixed);
        // One completion queue serves both queues: the work requests of an RPC, its Receive, and
        // the batch. A batch of a quarter of the Receives is at most one entry for each RPC.
        let least = self.send_wr_per_credit + 1;
        let batch = self.receive_batch.map(|batch| (least, batch));
        let (per_credit, batch) = batch.unwrap_or((least + 1, 0));
        let other = fixed + self.backward + batch + DRAIN_ENTRIES;
        let entries = limits.max_cqe.saturating_sub(other);
        let credits = self
            .credits
            .min(room / self.send_wr_per_credit)
            .min(entries / per_credit);
        if credits == 0 {
            return None;
        }
        let receive_batch = self
            .receive_batch
            .unwrap_or((credits / RECEIVE_BATCHES).max(1));
        let receives = (credits + receive_batch).min(room) + self.backward;
        Some(Queues {
            credits,
            send_wr: credits * self.send_wr_per_credit + fixed,
            sges: 1,
            receives,
            receives_max: receives,
            receive_batch,
        })
    }
}
