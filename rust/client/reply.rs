// SPDX-License-Identifier: GPL-2.0

//! From a received message to a completed RPC.
//!
//! Nothing in a message is believed before it was compared with what the call offered. A message
//! that belongs to no RPC is dropped; one that breaks the protocol fails its RPC with `EIO`; one
//! that invalidated memory it had no business with ends the connection. In every case the
//! Receive goes back to the ring when the caller lets go of the message.

use kernel::prelude::*;

use super::link::Link;
use super::request::{Late, Offered, Phase, Request, State, Verdict};
use super::transport::Client;
use super::{backward, fence, names};
use crate::observe::stats::{breach, Breach};
use crate::observe::trace::{self, Lazy};
use crate::proto;
use crate::proto::requester::invalidate::{self, Invalidated};
use crate::proto::requester::plan::ReplyShape;
use crate::proto::requester::reply::{self, Offer, Outcome};
use crate::rdma::mr::Mr;
use crate::rdma::qp::Qp;
use crate::rdma::recv::Received;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::ErrorBody;
use crate::wire::{self, DecodeError, Message, Prefix, What};

/// Handles one message. Completion worker; does not sleep.
pub(super) fn handle(link: &Link, qp: &Qp<Link>, msg: &Received<'_, Link>) {
    let bytes = msg.bytes();
    // Not moved out of its place: it is long.
    let decoded = Message::decode_as(link.version(), bytes, &Link::limits());
    let header = match &decoded {
        Ok(header) => header,
        Err(error) => return malformed(link, qp, msg, error),
    };
    if proto::backward::is_call(header) {
        // It answers no call of ours, so no key of ours is the peer's to invalidate.
        if let Some(rkey) = msg.invalidated() {
            note_foreign(link, header.xid(), rkey);
            return link.give_up();
        }
        return backward::receive(link, header);
    }
    // Of a reply that nobody waits for any more, too: it is the peer's latest word, and no worse
    // than what it may say in any other.
    link.granted(header.xid(), header.credits());
    let Some(rqst) = link.xprt().find(header.xid()) else {
        unmatched(link, msg);
        return unawaited(link, header.xid(), msg);
    };
    trace::reply(names::task(&rqst), header.xid(), link.grant());
    accept(link, qp, msg, rqst, |state, rqst| {
        judge(link, header, state, rqst)
    });
}

/// A message with a header that cannot be decoded: fails the RPC it names, if there is one, rather
/// than let it wait for a timeout. The grant in such a header does not count.
fn malformed(link: &Link, qp: &Qp<Link>, msg: &Received<'_, Link>, error: &DecodeError) {
    let (bytes, peer) = (msg.bytes(), names::peer(link.xprt()));
    breach(Breach::MalformedHeader);
    link.xprt().data().stats().bad_reply();
    let Ok(prefix) = wire::peek(bytes) else {
        trace::malformed_hdr(peer, 0, error, bytes.len());
        trace::reply_short_err(Prefix::from_bytes(&[0; Prefix::LEN]), peer);
        // However short the message is, a key that was invalidated is invalid.
        return stray_key(link, 0, msg);
    };
    trace::malformed_hdr(peer, prefix.xid, error, bytes.len());
    if matches!(error.what, What::Version(_)) {
        trace::reply_vers_err(prefix, peer);
        // What follows the version may mean anything.
        return stray_key(link, prefix.xid, msg);
    }
    trace::reply_hdr_err(prefix, peer);
    match link.xprt().find(prefix.xid) {
        Some(rqst) => accept(link, qp, msg, rqst, |_, _| Finding::Done(Verdict::Failed)),
        None => unawaited(link, prefix.xid, msg),
    }
}

/// Traces a message that no call waits for.
fn unmatched(link: &Link, msg: &Received<'_, Link>) {
    if let Ok(prefix) = wire::peek(msg.bytes()) {
        trace::reply_rqst_err(prefix, names::peer(link.xprt()));
    }
}

/// Handles a reply that SUNRPC does not wait for. Either its call is just being given up: SUNRPC has
/// dequeued it, and will release it soon. Or it was released before. Or there was none.
fn unawaited(link: &Link, xid: u32, msg: &Received<'_, Link>) {
    let late = fence::answered_late(link, xid, msg);
    stray_key(link, xid, msg);
    if !late {
        link.unclaimed();
    }
}

/// Gives the connection up if a message that answers no call, or not as it stands, has invalidated
/// memory of one that waits. (A reply to a call that was given up may invalidate what was that call's.)
fn stray_key(link: &Link, xid: u32, msg: &Received<'_, Link>) {
    let Some(rkey) = msg.invalidated() else {
        return;
    };
    if link.waits_for(rkey) {
        note_foreign(link, xid, rkey);
        link.give_up();
    }
}

/// What a reply comes to.
enum Finding<'m> {
    /// There is nothing left to do with the message.
    Done(Verdict),
    /// The RPC message, or what of it did not come through the write chunk, is to be put into place.
    Inline {
        message: &'m [u8],
        /// Bytes that came through the write chunk, if it was used.
        chunk: Option<u32>,
    },
}

/// Settles the RPC a message belongs to: takes note of what was invalidated, has the message
/// judged, and completes the RPC as soon as nobody can reach its memory.
fn accept<'a, 'm>(
    link: &'a Link,
    qp: &Qp<Link>,
    msg: &Received<'_, Link>,
    mut rqst: Pinned<'a, Client>,
    judge: impl FnOnce(&State, &Pinned<'a, Client>) -> Finding<'m>,
) {
    let request: &Request = rqst.slot().data();
    let mut seat = request.lock();
    let state = &mut seat.state;
    if state.phase != Phase::Sent || state.epoch != link.epoch {
        // A second reply, or one to an RPC that has not been sent over this connection.
        let xid = rqst.xid();
        drop(seat);
        rqst.disown();
        unmatched(link, msg);
        return stray_key(link, xid, msg);
    }
    if !note_invalidated(link, state, &rqst, msg) {
        return link.give_up();
    }
    let finding = judge(state, &rqst);
    if !state.exposed() {
        state.reset();
        drop(seat);
        let verdict = settle(link.xprt(), &mut rqst, finding);
        return complete(rqst, verdict);
    }
    match finding {
        Finding::Inline { message, chunk } if is_mapped(state, &rqst, message) => {
            // Without memory for it the server has to say it again, over another connection.
            let Ok(late) = Late::new(message, chunk) else {
                return link.give_up();
            };
            state.late = Some(late);
        }
        finding => state.verdict = settle(link.xprt(), &mut rqst, finding),
    }
    fence::before_completion(link, qp, request, seat, rqst);
}

/// Whether a message belongs to memory that is still registered: all of the reply's is for a reply
/// chunk, and all but the head for a write chunk.
fn is_mapped(state: &State, rqst: &Pinned<'_, Client>, message: &[u8]) -> bool {
    match state.offer {
        Offered::Nothing => false,
        // CAST: `usize` has at least 32 bits.
        Offered::WriteChunk => message.len() > rqst.recv_buf().head_len() as usize,
        Offered::ReplyChunk => true,
    }
}

/// Does what a finding leaves to do.
fn settle(xprt: &Xprt<Client>, rqst: &mut Pinned<'_, Client>, finding: Finding<'_>) -> Verdict {
    match finding {
        Finding::Done(verdict) => verdict,
        Finding::Inline { message, chunk } => place(xprt, rqst, message, chunk),
    }
}

/// Puts an inline reply into place.
pub(super) fn place(
    xprt: &Xprt<Client>,
    rqst: &mut Pinned<'_, Client>,
    message: &[u8],
    chunk: Option<u32>,
) -> Verdict {
    let placed = rqst.place_reply(message, chunk);
    xprt.data().stats().fixup(placed.copied);
    trace::fixup(
        names::task(rqst),
        placed.copied,
        Lazy(|| shape(&rqst.recv_buf())),
    );
    Verdict::Length(placed.len)
}

/// Completes an RPC whose memory nobody can reach any more.
pub(super) fn complete(rqst: Pinned<'_, Client>, verdict: Verdict) {
    match verdict {
        Verdict::Length(len) => rqst.complete(len),
        Verdict::Failed => rqst.fail(EIO),
    }
}

/// Takes note of the R_key that the peer has invalidated. `false`: it was none of this RPC's.
fn note_invalidated(
    link: &Link,
    state: &mut State,
    rqst: &Pinned<'_, Client>,
    msg: &Received<'_, Link>,
) -> bool {
    let handles = state.regions.iter().map(Mr::rkey);
    match invalidate::match_rkey(handles, msg.invalidated(), link.may_invalidate()) {
        Invalidated::None => true,
        Invalidated::Match(index) => state.regions.get_mut(index).is_some_and(|region| {
            trace::mr_reminv(names::task(rqst), names::region(region));
            region.remotely_invalidated(msg)
        }),
        Invalidated::Foreign(rkey) => {
            note_foreign(link, rqst.xid(), rkey);
            false
        }
    }
}

/// The message with this XID has invalidated memory that its sender had no business with.
fn note_foreign(link: &Link, xid: u32, rkey: u32) {
    trace::reminv_foreign(names::peer(link.xprt()), xid, rkey);
    breach(Breach::ForeignRkey);
}

/// Compares a reply with what was offered.
fn judge<'m>(
    link: &Link,
    header: &Message<'m>,
    state: &State,
    rqst: &Pinned<'_, Client>,
) -> Finding<'m> {
    let stats = link.xprt().data().stats();
    let segments = Some(&state.offered[..]);
    let offer = match state.offer {
        Offered::Nothing => Offer::default(),
        Offered::WriteChunk => Offer {
            write_chunk: segments,
            reply_chunk: None,
        },
        Offered::ReplyChunk => Offer {
            write_chunk: None,
            reply_chunk: segments,
        },
    };
    if let Some(lists) = header.lists() {
        trace::decode_segs(lists);
    }
    match reply::check(header.body(), &offer) {
        Ok(Outcome::Inline { write_len, .. }) => {
            stats.reply_bytes(write_len);
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
            stats.reply_bytes(reply_chunk_len);
            Finding::Done(Verdict::Length(reply_chunk_len))
        }
        Ok(Outcome::Error(body)) => {
            refused(rqst, body);
            stats.bad_reply();
            Finding::Done(Verdict::Failed)
        }
        Err(violation) => {
            trace::reply_violation(names::task(rqst), header.xid(), violation);
            stats.bad_reply();
            breach(Breach::ReplyClaim);
            Finding::Done(Verdict::Failed)
        }
    }
}

/// Lengths of the buffer a reply goes to.
#[inline]
pub(super) fn shape(buf: &XdrBuf<'_>) -> ReplyShape {
    ReplyShape {
        head_len: buf.head_len(),
        page_len: buf.page_len(),
        tail_len: buf.tail_len(),
        buflen: buf.buflen(),
        payload_in_pages: buf.may_read(),
    }
}

/// Notes which error the responder has answered with.
fn refused(rqst: &Pinned<'_, Client>, error: ErrorBody) {
    let (task, xid) = (names::task(rqst), rqst.xid());
    match error {
        ErrorBody::Vers { low, high } => trace::err_vers(task, xid, low, high),
        // `reply::check` lets no refusal of an optional operation pass.
        ErrorBody::BadHeader | ErrorBody::InvalidOption => trace::err_chunk(task, xid),
    }
}
