// SPDX-License-Identifier: GPL-2.0

//! Reads the read chunks of replies: RFC 5666 section 3.5.
//!
//! The RDMA Reads go to pages of this module and not to the memory of the RPC, because the RPC may
//! be aborted meanwhile. When they have completed, the reply is handled like an inline reply, and
//! RDMA_DONE is sent as soon as there is a credit for it.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

use super::super::config::{MAX_PAYLOAD_PAGES, MAX_SEGMENTS};
use super::{Calls, Link};
use crate::compat::code::EPROTO;
use crate::conn::role::{ConnOf, QpOf, Role};
use crate::conn::traced::peer;
use crate::mem::Page;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::legacy::done::{Dones, Stamp};
use crate::proto::legacy::read_chunks::{check_pulled, parts};
use crate::proto::requester::reply::Violation;
use crate::proto::responder::reassembly::{Part, Source};
use crate::rdma::qp::{PostError, Remote, Tag};
use crate::rdma::scatter::Sink;
use crate::wire::v1::done;
use crate::wire::{Direction, Limits, Message, Version};

/// The maximum number of replies that are read at the same time.
pub(in crate::client) const MOST: u32 = 4;
/// The maximum number of work requests of all RDMA Reads. Each reads a page, and the longest reply
/// has [`MAX_PAYLOAD_PAGES`], with head and tail.
pub(super) const WORK_REQUESTS: u32 = 2 * (MAX_PAYLOAD_PAGES + READS);
/// The maximum number of read segments in a reply.
const READS: u32 = 64;
/// The maximum number of chunks in a message where replies may have read chunks.
const LIMITS: Limits = Limits {
    read_segments: READS,
    ..Limits::requester(1, MAX_SEGMENTS)
};

/// A reply that has been read: the XID, the message that announced the reply, and the RPC message.
pub(in crate::client) type Fetched = (u32, KVVec<u8>, KVVec<u8>);

/// A reply that is being read.
struct ReadReply {
    xid: u32,
    /// The message that announced the reply.
    message: KVVec<u8>,
    /// The length of the RPC message, read chunks included.
    len: u32,
    /// The longest RPC message that fits the RPC.
    max: u32,
    sink: Sink,
}

/// The replies of one connection that are being read.
#[pin_data]
pub(in crate::client) struct ReadReplies {
    #[pin]
    state: SpinLock<Queue>,
}

/// The data that the lock of [`ReadReplies`] protects.
#[derive(Default)]
struct Queue {
    /// The replies whose RDMA Reads are posted, by the number of their tag.
    posted: [Option<ReadReply>; MOST as usize],
    /// The replies that wait.
    waiting: KVVec<ReadReply>,
    /// Work requests of the RDMA Reads that are posted.
    work_requests: u32,
    dones: Dones,
    /// The XIDs for which an RDMA_DONE is due.
    due: KVVec<u32>,
    /// The calls that were in flight when an RDMA_DONE was sent after them, with their stamps.
    marks: KVVec<(u32, Stamp)>,
    /// The tag of the first reply that is read.
    first_tag: u32,
}

impl ReadReplies {
    /// Makes the state of a connection whose replies have no read chunks.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(Queue::default(), "rpcrdma::ReadReplies::state"),
        })
    }

    /// Allows read chunks in the replies to `slots` calls. The tags from `first_tag` on are for
    /// their RDMA Reads. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn enable(&self, slots: u32, first_tag: u32) -> Result {
        // CAST: `usize` has at least 32 bits.
        let slots = slots as usize;
        let waiting = KVVec::with_capacity(slots, GFP_KERNEL)?;
        let due = KVVec::with_capacity(slots, GFP_KERNEL)?;
        let marks = KVVec::with_capacity(slots, GFP_KERNEL)?;
        let mut state = self.state.lock();
        (state.waiting, state.due, state.marks) = (waiting, due, marks);
        state.first_tag = first_tag;
        Ok(())
    }

    /// Decodes a message, and returns it if it is a reply with read chunks. Completion worker.
    pub(in crate::client) fn announced<'m, R: Role>(
        &self,
        link: Link<'_, R>,
        bytes: &'m [u8],
        calls: &Calls<'_>,
    ) -> Option<Message<'m>> {
        let header = Message::decode_as(Version::One, bytes, &LIMITS).ok()?;
        if Direction::of_rpc(header.payload()) != Some(Direction::Call) {
            let xid = header.xid();
            self.state.lock().on_reply(xid);
            // The RPC is pending, but its call takes no credit any more.
            let others = |xids: &mut dyn FnMut(u32)| {
                calls(&mut |call| _ = (call != xid).then(|| xids(call)))
            };
            self.account(link, &others);
        }
        let any = header.lists().map(|lists| lists.read_list().count());
        (any.unwrap_or(0) != 0).then_some(header)
    }

    /// Handles a message whose header cannot be decoded, and which need not be a reply: it confirms
    /// no more than the mark of the call with its XID says.
    pub(in crate::client) fn answered(&self, xid: u32) {
        let mut state = self.state.lock();
        if let Some(stamp) = state.end_mark(xid) {
            state.dones.on_reply(stamp);
        }
    }

    /// Declines a reply for which no RPC waits. The reply is not read, and the server may reuse its
    /// memory.
    pub(in crate::client) fn decline(&self, xid: u32) {
        self.state.lock().owe(xid);
    }

    /// Returns whether the reply with this XID is being read.
    pub(in crate::client) fn is_reading(&self, xid: u32) -> bool {
        let state = self.state.lock();
        let posted = state.posted.iter().flatten().any(|reply| reply.xid == xid);
        posted || state.waiting.iter().any(|reply| reply.xid == xid)
    }

    /// Checks a reply, which is in the message of these `bytes`, and begins to read it. `max` is
    /// the longest RPC message that fits the RPC.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] found; none if there is no memory for the reply, or the RDMA Reads
    /// cannot be posted.
    pub(in crate::client) fn read<R: Role>(
        &self,
        (conn, qp): (&ConnOf<R>, &QpOf<R>),
        header: &Message<'_>,
        bytes: &[u8],
        max: u32,
    ) -> Result<(), Option<Violation>> {
        let len = check_pulled(header, max)?.len;
        trace::pull_reply(peer(conn.owner()), header, len);
        let reply = prepare(qp, bytes, header, (len, max)).map_err(|_| None)?;
        // Without room, the reply is dropped outside the lock.
        let added = self.state.lock().waiting.push_within_capacity(reply);
        added.map_err(|_| None)?;
        self.start(qp).map_err(|_| None)
    }

    /// Posts the RDMA Reads of the replies that wait, while there is space for them.
    ///
    /// # Errors
    ///
    /// Those of posting, unless the send queue is full: call this again when it has space.
    pub(in crate::client) fn start<R: Role>(&self, qp: &QpOf<R>) -> Result {
        let post = |tag, sink: &mut Sink| qp.post_reads(tag, sink).map(drop);
        while self.state.lock().start(post)? {}
        Ok(())
    }

    /// Handles the end of a work request with this tag. Returns the reply that is now complete, if
    /// any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL`; `EPROTO` if the RPC message is not the reply to the call.
    pub(in crate::client) fn fetched<R: Role>(
        &self,
        conn: &ConnOf<R>,
        tag: Tag,
    ) -> Result<Option<Fetched>> {
        let Some(mut reply) = self.state.lock().finish(tag) else {
            return Ok(None);
        };
        let message = assemble(&mut reply);
        reply.sink.pages().into_iter().for_each(Page::free_all);
        let message = message.inspect_err(|error| {
            if *error == EPROTO {
                conn.breach(Breach::ReplyClaim);
            }
        })?;
        Ok(Some((reply.xid, reply.message, message)))
    }

    /// Sends the RDMA_DONEs for which there is a credit, and charges them.
    pub(in crate::client) fn account<R: Role>(
        &self,
        (conn, qp, credits): Link<'_, R>,
        calls: &Calls<'_>,
    ) {
        loop {
            let charge = self.state.lock().charge();
            // The transport learns of the charge first, so that no further call takes the credit.
            credits.set_charge(conn, charge);
            let (limit, requested) = (credits.left(), credits.requested());
            let mut state = self.state.lock();
            let before = state.dones;
            let Some(xid) = state.next_done(limit, calls) else {
                break;
            };
            if !conn.post_control(qp, |out| done(out, xid, requested)) {
                // The buffer is in use. When it is free, the connection retries.
                state.dones = before;
                // The place of the removed XID is free.
                let full = state.due.insert_within_capacity(0, xid);
                debug_assert!(full.is_ok());
                break;
            }
            let marked = state.mark(before.stamp(), calls);
            drop(state);
            if !marked {
                // More calls are marked than the peer may leave unanswered.
                return conn.force_close();
            }
            trace::done_sent(peer(conn.owner()), xid);
        }
    }
}

impl Queue {
    /// Starts the oldest reply that waits, by `post`, if there is space.
    fn start(
        &mut self,
        post: impl FnOnce(Tag, &mut Sink) -> Result<(), PostError>,
    ) -> Result<bool> {
        let Some(slot) = self.posted.iter().position(Option::is_none) else {
            return Ok(false);
        };
        let Some(next) = self.waiting.first_mut() else {
            return Ok(false);
        };
        let more = next.sink.work_requests();
        if self.work_requests != 0 && self.work_requests + more > WORK_REQUESTS {
            return Ok(false);
        }
        // A reply that cannot be posted stays in the queue: it is not dropped while a lock is held.
        // CAST: less than `MOST`.
        match post(Tag::new(self.first_tag + slot as u32), &mut next.sink) {
            Err(PostError::Full) => return Ok(false),
            posted => posted?,
        }
        self.work_requests += more;
        let reply = self.waiting.remove(0).map_err(|_| EINVAL)?;
        if let Some(place) = self.posted.get_mut(slot) {
            *place = Some(reply);
        }
        Ok(true)
    }

    /// Removes and returns the reply of a tag, whose RDMA Reads have completed. Its RDMA_DONE is
    /// due.
    fn finish(&mut self, tag: Tag) -> Option<ReadReply> {
        let slot = tag.get().checked_sub(self.first_tag)?;
        // CAST: `usize` has at least 32 bits.
        let reply = self.posted.get_mut(slot as usize)?.take()?;
        self.work_requests = self
            .work_requests
            .saturating_sub(reply.sink.work_requests());
        // No further message ends the mark that an RDMA_DONE has made meanwhile.
        self.end_mark(reply.xid);
        self.owe(reply.xid);
        Some(reply)
    }

    /// Records that an RDMA_DONE is due for this XID.
    fn owe(&mut self, xid: u32) {
        // There is room: a call has one reply.
        if self.due.push_within_capacity(xid).is_ok() {
            self.dones.on_due();
        }
    }

    /// Returns the credits of the RDMA_DONEs that are not confirmed, and of the next one.
    fn charge(&self) -> u32 {
        self.dones.unconfirmed() + u32::from(!self.due.is_empty())
    }

    /// Takes a credit for the next RDMA_DONE, if `limit` permits. `each` calls its argument with
    /// the XID of each call in flight. Returns the XID of the RDMA_DONE if it is to be sent.
    fn next_done(&mut self, limit: u32, each: &Calls<'_>) -> Option<u32> {
        // A task that had a credit before the charge may be about to post its call.
        let mut calls = u32::from(limit > 1);
        each(&mut |_| calls += 1);
        if self.due.is_empty() || !self.dones.try_send(limit, calls) {
            return None;
        }
        self.due.remove(0).ok()
    }

    /// Marks the calls in flight after an RDMA_DONE was posted: their replies do not confirm it.
    /// `before` is the stamp before it. A call that was posted just after it is marked as well; a
    /// later reply confirms the RDMA_DONE. Returns whether there was room for all marks.
    fn mark(&mut self, before: Stamp, each: &Calls<'_>) -> bool {
        let (marks, mut all) = (&mut self.marks, true);
        each(&mut |xid| {
            let known = marks.iter().any(|(marked, _)| *marked == xid);
            all &= known || marks.push_within_capacity((xid, before)).is_ok();
        });
        all
    }

    /// Handles the reply to the call with this XID, as far as RDMA_DONEs are concerned.
    fn on_reply(&mut self, xid: u32) {
        let stamp = self.end_mark(xid).unwrap_or(self.dones.stamp());
        self.dones.on_reply(stamp);
    }

    /// Ends the mark of a call, and returns its stamp; `None` if the call is not marked.
    fn end_mark(&mut self, xid: u32) -> Option<Stamp> {
        let at = self.marks.iter().position(|(marked, _)| *marked == xid)?;
        self.marks.remove(at).ok().map(|(_, stamp)| stamp)
    }
}

/// Prepares to read a reply that has been checked.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL`.
fn prepare<R: Role>(
    qp: &QpOf<R>,
    bytes: &[u8],
    header: &Message<'_>,
    (len, max): (u32, u32),
) -> Result<ReadReply> {
    let mut message = KVVec::new();
    message.extend_from_slice(bytes, GFP_NOWAIT)?;
    let mut sink = Sink::new(qp.pd(), GFP_NOWAIT)?;
    let pages = sink.pages().ok_or(EBUSY)?;
    // CAST: `usize` has at least 32 bits.
    Page::fill(pages, (len as usize).div_ceil(PAGE_SIZE), GFP_NOWAIT)?;
    for part in parts(header, max).map_err(|_| EINVAL)? {
        let part = part.map_err(|_| EINVAL)?;
        let Source::Read { handle, offset } = part.source else {
            continue;
        };
        let from = Remote {
            addr: offset,
            rkey: handle,
        };
        // CAST: `usize` has at least 32 bits.
        sink.read(part.at as usize, part.len, from, 1, None, GFP_NOWAIT)?;
    }
    Ok(ReadReply {
        xid: header.xid(),
        message,
        len,
        max,
        sink,
    })
}

/// Assembles a reply whose RDMA Reads have completed.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL`; `EPROTO` if the RPC message is not the reply to the call.
fn assemble(reply: &mut ReadReply) -> Result<KVVec<u8>> {
    let header = Message::decode_as(Version::One, &reply.message, &LIMITS).map_err(|_| EINVAL)?;
    let pages = reply.sink.pages().ok_or(EBUSY)?;
    // CAST: `usize` has at least 32 bits, here and below.
    let mut message = KVVec::with_capacity(reply.len as usize, GFP_NOWAIT)?;
    for part in parts(&header, reply.max).map_err(|_| EINVAL)? {
        let part = part.map_err(|_| EINVAL)?;
        append(&mut message, &part, header.payload(), pages)?;
    }
    let begins = message.first_chunk().copied().map(u32::from_be_bytes) == Some(reply.xid);
    if !begins || Direction::of_rpc(&message) != Some(Direction::Reply) {
        return Err(EPROTO);
    }
    Ok(message)
}

/// Appends a part of a reply.
fn append(message: &mut KVVec<u8>, part: &Part, inline: &[u8], pages: &mut [Page]) -> Result {
    // CAST: `usize` has at least 32 bits.
    let (mut at, mut left) = (part.at as usize, part.len as usize);
    match part.source {
        Source::Inline { start } => {
            let start = start as usize;
            let bytes = inline.get(start..start + left).ok_or(EINVAL)?;
            message.extend_from_slice(bytes, GFP_NOWAIT)?;
        }
        Source::RoundUp => message.extend_with(left, 0, GFP_NOWAIT)?,
        Source::Read { .. } => {
            while left != 0 {
                let page = pages.get_mut(at / PAGE_SIZE).ok_or(EINVAL)?;
                let rest = page.bytes().get(at % PAGE_SIZE..).ok_or(EINVAL)?;
                let bytes = rest.get(..left.min(rest.len())).ok_or(EINVAL)?;
                message.extend_from_slice(bytes, GFP_NOWAIT)?;
                at += bytes.len();
                left -= bytes.len();
            }
        }
    }
    Ok(())
}
