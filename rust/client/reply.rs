// SPDX-License-Identifier: GPL-2.0

//! From a received message to a completed RPC.
//!
//! No value in a message is used before it was compared with what the call offered. A message that
//! belongs to no RPC is dropped. A message that breaks the protocol fails its RPC with `EIO`. A
//! message that has invalidated memory of another call ends the connection. In every case the
//! Receive goes back to the ring when the caller drops the message.

use kernel::prelude::*;
use kernel::sync::SpinLockGuard;

use super::advice::{self, Reason};
use super::arrived::Arrived;
use super::complete;
use super::config::MAX_SEGMENTS;
use super::request::{DeferredReply, Locked, Offered, Phase, Request, State, Status};
use super::requester::{Conn, Incoming, QueuePair};
use super::transport::Client;
use super::{claim, fence, release, traced};
use crate::conn;
use crate::observe::stats::Breach;
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::invalidate::{self, Invalidated};
use crate::proto::requester::reply::{self, Offer, Outcome};
use crate::rdma::mr::Mr;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::ErrorBody;
use crate::wire::{self, CommonReply, DecodeError, Limits, Message, OnlyChunk, Prefix, What};

/// The most that a reply may hold: one chunk of the segments that the call offered.
pub(super) const LIMITS: Limits = Limits::requester(1, MAX_SEGMENTS);

/// Handles a reply or an error. `grant`: its credits count. Completion worker; does not sleep.
#[inline(always)]
pub(super) fn handle(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    reply: &impl Reply,
    grant: bool,
) {
    let (credits, xid) = (&conn.role().credits, reply.xid());
    // The grant counts although no RPC may wait for the reply: it is the peer's latest one, and the
    // peer could send the same grant in any other reply.
    if grant {
        credits.granted(conn, xid, reply.credits());
    }
    let arrived = Arrived::Message(msg);
    let Some(rqst) = conn.owner().find(xid) else {
        return unmatched(conn, xid, arrived);
    };
    trace::reply(traced::task(&rqst), xid, Lazy(|| credits.grant()));
    finish(conn, qp, arrived, rqst, |state, rqst| {
        reply.check(conn, msg, state, rqst)
    });
}

/// Handles a reply that was read from the server's memory. `header` is the message that has
/// announced it. Completion worker; does not sleep.
#[cold]
pub(super) fn handle_read(
    conn: &Conn,
    qp: &QueuePair,
    xid: u32,
    header: &[u8],
    message: KVVec<u8>,
) {
    let arrived = Arrived::Read(header);
    match conn.owner().find(xid) {
        Some(rqst) => finish_read(conn, qp, arrived, rqst, message),
        None => unmatched(conn, xid, arrived),
    }
}

/// Handles a message whose header cannot be decoded: fails the RPC with its XID, if there is one,
/// so that the RPC does not wait for its time-out. The grant in such a header does not count.
/// Completion worker; does not sleep.
pub(super) fn handle_undecodable(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    error: &DecodeError,
) {
    let (bytes, peer) = (msg.bytes(), conn::traced::peer(conn.owner()));
    let arrived = Arrived::Message(msg);
    conn.breach(Breach::MalformedHeader);
    conn.owner().data().stats().bad_reply();
    let Ok(prefix) = wire::peek(bytes) else {
        trace::malformed_hdr(peer, 0, error, bytes.len());
        trace::reply_short_err(Prefix::from_bytes(&[0; Prefix::LEN]), peer);
        // However short the message is, the key that came with it is invalid.
        return check_unmatched_rkey(conn, 0, arrived);
    };
    trace::malformed_hdr(peer, prefix.xid, error, bytes.len());
    if matches!(error.what, What::Version(_)) {
        trace::reply_vers_err(prefix, peer);
        // The bytes after the version may mean anything.
        return check_unmatched_rkey(conn, prefix.xid, arrived);
    }
    trace::reply_hdr_err(prefix, peer);
    match conn.owner().find(prefix.xid) {
        Some(rqst) => fail(conn, qp, msg, rqst),
        None => handle_unmatched(conn, prefix.xid, arrived),
    }
}

/// Fails the RPC that a message answers.
pub(super) fn fail(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, rqst: Pinned<'_, Client>) {
    finish(conn, qp, Arrived::Message(msg), rqst, |_, _| {
        Finding::Done(Status::Failed)
    });
}

/// Traces a message for which no RPC waits.
fn trace_unmatched(conn: &Conn, arrived: Arrived<'_, '_>) {
    if let Ok(prefix) = wire::peek(arrived.bytes()) {
        trace::reply_rqst_err(prefix, conn::traced::peer(conn.owner()));
    }
}

/// Drops a reply for which SUNRPC does not wait.
pub(super) fn unmatched(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    trace_unmatched(conn, arrived);
    handle_unmatched(conn, xid, arrived);
}

/// Handles a reply for which SUNRPC does not wait. Its call is being given up (SUNRPC has dequeued
/// it and will release it soon), or was released before, or never existed.
fn handle_unmatched(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    let late = release::answered_late(conn, xid, arrived);
    check_unmatched_rkey(conn, xid, arrived);
    if !late {
        conn.role().credits.unmatched_answer(conn);
    }
}

/// Drops a second reply, or a reply to an RPC that was not sent over this connection. The RPC stays
/// pending.
pub(super) fn disown(conn: &Conn, rqst: Pinned<'_, Client>, arrived: Arrived<'_, '_>) {
    let xid = rqst.xid();
    rqst.disown();
    trace_unmatched(conn, arrived);
    check_unmatched_rkey(conn, xid, arrived);
}

/// Closes the connection if a message that answers no call has invalidated memory of a call that
/// waits for its reply. (A reply to a call that was given up may invalidate memory of that call.)
pub(super) fn check_unmatched_rkey(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    let Some((_, rkey)) = arrived.invalidated() else {
        return;
    };
    if is_exposed(conn, rkey) {
        report_foreign_rkey(conn, xid, rkey);
        conn.force_close();
    }
}

/// Returns whether a call that waits for its reply has exposed memory under this key.
fn is_exposed(conn: &Conn, rkey: u32) -> bool {
    conn.owner().slots().any(|slot| {
        let request: &Request = slot.data();
        let state = &request.lock().state;
        let mut live = state.regions.iter().filter(|region| region.is_live());
        state.phase == Phase::Sent
            && state.epoch == conn.epoch()
            && live.any(|region| region.rkey() == rkey)
    })
}

/// What the check of a reply has found.
pub(super) enum Finding<'m> {
    /// The RPC ends with this status; its reply is in place, if it has one.
    Done(Status),
    /// The RPC message, or the part of it that did not come through the write chunk, has to be
    /// copied into place.
    Inline {
        message: &'m [u8],
        /// The bytes that came through the write chunk, if it was used.
        chunk: Option<u32>,
    },
}

/// Finishes the RPC that a message answers: notes the R_key that the peer has invalidated, calls
/// `check` for the message, and completes the RPC as soon as the peer cannot reach its memory.
fn finish<'a, 'm>(
    conn: &'a Conn,
    qp: &QueuePair,
    arrived: Arrived<'_, '_>,
    mut rqst: Pinned<'a, Client>,
    check: impl FnOnce(&mut State, &Pinned<'a, Client>) -> Finding<'m>,
) {
    let request: &Request = rqst.slot().data();
    let mut locked = request.lock();
    let state = &mut locked.state;
    if state.phase != Phase::Sent || state.epoch != conn.epoch() {
        drop(locked);
        return disown(conn, rqst, arrived);
    }
    if !mark_invalidated(conn, state, &rqst, arrived) {
        return conn.force_close();
    }
    let finding = check(state, &rqst);
    if !state.is_exposed() {
        state.reset();
        request.end_use();
        drop(locked);
        let status = place(conn.owner(), &mut rqst, finding);
        return complete::complete(rqst, status);
    }
    finish_exposed(conn, qp, (request, locked), rqst, finding);
}

/// Finishes the RPC whose reply was read, as [`finish`] does. The reply may be long, so it is
/// moved, and not copied while a lock is held.
fn finish_read<'a>(
    conn: &'a Conn,
    qp: &QueuePair,
    arrived: Arrived<'_, '_>,
    mut rqst: Pinned<'a, Client>,
    message: KVVec<u8>,
) {
    let request: &Request = rqst.slot().data();
    let mut locked = request.lock();
    let state = &mut locked.state;
    if state.phase != Phase::Sent || state.epoch != conn.epoch() {
        drop(locked);
        return disown(conn, rqst, arrived);
    }
    let chunk = None;
    if state.is_exposed() {
        state.deferred = Some(DeferredReply { message, chunk });
        return fence::before_completion(qp, request, locked, rqst);
    }
    state.reset();
    request.end_use();
    drop(locked);
    let status = complete::place(conn.owner(), &mut rqst, &message, chunk);
    complete::complete(rqst, status);
}

/// Implements [`finish`] for a call of which the peer can still reach memory: keeps the reply until
/// that is invalidated, if it belongs there, or copies it into place.
#[inline(never)]
fn finish_exposed(
    conn: &Conn,
    qp: &QueuePair,
    (request, mut locked): (&Request, SpinLockGuard<'_, Locked>),
    mut rqst: Pinned<'_, Client>,
    finding: Finding<'_>,
) {
    let state = &mut locked.state;
    match finding {
        Finding::Inline { message, chunk } if is_mapped(state, &rqst, message) => {
            // Without memory for the copy, the server has to answer again over another connection.
            let Ok(reply) = DeferredReply::new(message, chunk) else {
                // The end of the pin takes `queue_lock`, and no lock of this module is held then.
                drop(locked);
                drop(rqst);
                return conn.force_close();
            };
            state.deferred = Some(reply);
        }
        finding => state.status = place(conn.owner(), &mut rqst, finding),
    }
    fence::before_completion(qp, request, locked, rqst);
}

/// Returns whether the place of a message lies in memory that is still registered. A reply chunk
/// takes in the whole reply; a write chunk takes in everything but the head.
fn is_mapped(state: &State, rqst: &Pinned<'_, Client>, message: &[u8]) -> bool {
    match state.offer {
        Offered::Nothing => false,
        // CAST: `usize` has at least 32 bits.
        Offered::WriteChunk => message.len() > rqst.recv_buf().head_len() as usize,
        Offered::ReplyChunk => true,
    }
}

/// Copies the reply into place, if that is left to do, and returns the status of the RPC.
#[inline(always)]
fn place(xprt: &Xprt<Client>, rqst: &mut Pinned<'_, Client>, finding: Finding<'_>) -> Status {
    match finding {
        Finding::Done(status) => status,
        Finding::Inline { message, chunk } => complete::place(xprt, rqst, message, chunk),
    }
}

/// Marks the region whose R_key the peer has invalidated. Returns `false` if the key is no key of
/// this RPC.
#[inline(always)]
fn mark_invalidated(
    conn: &Conn,
    state: &mut State,
    rqst: &Pinned<'_, Client>,
    arrived: Arrived<'_, '_>,
) -> bool {
    let Some((msg, rkey)) = arrived.invalidated() else {
        return true;
    };
    // Most calls were prepared under terms that permit it.
    let permitted = state.terms.remote_invalidation() || conn.remote_invalidation();
    let handles = state.regions.iter().map(Mr::rkey);
    match invalidate::match_rkey(handles, Some(rkey), permitted) {
        Invalidated::None => true,
        Invalidated::Match(index) => state.regions.get_mut(index).is_some_and(|region| {
            trace::mr_reminv(traced::task(rqst), conn::traced::region(region));
            region.remotely_invalidated(msg)
        }),
        Invalidated::Foreign(rkey) => {
            report_foreign_rkey(conn, rqst.xid(), rkey);
            false
        }
    }
}

/// Traces and counts that the message with this XID has invalidated memory of another call.
#[cold]
pub(super) fn report_foreign_rkey(conn: &Conn, xid: u32, rkey: u32) {
    trace::reminv_foreign(conn::traced::peer(conn.owner()), xid, rkey);
    conn.breach(Breach::ForeignRkey);
}

/// A reply, as far as it is decoded.
pub(super) trait Reply {
    /// Returns the XID.
    fn xid(&self) -> u32;

    /// Returns the credits that it grants, as sent.
    fn credits(&self) -> u32;

    /// Compares it with what its call has offered. `msg` is the message that it was decoded from.
    fn check<'m>(
        &'m self,
        conn: &Conn,
        msg: &'m Incoming<'_>,
        state: &mut State,
        rqst: &Pinned<'_, Client>,
    ) -> Finding<'m>;
}

impl Reply for Message<'_> {
    fn xid(&self) -> u32 {
        self.xid()
    }

    fn credits(&self) -> u32 {
        self.credits()
    }

    fn check<'m>(
        &'m self,
        conn: &Conn,
        _msg: &'m Incoming<'_>,
        state: &mut State,
        rqst: &Pinned<'_, Client>,
    ) -> Finding<'m> {
        check(conn, self, state, rqst)
    }
}

impl Reply for CommonReply<'_> {
    #[inline]
    fn xid(&self) -> u32 {
        self.xid
    }

    #[inline]
    fn credits(&self) -> u32 {
        self.credits
    }

    #[inline]
    fn check<'m>(
        &'m self,
        conn: &Conn,
        msg: &'m Incoming<'_>,
        state: &mut State,
        rqst: &Pinned<'_, Client>,
    ) -> Finding<'m> {
        let Ok(written) = reply::check_common(&self.chunk, &offer(state)) else {
            return check_again(conn, msg, state, rqst);
        };
        if let OnlyChunk::Write(segment) | OnlyChunk::Reply(segment) = &self.chunk {
            trace::decode_seg(segment);
        }
        state.counts.reply_bytes(written);
        let message = self.payload;
        match self.chunk {
            OnlyChunk::None => Finding::Inline {
                message,
                chunk: None,
            },
            OnlyChunk::Write(_) => Finding::Inline {
                message,
                chunk: Some(written),
            },
            OnlyChunk::Reply(_) => Finding::Done(Status::Length(written)),
        }
    }
}

/// Compares a reply of a common form with what its call has offered, after it was found not to fit.
#[cold]
fn check_again<'m>(
    conn: &Conn,
    msg: &'m Incoming<'_>,
    state: &mut State,
    rqst: &Pinned<'_, Client>,
) -> Finding<'m> {
    match Message::decode_as(conn.version(), msg.bytes(), &LIMITS) {
        Ok(header) => check(conn, &header, state, rqst),
        Err(_) => Finding::Done(Status::Failed),
    }
}

/// Compares a reply with what its call has offered.
fn check<'m>(
    conn: &Conn,
    header: &Message<'m>,
    state: &mut State,
    rqst: &Pinned<'_, Client>,
) -> Finding<'m> {
    let stats = conn.owner().data().stats();
    if let Some(lists) = header.lists() {
        trace::decode_segs(lists);
    }
    match claim::check(conn, header.body(), &offer(state)) {
        Ok(Outcome::Inline { write_len, .. }) => {
            state.counts.reply_bytes(write_len);
            let chunk = header
                .lists()
                .is_some_and(|l| l.write_list().next().is_some());
            Finding::Inline {
                message: header.payload(),
                chunk: chunk.then_some(write_len),
            }
        }
        Ok(Outcome::ReplyChunk {
            reply_chunk_len, ..
        }) => {
            state.counts.reply_bytes(reply_chunk_len);
            Finding::Done(Status::Length(reply_chunk_len))
        }
        Ok(Outcome::Error(body)) => {
            report_error(conn, rqst, body);
            stats.bad_reply();
            Finding::Done(Status::Failed)
        }
        Err(violation) => {
            trace::reply_violation(traced::task(rqst), header.xid(), violation);
            stats.bad_reply();
            conn.breach(Breach::ReplyClaim);
            Finding::Done(Status::Failed)
        }
    }
}

/// Returns the chunks that a call offers for its reply.
#[inline]
fn offer(state: &State) -> Offer<'_> {
    let segments = Some(&state.offered[..]);
    match state.offer {
        Offered::Nothing => Offer::default(),
        Offered::WriteChunk => Offer {
            write_chunk: segments,
            reply_chunk: None,
        },
        Offered::ReplyChunk => Offer {
            write_chunk: None,
            reply_chunk: segments,
        },
    }
}

/// Traces the error that the responder has answered with, and tells a mount of a version that is
/// not served.
#[cold]
fn report_error(conn: &Conn, rqst: &Pinned<'_, Client>, error: ErrorBody) {
    let (task, xid) = (traced::task(rqst), rqst.xid());
    match error {
        ErrorBody::Vers { low, high } => {
            trace::err_vers(task, xid, low, high);
            advice::log_unanswered(conn.owner(), Reason::Version);
        }
        ErrorBody::BadHeader | ErrorBody::InvalidOption => trace::err_chunk(task, xid),
    }
}
