// SPDX-License-Identifier: GPL-2.0

//! The operations of a connection that the device executes, and those that wait for space on the
//! send queue.
//!
//! A thread of the service never waits for the send queue. An operation that does not fit is parked
//! here, and the completion worker posts it when there is space. From posting until it is known to
//! have completed, a call that RDMA Reads fetch has a slot, and a reply that owns pages has a place
//! in the order of posting. The slot or the place determines the tag of the operation.
//!
//! The Send of a reply that owns few pages is signalled only if those of the three replies before
//! it were not. The pages are freed with those of the next reply whose Send is signalled, or by the
//! periodic check of the connection, which sends a probe if no completion covers the last replies.
//! A Send whose reply has pages of the page cache is always signalled: extra references to such a
//! page prevent its migration, and keep direct I/O from dropping it from the cache.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};

use super::context::{Call, Calls};
use super::queue::{places, Ring};
use crate::compat::casts::u32_as_usize;
use crate::conn::traced;
use crate::observe::trace;
use crate::rdma::buffer::SendBuf;
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::scatter::Source;
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
/// The tag of the first place. Tags of places and of slots alternate.
const FIRST: u32 = 5;
/// The maximum number of consecutive replies whose Sends are not signalled.
const QUIET: u32 = 3;
/// The maximum number of pages of such a reply: those of 64 KiB, and of the surrounding XDR.
const QUIET_PAGES: usize = (1 << 16) / kernel::page::PAGE_SIZE + 2;
/// The maximum number of page lists that are kept for later replies.
const SOURCES: usize = 8;

/// A message to be sent, behind RDMA Writes if it has a source.
pub(crate) struct Outgoing {
    pub(crate) buf: SendBuf,
    pub(crate) len: usize,
    pub(crate) source: Option<Source>,
    /// Whether the RDMA Writes go to a reply chunk.
    pub(crate) long: bool,
    /// The R_key to be invalidated.
    pub(crate) rkey: Option<u32>,
}

impl Outgoing {
    /// Makes a message without RDMA Writes, which invalidates nothing.
    pub(crate) fn inline(buf: SendBuf, len: usize) -> Self {
        Self {
            buf,
            len,
            source: None,
            long: false,
            rkey: None,
        }
    }
}

/// Returns the number of tags of a connection with `operations` slots and as many places.
pub(crate) const fn tags(operations: u32) -> u32 {
    // CAST: `usize` has at least 32 bits, and the number of places is small.
    2 * places(operations as usize) as u32 + FIRST
}

/// Returns the tag of a reply.
fn reply_tag(place: usize) -> Tag {
    // CAST: the ring of replies was made with a `u32`. Nothing overflows, as `tags` shows.
    Tag::new(FIRST.wrapping_add((place as u32) << 1))
}

/// Returns the tag of a call that RDMA Reads fetch.
fn read_tag(slot: u32) -> Tag {
    Tag::new(FIRST.wrapping_add(slot << 1 | 1))
}

/// Returns the slot of such a call; `None` for other tags.
fn slot_of(tag: Tag) -> Option<u32> {
    let n = tag.get().checked_sub(FIRST)?;
    (n % 2 == 1).then_some(n / 2)
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

/// The queue pair accepts no more work requests, or more operations wait than there can be calls:
/// the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The operations of one connection. All methods are for process context.
#[pin_data]
pub(crate) struct InFlight {
    #[pin]
    state: SpinLock<InFlightState>,
    /// Publishes the number of parked operations to readers without the lock.
    calls: Arc<Calls>,
}

struct InFlightState {
    /// The calls that RDMA Reads fetch.
    slots: KVVec<Option<KBox<Call>>>,
    /// The numbers of the slots that are empty.
    free: KVVec<u32>,
    /// The pages of replies, in the order of posting.
    replies: Ring<Source>,
    /// The number of replies since the last one whose Send was signalled.
    quiet: u32,
    parked: Ring<Parked>,
    /// The buffers of messages, in the order of posting, until they are reused. There is a place
    /// for each work request of the send queue.
    sent: Ring<SendBuf>,
    /// Empty page lists for replies. Their allocations suffice for replies of the same size.
    sources: KVec<Source>,
    closed: bool,
}

impl InFlight {
    /// Makes the operations of a connection that has posted none. `operations` is the number of
    /// slots and of places, `most` the largest number of calls in progress, `queue` the length of
    /// the send queue. May sleep.
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
        let room = u32_as_usize(operations);
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
            sources: KVec::with_capacity(SOURCES, GFP_KERNEL)?,
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
        let sent = self.state.lock().take_sent_buffer();
        fit(sent, pd, len)
    }

    /// Returns a send buffer as [`Self::send_buffer`] does, and an empty page list. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn buffer_and_source(&self, pd: &Arc<Pd>, len: u32) -> Result<(SendBuf, Source)> {
        let mut state = self.state.lock();
        let (sent, source) = (state.take_sent_buffer(), state.sources.pop());
        drop(state);
        let source = source.map_or_else(|| Source::new(pd), Ok)?;
        Ok((fit(sent, pd, len)?, source))
    }

    /// Keeps, for later replies, a page list and a buffer that were not posted. May sleep.
    #[cold]
    pub(crate) fn put_unused(&self, buf: Option<SendBuf>, mut source: Source) {
        source.clear();
        let mut state = self.state.lock();
        let buf = buf.map(|buf| state.sent.push_front(buf));
        let refused = (buf, state.sources.push_within_capacity(source));
        drop(state);
        drop(refused);
    }

    /// Posts a message, or parks it. Returns whether parked operations were posted.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the message was dropped.
    #[inline(always)]
    pub(crate) fn send<C: Completions>(
        &self,
        qp: &Qp<C>,
        mut out: Outgoing,
    ) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let posted = match state.parked.is_empty() {
            true => state.post_reply(qp, &mut out),
            false => Err(PostError::Full),
        };
        match posted {
            Ok(()) => {
                state.keep(out);
                Ok(false)
            }
            Err(error) => self.not_posted(qp, state, error, Parked::Reply(out)),
        }
    }

    /// Takes a message, a buffer and a length, and posts it behind the registration of `regions`.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_send`]. The message was not taken.
    #[cfg(RPCRDMA_LEGACY)]
    #[cold]
    pub(crate) fn send_registering<C: Completions>(
        &self,
        qp: &Qp<C>,
        regions: &mut KVec<crate::rdma::mr::Mr>,
        message: &mut Option<(SendBuf, usize)>,
    ) -> Result<(), PostError> {
        let mut state = self.state.lock();
        let (buf, len) = message.as_mut().ok_or(PostError::Invalid)?;
        qp.post_send(SEND, regions, buf, *len, false)?;
        let (buf, _) = message.take().ok_or(PostError::Invalid)?;
        state.keep_buffer(buf);
        Ok(())
    }

    /// Posts the RDMA Reads of a call, or parks them. Returns whether parked operations were
    /// posted.
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
            false => Err((PostError::Full, call)),
        };
        match posted {
            Ok(()) => Ok(false),
            Err((error, call)) => self.not_posted(qp, state, error, Parked::Read(call)),
        }
    }

    /// Parks or drops an operation. Returns whether parked operations were posted.
    #[cold]
    fn not_posted<C: Completions>(
        &self,
        qp: &Qp<C>,
        mut state: SpinLockGuard<'_, InFlightState>,
        error: PostError,
        operation: Parked,
    ) -> Result<bool, Broken> {
        let dropped = match error {
            PostError::Full => self.park(qp, &mut state, operation),
            PostError::Broken(_) | PostError::Invalid => Some(operation),
        };
        drop(state);
        match dropped {
            // The device may have freed places between the two steps.
            None => self.resume(qp),
            // The operation is dropped after the lock has been released.
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

    /// Posts parked operations while there is space. Returns whether an operation was posted.
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
                Err((PostError::Full, operation)) => {
                    // `pop` has freed its place.
                    let refused = state.parked.push_front(operation);
                    debug_assert!(refused.is_ok());
                    break;
                }
                Err((_, operation)) => {
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
        let slot = slot_of(tag)?;
        let mut state = self.state.lock();
        let call = state.slots.get_mut(u32_as_usize(slot))?.take()?;
        state.give_back(slot);
        Some(call)
    }

    /// Frees the pages of the replies that are known to have been sent, after it has passed tag and
    /// page list of each to `freed`. Process context; does not sleep.
    #[inline(always)]
    pub(crate) fn free_sent(&self, freed: impl Fn(Tag, &Source)) {
        let mut cleared = None;
        while let Some((place, mut source)) = self.exchange_sent(cleared.take()) {
            freed(reply_tag(place), &source);
            source.clear();
            cleared = Some(source);
        }
    }

    /// Keeps an empty page list for a later reply, unless there are enough. Removes and returns the
    /// pages of the oldest reply, and its place, if the reply is known to have been sent.
    #[inline(always)]
    fn exchange_sent(&self, empty: Option<Source>) -> Option<(usize, Source)> {
        let mut state = self.state.lock();
        let refused = empty.map(|source| state.sources.push_within_capacity(source));
        let sent = state.replies.pop_if(|source| !source.in_flight());
        drop(state);
        // A surplus list is dropped after the lock has been released.
        drop(refused);
        sent
    }

    /// Returns the purpose of the work requests of a tag.
    pub(crate) fn kind(&self, tag: Tag) -> Kind {
        match tag {
            PROBE => Kind::Probe,
            _ if tag.get() < FIRST => Kind::Send,
            _ if slot_of(tag).is_some() => Kind::Read,
            _ => Kind::Write,
        }
    }

    /// Returns the number of calls whose RDMA Reads are posted, and of replies whose RDMA Writes
    /// are posted. The last replies do not count if no completion will cover them.
    pub(crate) fn under_way(&self) -> (u32, u32) {
        let state = self.state.lock();
        let reads = state.slots.iter().flatten().count();
        // CAST: the numbers of slots and of places are a `u32`.
        let (reads, replies) = (reads as u32, state.replies.len() as u32);
        (reads, replies.saturating_sub(state.quiet))
    }

    /// Returns the number of pages of the budget that posted and parked calls use.
    pub(crate) fn pages(&self) -> usize {
        let state = self.state.lock();
        let parked = state.parked.iter().filter_map(|operation| match operation {
            Parked::Read(call) => Some(call),
            Parked::Reply(_) => None,
        });
        let calls = Iterator::chain(state.slots.iter().flatten(), parked);
        calls.map(|call| call.pages()).sum()
    }

    /// Drops all operations and buffers, after the queue pair has been drained. Later operations
    /// are dropped as well. May sleep.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let slots = core::mem::replace(&mut state.slots, KVVec::new());
        let replies = state.replies.take();
        let parked = state.parked.take();
        let (sent, sources) = (state.sent.take(), core::mem::take(&mut state.sources));
        self.count(&state);
        drop(state);
        drop((slots, replies, parked, sent, sources));
    }
}

impl InFlightState {
    /// Removes and returns the buffer of the oldest message, if the device has finished with it.
    #[inline(always)]
    fn take_sent_buffer(&mut self) -> Option<SendBuf> {
        let (_, buf) = self.sent.pop_if(|buf| !buf.in_flight())?;
        Some(buf)
    }

    /// Posts an operation that was parked.
    ///
    /// # Errors
    ///
    /// Returns the operation with the error.
    #[cold]
    fn post<C: Completions>(
        &mut self,
        qp: &Qp<C>,
        operation: Parked,
    ) -> Result<(), (PostError, Parked)> {
        match operation {
            Parked::Reply(mut out) => match self.post_reply(qp, &mut out) {
                Ok(()) => {
                    self.keep(out);
                    Ok(())
                }
                Err(error) => Err((error, Parked::Reply(out))),
            },
            Parked::Read(call) => {
                let posted = self.post_read(qp, call);
                posted.map_err(|(error, call)| (error, Parked::Read(call)))
            }
        }
    }

    /// Posts a message, which [`Self::keep`] then keeps.
    #[inline(always)]
    fn post_reply<C: Completions>(
        &mut self,
        qp: &Qp<C>,
        out: &mut Outgoing,
    ) -> Result<(), PostError> {
        let (tag, signal) = match &out.source {
            None => (SEND, false),
            Some(_) if self.replies.is_full() => return Err(PostError::Full),
            Some(source) => (reply_tag(self.replies.next()), !self.may_be_quiet(source)),
        };
        let source = out.source.as_mut();
        qp.post_reply(tag, source, &mut out.buf, out.len, out.rkey, signal)
            .inspect_err(|error| trace_refused(qp, tag, *error))?;
        if out.source.is_some() {
            self.quiet = if signal { 0 } else { self.quiet + 1 };
        }
        let cid = traced::cid(qp, tag.get());
        match &out.source {
            None => {}
            Some(source) if out.long => {
                trace::server::post_reply_chunk(cid, source.work_requests())
            }
            Some(source) => trace::server::post_write_chunk(cid, source.work_requests()),
        }
        trace::server::post_send(cid, 1, out.rkey.unwrap_or(0));
        Ok(())
    }

    /// Keeps the buffer and the pages of a message that was posted.
    #[inline(always)]
    fn keep(&mut self, out: Outgoing) {
        if let Some(source) = out.source {
            // There is a place.
            let _ = self.replies.push(source);
        }
        self.keep_buffer(out.buf);
    }

    #[inline(always)]
    fn keep_buffer(&mut self, buf: SendBuf) {
        if let Err(buf) = self.sent.push(buf) {
            self.replace_oldest(buf);
        }
    }

    /// Keeps a buffer in place of the oldest one. The message in the oldest buffer has been sent,
    /// because more messages than the send queue holds were posted since.
    #[cold]
    fn replace_oldest(&mut self, buf: SendBuf) {
        drop(self.sent.pop());
        // There is a place.
        let _ = self.sent.push(buf);
    }

    #[inline(always)]
    fn post_read<C: Completions>(
        &mut self,
        qp: &Qp<C>,
        mut call: KBox<Call>,
    ) -> Result<(), (PostError, KBox<Call>)> {
        let Some(slot) = self.free.pop() else {
            return Err((PostError::Full, call));
        };
        let tag = read_tag(slot);
        let read = call.read.as_mut().ok_or(PostError::Invalid);
        if let Err(error) = read.and_then(|read| read.post(qp, tag)) {
            trace_refused(qp, tag, error);
            self.give_back(slot);
            return Err((error, call));
        }
        if let Some(place) = self.slots.get_mut(u32_as_usize(slot)) {
            // The slot was free, so nothing needs to be dropped.
            core::mem::forget(place.replace(call));
        }
        Ok(())
    }

    /// Returns whether the Send of a reply need not be signalled. The last place is reserved for a
    /// reply whose completion frees the other places.
    fn may_be_quiet(&self, source: &Source) -> bool {
        self.quiet < QUIET
            && source.page_count() <= QUIET_PAGES
            && self.replies.room() > 1
            && !source.is_shared()
    }

    fn give_back(&mut self, slot: u32) {
        let full = self.free.push_within_capacity(slot);
        debug_assert!(full.is_ok());
    }
}

/// Returns `sent` if the buffer has `len` bytes, or a new buffer. May sleep.
#[inline(always)]
fn fit(sent: Option<SendBuf>, pd: &Arc<Pd>, len: u32) -> Result<SendBuf> {
    let len = u32_as_usize(len);
    // A buffer that was made for a lower threshold is freed.
    if let Some(buf) = sent.filter(|buf| buf.capacity() >= len) {
        return Ok(buf);
    }
    SendBuf::new(pd, len, GFP_KERNEL)
}

/// Traces that the queue pair accepts no more work requests.
#[cold]
fn trace_refused<C: Completions>(qp: &Qp<C>, tag: Tag, error: PostError) {
    if error != PostError::Full {
        let (cid, queue) = (traced::cid(qp, tag.get()), traced::send_queue(qp));
        trace::server::sq_post_err(cid, queue, Error::from(error).to_errno());
    }
}

/// Returns the lane of a connection in the module's counters.
pub(crate) fn lane<C: Completions>(qp: &Qp<C>) -> usize {
    u32_as_usize(qp.cq_id())
}
