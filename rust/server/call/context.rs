// SPDX-License-Identifier: GPL-2.0

//! The calls of a connection, from arrival to reply: the context that SUNRPC keeps with each call,
//! and the number of calls in progress.
//!
//! The Receive goes back to the device before the service works on the call. The reply needs the
//! write list and the reply chunk, so their bytes are copied.
//!
//! The most common call with chunks has one read chunk behind an inline part: its payload begins at
//! a page boundary, as direct I/O requires. The parts of any other call are put together in one run
//! of pages. So are those of a call
//!
//! - whose arguments are wrapped for integrity or privacy: they are one item, which the service
//!   unwraps in place;
//! - whose chunk is shorter than a page: the chunk may lie within an item, and the service's
//!   decoder takes an item that lies in two places, but not in three.

use core::mem::take;

use kernel::alloc::Flags;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::in_flight::READ;
use super::load::Load;
use super::memory::Store;
use crate::conn::traced;
use crate::observe::trace;
use crate::observe::trace::server::Posted;
use crate::proto::responder::call;
use crate::proto::responder::grant::{Excess, Grant};
use crate::proto::responder::marks::{Mark, Marks};
use crate::rdma::qp::{Completions, PostError, Qp};
use crate::sunrpc::svc::receive::{Arriving, Payload};
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::{Lists, Version};

/// Capacity for the chunks of an ordinary call, in bytes. A call with more chunks allocates memory.
const CHUNK_BYTES: usize = 128;

/// A call in progress.
pub(crate) struct Call {
    pub(crate) xid: u32,
    /// The number of the call's Receive, for traces. The Receive has been posted again.
    pub(crate) receive: u32,
    /// The version of the call, which is that of the reply.
    pub(crate) version: Version,
    /// The R_key that the reply may invalidate.
    pub(crate) rkey: Option<u32>,
    marks: Marks,
    /// The encoded write chunks, followed by the segments of the reply chunk.
    chunks: KVVec<u8>,
    /// The length of the write chunks.
    writes: usize,
    has_reply_chunk: bool,
    /// The inline part, while RDMA Reads fetch the rest.
    pub(crate) inline: KVec<u8>,
    /// The part that RDMA Reads fetch, until a thread of the service receives the call.
    pub(crate) read: Option<ReadCtxt>,
    /// Whether the grant counts the call as in progress.
    pub(crate) counted: bool,
}

impl Call {
    /// Makes a context for any call. May sleep if `gfp` permits.
    fn new(gfp: Flags) -> Result<KBox<Self>> {
        let call = Self {
            xid: 0,
            receive: 0,
            version: Version::One,
            rkey: None,
            marks: Marks::new(),
            chunks: KVVec::with_capacity(CHUNK_BYTES, gfp)?,
            writes: 0,
            has_reply_chunk: false,
            inline: KVec::new(),
            read: None,
            counted: false,
        };
        Ok(KBox::new(call, gfp)?)
    }

    /// Makes the context of `call`, which arrived in Receive number `receive`, from a free context
    /// or a new one. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    fn begin(
        free: Option<KBox<Self>>,
        call: &call::Call<'_>,
        receive: u32,
        gfp: Flags,
    ) -> Result<KBox<Self>> {
        let mut this = free.map_or_else(|| Self::new(gfp), Ok)?;
        this.xid = call.xid();
        this.receive = receive;
        this.version = call.version();
        this.rkey = call.rkey();
        this.marks.clear();
        this.chunks.clear();
        this.writes = 0;
        this.has_reply_chunk = false;
        this.counted = true;
        let (writes, reply) = call.lists().results();
        if !writes.is_empty() || reply.is_some() {
            this.keep(writes, reply, gfp)?;
        }
        Ok(this)
    }

    /// Returns the number of pages of the budget that the call uses.
    pub(crate) fn pages(&self) -> usize {
        self.read.as_ref().map_or(0, |read| read.store.permit.pages)
    }

    /// Copies the chunks for the reply.
    fn keep(&mut self, writes: &[u8], reply: Option<&[u8]>, gfp: Flags) -> Result {
        self.chunks.extend_from_slice(writes, gfp)?;
        if let Some(reply) = reply {
            self.chunks.extend_from_slice(reply, gfp)?;
        }
        self.writes = writes.len();
        self.has_reply_chunk = reply.is_some();
        Ok(())
    }

    /// Returns the write list and the reply chunk of the call.
    pub(crate) fn lists(&self) -> Lists<'_> {
        let Some((writes, reply)) = self.chunks.split_at_checked(self.writes) else {
            return Lists::EMPTY;
        };
        Lists::of_results(writes, self.has_reply_chunk.then_some(reply))
    }

    /// Returns the payloads of the reply.
    pub(crate) fn marks(&self) -> &[Mark] {
        self.marks.as_slice()
    }

    /// Marks a payload of the reply.
    pub(crate) fn mark(&mut self, start: u32, len: u32) {
        let Some((writes, reply)) = self.chunks.split_at_checked(self.writes) else {
            return;
        };
        let lists = Lists::of_results(writes, self.has_reply_chunk.then_some(reply));
        self.marks.add(start, len, &lists);
    }

    /// Settles where each payload of the encoded reply begins.
    #[inline(always)]
    pub(crate) fn settle_marks(&mut self, reply: &XdrBuf<'_>) {
        self.marks.settle(|at| {
            let mut word = [0; 4];
            let copied = reply.copy_to(at, &mut word);
            copied.ok().map(|()| u32::from_be_bytes(word))
        });
    }

    /// Returns whether the service truncated a reply of `len` bytes within a payload that it had
    /// marked.
    pub(crate) fn truncated(&self, len: u32) -> bool {
        self.marks.truncated(len)
    }
}

/// The part of a call that RDMA Reads fetch.
pub(crate) struct ReadCtxt {
    pub(crate) store: KBox<Store>,
    pub(crate) shape: Shape,
    /// The bytes that RDMA Reads fetch.
    pub(crate) bytes: u32,
    /// The number of segments of these bytes in the requester's memory.
    pub(crate) segments: u32,
    /// The number of the RDMA Reads in traces, once they are posted.
    pub(crate) number: u32,
    /// The time at which the RDMA Reads were posted.
    pub(crate) posted: Posted,
}

/// The layout of a call in the pages of its sink.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// The pages have the payload, and the context the inline part.
    Payload(Payload),
    /// The pages have the whole call, of this length.
    Whole(usize),
}

impl Shape {
    /// Chooses the shape of a call.
    pub(crate) fn of(call: &call::Call<'_>) -> Self {
        // CAST: `usize` has at least 32 bits.
        let (len, inline) = (call.total_len() as usize, call.inline().len());
        let item = call.item().filter(|_| inline <= PAGE_SIZE);
        match (item, len - inline) {
            // CAST: `usize` has at least 32 bits.
            (Some(at), len @ PAGE_SIZE..) => Self::Payload(Payload {
                at: at as usize,
                len,
            }),
            _ => Self::Whole(len),
        }
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.range().1.div_ceil(PAGE_SIZE)
    }

    /// Returns the first byte of the call that lies in the pages, and the number of bytes there.
    pub(crate) fn range(&self) -> (usize, usize) {
        match *self {
            Self::Payload(Payload { at, len }) => (at, len),
            Self::Whole(len) => (0, len),
        }
    }
}

impl ReadCtxt {
    /// Returns the payload that lies outside the inline part.
    pub(crate) fn payload(&self) -> Option<Payload> {
        match self.shape {
            Shape::Payload(payload) => Some(payload),
            Shape::Whole(_) => None,
        }
    }

    /// Posts the RDMA Reads, which have this `number` in traces.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_reads`].
    #[inline(always)]
    pub(crate) fn post<C: Completions>(
        &mut self,
        qp: &Qp<C>,
        number: u32,
    ) -> Result<(), PostError> {
        qp.post_reads(READ, &mut self.store.sink)?;
        self.number = number;
        self.posted = Posted::now();
        let cid = traced::cid(qp, number);
        trace::server::post_read_chunk(cid, self.store.sink.work_requests());
        Ok(())
    }

    /// Moves the bytes of the call to the pages of the thread. `inline` is the part that is not in
    /// the pages. The sink gets the thread's pages.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE`, `EINVAL` if the thread has too few pages; `EIO` if the RDMA Reads have not
    /// completed, or the list has fewer pages than the call.
    pub(crate) fn exchange<X>(&mut self, inline: &[u8], arriving: &mut Arriving<'_, X>) -> Result {
        let pages = self.store.sink.pages().ok_or(EIO)?;
        // The list may have kept more pages than the call has.
        let pages = pages.get_mut(..self.shape.pages()).ok_or(EIO)?;
        match self.shape {
            Shape::Payload(_) => {
                arriving.write_inline(inline)?;
                arriving.exchange(1, pages)
            }
            Shape::Whole(len) => {
                arriving.exchange(0, pages)?;
                arriving.set_inline(len)
            }
        }
    }
}

/// The number of calls beyond the grant that are still served.
pub(crate) const EXCESS: u32 = 16;

/// The calls of one connection.
#[pin_data]
pub(crate) struct Calls {
    #[pin]
    state: SpinLock<CallsState>,
    /// The replies and RDMA Reads that wait for the device.
    pub(crate) load: Load,
}

struct CallsState {
    /// The requester's credits.
    grant: Grant,
    /// Contexts that no call uses. None of them has a part to fetch.
    free: KVVec<KBox<Call>>,
    /// Page lists that no call uses.
    stores: KVVec<KBox<Store>>,
}

/// Why a call is not served.
pub(crate) enum BeginError {
    /// The requester has too many calls in progress.
    Excess,
    /// Memory is short.
    NoMemory,
}

impl Calls {
    /// Makes the value of a connection whose grant never exceeds `credits`. The replies of all
    /// connections may have `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(credits: u32, pages: usize) -> Result<Arc<Self>> {
        let state = CallsState {
            grant: Grant::new(credits, EXCESS),
            // CAST: `usize` has at least 32 bits.
            free: KVVec::with_capacity(credits as usize, GFP_KERNEL)?,
            stores: KVVec::with_capacity(credits as usize, GFP_KERNEL)?,
        };
        let calls = pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::Calls::state"),
            load: Load::new(pages),
        });
        Arc::pin_init(calls, GFP_KERNEL)
    }

    /// Counts `call`, which arrived in Receive number `receive`. Returns its context, and how many
    /// more Receives to post, usually none. The caller calls [`Self::on_posted`] when they are
    /// posted. May sleep.
    ///
    /// # Errors
    ///
    /// See [`BeginError`]. The call is not counted after an error.
    #[inline(always)]
    pub(crate) fn begin(
        &self,
        call: &call::Call<'_>,
        receive: u32,
    ) -> Result<(KBox<Call>, u32), BeginError> {
        let mut state = self.state.lock();
        let more = state.grant.on_call(call.credits());
        let more = more.map_err(|Excess| BeginError::Excess)?;
        let free = state.free.pop();
        drop(state);
        let begun = Call::begin(free, call, receive, GFP_KERNEL)
            .inspect_err(|_| self.state.lock().grant.on_dropped());
        Ok((begun.map_err(|_| BeginError::NoMemory)?, more))
    }

    /// Counts `call` and returns its context, if that requires neither allocating a context nor
    /// posting a Receive, and a spare page list, if there is one. Does not sleep.
    pub(crate) fn begin_now(
        &self,
        call: &call::Call<'_>,
        receive: u32,
    ) -> Option<(KBox<Call>, Option<KBox<Store>>)> {
        let mut state = self.state.lock();
        if state.free.is_empty() || !state.grant.on_call_within() {
            return None;
        }
        let (free, store) = (state.free.pop(), state.stores.pop());
        drop(state);
        let begun = Call::begin(free, call, receive, GFP_NOWAIT)
            .inspect_err(|_| self.state.lock().grant.on_dropped());
        Some((begun.ok()?, store))
    }

    /// Removes and returns a spare page list, if there is one.
    pub(crate) fn store(&self) -> Option<KBox<Store>> {
        self.state.lock().stores.pop()
    }

    /// Keeps a page list that is not in flight. Its pages are freed if the budget is scarce. Does
    /// not sleep.
    #[inline(always)]
    pub(crate) fn keep(&self, mut store: KBox<Store>) {
        store.recent = true;
        let mut state = self.state.lock();
        if store.permit.is_scarce() {
            drop(state);
            return self.keep_empty(store);
        }
        let _refused = state.stores.push_within_capacity(store);
        drop(state);
    }

    /// Keeps a page list without its pages.
    #[cold]
    pub(crate) fn keep_empty(&self, mut store: KBox<Store>) {
        store.empty();
        let _refused = self.state.lock().stores.push_within_capacity(store);
    }

    /// Drops the spare page lists for which `wanted` returns true, one by one.
    fn drop_stores(&self, wanted: impl Fn(&KBox<Store>) -> bool) {
        loop {
            let mut state = self.state.lock();
            let Some(place) = state.stores.iter().position(&wanted) else {
                return;
            };
            let store = state.stores.remove(place);
            drop(state);
            store.into_iter().for_each(|mut store| store.empty());
        }
    }

    /// Frees the pages of all spare page lists.
    #[cold]
    pub(crate) fn free_kept(&self) {
        self.drop_stores(|store| store.permit.pages != 0);
    }

    /// Drops the spare page lists that no call has used since the last time.
    pub(crate) fn drop_unused(&self) {
        self.drop_stores(|store| !store.recent);
        for store in &mut self.state.lock().stores {
            store.recent = false;
        }
    }

    /// Drops all spare contexts and page lists. From now on none is kept, so that the last user of
    /// the value, which may hold a spinlock, frees no memory of `vmalloc()`. May sleep.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        let _dropped = (take(&mut state.stores), take(&mut state.free));
        drop(state);
    }

    /// Counts a call as answered. Returns the credits for the header of the reply.
    pub(crate) fn answer(&self, call: &mut Call) -> u32 {
        call.counted = false;
        self.state.lock().grant.on_reply()
    }

    /// Frees the context of a call. A call that was not answered returns its credit.
    pub(crate) fn put(&self, call: KBox<Call>) {
        let mut state = self.state.lock();
        if call.counted {
            state.grant.on_dropped();
        }
        let _refused = state.free.push_within_capacity(call);
        drop(state);
    }

    /// Limits the grant to fewer credits than `requested`, but at least one.
    pub(crate) fn grant_below(&self, requested: u32) {
        self.state.lock().grant.keep_below(requested);
    }

    /// Counts `more` further Receives that are posted.
    pub(crate) fn on_posted(&self, more: u32) {
        self.state.lock().grant.on_posted(more);
    }

    /// Returns the grant of the latest reply. Messages that answer no call grant the same: a larger
    /// grant would permit calls that count as an excess.
    pub(crate) fn granted(&self) -> u32 {
        self.state.lock().grant.granted()
    }

    /// Returns the grant of the latest reply, and the number of calls that were not answered.
    pub(crate) fn credits(&self) -> (u32, u32) {
        let state = self.state.lock();
        (state.grant.granted(), state.grant.in_progress())
    }
}
