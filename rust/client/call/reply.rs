// SPDX-License-Identifier: GPL-2.0

//! From a received message to a completed RPC.
//!
//! No value in a message is used before it has been compared with the chunks that the call offered.
//! A message that belongs to no RPC is dropped. A message that breaks the protocol fails its RPC
//! with `EIO`. A message that invalidates memory of another call ends the connection. In every case
//! the Receive goes back to the ring when the caller drops the message.

use kernel::prelude::*;
use kernel::sync::SpinLockGuard;

use super::super::advice;
use super::super::config::MAX_SEGMENTS;
use super::super::endpoint::{Conn, Incoming, QueuePair};
use super::super::transport::{task_of, Client};
use super::fence::{self, Ending, Status};
use super::slot::{Contents, Locked, Slot};
use super::SlotTable;
use crate::conn;
use crate::observe::stats::Breach;
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::plan::ReplyKind;
use crate::proto::requester::reply::{self, match_rkey, Outcome, Violation};
use crate::rdma::mr::Mr;
use crate::rdma::qp::Tag;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::ErrorBody;
use crate::wire::{self, CommonReply, DecodeError, Limits, Message, OnlyChunk, Prefix, What};

/// The most that a reply may hold: one chunk of the segments that the call offered.
pub(in crate::client) const LIMITS: Limits = Limits::requester(1, MAX_SEGMENTS);

/// How a reply arrived.
#[derive(Clone, Copy)]
pub(in crate::client) enum Arrived<'a, 'm> {
    /// As this message.
    Message(&'a Incoming<'m>),
    /// By RDMA Reads, which a message with these bytes announced. That message invalidated nothing,
    /// or was checked when it arrived.
    Read(&'a [u8]),
}

impl<'a, 'm> Arrived<'a, 'm> {
    /// Returns the bytes of the message.
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Message(msg) => msg.bytes(),
            Self::Read(bytes) => bytes,
        }
    }

    /// Returns the message and the R_key that it invalidated, if any.
    #[inline(always)]
    fn invalidated(self) -> Option<(&'a Incoming<'m>, u32)> {
        match self {
            Self::Message(msg) => msg.invalidated().map(|rkey| (msg, rkey)),
            Self::Read(_) => None,
        }
    }
}

/// Handles a reply or an error in any form. If `grant` is set, its credits count. Completion
/// worker; does not sleep.
pub(in crate::client) fn handle(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    header: &Message<'_>,
    grant: bool,
) {
    let granted = grant.then_some(header.credits());
    receive(conn, qp, msg, (header.xid(), granted), |contents, rqst| {
        check(conn, header, contents, rqst)
    });
}

/// Handles a reply of a common form. Completion worker; does not sleep.
#[inline(always)]
pub(in crate::client) fn handle_common(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    reply: &CommonReply<'_>,
) {
    let granted = Some(reply.credits);
    receive(conn, qp, msg, (reply.xid, granted), |contents, rqst| {
        let Ok(written) = reply::check_common(&reply.chunk, &contents.offer()) else {
            return check_again(conn, msg, contents, rqst);
        };
        if let OnlyChunk::Write(segment) | OnlyChunk::Reply(segment) = &reply.chunk {
            trace::decode_seg(segment);
        }
        contents.counts.reply_bytes(written);
        let message = reply.payload;
        let chunk = match reply.chunk {
            OnlyChunk::None => None,
            OnlyChunk::Write(_) => Some(written),
            OnlyChunk::Reply(_) => return Finding::Done(Ok(written)),
        };
        Finding::Inline { message, chunk }
    });
}

/// Takes the credits that a reply grants, and finishes the RPC that the reply answers. `check`
/// compares the reply with the chunks that its call offered.
#[inline(always)]
fn receive<'m>(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    (xid, granted): (u32, Option<u32>),
    check: impl FnOnce(&mut Contents, &Pinned<'_, Client>) -> Finding<'m>,
) {
    let credits = &conn.role().credits;
    // The grant counts although no RPC may wait for the reply: it is the peer's latest grant, and
    // the peer could send the same grant in any other reply.
    if let Some(granted) = granted {
        credits.granted(conn, xid, granted, 1);
    }
    let arrived = Arrived::Message(msg);
    let Some(rqst) = conn.owner().find(xid) else {
        return unmatched(conn, xid, arrived);
    };
    trace::reply(task_of(&rqst), xid, Lazy(|| credits.grant()));
    finish(conn, qp, arrived, rqst, check);
}

/// Handles a message of a server whose replies may have read chunks. Returns `false` if the message
/// has none. Completion worker; does not sleep.
#[cold]
pub(in crate::client) fn handle_announced(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>) -> bool {
    let (reads, credits) = (&conn.role().quirks.reads, &conn.role().credits);
    let arrived = Arrived::Message(msg);
    let calls = calls(conn);
    let Some(reply) = reads.announced((conn, qp, credits), msg.bytes(), &calls) else {
        return false;
    };
    let xid = reply.xid();
    credits.granted(conn, xid, reply.credits(), 1);
    // Such a server does not support remote invalidation, so no memory of this host may be
    // invalidated.
    check_unmatched_rkey(conn, xid, arrived);
    let Some(rqst) = conn.owner().find(xid) else {
        reads.decline(xid);
        unmatched(conn, xid, arrived);
        reads.account((conn, qp, credits), &calls);
        return true;
    };
    if reads.is_reading(xid) {
        conn.breach(Breach::ReplyClaim);
        disown(conn, rqst, arrived);
        return true;
    }
    // The RPC stays pending while its reply is read.
    match reads.read((conn, qp), &reply, msg.bytes(), rqst.recv_buf().buflen()) {
        Ok(()) => {}
        Err(Some(violation)) => {
            report_violation(conn, &rqst, violation);
            fail(conn, qp, msg, rqst);
        }
        // The server must answer again over another connection.
        Err(None) => conn.force_close(),
    }
    true
}

/// Handles the end of RDMA Reads that fetch a reply, if `tag` is theirs. Completion worker; does
/// not sleep.
#[cold]
pub(in crate::client) fn handle_fetched(conn: &Conn, qp: &QueuePair, tag: Tag) {
    let (reads, credits) = (&conn.role().quirks.reads, &conn.role().credits);
    match reads.fetched(conn, tag) {
        Ok(Some((xid, header, message))) => {
            let arrived = Arrived::Read(&header);
            match conn.owner().find(xid) {
                Some(rqst) => finish(conn, qp, arrived, rqst, |_, _| Finding::Whole(message)),
                None => unmatched(conn, xid, arrived),
            }
        }
        Ok(None) => {}
        Err(_) => conn.force_close(),
    }
    if reads.start(qp).is_err() {
        conn.force_close();
    }
    reads.account((conn, qp, credits), &calls(conn));
}

/// Returns a function that calls its argument with the XID of each call in flight.
pub(in crate::client) fn calls(conn: &Conn) -> impl Fn(&mut dyn FnMut(u32)) + '_ {
    |act| SlotTable::of(conn.owner()).each_unanswered(conn.epoch(), act)
}

/// Handles a message whose header cannot be decoded: fails the RPC with its XID, if any, so that
/// the RPC does not wait for its timeout. The grant in such a header does not count. Completion
/// worker; does not sleep.
pub(in crate::client) fn handle_undecodable(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    error: &DecodeError,
) {
    let (bytes, peer) = (msg.bytes(), conn::traced::peer(conn.owner()));
    let arrived = Arrived::Message(msg);
    conn.breach(Breach::MalformedHeader);
    conn.owner().data().stats.bad_reply.add(1);
    let Ok(prefix) = wire::peek(bytes) else {
        trace::malformed_hdr(peer, 0, error, bytes.len());
        trace::reply_short_err(Prefix::from_bytes(&[0; Prefix::LEN]), peer);
        // However short the message is, the R_key that arrived with it has been invalidated.
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
    if conn.terms().has_dones() {
        let (reads, credits) = (&conn.role().quirks.reads, &conn.role().credits);
        reads.answered(prefix.xid);
        reads.account((conn, qp, credits), &calls(conn));
    }
}

/// Fails the RPC that a message answers.
fn fail(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, rqst: Pinned<'_, Client>) {
    finish(conn, qp, Arrived::Message(msg), rqst, |_, _| {
        Finding::Done(Err(EIO))
    });
}

/// Traces a message for which no RPC waits.
fn trace_unmatched(conn: &Conn, arrived: Arrived<'_, '_>) {
    if let Ok(prefix) = wire::peek(arrived.bytes()) {
        trace::reply_rqst_err(prefix, conn::traced::peer(conn.owner()));
    }
}

/// Handles and traces a reply for which SUNRPC does not wait.
fn unmatched(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    trace_unmatched(conn, arrived);
    handle_unmatched(conn, xid, arrived);
}

/// Handles a reply for which SUNRPC does not wait. Its call is being aborted (SUNRPC has dequeued
/// it and will release it soon), or was released before, or never existed.
fn handle_unmatched(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    let late = answered_late(conn, xid, arrived);
    check_unmatched_rkey(conn, xid, arrived);
    if !late {
        conn.role().credits.unmatched_answer(conn);
    }
}

/// Drops a second reply, or a reply to an RPC that was not sent over this connection as it is
/// encoded now. The RPC stays pending.
fn disown(conn: &Conn, rqst: Pinned<'_, Client>, arrived: Arrived<'_, '_>) {
    let xid = rqst.xid();
    rqst.disown();
    trace_unmatched(conn, arrived);
    check_unmatched_rkey(conn, xid, arrived);
}

/// Closes the connection if a message that answers no call has invalidated memory of a call that
/// waits for its reply. (A reply to an aborted call may invalidate memory of that call.)
pub(in crate::client) fn check_unmatched_rkey(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) {
    let Some((_, rkey)) = arrived.invalidated() else {
        return;
    };
    if SlotTable::of(conn.owner()).exposes(conn.epoch(), rkey) {
        report_foreign_rkey(conn, xid, rkey);
        conn.force_close();
    }
}

/// Records a reply to a call that SUNRPC has dequeued and not yet released, that it has encoded
/// again, or that was answered before. Returns whether there is such a call.
///
/// The peer may have invalidated an R_key of that call, as with every other reply.
fn answered_late(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) -> bool {
    SlotTable::of(conn.owner()).mark_answered(conn.epoch(), xid, |contents| {
        let Some((msg, rkey)) = arrived.invalidated() else {
            return;
        };
        let handles = contents.regions.iter().map(Mr::rkey);
        let permitted = conn.terms().remote_invalidation();
        // `check_unmatched_rkey` checks a key that is not the call's own.
        let found = match_rkey(handles, rkey, permitted);
        if let Some(region) = found.and_then(|index| contents.regions.get_mut(index)) {
            region.remotely_invalidated(msg);
        }
    })
}

/// The result of checking a reply.
enum Finding<'m> {
    /// The RPC ends with this status; its reply, if any, is in place.
    Done(Status),
    /// The RPC message, or the part of it that did not arrive through the write chunk, has to be
    /// copied into place.
    Inline {
        message: &'m [u8],
        /// The bytes that came through the write chunk, if it was used.
        chunk: Option<u32>,
    },
    /// The RPC message was read from the server's memory.
    Whole(KVVec<u8>),
}

/// Finishes the RPC that a message answers: records the R_key that the peer has invalidated, calls
/// `check` for the message, and completes the RPC as soon as the peer can no longer reach its
/// memory.
fn finish<'m>(
    conn: &Conn,
    qp: &QueuePair,
    arrived: Arrived<'_, '_>,
    mut rqst: Pinned<'_, Client>,
    check: impl FnOnce(&mut Contents, &Pinned<'_, Client>) -> Finding<'m>,
) {
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    if locked.stale || !locked.is_sent(conn.epoch()) {
        drop(locked);
        // The server has finished with a call that was encoded again, and may have invalidated its
        // memory.
        answered_late(conn, rqst.xid(), arrived);
        return disown(conn, rqst, arrived);
    }
    if !mark_invalidated(conn, &mut locked.contents, &rqst, arrived) {
        return conn.force_close();
    }
    let finding = check(&mut locked.contents, &rqst);
    if !locked.contents.is_exposed() {
        slot.end_use(&mut locked);
        drop(locked);
        let status = place(conn.owner(), &mut rqst, finding);
        return fence::complete(rqst, status);
    }
    finish_exposed(conn, qp, (slot, locked), rqst, finding);
}

/// Implements [`finish`] for a call whose memory the peer can still reach. A reply that belongs in
/// that memory is kept until the memory is invalidated; any other reply is copied into place.
#[inline(never)]
fn finish_exposed(
    conn: &Conn,
    qp: &QueuePair,
    (slot, locked): (&Slot, SpinLockGuard<'_, Locked>),
    mut rqst: Pinned<'_, Client>,
    finding: Finding<'_>,
) {
    let ending = match finding {
        Finding::Inline { message, chunk } if is_mapped(&locked.contents, &rqst, message) => {
            // Without memory for the copy, the server must answer again over another connection.
            let Ok(message) = copied(message) else {
                // Ending the pin takes `queue_lock`, which requires that no lock of this module is
                // held.
                drop(locked);
                drop(rqst);
                return conn.force_close();
            };
            Ending::Copy { message, chunk }
        }
        // The reply may be long, so it is not copied while a lock is held.
        Finding::Whole(message) => Ending::Copy {
            message,
            chunk: None,
        },
        finding => Ending::With(place(conn.owner(), &mut rqst, finding)),
    };
    fence::before_completion(qp, slot, locked, rqst, ending);
}

/// Returns a copy of a message. Does not sleep.
///
/// # Errors
///
/// `ENOMEM`.
fn copied(message: &[u8]) -> Result<KVVec<u8>> {
    let mut copy = KVVec::new();
    copy.extend_from_slice(message, GFP_ATOMIC)?;
    Ok(copy)
}

/// Returns whether the place of a message lies in memory that is still registered. A reply chunk
/// takes in the whole reply; a write chunk takes in everything but the head.
fn is_mapped(contents: &Contents, rqst: &Pinned<'_, Client>, message: &[u8]) -> bool {
    match contents.offer {
        ReplyKind::Inline => false,
        // CAST: `usize` has at least 32 bits.
        ReplyKind::WriteChunk => message.len() > rqst.recv_buf().head_len() as usize,
        ReplyKind::ReplyChunk => true,
    }
}

/// Copies the reply into place, unless it is there already, and returns the status of the RPC.
#[inline(always)]
fn place(xprt: &Xprt<Client>, rqst: &mut Pinned<'_, Client>, finding: Finding<'_>) -> Status {
    match finding {
        Finding::Done(status) => status,
        Finding::Inline { message, chunk } => fence::place(xprt, rqst, message, chunk),
        Finding::Whole(message) => fence::place(xprt, rqst, &message, None),
    }
}

/// Marks the region whose R_key the peer has invalidated. Returns `false` if the R_key does not
/// belong to this RPC.
#[inline(always)]
fn mark_invalidated(
    conn: &Conn,
    contents: &mut Contents,
    rqst: &Pinned<'_, Client>,
    arrived: Arrived<'_, '_>,
) -> bool {
    let Some((msg, rkey)) = arrived.invalidated() else {
        return true;
    };
    // Most calls are prepared under terms that permit it.
    let permitted = contents.terms.remote_invalidation() || conn.terms().remote_invalidation();
    let handles = contents.regions.iter().map(Mr::rkey);
    let Some(index) = match_rkey(handles, rkey, permitted) else {
        report_foreign_rkey(conn, rqst.xid(), rkey);
        return false;
    };
    contents.regions.get_mut(index).is_some_and(|region| {
        trace::mr_reminv(task_of(rqst), conn::traced::region(region));
        region.remotely_invalidated(msg)
    })
}

/// Traces and counts that the message with this XID has invalidated memory of another call.
#[cold]
pub(in crate::client) fn report_foreign_rkey(conn: &Conn, xid: u32, rkey: u32) {
    trace::reminv_foreign(conn::traced::peer(conn.owner()), xid, rkey);
    conn.breach(Breach::ForeignRkey);
}

/// Compares a reply of a common form with the chunks that its call offered, after the quick check
/// has rejected it.
#[cold]
fn check_again<'m>(
    conn: &Conn,
    msg: &'m Incoming<'_>,
    contents: &mut Contents,
    rqst: &Pinned<'_, Client>,
) -> Finding<'m> {
    match Message::decode_as(conn.version(), msg.bytes(), &LIMITS) {
        Ok(header) => check(conn, &header, contents, rqst),
        Err(_) => Finding::Done(Err(EIO)),
    }
}

/// Compares a reply with the chunks that its call offered.
fn check<'m>(
    conn: &Conn,
    header: &Message<'m>,
    contents: &mut Contents,
    rqst: &Pinned<'_, Client>,
) -> Finding<'m> {
    if let Some(lists) = header.lists() {
        trace::decode_segs(lists);
    }
    let (body, offer) = (header.body(), contents.offer());
    let checked = match reply::check(body, &offer) {
        // Some servers include the round-up in the length of a write chunk.
        Err(Violation::SegmentLength) => conn.role().quirks.check_segments(body, &offer),
        checked => checked,
    };
    match checked {
        Ok(Outcome::Inline { write_len, .. }) => {
            contents.counts.reply_bytes(write_len);
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
            contents.counts.reply_bytes(reply_chunk_len);
            Finding::Done(Ok(reply_chunk_len))
        }
        Ok(Outcome::Error(body)) => {
            report_error(conn, rqst, body);
            conn.owner().data().stats.bad_reply.add(1);
            Finding::Done(Err(EIO))
        }
        Err(violation) => {
            report_violation(conn, rqst, violation);
            Finding::Done(Err(EIO))
        }
    }
}

/// Traces and counts a reply that claims more than its call offered.
#[cold]
fn report_violation(conn: &Conn, rqst: &Pinned<'_, Client>, violation: Violation) {
    trace::reply_violation(task_of(rqst), rqst.xid(), violation);
    conn.owner().data().stats.bad_reply.add(1);
    conn.breach(Breach::ReplyClaim);
}

/// Traces an error of the responder. For a mount, logs that the server does not support the
/// version.
#[cold]
fn report_error(conn: &Conn, rqst: &Pinned<'_, Client>, error: ErrorBody) {
    let (task, xid) = (task_of(rqst), rqst.xid());
    match error {
        ErrorBody::Vers { low, high } => {
            trace::err_vers(task, xid, low, high);
            advice::log_unanswered(conn.owner(), advice::VERSION);
        }
        ErrorBody::BadHeader | ErrorBody::InvalidOption => trace::err_chunk(task, xid),
    }
}
