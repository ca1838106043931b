// SPDX-License-Identifier: GPL-2.0

//! The operations of a connection that the device carries out, and those that wait for space on the
//! send queue.
//!
//! A thread of the service never waits for the send queue. An operation that does not fit is parked
//! here, and the completion worker posts it when there is space. Each operation that owns pages has
//! a slot from when it is posted until it is known to have completed. The number of the slot is the
//! operation's tag.
//!
//! The Send of a reply that owns few pages is signalled only if the three replies before it were
//! not. Its pages are freed with those of the next reply whose Send is signalled, or by the
//! periodic check of the connection, which sends a probe where no completion covers the last
//! replies. A Send whose reply has pages of the page cache is signalled: while there are further
//! references to such a page, it is not migrated, and direct I/O does not drop it from the cache.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};

use super::context::{Call, Calls};
use super::outgoing::Outgoing;
use super::queue::Ring;
use crate::conn::traced;
use crate::observe::trace;
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::scatter::Source;
use crate::rdma::send::SendBuf;
use crate::server::config::SQ_FULL;

/// The tag of Sends that own no pages.
pub(crate) const SEND: Tag = Tag::new(0);
/// The tag of a probe.
pub(crate) const PROBE: Tag = Tag::new(1);
/// The tag of backchannel calls.
pub(crate) const BACKCHANNEL: Tag = Tag::new(2);
/// The tag of the session's messages.
pub(crate) const CONTROL: Tag = Tag::new(3);
/// The tag of invalidations of regions that the requester could read.
pub(crate) const INVALIDATION: Tag = Tag::new(4);
/// The tag of the first slot.
const FIRST: u32 = 5;
/// The most replies in a row whose Sends are not signalled.
const QUIET: u32 = 3;
/// The most pages of such a reply: those of 64 KiB, and of the surrounding XDR.
const QUIET_PAGES: usize = 18;

/// Returns the number of tags of a connection with `operations` slots.
pub(crate) const fn tags(operations: u32) -> u32 {
    operations + FIRST
}

/// An operation that owns pages and has been posted.
enum Operation {
    /// A reply by RDMA Write: its pages.
    Reply(Source),
    /// A call that RDMA Reads fetch, with its pages.
    Read(KBox<Call>),
}

impl Operation {
    /// Returns the number of pages of the budget that the operation uses.
    fn pages(&self) -> usize {
        match self {
            Self::Read(call) => call.pages(),
            Self::Reply(_) => 0,
        }
    }

    /// Returns whether the operation is a reply that is known to have been sent.
    fn is_sent(&self) -> bool {
        matches!(self, Self::Reply(source) if !source.in_flight())
    }
}

/// The purpose of the work requests of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Probe,
    /// RDMA Writes and the Send behind them.
    Write,
    Read,
}

/// An operation that waits for space on the send queue.
enum Parked {
    Reply(Outgoing),
    Read(KBox<Call>),
}

impl Parked {
    /// Returns the number of pages of the budget that the operation uses.
    fn pages(&self) -> usize {
        match self {
            Self::Read(call) => call.pages(),
            Self::Reply(_) => 0,
        }
    }
}

/// The queue pair takes no more work requests, or more operations wait than there can be calls: the
/// connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// An operation that was not posted.
enum Refused {
    /// There is no space on the send queue, or no slot.
    Full(Parked),
    /// The connection has failed.
    Broken(Parked),
}

/// The operations of one connection. All methods are for process context and do not sleep.
#[pin_data]
pub(crate) struct InFlight {
    #[pin]
    state: SpinLock<InFlightState>,
    /// Publishes the number of parked operations to readers without the lock.
    calls: Arc<Calls>,
}

struct InFlightState {
    slots: KVVec<Option<Operation>>,
    /// The numbers of the slots that are empty.
    free: KVVec<u32>,
    /// The slots of replies, in the order of posting.
    replies: Ring<u32>,
    /// The number of replies since the last one whose Send was signalled.
    quiet: u32,
    parked: Ring<Parked>,
    /// The buffers of messages, in the order of posting, until they are used again. There is a
    /// place for each work request of the send queue.
    sent: Ring<SendBuf>,
    closed: bool,
}

impl InFlight {
    /// Makes the operations of a connection that has posted none. `operations` is the number of
    /// slots, `most` the largest number of calls in progress, `queue` the length of the send queue.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        operations: u32,
        most: u32,
        queue: u32,
        calls: Arc<Calls>,
    ) -> Result<impl PinInit<Self>> {
        // CAST: `usize` has at least 32 bits.
        let room = operations as usize;
        let mut slots = KVVec::with_capacity(room, GFP_KERNEL)?;
        let mut free = KVVec::with_capacity(room, GFP_KERNEL)?;
        for n in 0..operations {
            slots.push(None, GFP_KERNEL)?;
            free.push(n, GFP_KERNEL)?;
        }
        let state = InFlightState {
            slots,
            free,
            replies: Ring::new(operations)?,
            quiet: 0,
            parked: Ring::new(most)?,
            sent: Ring::new(queue)?,
            closed: false,
        };
        Ok(pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::InFlight::state"),
            calls,
        }))
    }

    /// Returns a send buffer of at least `len` bytes that the device does not use. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn send_buffer(&self, pd: &Arc<Pd>, len: u32) -> Result<SendBuf> {
        // CAST: `usize` has at least 32 bits.
        let len = len as usize;
        // A buffer that was made for a lower threshold is freed.
        if let Some(buf) = self.take_sent_buffer().filter(|buf| buf.capacity() >= len) {
            return Ok(buf);
        }
        SendBuf::new(pd, len, GFP_KERNEL)
    }

    /// Removes and returns the buffer of the oldest message, if the device has finished with it.
    #[inline(always)]
    fn take_sent_buffer(&self) -> Option<SendBuf> {
        let mut state = self.state.lock();
        if state.sent.front()?.in_flight() {
            return None;
        }
        state.sent.pop()
    }

    /// Posts a message, or parks it. Returns whether operations were posted that had been parked.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the message was dropped.
    #[inline(always)]
    pub(crate) fn send<C: Completions>(&self, qp: &Qp<C>, out: Outgoing) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let posted = match state.parked.is_empty() {
            true => state.post_reply(qp, out),
            false => Err(Refused::Full(Parked::Reply(out))),
        };
        match posted {
            Ok(()) => Ok(false),
            Err(refused) => self.not_posted(qp, state, refused),
        }
    }

    /// Posts a message without RDMA Writes, which invalidates `rkey`, or parks it, as
    /// [`Self::send`] does. The message of most replies is not moved then.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the message was dropped.
    #[inline(always)]
    pub(crate) fn send_inline<C: Completions>(
        &self,
        qp: &Qp<C>,
        mut buf: SendBuf,
        len: usize,
        rkey: Option<u32>,
    ) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let posted = match state.parked.is_empty() {
            true => qp.post_reply(SEND, None, &mut buf, len, rkey, false),
            false => Err(PostError::Full),
        };
        if let Err(error) = posted {
            let out = Outgoing {
                rkey,
                ..Outgoing::inline(buf, len)
            };
            let refused = refused(qp, SEND, error, Parked::Reply(out));
            return self.not_posted(qp, state, refused);
        }
        trace::server::post_send(traced::cid(qp, SEND.get()), 1, rkey.unwrap_or(0));
        state.keep(buf);
        Ok(false)
    }

    /// Posts a message without RDMA Writes, behind the registration of `regions`.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_send`]. The message was dropped then.
    #[cfg(RPCRDMA_LEGACY)]
    #[cold]
    pub(crate) fn send_registering<C: Completions>(
        &self,
        qp: &Qp<C>,
        regions: &mut KVec<crate::rdma::mr::Mr>,
        mut buf: SendBuf,
        len: usize,
    ) -> Result<u64, PostError> {
        let mut state = self.state.lock();
        let position = qp.post_send(SEND, regions, &mut buf, len, false)?;
        state.keep(buf);
        Ok(position)
    }

    /// Posts the RDMA Reads of a call, or parks them. Returns whether operations were posted that
    /// had been parked.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the call was dropped.
    #[inline(always)]
    pub(crate) fn read<C: Completions>(
        &self,
        qp: &Qp<C>,
        call: KBox<Call>,
    ) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let posted = match state.parked.is_empty() {
            true => state.post_read(qp, call),
            false => Err(Refused::Full(Parked::Read(call))),
        };
        match posted {
            Ok(()) => Ok(false),
            Err(refused) => self.not_posted(qp, state, refused),
        }
    }

    /// Parks or drops an operation that was not posted. Returns whether any was posted that had
    /// been parked.
    #[cold]
    fn not_posted<C: Completions>(
        &self,
        qp: &Qp<C>,
        mut state: SpinLockGuard<'_, InFlightState>,
        refused: Refused,
    ) -> Result<bool, Broken> {
        let dropped = match refused {
            Refused::Full(operation) => self.park(qp, &mut state, operation),
            Refused::Broken(operation) => Some(operation),
        };
        drop(state);
        match dropped {
            // The device may have freed places between the two steps.
            None => self.resume(qp),
            // The operation is dropped after the lock was released.
            Some(_) => Err(Broken),
        }
    }

    /// Parks an operation. Returns the operation if too many are parked.
    #[cold]
    fn park<C: Completions>(
        &self,
        qp: &Qp<C>,
        state: &mut InFlightState,
        operation: Parked,
    ) -> Option<Parked> {
        if state.closed {
            return Some(operation);
        }
        SQ_FULL.add(lane(qp), 1);
        trace::server::sq_full(traced::cid(qp, u32::MAX), traced::send_queue(qp));
        let refused = state.parked.push(operation).err();
        self.count(state);
        refused
    }

    /// Posts parked operations while there is space. Returns whether any was posted.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(crate) fn resume<C: Completions>(&self, qp: &Qp<C>) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let before = state.parked.len();
        let mut broken = None;
        while let Some(operation) = state.parked.pop() {
            match state.post(qp, operation) {
                Ok(()) => {
                    trace::server::sq_retry(traced::cid(qp, u32::MAX), traced::send_queue(qp));
                }
                Err(Refused::Full(operation)) => {
                    // `pop` has freed its place.
                    let refused = state.parked.push_front(operation);
                    debug_assert!(refused.is_ok());
                    break;
                }
                Err(Refused::Broken(operation)) => {
                    broken = Some(operation);
                    break;
                }
            }
        }
        self.count(&state);
        let resumed = state.parked.len() < before;
        drop(state);
        match broken {
            None => Ok(resumed),
            Some(_) => Err(Broken),
        }
    }

    fn count(&self, state: &InFlightState) {
        // CAST: the ring was made with a `u32`.
        self.calls.set_parked(state.parked.len() as u32);
    }

    /// Removes and returns the call of a tag, whose RDMA Reads have completed. Returns `None` if
    /// the tag is not one of a call.
    #[inline(always)]
    pub(crate) fn fetched(&self, tag: Tag) -> Option<KBox<Call>> {
        let slot = tag.get().checked_sub(FIRST)?;
        let mut state = self.state.lock();
        // CAST: `usize` has at least 32 bits.
        let place = state.slots.get_mut(slot as usize)?;
        let Some(Operation::Read(call)) =
            place.take_if(|operation| matches!(operation, Operation::Read(_)))
        else {
            return None;
        };
        state.give_back(slot);
        Some(call)
    }

    /// Removes and returns the oldest reply, and its tag, if it is known to have been sent.
    /// Completion worker.
    #[inline(always)]
    pub(crate) fn sent(&self) -> Option<(Tag, Source)> {
        self.state.lock().take_sent()
    }

    /// Removes and returns the oldest reply as [`Self::sent`] does, for other contexts, if the
    /// Sends of all replies are unsignalled: the completion of a signalled Send may be pending, and
    /// would find a later operation in its slot.
    #[cold]
    pub(crate) fn sent_quietly(&self) -> Option<(Tag, Source)> {
        let mut state = self.state.lock();
        // CAST: `usize` has at least 32 bits.
        let quiet = state.replies.len() <= state.quiet as usize;
        quiet.then(|| state.take_sent())?
    }

    /// Returns the purpose of the work requests of a tag.
    pub(crate) fn kind(&self, tag: Tag) -> Kind {
        let Some(slot) = tag.get().checked_sub(FIRST) else {
            return if tag == PROBE {
                Kind::Probe
            } else {
                Kind::Send
            };
        };
        let state = self.state.lock();
        // CAST: `usize` has at least 32 bits.
        match state.slots.get(slot as usize) {
            Some(Some(Operation::Read(_))) => Kind::Read,
            Some(Some(Operation::Reply(_))) => Kind::Write,
            _ => Kind::Send,
        }
    }

    /// Returns the number of calls whose RDMA Reads are posted, and of replies whose RDMA Writes
    /// are. The last replies do not count if no completion will cover them.
    pub(crate) fn under_way(&self) -> (u32, u32) {
        let state = self.state.lock();
        let operations = state.slots.iter().flatten();
        let reads = operations.filter(|operation| matches!(operation, Operation::Read(_)));
        // CAST: both have at most as many values as there are slots, whose number is a `u32`.
        let (reads, replies) = (reads.count() as u32, state.replies.len() as u32);
        (reads, replies.saturating_sub(state.quiet))
    }

    /// Returns the number of pages of the budget that posted and parked calls use.
    pub(crate) fn pages(&self) -> usize {
        let state = self.state.lock();
        let posted = state.slots.iter().flatten().map(Operation::pages);
        let parked = state.parked.iter().map(Parked::pages);
        posted.sum::<usize>() + parked.sum::<usize>()
    }

    /// Drops all operations and buffers: the queue pair is drained. Later operations are dropped as
    /// well. May sleep.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let slots = core::mem::replace(&mut state.slots, KVVec::new());
        let replies = state.replies.take();
        let parked = state.parked.take();
        let sent = state.sent.take();
        self.count(&state);
        drop(state);
        drop((slots, replies, parked, sent));
    }
}

impl InFlightState {
    /// Removes and returns the oldest reply, and its tag, if it is known to have been sent.
    #[inline(always)]
    fn take_sent(&mut self) -> Option<(Tag, Source)> {
        let slot = *self.replies.front()?;
        // CAST: `usize` has at least 32 bits.
        let place = self.slots.get_mut(slot as usize)?;
        let Some(Operation::Reply(source)) = place.take_if(|operation| operation.is_sent()) else {
            return None;
        };
        self.replies.pop();
        self.give_back(slot);
        Some((Tag::new(slot + FIRST), source))
    }

    /// Posts an operation that was parked.
    #[cold]
    fn post<C: Completions>(&mut self, qp: &Qp<C>, operation: Parked) -> Result<(), Refused> {
        match operation {
            Parked::Reply(out) => self.post_reply(qp, out),
            Parked::Read(call) => self.post_read(qp, call),
        }
    }

    #[inline(always)]
    fn post_reply<C: Completions>(&mut self, qp: &Qp<C>, mut out: Outgoing) -> Result<(), Refused> {
        let slot = match &out.source {
            None => None,
            Some(_) => match self.free.pop() {
                None => return Err(Refused::Full(Parked::Reply(out))),
                slot => slot,
            },
        };
        let tag = slot.map_or(SEND, |slot| Tag::new(slot + FIRST));
        let source = out.source.as_mut();
        let signal = source.as_ref().is_some_and(|s| !self.may_be_quiet(s));
        let posted = qp.post_reply(tag, source, &mut out.buf, out.len, out.rkey, signal);
        if let Err(error) = posted {
            if let Some(slot) = slot {
                self.give_back(slot);
            }
            return Err(refused(qp, tag, error, Parked::Reply(out)));
        }
        out.trace_posted(qp, tag);
        if let (Some(slot), Some(source)) = (slot, out.source) {
            self.quiet = if signal { 0 } else { self.quiet + 1 };
            self.fill(slot, Operation::Reply(source));
            // There is a place for each slot.
            let _ = self.replies.push(slot);
        }
        self.keep(out.buf);
        Ok(())
    }

    /// Keeps the buffer of a message that was posted.
    #[inline(always)]
    fn keep(&mut self, buf: SendBuf) {
        if self.sent.is_full() {
            self.forget_oldest();
        }
        // There is a place.
        let _ = self.sent.push(buf);
    }

    /// Frees the oldest buffer. Its message has been sent: more messages were posted since than the
    /// send queue holds.
    #[cold]
    fn forget_oldest(&mut self) {
        drop(self.sent.pop());
    }

    #[inline(always)]
    fn post_read<C: Completions>(
        &mut self,
        qp: &Qp<C>,
        mut call: KBox<Call>,
    ) -> Result<(), Refused> {
        let Some(slot) = self.free.pop() else {
            return Err(Refused::Full(Parked::Read(call)));
        };
        let tag = Tag::new(slot + FIRST);
        let read = call.read.as_mut().ok_or(PostError::Invalid);
        if let Err(error) = read.and_then(|read| read.post(qp, tag)) {
            self.give_back(slot);
            return Err(refused(qp, tag, error, Parked::Read(call)));
        }
        self.fill(slot, Operation::Read(call));
        Ok(())
    }

    #[inline(always)]
    fn fill(&mut self, slot: u32, operation: Operation) {
        // CAST: `usize` has at least 32 bits.
        if let Some(place) = self.slots.get_mut(slot as usize) {
            // The slot was free, so nothing needs to be dropped.
            core::mem::forget(place.replace(operation));
        }
    }

    /// Returns whether the Send of a reply, which has its slot, need not be signalled. The last
    /// slot is for a reply whose completion frees the other slots.
    fn may_be_quiet(&self, source: &Source) -> bool {
        self.quiet < QUIET
            && source.page_count() <= QUIET_PAGES
            && !self.free.is_empty()
            && !source.is_shared()
    }

    fn give_back(&mut self, slot: u32) {
        let full = self.free.push_within_capacity(slot);
        debug_assert!(full.is_ok());
    }
}

/// Returns the refusal of an operation that could not be posted.
#[cold]
fn refused<C: Completions>(qp: &Qp<C>, tag: Tag, error: PostError, operation: Parked) -> Refused {
    if error == PostError::Full {
        return Refused::Full(operation);
    }
    let (cid, queue) = (traced::cid(qp, tag.get()), traced::send_queue(qp));
    trace::server::sq_post_err(cid, queue, Error::from(error).to_errno());
    Refused::Broken(operation)
}

/// Returns the lane of the module's counters for a connection.
pub(crate) fn lane<C: Completions>(qp: &Qp<C>) -> usize {
    // CAST: `usize` has at least 32 bits.
    qp.cq_id() as usize
}
