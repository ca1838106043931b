// SPDX-License-Identifier: GPL-2.0

//! A requester's connection: the objects of `conn`, the memory regions, and the state that the
//! completion worker and the watch share.
//!
//! A connection has memory regions of two kinds, by what they can map. A payload in pages has no
//! gaps: it may begin and end inside a page, and the pages between are whole. A region for such a
//! payload costs the device less than a region that may have gaps (mlx5: a translation table in
//! place of a list of keys). Only a chunk that includes head or tail of a message needs gaps, and
//! most connections see few such chunks.
//!
//! A call takes all its regions or none, and a prepared call in the queue holds its regions. The
//! idle regions may therefore not suffice for the call at the head of the queue. That call then
//! takes the regions of the calls behind it (`client/call/send.rs`), which must be prepared again.
//! This is rare with more regions: [`Endpoint::order_regions`] makes a worker allocate more.

use core::ops::Deref;

use kernel::alloc::allocator::KVmalloc;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::{Work, WorkItem};

use self::silence::Silence;
use super::config::MAX_SEGMENTS;
use super::quirks::Quirks;
use crate::conn::connection::{Connection, Parts};
use crate::conn::credits::CallCredits;
use crate::conn::role::{self, ConnOf, QpOf};
use crate::conn::traced;
use crate::mem::CachedVec;
use crate::observe::trace;
use crate::proto::backward::CREDITS;
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::{Kind, Mr, MrPool, PoolCounts};
use crate::rdma::pd::Pd;

pub(super) mod silence;

/// The number of regions of each kind that a connection starts with.
const FIRST_PLAIN: u32 = 28;
const FIRST_GAPPED: u32 = 4;
/// The number of regions that are allocated at a time: those of the largest call, for its own
/// payload and for the reply.
const BATCH: u32 = 2 * MAX_SEGMENTS;

/// The requester's part of a connection, which completions reach.
#[pin_data]
pub(super) struct Requester {
    /// The server's credits.
    #[pin]
    pub(super) credits: CallCredits,
    /// The server's silence.
    pub(super) silence: Silence,
    /// The forms of messages that only some servers use.
    #[pin]
    pub(super) quirks: Quirks,
}

/// The state of a requester's connection that completions reach.
pub(super) type Conn = ConnOf<Requester>;
/// The queue pair of a requester's connection.
pub(super) type QueuePair = QpOf<Requester>;
/// A message from the server.
pub(super) type Incoming<'a> = role::Incoming<'a, Requester>;

impl Requester {
    /// Makes the requester's part of a connection whose calls ask for this number of credits.
    pub(super) fn new(credits: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            credits <- CallCredits::new(credits),
            silence: Silence::new(),
            quirks <- Quirks::new(),
        })
    }
}

/// A requester's connection.
///
/// Field order is teardown order: once the connection is gone, no device refers to a memory region.
#[pin_data]
pub(super) struct Endpoint {
    #[pin]
    conn: Connection<Requester>,
    pub(super) regions: Regions,
    /// The last attempt to allocate more memory regions failed.
    pub(super) no_more_regions: AtomicFlag,
    /// Send buffers of calls that were aborted after their Send was posted. The device may still be
    /// reading them.
    #[pin]
    given_up: SpinLock<CachedVec<SendBuf, KVmalloc>>,
    #[pin]
    replenish: Work<Endpoint, REPLENISH>,
    #[pin]
    grow: Work<Endpoint, GROW>,
    #[pin]
    close: Work<Endpoint, CLOSE>,
}

/// The work item that allocates more memory regions.
pub(super) const REPLENISH: u64 = 0;
/// The work item that closes the connection; see `client/conn/session.rs`.
pub(super) const CLOSE: u64 = 1;
/// The work item that enlarges Receives; see `client/conn/session.rs`.
pub(super) const GROW: u64 = 2;

kernel::impl_has_work! {
    impl HasWork<Self, REPLENISH> for Endpoint { self.replenish }
    impl HasWork<Self, GROW> for Endpoint { self.grow }
    impl HasWork<Self, CLOSE> for Endpoint { self.close }
}

impl Deref for Endpoint {
    type Target = Connection<Requester>;

    fn deref(&self) -> &Connection<Requester> {
        &self.conn
    }
}

impl Endpoint {
    /// Makes an endpoint of the parts of a connection, which has at most `calls` calls in flight.
    /// The caller makes it the current endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(parts: Parts<Requester>, regions: Regions, calls: u32) -> Result<Arc<Self>> {
        // CAST: `usize` has at least 32 bits.
        let given_up = parts
            .pd
            .allocator()
            .with_capacity(calls as usize, GFP_KERNEL)?;
        Arc::try_pin_init(
            try_pin_init!(Self {
                conn <- Connection::new(parts),
                regions,
                no_more_regions: AtomicFlag::new(false),
                given_up <- new_spinlock!(given_up, "rpcrdma::Endpoint::given_up"),
                replenish <- kernel::new_work!("rpcrdma::Endpoint::replenish"),
                grow <- kernel::new_work!("rpcrdma::Endpoint::grow"),
                close <- kernel::new_work!("rpcrdma::Endpoint::close"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the requester's part of the connection.
    pub(super) fn requester(&self) -> &Requester {
        self.shared().role()
    }

    /// Allocates the buffers for replies to the server's calls. A second call has no effect. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn serve_backward(&self) -> Result {
        // CAST: `usize` has at least 32 bits.
        self.replies().fill(self.pd(), CREDITS as usize, PAGE_SIZE)
    }

    /// Takes a send buffer that the device may still be reading, and returns another buffer. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn exchange(&self, old: SendBuf) -> Result<SendBuf> {
        let len = old.capacity();
        let mut given_up = self.given_up.lock();
        if let Some(done) = given_up.iter_mut().find(|buf| !buf.in_flight()) {
            return Ok(core::mem::replace(done, old));
        }
        let surplus = given_up.push_within_capacity(old);
        // The lock comes first. The surplus is freed when the queue pair has been drained.
        drop((given_up, surplus));
        SendBuf::new(self.pd(), len, GFP_ATOMIC)
    }
}

/// Regions for payloads, and regions for any chunk.
pub(super) struct Regions {
    plain: Arc<MrPool>,
    /// `None` on a device with one kind of region.
    gapped: Option<Arc<MrPool>>,
    /// Mapping a region may take long, or sleep.
    pub(super) slow: bool,
}

impl Regions {
    /// Makes regions of `depth` pages each for a new connection. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::new`].
    pub(super) fn new(pd: &Arc<Pd>, depth: u32) -> Result<Self> {
        let gaps = pd.limits().sg_gaps;
        let first = FIRST_PLAIN + if gaps { 0 } else { FIRST_GAPPED };
        let gapped = || MrPool::new(pd.clone(), depth, Kind::Gapped, FIRST_GAPPED);
        Ok(Self {
            plain: MrPool::new(pd.clone(), depth, Kind::Plain, first)?,
            gapped: gaps.then(gapped).transpose()?,
            slow: pd.limits().slow_mapping,
        })
    }

    /// Returns the most general kind of region: with gaps, if the device has such regions.
    pub(super) fn widest(&self) -> Kind {
        self.gapped.as_ref().map_or(Kind::Plain, |_| Kind::Gapped)
    }

    /// Takes an idle region of this kind, or a gapped one in place of a plain one; `None` if there
    /// is none. Allocates no memory.
    pub(super) fn get(&self, kind: Kind) -> Option<Mr> {
        let plain = (kind == Kind::Plain).then(|| self.plain.get()).flatten();
        plain.or_else(|| self.gapped.as_ref()?.get())
    }

    /// Returns the number of regions in each state.
    pub(super) fn counts(&self) -> PoolCounts {
        self.each().fold(PoolCounts::default(), |sum, pool| {
            let counts = pool.counts();
            PoolCounts {
                total: sum.total + counts.total,
                idle: sum.idle + counts.idle,
                unusable: sum.unusable + counts.unusable,
            }
        })
    }

    /// Allocates [`BATCH`] more regions of each kind that has run out since the last call and of
    /// which fewer than [`BATCH`] are idle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::grow`]. Regions that were allocated before the failure remain.
    fn refill(&self) -> Result {
        for pool in self.each() {
            if pool.take_starved() && pool.counts().idle < BATCH {
                pool.grow(BATCH)?;
            }
        }
        Ok(())
    }

    /// Returns each pool once.
    fn each(&self) -> impl Iterator<Item = &Arc<MrPool>> {
        [Some(&self.plain), self.gapped.as_ref()]
            .into_iter()
            .flatten()
    }
}

impl Endpoint {
    /// Queues the work item that allocates more regions. The worker wakes the RPCs that wait for
    /// regions, even after a failure, because the regions in use are returned in time. Any context.
    pub(super) fn order_regions(self: &Arc<Self>) {
        let owner = self.shared().owner();
        // The queue refuses an item that is queued already. That item suffices.
        let _ = owner.queue().enqueue::<_, REPLENISH>(self.clone());
    }

    /// Allocates more regions if few are idle.
    fn replenish(&self) {
        let xprt = self.shared().owner();
        let before = self.regions.counts().total;
        let filled = self.regions.refill();
        // No other context allocates regions, so the difference is the number allocated here.
        let made = self.regions.counts().total - before;
        if made == 0 && filled.is_ok() {
            return;
        }
        self.no_more_regions.store(filled.is_err(), Relaxed);
        xprt.data().stats.mrs_allocated.add(made.into());
        trace::createmrs(traced::peer(xprt), made);
    }
}

impl WorkItem<REPLENISH> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            this.replenish();
        }
        this.shared().owner().wake_write_space();
    }
}

/// Idle memory regions that a slot keeps for its next call, so that they bypass the pools, whose
/// locks all slots share. At most one of each kind.
#[derive(Default)]
pub(super) struct Spare {
    plain: Option<Mr>,
    gapped: Option<Mr>,
}

impl Spare {
    /// Returns the place for a region of this kind.
    #[inline(always)]
    pub(super) fn of(&mut self, kind: Kind) -> &mut Option<Mr> {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Gapped => &mut self.gapped,
        }
    }
}

/// Tags: the numbers by which a completion finds its call.
pub(super) mod tags {
    use crate::rdma::qp::Tag;

    /// The tag of all replies to the server's calls. No task waits for these Sends.
    pub(in crate::client) const BACKWARD_TAG: Tag = Tag::new(0);
    /// The tag of the probes of [`super::silence`].
    pub(in crate::client) const PROBE_TAG: Tag = Tag::new(1);
    /// The tag of the session's messages.
    pub(in crate::client) const CONTROL_TAG: Tag = Tag::new(2);
    /// The first tag of a slot.
    const FIRST: u32 = 3;
    /// The number of tags of a slot: of its Send, and of its chain of LOCAL_INV. A signalled
    /// Send may complete after the chain was posted.
    const KINDS: u32 = 2;

    /// Returns the number of tags that a connection with `slots` slots uses.
    pub(in crate::client) const fn count(slots: u32) -> u32 {
        FIRST + slots * KINDS
    }

    /// Returns the tag of the Send of slot number `index`.
    pub(in crate::client) const fn send(index: u32) -> Tag {
        Tag::new(FIRST.wrapping_add(index.wrapping_mul(KINDS)))
    }

    /// Returns the tag of the LOCAL_INV chain of slot number `index`.
    pub(in crate::client) const fn invalidation(index: u32) -> Tag {
        Tag::new(FIRST + index * KINDS + 1)
    }

    /// Returns the number of the slot that `tag` belongs to; `None` for the tag of no slot.
    pub(in crate::client) fn slot_of(tag: Tag) -> Option<u32> {
        tag.get().checked_sub(FIRST).map(|n| n / KINDS)
    }

    /// Returns the number of the slot whose LOCAL_INV chain has this tag; `None` for other tags.
    pub(in crate::client) fn invalidated_by(tag: Tag) -> Option<u32> {
        let n = tag.get().checked_sub(FIRST)?;
        (n % KINDS == 1).then_some(n / KINDS)
    }
}
