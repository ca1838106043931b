// SPDX-License-Identifier: GPL-2.0

//! Request slots: the phase of the RPC in each, and its contents, which the RPC owns on the RDMA
//! side.
//!
//! ```text
//!           prepare            send               reply
//!   Idle ──────────► Prepared ──────► Sent ───────────────────► Idle
//!    ▲                  │              │ │ regions left to invalidate
//!    │        reset     │     give up  │ └────────► Fencing ──┐
//!    ├──────────────────┘              ▼                      │ LOCAL_INV done,
//!    │                             Abandoned                  │ RPC completed
//!    │            LOCAL_INV done       │                      │
//!    └─────────────────────────────────┴──────────────────────┘
//! ```
//!
//! Where mapping memory may take long, the slot is in phase Preparing between Idle and Prepared,
//! and the task that prepares the call owns the contents of the slot ([`super::send`]).
//!
//! A call that SUNRPC takes back in order to encode it again ends in Withdrawn instead of Idle: it
//! must not be sent again over the same connection. The slot leaves Withdrawn when the call is
//! released, or when the slot is swept.
//!
//! When the connection is closed, [`SlotTable::sweep`] takes every slot back to Idle.
//!
//! No other file names a phase: only [`Locked`] tests and changes it, also for [`SlotTable`].
//!
//! [`SlotTable`]: super::SlotTable
//! [`SlotTable::sweep`]: super::SlotTable::sweep

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};
use kernel::time::{Instant, Jiffies, Monotonic};

use super::super::config::MAX_SEGMENTS;
use super::super::endpoint::{Endpoint, Spare};
use super::super::transport::Client;
use super::fence::Ending;
use crate::conn::terms::TermsSnapshot;
use crate::conn::traced;
use crate::observe::stats::CallCounts;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallOptions, InlineSpace, ReplyKind};
use crate::proto::requester::reply::Offer;
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::Mr;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::reply::Parked;
use crate::sunrpc::xprt::transport::SendError;
use crate::wire::{Segment, Version};
use crate::work::{read_once, write_once, WakeEvent};

/// No limit (`MAX_SCHEDULE_TIMEOUT`). CAST: it is the largest `long`.
pub(super) const FOREVER: Jiffies = isize::MAX as Jiffies;

/// The phase of a slot's RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No memory is mapped or exposed.
    Idle,
    /// A task maps memory and encodes the header. Meanwhile it owns the contents of the slot.
    Preparing,
    /// Memory is mapped and the header is encoded. No work request is posted.
    Prepared,
    /// The call is posted: the peer may reach the memory. No reply has arrived, unless
    /// [`Locked::answered`] is set.
    Sent,
    /// The reply has arrived. Local invalidation is in progress; its end completes the RPC.
    Fencing,
    /// The RPC was aborted. Local invalidation is in progress, and a task waits for its end.
    Abandoned,
    /// The call was taken back. No memory is mapped or exposed, and no call can be prepared.
    Withdrawn,
}

/// The client's part of a request slot.
#[pin_data]
pub(crate) struct Slot {
    /// The number of the slot.
    pub(super) index: u32,
    /// Whether the slot may be in a phase other than Idle, for readers without the lock. The flag
    /// changes under the lock. It is set whenever the slot is not idle, and cleared when a reply
    /// completes the RPC.
    in_use: Atomic<bool>,
    #[pin]
    locked: SpinLock<Locked>,
    /// Signalled when an aborted call has been answered, and when the slot becomes idle.
    #[pin]
    progress: WakeEvent,
}

/// The data that a [`Slot`]'s lock protects.
///
/// # Invariants
///
/// - `ep` is the connection with number `epoch`, and the contents belong to this connection.
/// - The contents have no regions in the phases Idle, Preparing and Withdrawn.
/// - `parked` holds the RPC's pin in phase Fencing, and in no other.
pub(super) struct Locked {
    /// The connection, from when it is established until the slot is swept. RPCs borrow it here.
    pub(super) ep: Option<Arc<Endpoint>>,
    pub(super) contents: Contents,
    phase: Phase,
    pub(super) epoch: u32,
    /// In phase Sent: the reply arrived when SUNRPC no longer waited for it. The peer has finished
    /// with the call, and counts its credit as free.
    pub(super) answered: bool,
    /// In phase Sent: SUNRPC has encoded the call again since, and may expect another reply.
    pub(super) stale: bool,
    /// The RPC that the end of the local invalidation completes.
    parked: Option<(Parked<Client>, Ending)>,
    /// The call for which the DMA layer has no space, by XID and epoch, and since when.
    pub(super) unmapped: Option<((u32, u32), Instant<Monotonic>)>,
}

impl Slot {
    /// Makes slot number `index`, in phase Idle.
    pub(in crate::client) fn new(index: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            in_use: Atomic::new(false),
            locked <- new_spinlock!(Locked::new()?, "rpcrdma::Slot::locked"),
            progress <- WakeEvent::new(),
        })
    }

    /// Takes the slot's lock. Of SUNRPC's locks, only the send lock may be held, which is no
    /// spinlock.
    pub(super) fn lock(&self) -> SpinLockGuard<'_, Locked> {
        self.locked.lock()
    }

    /// Returns whether the slot may be in a phase other than Idle. Without the lock the answer may
    /// be late; for the task of the RPC it is exact once no other context works on the RPC.
    pub(super) fn is_in_use(&self) -> bool {
        read_once(&self.in_use)
    }

    /// Records that the slot leaves phase Idle. The slot's lock is held.
    pub(super) fn begin_use(&self) {
        write_once(&self.in_use, true);
    }

    /// Makes the slot idle: a reply completes its RPC, and the peer reaches none of its memory.
    #[inline]
    pub(super) fn end_use(&self, locked: &mut Locked) {
        locked.reset();
        write_once(&self.in_use, false);
    }

    /// Ends the local invalidation and makes the slot idle. Returns the RPC to complete, if any.
    pub(super) fn end_fencing(&self, locked: &mut Locked) -> Option<(Parked<Client>, Ending)> {
        let parked = locked.parked.take();
        match parked {
            Some(_) => self.end_use(locked),
            // A task that aborts the call may continue with the slot.
            None => locked.reset(),
        }
        parked
    }

    /// Waits while `condition` holds, for `limit` jiffies at most. Returns whether the condition
    /// has ended. [`Self::wake`] signals each change. Only the task that aborts the call may call
    /// this, or in phase Preparing the sweep. Sleeps.
    pub(super) fn wait_while(
        &self,
        mut limit: Jiffies,
        condition: impl Fn(&Locked) -> bool,
    ) -> bool {
        while condition(&self.lock()) {
            if limit == 0 {
                return false;
            }
            limit = self.progress.wait(limit);
        }
        true
    }

    /// Wakes the task that waits in [`Self::wait_while`], if there is one.
    pub(super) fn wake(&self) {
        self.progress.announce();
    }

    /// Ends phase Preparing: `contents` have a prepared call if `prepared` is set. Wakes the sweep.
    pub(super) fn end_preparing(&self, contents: Contents, prepared: bool) {
        let mut locked = self.lock();
        locked.phase = Phase::Idle;
        if prepared {
            locked.phase = Phase::Prepared;
        }
        let left = core::mem::replace(&mut locked.contents, contents);
        drop(locked);
        self.wake();
        drop(left);
    }

    /// Gives the slot another send buffer, unless its connection was closed meanwhile.
    pub(super) fn replace_buffer(&self, buf: SendBuf, ep: &Endpoint) {
        let mut locked = self.lock();
        if !ep.is_closed() && locked.epoch == ep.epoch() {
            locked.contents.set_buffer(buf);
        }
    }
}

impl Locked {
    fn new() -> Result<Self> {
        Ok(Self {
            ep: None,
            contents: Contents::new()?,
            phase: Phase::Idle,
            epoch: 0,
            answered: false,
            stale: false,
            parked: None,
            unmapped: None,
        })
    }

    /// Orders the close of the slot's connection, if there is one: the call needs the next one.
    #[cold]
    pub(super) fn order_close(&self) {
        if let Some(ep) = &self.ep {
            ep.shared().force_close();
        }
    }

    /// Returns whether no call is prepared or in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Takes a call back that was prepared under terms which have changed since.
    pub(super) fn drop_void(&mut self) {
        let Some(ep) = &self.ep else {
            return;
        };
        let void = self.contents.terms != ep.shared().terms();
        if void && self.phase == Phase::Prepared {
            self.take_back();
        }
    }

    /// Returns the connection and the contents of a slot for which a call can be prepared. A call
    /// that was prepared before is taken back: SUNRPC has encoded it again, and its memory may have
    /// moved. `None`: a call is in progress, or there is no connection.
    pub(super) fn begin_prepare(&mut self) -> Option<(&Endpoint, &mut Contents)> {
        match self.phase {
            Phase::Idle => {}
            Phase::Prepared => self.take_back(),
            _ => return None,
        }
        let Self { ep, contents, .. } = self;
        Some((ep.as_deref()?, contents))
    }

    /// Records that the contents have a prepared call, for the connection of the slot.
    pub(super) fn set_prepared(&mut self, slot: &Slot) {
        self.phase = Phase::Prepared;
        slot.begin_use();
    }

    /// Begins phase Preparing, and takes the contents. `None` if a call is in progress.
    pub(super) fn begin_preparing(&mut self, slot: &Slot) -> Option<Contents> {
        if !matches!(self.phase, Phase::Idle | Phase::Prepared) {
            return None;
        }
        self.phase = Phase::Preparing;
        slot.begin_use();
        // Empty contents stand in for those that the task owns.
        let left = Contents::empty(self.contents.counts);
        Some(core::mem::replace(&mut self.contents, left))
    }

    /// Posts a prepared call by `post`. Returns the connection, and what `post` returns.
    ///
    /// # Errors
    ///
    /// `NotConnected` without a connection. `Dropped` in any phase but Prepared: the call is in
    /// progress, or is being aborted. The peer counts credits, so no call is sent twice over one
    /// connection: only a new connection can carry it again.
    #[inline(always)]
    pub(super) fn post(
        &mut self,
        post: impl FnOnce(&Endpoint, &mut Contents) -> Result<u64, PostError>,
    ) -> Result<(&Endpoint, Result<u64, PostError>), SendError> {
        let ep = self.ep.as_deref().ok_or(SendError::NotConnected)?;
        if self.phase != Phase::Prepared {
            self.order_close();
            return Err(SendError::Dropped);
        }
        let posted = post(ep, &mut self.contents);
        if matches!(posted, Ok(_) | Err(PostError::Broken(_))) {
            // After a failure within the chain as well: the peer may reach some of the regions.
            self.phase = Phase::Sent;
            self.unmapped = None;
        }
        Ok((ep, posted))
    }

    /// Returns whether the call was sent over connection number `epoch`, and its memory is not
    /// being invalidated.
    pub(super) fn is_sent(&self, epoch: u32) -> bool {
        self.phase == Phase::Sent && self.epoch == epoch
    }

    /// Returns whether the call was sent over connection number `epoch` and is not answered.
    pub(super) fn is_unanswered(&self, epoch: u32) -> bool {
        self.is_sent(epoch) && !self.answered
    }

    /// Returns whether the server may be using the memory of the call, which it has not answered.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_unanswered(self.epoch) && self.contents.is_exposed()
    }

    /// Begins the local invalidation that completes the RPC, which ends as `ending` says.
    pub(super) fn begin_fencing(&mut self, rqst: Parked<Client>, ending: Ending) {
        // INVARIANT: the phase becomes Fencing as the pin is parked.
        self.phase = Phase::Fencing;
        self.parked = Some((rqst, ending));
    }

    /// Returns whether local invalidation over connection number `epoch` is in progress: `true` if
    /// its end completes an RPC, `false` if a task waits for its end.
    pub(super) fn fencing(&self, epoch: u32) -> Option<bool> {
        match self.phase {
            Phase::Fencing | Phase::Abandoned if self.epoch == epoch => {
                Some(self.phase == Phase::Fencing)
            }
            _ => None,
        }
    }

    /// Takes back a call that was not sent. Returns whether there is nothing else to abort.
    pub(super) fn drop_unsent(&mut self) -> bool {
        match self.phase {
            // SUNRPC never aborts a call that is being prepared.
            Phase::Idle | Phase::Preparing => {}
            Phase::Prepared | Phase::Withdrawn => self.reset(),
            Phase::Sent | Phase::Fencing | Phase::Abandoned => return false,
        }
        true
    }

    /// Returns the number of the connection over which the server may have received the call.
    pub(super) fn used_epoch(&self) -> Option<u32> {
        (!matches!(self.phase, Phase::Idle | Phase::Prepared)).then_some(self.epoch)
    }

    /// Aborts the call. A task waits for the end of the local invalidation.
    pub(super) fn abandon(&mut self) {
        self.phase = Phase::Abandoned;
    }

    /// Returns whether a task waits for the end of the local invalidation.
    pub(super) fn is_abandoned(&self) -> bool {
        self.phase == Phase::Abandoned
    }

    /// Prevents the preparation of a call until the connection is closed. Returns `false` if the
    /// slot no longer belongs to connection number `epoch`. There are no regions.
    pub(super) fn withdraw(&mut self, epoch: u32) -> bool {
        // A slot that was swept has no connection.
        let belongs = self.ep.is_some() && self.epoch == epoch;
        if belongs {
            self.phase = Phase::Withdrawn;
        }
        belongs
    }

    /// Assigns the idle slot to connection number `epoch`, with a send buffer.
    pub(super) fn begin_connection(&mut self, buf: SendBuf, epoch: u32) {
        self.epoch = epoch;
        self.contents.set_buffer(buf);
    }

    /// Returns whether a task owns the contents.
    pub(super) fn is_preparing(&self) -> bool {
        self.phase == Phase::Preparing
    }

    /// Marks a call for which SUNRPC no longer waits as answered. Returns the contents if the peer
    /// may have been able to reach the memory until now, and whether there is such a call, answered
    /// before or not.
    pub(super) fn mark_answered(&mut self) -> (Option<&mut Contents>, bool) {
        let sent = self.phase == Phase::Sent;
        let known = sent || self.phase == Phase::Fencing;
        self.answered |= sent;
        (sent.then_some(&mut self.contents), known)
    }

    /// Takes back a prepared call that has not been sent, and the spare regions.
    pub(super) fn take_regions_back(&mut self) {
        if self.phase == Phase::Prepared {
            self.reset();
        }
        self.contents.spare = Spare::default();
    }

    /// Gives the regions back, which no peer can reach any more, and makes the slot idle.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.contents.reset();
        self.answered = false;
        self.stale = false;
        self.phase = Phase::Idle;
    }

    /// Takes a prepared call back.
    #[cold]
    fn take_back(&mut self) {
        self.reset();
    }
}

/// The memory of a call and its reply, and the terms for which the call is prepared.
///
/// # Invariants
///
/// The contents of `regions`, `spare` and `out` belong to the connection of the slot.
pub(super) struct Contents {
    /// The XID of the call that was prepared last.
    pub(super) xid: u32,
    /// The terms that the call was prepared under.
    pub(super) terms: TermsSnapshot,
    /// The space for messages under these terms, in this send buffer.
    pub(super) space: InlineSpace,
    /// The buffer in which the message is assembled; none without a connection.
    pub(super) out: Option<SendBuf>,
    /// The bytes of `out` to send.
    pub(super) out_len: usize,
    /// The registered memory of call and reply. Space for the maximum number of regions was
    /// allocated with the slot.
    pub(super) regions: KVec<Mr>,
    /// Idle regions, which earlier calls have left for the next ones.
    pub(super) spare: Spare,
    /// The segments that the call offers for the reply, as encoded.
    pub(super) offered: KVec<Segment>,
    /// How the call takes its reply.
    pub(super) offer: ReplyKind,
    /// The slot's part of the transport's counters, over all connections.
    pub(super) counts: CallCounts,
}

impl Contents {
    /// Makes the contents of a new slot. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        // A chunk for the call and one for the reply.
        let regions = 2 * MAX_SEGMENTS as usize;
        Ok(Self {
            regions: KVec::with_capacity(regions, GFP_KERNEL)?,
            offered: KVec::with_capacity(MAX_SEGMENTS as usize, GFP_KERNEL)?,
            ..Self::empty(CallCounts::default())
        })
    }

    fn empty(counts: CallCounts) -> Self {
        Self {
            xid: 0,
            terms: TermsSnapshot::NEVER,
            space: InlineSpace::new(&Thresholds::DEFAULT, MAX_SEGMENTS, CallOptions::DEFAULT),
            out: None,
            out_len: 0,
            regions: KVec::new(),
            spare: Spare::default(),
            offered: KVec::new(),
            offer: ReplyKind::Inline,
            counts,
        }
    }

    /// Sets the send buffer, while no call is prepared. Returns the previous one.
    pub(super) fn set_buffer(&mut self, buf: SendBuf) -> Option<SendBuf> {
        // The next call computes the space for this buffer.
        self.terms = TermsSnapshot::NEVER;
        self.out.replace(buf)
    }

    /// Returns whether the send buffer of a slot that was ever used has less than `len` bytes.
    pub(super) fn has_shorter_buffer(&self, len: usize) -> bool {
        let out = self.out.as_ref().filter(|_| self.xid != 0);
        out.is_some_and(|out| out.capacity() < len)
    }

    /// Returns the message to send, if there is a send buffer.
    pub(super) fn message(&mut self) -> Option<&[u8]> {
        let len = self.out_len;
        self.out.as_mut()?.as_mut_slice().get(..len)
    }

    /// Sets the terms under which a call is prepared. `None`: there is no send buffer.
    #[inline(always)]
    pub(super) fn set_terms(&mut self, now: TermsSnapshot) -> Option<()> {
        if self.terms == now {
            return Some(());
        }
        self.change_terms(now)
    }

    #[cold]
    fn change_terms(&mut self, now: TermsSnapshot) -> Option<()> {
        let thresholds = self.thresholds(now)?;
        self.space = InlineSpace::new(&thresholds, MAX_SEGMENTS, now.options());
        self.terms = now;
        Some(())
    }

    /// Returns the thresholds for a call under these terms, if there is a send buffer. A larger
    /// buffer may not have reached the slot yet.
    pub(super) fn thresholds(&self, terms: TermsSnapshot) -> Option<Thresholds> {
        let capacity = self.out.as_ref()?.capacity();
        let mut thresholds = terms.thresholds();
        if thresholds.version == Version::Two {
            // CAST: a buffer's length fits.
            thresholds.client_to_server = thresholds.client_to_server.min(capacity as u32);
        }
        Some(thresholds)
    }

    /// Returns the chunks that the call offers for its reply.
    pub(super) fn offer(&self) -> Offer<'_> {
        let segments = |kind| (self.offer == kind).then_some(&self.offered[..]);
        Offer {
            write_chunk: segments(ReplyKind::WriteChunk),
            reply_chunk: segments(ReplyKind::ReplyChunk),
        }
    }

    /// Returns the regions that the peer can reach.
    pub(super) fn live(&self) -> impl Iterator<Item = &Mr> {
        self.regions.iter().filter(|region| region.is_live())
    }

    /// Returns whether the peer can reach a region.
    pub(super) fn is_exposed(&self) -> bool {
        self.regions.iter().any(Mr::is_live)
    }

    /// Marks the regions whose LOCAL_INV has completed, or whose queue pair is drained, so that
    /// they can be used again. Returns `false` if the peer can still reach a region.
    pub(super) fn mark_invalidated(&mut self) -> bool {
        let regions = self.regions.iter_mut();
        regions.fold(true, |all, region| all & region.invalidated())
    }

    /// Returns the region that the last LOCAL_INV of the chain was posted for, if there is a chain.
    pub(super) fn last_invalidating(&self) -> Option<&Mr> {
        let mut from_last = self.regions.iter().rev();
        from_last.find(|region| region.is_being_invalidated())
    }

    /// Gives the regions back, which no peer can reach any more.
    #[inline]
    pub(super) fn reset(&mut self) {
        trace::mr_unmaps(|| self.regions.iter().map(traced::region));
        self.keep_spare();
        if !self.regions.is_empty() {
            self.regions.clear();
        }
        self.offered.clear();
        self.offer = ReplyKind::Inline;
        self.out_len = 0;
    }

    /// Keeps the last region for the next call, if it is idle and no region of its kind is kept
    /// yet.
    #[inline]
    fn keep_spare(&mut self) {
        let Some(idle) = self.regions.last().filter(|region| region.is_idle()) else {
            return;
        };
        let place = self.spare.of(idle.kind());
        if place.is_none() {
            *place = self.regions.pop();
        }
    }
}
