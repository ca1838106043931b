// SPDX-License-Identifier: GPL-2.0

//! A request slot: what one RPC owns on the RDMA side.
//!
//! ```text
//!           marshal            send               reply
//!   Idle ──────────► Prepared ──────► Sent ───────────────────► Idle
//!    ▲                  │              │ │ regions left to fence
//!    │      discard     │      release │ └────────► Fencing ──┐
//!    ├──────────────────┘              ▼                      │ LOCAL_INV done,
//!    │                             Abandoned                  │ RPC completed
//!    │            LOCAL_INV done       │                      │
//!    └─────────────────────────────────┴──────────────────────┘
//! ```
//!
//! A call that is taken back only to be encoded anew ends in Withdrawn instead of Idle: it must not be
//! sent again over the connection that it was sent over. From there it is released, or swept.
//!
//! When the connection goes, [`super::fence::sweep`] takes every slot back to Idle.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};
use kernel::time::Jiffies;

use super::config::MAX_SEGMENTS;
use super::endpoint::Endpoint;
use super::names;
use super::transport::Client;
use crate::observe::trace;
use crate::rdma::mr::Mr;
use crate::rdma::qp::Tag;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::reply::Parked;
use crate::wire::Segment;
use crate::work::Change;

/// Tag of all replies to the peer's calls: nobody waits for their Sends.
pub(super) const BACKWARD_TAG: Tag = Tag::new(0);
/// Tag of the probes of [`super::probe`].
pub(super) const PROBE_TAG: Tag = Tag::new(1);
/// The first tag of a request.
const FIRST: u32 = 2;
/// Kinds of work requests that a request is told about: a Send, and a chain of LOCAL_INV. Their tags
/// differ, since a signalled Send may complete after the LOCAL_INV chain was posted.
const KINDS: u32 = 2;

/// Tags that a connection with `slots` requests uses.
pub(super) const fn tags(slots: u32) -> u32 {
    FIRST + slots * KINDS
}

/// Number of the request that a tag belongs to, if it belongs to one.
#[inline]
pub(super) fn request_of(tag: Tag) -> Option<u32> {
    tag.get().checked_sub(FIRST).map(|n| n / KINDS)
}

/// Number of the request that a tag belongs to, if it is that of a LOCAL_INV chain.
#[inline]
pub(super) fn fenced_by(tag: Tag) -> Option<u32> {
    let index = tag.get().checked_sub(FIRST)?;
    (index % KINDS == 1).then_some(index / KINDS)
}

/// Where a slot's RPC stands, as far as RDMA is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No memory is mapped or exposed.
    Idle,
    /// Memory is mapped and the header is encoded; nothing was posted.
    Prepared,
    /// Posted: the peer may reach the memory, and no reply has come, unless [`State::answered`] says
    /// so.
    Sent,
    /// The reply has come; local invalidation is under way, and then the RPC will be completed.
    Fencing,
    /// The RPC was given up; local invalidation is under way, and somebody waits for it.
    Abandoned,
    /// Given up as far as this connection is concerned: nothing is mapped or exposed, and nothing can
    /// be prepared.
    Withdrawn,
}

/// Which answer the call has made room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// Inline only.
    Nothing,
    /// A write chunk of the segments in [`State::offered`].
    WriteChunk,
    /// A reply chunk of these segments.
    ReplyChunk,
}

/// How a completed RPC ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A reply of so many bytes, chunks included.
    Length(u32),
    /// The responder could not process the call, or its reply was not acceptable (`EIO`).
    Failed,
}

/// The inline part of a reply that came while the peer could still reach the memory it belongs to,
/// for which the DMA layer may have a buffer of its own, too: its contents would overwrite the reply.
pub(super) struct Late {
    pub(super) message: KVec<u8>,
    /// Bytes that came through the write chunk, if it was used.
    pub(super) chunk: Option<u32>,
}

impl Late {
    /// Keeps a copy of `message`. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(message: &[u8], chunk: Option<u32>) -> Result<Self> {
        let mut copy = KVec::new();
        copy.extend_from_slice(message, GFP_ATOMIC)?;
        Ok(Self {
            message: copy,
            chunk,
        })
    }
}

/// The client's part of a request slot.
#[pin_data]
pub(crate) struct Request {
    /// Number of the slot.
    index: u32,
    #[pin]
    seat: SpinLock<Seat>,
    /// Announced when a request that is given up has been answered, or becomes idle.
    #[pin]
    news: Change,
}

/// What a [`Request`]'s lock protects.
///
/// # Invariants
///
/// `ep` is the connection with number `state.epoch`.
pub(super) struct Seat {
    /// The connection, from when it is up until it is swept. Held here, so that an RPC need not take
    /// a reference of its own.
    pub(super) ep: Option<Arc<Endpoint>>,
    pub(super) state: State,
}

/// Where an RPC stands, and what it owns.
///
/// # Invariants
///
/// - `regions` is empty in the phases Idle and Withdrawn.
/// - In phase Fencing, and in no other, `parked` holds the RPC's pin; `late` is empty in all others.
/// - What is in `regions` and `out` belongs to the connection with number `epoch`.
pub(super) struct State {
    pub(super) phase: Phase,
    /// Number of the connection that `regions` and `out` belong to.
    pub(super) epoch: u32,
    /// XID of the call that was prepared last.
    pub(super) xid: u32,
    /// In phase Sent: the reply has come when SUNRPC no longer waited for it. The peer is done with
    /// the call, and counts its credit as free.
    pub(super) answered: bool,
    /// Where the message is assembled; none without a connection.
    pub(super) out: Option<SendBuf>,
    /// Bytes of `out` to send.
    pub(super) out_len: usize,
    /// Registered memory of call and reply. Room for all was reserved when the slot was made.
    pub(super) regions: KVec<Mr>,
    /// Segments offered for the reply, as encoded.
    pub(super) offered: KVec<Segment>,
    pub(super) offer: Offered,
    /// What the RPC will be completed with once it is fenced.
    pub(super) verdict: Verdict,
    /// The reply, if it is to go to memory that has to be fenced first.
    pub(super) late: Option<Late>,
    pub(super) parked: Option<Parked<Client>>,
}

impl Request {
    /// Slot number `index`, idle.
    pub(super) fn new(index: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            seat <- new_spinlock!(
                Seat { ep: None, state: State::new()? },
                "rpcrdma::Request::seat"
            ),
            news <- Change::new(),
        })
    }

    /// Tag of the request's Send.
    #[inline]
    pub(super) fn send_tag(&self) -> Tag {
        Tag::new(FIRST + self.index * KINDS)
    }

    /// Tag of the request's LOCAL_INV chain.
    #[inline]
    pub(super) fn fence_tag(&self) -> Tag {
        Tag::new(FIRST + self.index * KINDS + 1)
    }

    /// Takes the slot's lock. It nests inside nothing of SUNRPC's but the send lock, which is not
    /// a spinlock.
    #[inline]
    pub(super) fn lock(&self) -> SpinLockGuard<'_, Seat> {
        self.seat.lock()
    }

    /// Waits while `condition` holds, at most so many jiffies. `false`: it still does. The condition
    /// changes with [`Self::wake`]. Sleeps; for the task alone that gives the request up.
    pub(super) fn wait_while(
        &self,
        mut limit: Jiffies,
        condition: impl Fn(&State) -> bool,
    ) -> bool {
        while condition(&self.lock().state) {
            if limit == 0 {
                return false;
            }
            limit = self.news.wait(limit);
        }
        true
    }

    /// Gives the request, which was swept after its last connection, a send buffer for connection
    /// number `epoch`.
    pub(super) fn equip(&self, buf: SendBuf, epoch: u32) {
        let mut seat = self.seat.lock();
        seat.state.epoch = epoch;
        seat.state.out = Some(buf);
    }

    /// The connection that the request was equipped for is up.
    pub(super) fn attach(&self, ep: Arc<Endpoint>) {
        // INVARIANT: The caller has equipped it with the number of this connection.
        self.seat.lock().ep = Some(ep);
    }

    /// Gives the request another send buffer, unless its connection is gone meanwhile.
    pub(super) fn refit(&self, buf: SendBuf, ep: &Endpoint) {
        let mut seat = self.seat.lock();
        if !ep.is_closed() && seat.state.epoch == ep.epoch {
            seat.state.out = Some(buf);
        }
    }

    /// Wakes the task that waits in [`Self::wait_while`], if there is one.
    pub(super) fn wake(&self) {
        self.news.announce();
    }
}

impl State {
    fn new() -> Result<Self> {
        // A chunk for the call and one for the reply.
        let regions = 2 * MAX_SEGMENTS as usize;
        Ok(Self {
            phase: Phase::Idle,
            epoch: 0,
            xid: 0,
            answered: false,
            out: None,
            out_len: 0,
            regions: KVec::with_capacity(regions, GFP_KERNEL)?,
            offered: KVec::with_capacity(MAX_SEGMENTS as usize, GFP_KERNEL)?,
            offer: Offered::Nothing,
            verdict: Verdict::Failed,
            late: None,
            parked: None,
        })
    }

    /// Takes back the regions that the peer cannot reach any more.
    pub(super) fn fenced(&mut self) {
        for region in self.regions.iter_mut().filter(|region| region.is_live()) {
            region.invalidated();
        }
    }

    /// The region that the last LOCAL_INV of the chain was posted for, if there is a chain.
    pub(super) fn last_fenced(&self) -> Option<&Mr> {
        let mut from_last = self.regions.iter().rev();
        from_last.find(|region| region.is_being_invalidated())
    }

    /// Gives the regions back: nobody can reach the memory any more, or never could.
    pub(super) fn reset(&mut self) {
        for region in &self.regions {
            trace::mr_unmap(names::region(region));
        }
        self.regions.clear();
        self.offered.clear();
        self.offer = Offered::Nothing;
        self.out_len = 0;
        self.answered = false;
        self.phase = Phase::Idle;
    }

    /// Whether a region can still be reached by the peer.
    #[inline]
    pub(super) fn exposed(&self) -> bool {
        self.regions.iter().any(Mr::is_live)
    }
}
