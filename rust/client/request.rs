// SPDX-License-Identifier: GPL-2.0

//! A request slot: what one RPC owns on the RDMA side.
//!
//! ```text
//!           marshal            send               reply
//!   Idle ──────────► Prepared ──────► Sent ───────────────────► Idle
//!    ▲                  │              │ │ regions left to invalidate
//!    │        reset     │      release │ └────────► Fencing ──┐
//!    ├──────────────────┘              ▼                      │ LOCAL_INV done,
//!    │                             Abandoned                  │ RPC completed
//!    │            LOCAL_INV done       │                      │
//!    └─────────────────────────────────┴──────────────────────┘
//! ```
//!
//! Where mapping memory may take long, the slot is in phase Preparing between Idle and Prepared,
//! and the task that prepares the call has its contents ([`super::preparing`]).
//!
//! A call that SUNRPC takes back only to encode it anew ends in Withdrawn instead of Idle: it must
//! not be sent again over the same connection. It leaves Withdrawn when it is released, or swept.
//!
//! When the connection is closed, [`super::fence::sweep`] takes every slot back to Idle.

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};
use kernel::time::Jiffies;

use super::config::MAX_SEGMENTS;
use super::endpoint::Endpoint;
use super::spare::Spare;
use super::tags;
use super::transport::Client;
use crate::conn::live::Now;
use crate::conn::traced;
use crate::observe::stats::CallCounts;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallOptions, Rooms};
use crate::rdma::mr::Mr;
use crate::rdma::qp::Tag;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::reply::Parked;
use crate::wire::{Segment, Version};
use crate::work::{Change, Once};

/// No limit (`MAX_SCHEDULE_TIMEOUT`). CAST: it is the largest `long`.
pub(super) const FOREVER: Jiffies = isize::MAX as Jiffies;

/// How far a slot's RPC has come, as far as RDMA is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No memory is mapped or exposed.
    Idle,
    /// A task maps memory and encodes the header, and has the contents of the slot meanwhile.
    Preparing,
    /// Memory is mapped and the header is encoded. No work request is posted.
    Prepared,
    /// The call is posted: the peer may reach the memory. No reply has come, unless
    /// [`State::answered`] is set.
    Sent,
    /// The reply has come. Local invalidation is under way; its end completes the RPC.
    Fencing,
    /// The RPC was given up. Local invalidation is under way, and a task waits for its end.
    Abandoned,
    /// The call was taken back. No memory is mapped or exposed, and no call can be prepared.
    Withdrawn,
}

/// How the call takes its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// Inline only.
    Nothing,
    /// Through a write chunk of the segments in [`State::offered`].
    WriteChunk,
    /// Through a reply chunk of the segments in [`State::offered`].
    ReplyChunk,
}

/// How an RPC ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// With a reply of so many bytes, chunks included.
    Length(u32),
    /// With `EIO`: the responder could not process the call, or its reply was not acceptable.
    Failed,
}

/// The inline part of a reply that came while the peer could still reach the memory where the reply
/// belongs. The DMA layer may have a bounce buffer for that memory, too, whose contents would
/// overwrite the reply.
///
/// It may be `vmalloc()` memory, so it is not dropped while a spinlock is held.
pub(super) struct DeferredReply {
    pub(super) message: KVVec<u8>,
    /// The bytes that came through the write chunk, if it was used.
    pub(super) chunk: Option<u32>,
}

impl DeferredReply {
    /// Keeps a copy of `message`. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(message: &[u8], chunk: Option<u32>) -> Result<Self> {
        let mut copy = KVVec::new();
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
    /// The number of the slot.
    index: u32,
    /// Whether the slot may be in a phase other than Idle, for readers without the lock. It changes
    /// under the lock, or in phase Preparing. It is set whenever the slot is not idle, and cleared
    /// when a reply completes the RPC.
    in_use: Atomic<bool>,
    #[pin]
    locked: SpinLock<Locked>,
    /// Announced when a request that is given up has been answered, or becomes idle.
    #[pin]
    progress: Change,
}

/// What a [`Request`]'s lock protects.
///
/// # Invariants
///
/// `ep` is the connection with number `state.epoch`.
pub(super) struct Locked {
    /// The connection, from when it is established until the slot is swept. An RPC borrows it here,
    /// and so takes no reference of its own.
    pub(super) ep: Option<Arc<Endpoint>>,
    pub(super) state: State,
}

/// How far an RPC has come, and what it owns.
///
/// # Invariants
///
/// - `regions` is empty in the phases Idle, Preparing and Withdrawn.
/// - In phase Fencing, and in no other, `parked` holds the RPC's pin. `deferred` is empty in all
///   other phases.
/// - The contents of `regions`, `spare` and `out` belong to the connection with number `epoch`.
pub(super) struct State {
    pub(super) phase: Phase,
    /// The number of the connection that `regions`, `spare` and `out` belong to.
    pub(super) epoch: u32,
    /// The XID of the call that was prepared last.
    pub(super) xid: u32,
    /// The terms that the call was prepared under.
    pub(super) terms: Now,
    /// How long messages may be under these terms, and with this send buffer.
    pub(super) rooms: Rooms,
    /// In phase Sent: the reply has come when SUNRPC no longer waited for it. The peer has finished
    /// with the call, and counts its credit as free.
    pub(super) answered: bool,
    /// The buffer in which the message is assembled; none without a connection.
    pub(super) out: Option<SendBuf>,
    /// The bytes of `out` to send.
    pub(super) out_len: usize,
    /// The registered memory of call and reply. Room for the most regions was allocated with the
    /// slot.
    pub(super) regions: KVec<Mr>,
    /// Idle regions, which earlier calls have left for the next ones.
    pub(super) spare: Spare,
    /// The segments that the call offers for the reply, as encoded.
    pub(super) offered: KVec<Segment>,
    pub(super) offer: Offered,
    /// How the RPC ends once its memory is invalidated.
    pub(super) status: Status,
    /// The reply, if it belongs into memory that has to be invalidated first.
    pub(super) deferred: Option<DeferredReply>,
    pub(super) parked: Option<Parked<Client>>,
    /// The slot's part of the transport's counters, of all connections.
    pub(super) counts: CallCounts,
}

impl Request {
    /// Makes slot number `index`, in phase Idle.
    pub(super) fn new(index: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            in_use: Atomic::new(false),
            locked <- new_spinlock!(
                Locked { ep: None, state: State::new()? },
                "rpcrdma::Request::locked"
            ),
            progress <- Change::new(),
        })
    }

    /// Returns the tag of the request's Send.
    #[inline]
    pub(super) fn send_tag(&self) -> Tag {
        tags::send(self.index)
    }

    /// Returns the tag of the request's LOCAL_INV chain.
    #[inline]
    pub(super) fn invalidation_tag(&self) -> Tag {
        tags::invalidation(self.index)
    }

    /// Takes the slot's lock. Of SUNRPC's locks, only the send lock may be held, which is no
    /// spinlock.
    #[inline]
    pub(super) fn lock(&self) -> SpinLockGuard<'_, Locked> {
        self.locked.lock()
    }

    /// Returns whether the slot may be in a phase other than Idle. The task of the RPC calls this
    /// when no other context works on the RPC any more.
    #[inline]
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.read_once()
    }

    /// Notes that the slot leaves phase Idle. The slot's lock is held, or its phase is Preparing.
    #[inline]
    pub(super) fn begin_use(&self) {
        self.in_use.write_once(true);
    }

    /// Notes that the slot has returned to phase Idle. The slot's lock is held.
    #[inline]
    pub(super) fn end_use(&self) {
        self.in_use.write_once(false);
    }

    /// Gives the spare regions back. The connection was closed.
    pub(super) fn drop_spare(&self) {
        // The regions are dropped outside the lock.
        let spare = core::mem::replace(&mut self.lock().state.spare, Spare::NONE);
        drop(spare);
    }

    /// Waits while `condition` holds, for `limit` jiffies at most. Returns whether the condition
    /// has ended. It changes with [`Self::wake`]. Only the task that gives the request up may call
    /// this, or in phase Preparing the sweep. Sleeps.
    pub(super) fn wait_while(
        &self,
        mut limit: Jiffies,
        condition: impl Fn(&State) -> bool,
    ) -> bool {
        while condition(&self.lock().state) {
            if limit == 0 {
                return false;
            }
            limit = self.progress.wait(limit);
        }
        true
    }

    /// Gives the slot, which was swept after its last connection, a send buffer for connection
    /// number
    /// `epoch`.
    pub(super) fn begin_connection(&self, buf: SendBuf, epoch: u32) {
        let mut locked = self.lock();
        locked.state.epoch = epoch;
        locked.state.set_buffer(buf);
    }

    /// Sets the connection, whose number the slot has got in [`Self::begin_connection`].
    pub(super) fn set_endpoint(&self, ep: Arc<Endpoint>) {
        // INVARIANT: `ep` has the number that `begin_connection` has set.
        self.lock().ep = Some(ep);
    }

    /// Gives the slot another send buffer, unless its connection was closed in the meantime.
    pub(super) fn replace_buffer(&self, buf: SendBuf, ep: &Endpoint) {
        let mut locked = self.lock();
        if !ep.is_closed() && locked.state.epoch == ep.epoch() {
            locked.state.set_buffer(buf);
        }
    }

    /// Returns whether the slot is idle, and has a send buffer of less than `len` bytes.
    pub(super) fn has_shorter_buffer(&self, len: usize) -> bool {
        let state = &self.lock().state;
        let shorter = state.out.as_ref().is_some_and(|out| out.capacity() < len);
        shorter && state.phase == Phase::Idle
    }

    /// Gives the slot another send buffer if it is idle, unless its connection was closed in the
    /// meantime. Returns the buffer that is not needed.
    pub(super) fn exchange_idle_buffer(&self, buf: SendBuf, ep: &Endpoint) -> Option<SendBuf> {
        let mut locked = self.lock();
        let state = &mut locked.state;
        if ep.is_closed() || state.epoch != ep.epoch() || state.phase != Phase::Idle {
            return Some(buf);
        }
        state.set_buffer(buf)
    }

    /// Waits until no task prepares a call. Nothing new is prepared for a connection that was
    /// closed. Sleeps.
    pub(super) fn wait_for_preparing(&self) {
        self.wait_while(FOREVER, |state| state.phase == Phase::Preparing);
    }

    /// Wakes the task that waits in [`Self::wait_while`], if there is one.
    pub(super) fn wake(&self) {
        self.progress.announce();
    }
}

impl Locked {
    /// Takes a call back that was prepared under terms which have changed since.
    #[inline]
    pub(super) fn forget_void(&mut self) {
        let Some(ep) = &self.ep else {
            return;
        };
        let void = self.state.terms != ep.shared().now();
        if void && self.state.phase == Phase::Prepared {
            self.state.take_back();
        }
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
            terms: Now::NEVER,
            rooms: Rooms::new(&Thresholds::DEFAULT, MAX_SEGMENTS, CallOptions::DEFAULT),
            answered: false,
            out: None,
            out_len: 0,
            regions: KVec::with_capacity(regions, GFP_KERNEL)?,
            spare: Spare::NONE,
            offered: KVec::with_capacity(MAX_SEGMENTS as usize, GFP_KERNEL)?,
            offer: Offered::Nothing,
            status: Status::Failed,
            deferred: None,
            parked: None,
            counts: CallCounts::default(),
        })
    }

    /// Returns what a slot has while a task prepares its call.
    pub(super) fn while_preparing(&self) -> Self {
        Self {
            phase: Phase::Preparing,
            epoch: self.epoch,
            xid: self.xid,
            terms: Now::NEVER,
            rooms: self.rooms,
            answered: false,
            out: None,
            out_len: 0,
            regions: KVec::new(),
            spare: Spare::NONE,
            offered: KVec::new(),
            offer: Offered::Nothing,
            status: Status::Failed,
            deferred: None,
            parked: None,
            counts: self.counts,
        }
    }

    /// Gives the slot, which is idle, a send buffer. Returns the one that it had.
    fn set_buffer(&mut self, buf: SendBuf) -> Option<SendBuf> {
        // The next call finds out what fits.
        self.terms = Now::NEVER;
        self.out.replace(buf)
    }

    /// Sets the terms under which a call is prepared. `None`: there is no send buffer.
    #[inline(always)]
    pub(super) fn set_terms(&mut self, now: Now) -> Option<()> {
        if self.terms == now {
            return Some(());
        }
        self.change_terms(now)
    }

    #[cold]
    fn change_terms(&mut self, now: Now) -> Option<()> {
        self.terms = now;
        let measured = self.thresholds();
        match measured {
            Some(thresholds) => self.rooms = Rooms::new(&thresholds, MAX_SEGMENTS, now.options()),
            None => self.terms = Now::NEVER,
        }
        measured.map(drop)
    }

    /// Returns the thresholds for a call, if there is a send buffer. A larger one may not have
    /// reached the slot yet.
    pub(super) fn thresholds(&self) -> Option<Thresholds> {
        let capacity = self.out.as_ref()?.capacity();
        let mut thresholds = self.terms.thresholds();
        if thresholds.version == Version::Two {
            // CAST: a buffer's length fits.
            thresholds.client_to_server = thresholds.client_to_server.min(capacity as u32);
        }
        Some(thresholds)
    }

    /// Marks the regions whose LOCAL_INV has completed, or whose queue pair is drained: the peer
    /// cannot reach them any more.
    pub(super) fn mark_invalidated(&mut self) {
        for region in self.regions.iter_mut().filter(|region| region.is_live()) {
            region.invalidated();
        }
    }

    /// Returns the region that the last LOCAL_INV of the chain was posted for, if there is a chain.
    pub(super) fn last_invalidating(&self) -> Option<&Mr> {
        let mut from_last = self.regions.iter().rev();
        from_last.find(|region| region.is_being_invalidated())
    }

    /// Gives the regions back, which no peer can reach, and makes the slot idle.
    #[inline]
    pub(super) fn reset(&mut self) {
        trace::mr_unmaps(|| self.regions.iter().map(traced::region));
        self.keep_spare();
        if !self.regions.is_empty() {
            self.regions.clear();
        }
        self.offered.clear();
        self.offer = Offered::Nothing;
        self.out_len = 0;
        self.answered = false;
        self.phase = Phase::Idle;
    }

    /// Takes a call back that was prepared, and is not sent as it is.
    #[cold]
    pub(super) fn take_back(&mut self) {
        self.reset();
    }

    /// Keeps the last region for the next call, if it is idle and there is none of its kind.
    #[inline]
    fn keep_spare(&mut self) {
        let idle = self.regions.last().filter(|region| region.is_idle());
        if let Some(place) = idle.and_then(|region| self.spare.vacant(region.kind())) {
            *place = self.regions.pop();
        }
    }

    /// Returns whether the peer can still reach a region.
    #[inline]
    pub(super) fn is_exposed(&self) -> bool {
        self.regions.iter().any(Mr::is_live)
    }
}
