// SPDX-License-Identifier: GPL-2.0

//! The operations of a connection that the device executes, and those that wait for space on the
//! send queue.
//!
//! A thread of the service never waits for the send queue. An operation that does not fit is parked
//! here, and the completion worker posts it when there is space. From posting until it is known to
//! have completed, a call that RDMA Reads fetch and a reply that owns pages have a place in the
//! order of posting, in which they also complete.
//!
//! The Send of a reply that owns few pages is signalled only if those of the three replies before
//! it were not. The pages are freed with those of the next reply whose Send is signalled, or by the
//! periodic check of the connection, which sends a probe if no completion covers the last replies.
//! A Send whose reply has pages of the page cache is always signalled: extra references to such a
//! page prevent its migration, and keep direct I/O from dropping it from the cache.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock, SpinLockGuard};

use super::context::{Call, Calls};
use super::load::{Load, Pages};
use super::queue::Ring;
use crate::compat::casts::u32_as_usize;
use crate::conn::traced;
use crate::observe::trace;
use crate::rdma::buffer::SendBuf;
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::scatter::Source;
use crate::server::config::{LIMITED, SQ_FULL};

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
/// The tag of replies that own pages. They complete in the order of posting.
pub(crate) const REPLY: Tag = Tag::new(5);
/// The tag of the RDMA Reads of calls. They complete in the order of posting.
pub(crate) const READ: Tag = Tag::new(6);
/// The number of tags.
pub(crate) const TAGS: u32 = 7;
/// The maximum number of consecutive replies whose Sends are not signalled.
pub(super) const QUIET: u32 = 3;
/// The maximum number of pages of such a reply: those of 64 KiB, and of the surrounding XDR.
pub(super) const QUIET_PAGES: usize = (1 << 16) / kernel::page::PAGE_SIZE + 2;
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

/// Returns the number of a reply in traces. That of a call that RDMA Reads fetch is odd.
fn number(place: usize) -> u32 {
    // CAST: the rings were made with a `u32`.
    TAGS.wrapping_add(place as u32).wrapping_shl(1)
}

/// An operation, which may have to wait for space on the send queue.
pub(crate) enum Operation {
    Reply(Outgoing),
    Read(KBox<Call>),
}

impl Operation {
    /// Returns the number of pages of the reply, and one, if the operation is that of a reply.
    fn reply(&self) -> (usize, u32) {
        match self {
            Self::Reply(out) => (out.source.as_ref().map_or(0, Source::page_count), 1),
            Self::Read(_) => (0, 0),
        }
    }
}

/// The maximum number of replies that pass a call which waits for the send queue.
const MOST_OVERTAKING: u32 = 256;

/// The outcome of posting. An operation that was not posted comes back with the error.
type Posted = Result<(), (PostError, Operation)>;

/// The queue pair accepts no more work requests, or more operations wait than there can be calls:
/// the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The operations of one connection. All methods are for process context.
#[pin_data]
pub(crate) struct InFlight {
    #[pin]
    state: SpinLock<InFlightState>,
    /// Publishes the load to readers without the lock.
    calls: Arc<Calls>,
}

struct InFlightState {
    /// The calls that RDMA Reads fetch, in the order of posting.
    reads: Ring<KBox<Call>>,
    /// The pages of replies, in the order of posting.
    replies: Ring<Source>,
    parked: Ring<Operation>,
    /// The number of replies in `parked`.
    parked_replies: u32,
    /// The number of replies that have passed the oldest parked call.
    overtaking: u32,
    /// The pages of all replies, parked ones included.
    pages: Pages,
    /// The number of replies since the last one whose Send was signalled.
    quiet: u32,
    /// The buffers of messages, in the order of posting, until they are reused. There is a place
    /// for each work request of the send queue.
    sent: Ring<SendBuf>,
    /// Empty page lists for replies. Their allocations suffice for replies of the same size.
    sources: KVec<Source>,
    closed: bool,
}

impl InFlight {
    /// Makes the operations of a connection that has posted none. `operations` is the number of
    /// places for calls and for replies, `most` the largest number of calls in progress, both of
    /// them until [`Self::grow`], and `queue` the length of the send queue. May sleep.
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
        let state = InFlightState {
            reads: Ring::new(operations)?,
            replies: Ring::new(operations)?,
            parked: Ring::new(most)?,
            parked_replies: 0,
            overtaking: 0,
            pages: Pages::default(),
            quiet: 0,
            sent: Ring::new(queue)?,
            sources: KVec::with_capacity(SOURCES, GFP_KERNEL)?,
            closed: false,
        };
        Ok(pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::InFlight::state"),
            calls,
        }))
    }

    /// Makes tables of at least these sizes; see [`Self::new`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn grow(&self, operations: u32, most: u32) -> Result {
        let (reads, replies) = (Ring::new(operations)?, Ring::new(operations)?);
        let parked = Ring::new(most)?;
        let mut state = self.state.lock();
        let rest = (state.reads.enlarge(reads), state.replies.enlarge(replies));
        let parked = state.parked.enlarge(parked);
        drop(state);
        drop((rest, parked));
        Ok(())
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
        let _refused = (buf, state.sources.push_within_capacity(source));
        drop(state);
    }

    /// Posts an operation, or parks it. Returns whether parked operations were posted.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the operation was dropped.
    #[inline(always)]
    pub(crate) fn start<C: Completions>(
        &self,
        qp: &Qp<C>,
        operation: Operation,
    ) -> Result<bool, Broken> {
        let mut state = self.state.lock();
        let posted = if state.parked.is_empty() || state.may_overtake(&operation) {
            state.post(qp, &self.calls.load, operation)
        } else {
            Err((PostError::Full, operation))
        };
        match posted {
            Ok(()) => Ok(false),
            Err((error, operation)) => self.not_posted(qp, state, error, operation),
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

    /// Parks or drops an operation. Returns whether parked operations were posted.
    #[cold]
    fn not_posted<C: Completions>(
        &self,
        qp: &Qp<C>,
        mut state: SpinLockGuard<'_, InFlightState>,
        error: PostError,
        operation: Operation,
    ) -> Result<bool, Broken> {
        let dropped = match error {
            PostError::Full if !state.closed => {
                SQ_FULL.add(lane(qp), 1);
                trace::server::sq_full(traced::cid(qp, u32::MAX), traced::send_queue(qp));
                // The operation comes back if too many are parked.
                let (pages, replies) = operation.reply();
                let refused = state.parked.push(operation).err();
                if refused.is_none() {
                    state.parked_replies += replies;
                    state.add(qp, &self.calls.load, pages);
                }
                self.count(&state);
                refused
            }
            _ => Some(operation),
        };
        drop(state);
        match dropped {
            // The device may have freed places between the two steps.
            None => self.resume(qp),
            // The operation is dropped after the lock has been released.
            Some(_) => Err(Broken),
        }
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
            let (pages, replies) = operation.reply();
            state.parked_replies -= replies;
            state.pages.take_out(pages);
            match state.post(qp, &self.calls.load, operation) {
                Ok(()) => {
                    state.overtaking = 0;
                    trace::server::sq_retry(traced::cid(qp, u32::MAX), traced::send_queue(qp));
                }
                Err((PostError::Full, operation)) => {
                    // `pop` has freed its place.
                    let refused = state.parked.push_front(operation);
                    debug_assert!(refused.is_ok());
                    state.parked_replies += replies;
                    state.pages.put_back(pages);
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
        let any = !state.parked.is_empty();
        self.calls.load.set_parked(any, state.parked_replies);
    }

    /// Removes and returns the oldest call that RDMA Reads fetch, and its number in traces, if
    /// `tag` is that of RDMA Reads, which have completed.
    #[inline(always)]
    pub(crate) fn fetched(&self, tag: Tag) -> Option<(u32, KBox<Call>)> {
        if tag != READ {
            return None;
        }
        let (place, call) = self.state.lock().reads.pop_if(|_| true)?;
        Some((number(place) | 1, call))
    }

    /// Frees the pages of the replies that are known to have been sent, after it has passed the
    /// number in traces and the page list of each to `freed`. Returns whether the load may permit
    /// calls again. Process context; does not sleep.
    #[inline(always)]
    pub(crate) fn free_sent(&self, freed: impl Fn(u32, &Source)) -> bool {
        let (mut cleared, mut pages) = (None, 0);
        loop {
            match self.exchange_sent(&mut cleared, pages) {
                Ok((place, mut source)) => {
                    freed(number(place), &source);
                    pages += source.page_count();
                    source.clear();
                    cleared = Some(source);
                }
                Err(fell) => return fell,
            }
        }
    }

    /// Keeps the page list in `empty` for a later reply, unless there are enough. Removes and
    /// returns the pages of the oldest reply, and its place, if the reply is known to have been
    /// sent.
    ///
    /// # Errors
    ///
    /// There is no such reply. The `pages` that were freed are removed from the load. The error is
    /// whether the load is lower then.
    #[inline(always)]
    fn exchange_sent(
        &self,
        empty: &mut Option<Source>,
        pages: usize,
    ) -> Result<(usize, Source), bool> {
        let mut state = self.state.lock();
        // A surplus list is dropped without the lock.
        if state.sources.len() < state.sources.capacity() {
            if let Some(empty) = empty.take() {
                let _ = state.sources.push_within_capacity(empty);
            }
        }
        let sent = state.replies.pop_if(|source| !source.in_flight());
        sent.ok_or_else(|| state.pages.sub(&self.calls.load, pages))
    }

    /// Returns the number of calls whose RDMA Reads are posted, and of replies whose RDMA Writes
    /// are posted. The last replies do not count if no completion will cover them.
    pub(crate) fn under_way(&self) -> (u32, u32) {
        let state = self.state.lock();
        // CAST: the rings were made with a `u32`.
        let (reads, replies) = (state.reads.len() as u32, state.replies.len() as u32);
        (reads, replies.saturating_sub(state.quiet))
    }

    /// Returns the number of pages of the budget that posted and parked calls use.
    pub(crate) fn pages(&self) -> usize {
        let state = self.state.lock();
        let parked = state.parked.iter().filter_map(|operation| match operation {
            Operation::Read(call) => Some(call),
            Operation::Reply(_) => None,
        });
        let calls = Iterator::chain(state.reads.iter(), parked);
        calls.map(|call| call.pages()).sum()
    }

    /// Drops all operations and buffers, after the queue pair has been drained. Later operations
    /// are dropped as well. May sleep.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let reads = state.reads.take();
        let replies = state.replies.take();
        let parked = state.parked.take();
        state.parked_replies = 0;
        let (sent, sources) = (state.sent.take(), core::mem::take(&mut state.sources));
        state.pages.clear(&self.calls.load);
        self.count(&state);
        drop(state);
        drop((reads, replies, parked, sent, sources));
    }
}

impl InFlightState {
    /// Removes and returns the buffer of the oldest message, if the device has finished with it.
    #[inline(always)]
    fn take_sent_buffer(&mut self) -> Option<SendBuf> {
        let (_, buf) = self.sent.pop_if(|buf| !buf.in_flight())?;
        Some(buf)
    }

    /// Returns whether an operation need not wait for those that are parked. A reply without RDMA
    /// Writes passes calls: it needs a single work request. At most [`MOST_OVERTAKING`] do, so that
    /// the calls get the space for theirs. Counts an operation that passes.
    fn may_overtake(&mut self, operation: &Operation) -> bool {
        let short = matches!(operation, Operation::Reply(out) if out.source.is_none());
        let may = short && self.parked_replies == 0 && self.overtaking < MOST_OVERTAKING;
        self.overtaking += u32::from(may);
        may
    }

    #[inline(always)]
    fn post<C: Completions>(&mut self, qp: &Qp<C>, load: &Load, operation: Operation) -> Posted {
        match operation {
            Operation::Reply(out) => self.post_reply(qp, load, out),
            Operation::Read(call) => self.post_read(qp, call),
        }
    }

    #[inline(always)]
    fn post_reply<C: Completions>(&mut self, qp: &Qp<C>, load: &Load, mut out: Outgoing) -> Posted {
        let (tag, signal) = match &out.source {
            None => (SEND, false),
            Some(_) if self.replies.room() == 0 => {
                return Err((PostError::Full, Operation::Reply(out)));
            }
            Some(source) => (REPLY, !self.may_be_quiet(source)),
        };
        let source = out.source.as_mut();
        let posted = qp.post_reply(tag, source, &mut out.buf, out.len, out.rkey, signal);
        if let Err(error) = posted {
            trace_refused(qp, tag, error);
            return Err((error, Operation::Reply(out)));
        }
        // The number of a message without pages is that of its tag, zero.
        let number = number(self.replies.next()) * u32::from(tag == REPLY);
        let cid = traced::cid(qp, number);
        if let Some(source) = out.source {
            if out.long {
                trace::server::post_reply_chunk(cid, source.work_requests());
            } else {
                trace::server::post_write_chunk(cid, source.work_requests());
            }
            self.quiet = if signal { 0 } else { self.quiet + 1 };
            self.add(qp, load, source.page_count());
            // There is a place.
            let _ = self.replies.push(source);
        }
        trace::server::post_send(cid, 1, out.rkey.unwrap_or(0));
        self.keep_buffer(out.buf);
        Ok(())
    }

    /// Counts the pages of a reply.
    #[inline(always)]
    fn add<C: Completions>(&mut self, qp: &Qp<C>, load: &Load, pages: usize) {
        if self.pages.add(load, pages) {
            LIMITED.add(lane(qp), 1);
        }
    }

    /// Keeps a buffer. If there is no place, the message in the oldest buffer has been sent,
    /// because more messages than the send queue holds were posted since.
    #[inline(always)]
    fn keep_buffer(&mut self, buf: SendBuf) {
        if self.sent.room() == 0 {
            drop(self.sent.pop());
        }
        let _ = self.sent.push(buf);
    }

    #[inline(always)]
    fn post_read<C: Completions>(&mut self, qp: &Qp<C>, mut call: KBox<Call>) -> Posted {
        if self.reads.room() == 0 {
            return Err((PostError::Full, Operation::Read(call)));
        }
        let read = call.read.as_mut().ok_or(PostError::Invalid);
        let number = number(self.reads.next()) | 1;
        if let Err(error) = read.and_then(|read| read.post(qp, number)) {
            trace_refused(qp, READ, error);
            return Err((error, Operation::Read(call)));
        }
        // There is a place.
        let _ = self.reads.push(call);
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
