// SPDX-License-Identifier: GPL-2.0

//! Reads the read chunks of replies: RFC 5666 section 3.5.
//!
//! The RDMA Reads go to pages of this module, and not to the memory of the RPC: the RPC may be
//! given up meanwhile. When they have completed, the reply is as good as one that came inline.
//! RDMA_DONE follows then, as soon as there is a credit for it.

use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::arrived::Arrived;
use super::pulls::{Pull, READS};
use super::request::{Phase, Request};
use super::requester::{Conn, Incoming, QueuePair};
use super::{reply, traced};
use crate::conn;
use crate::mem::{Page, PagePool};
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::legacy::read_chunks::{check_pulled, parts};
use crate::proto::responder::placement::{Part, Source};
use crate::rdma::qp::{Remote, Tag};
use crate::rdma::scatter::Sink;
use crate::wire::v1::done;
use crate::wire::{Direction, Limits, Message, Version};

/// What a message may have where replies may have read chunks.
pub(super) const LIMITS: Limits = Limits {
    read_segments: READS,
    ..reply::LIMITS
};

/// Handles a reply, if it has read chunks. Returns whether it has. Completion worker.
pub(super) fn received(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>) -> bool {
    let Ok(header) = Message::decode_as(Version::One, msg.bytes(), &LIMITS) else {
        return false;
    };
    let pulls = &conn.role().legacy.pulls;
    let xid = header.xid();
    if Direction::of_rpc(header.payload()) != Some(Direction::Call) {
        pulls.with(|state| state.on_reply(xid));
        account(conn, qp);
    }
    let any = header.lists().map(|lists| lists.read_list().len());
    if any.unwrap_or(0) == 0 {
        return false;
    }
    conn.role().credits.granted(conn, xid, header.credits());
    // Nothing of ours may be invalidated: such a server knows nothing of remote invalidation.
    reply::check_unmatched_rkey(conn, xid, Arrived::Message(msg));
    take(conn, qp, msg, &header);
    true
}

/// Begins to read a reply.
fn take(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, header: &Message<'_>) {
    let xid = header.xid();
    let pulls = &conn.role().legacy.pulls;
    let arrived = Arrived::Message(msg);
    let Some(rqst) = conn.owner().find(xid) else {
        // Nothing is read, and the server may have its memory back.
        pulls.with(|state| state.owe(xid));
        reply::unmatched(conn, xid, arrived);
        return account(conn, qp);
    };
    if pulls.with(|state| state.has(xid)) {
        conn.breach(Breach::ReplyClaim);
        return reply::disown(conn, rqst, arrived);
    }
    let max = rqst.recv_buf().buflen();
    let len = match check_pulled(header, max) {
        Ok(found) => found.len,
        Err(violation) => {
            trace::reply_violation(traced::task(&rqst), xid, violation);
            conn.owner().data().stats().bad_reply();
            conn.breach(Breach::ReplyClaim);
            return reply::fail(conn, qp, msg, rqst);
        }
    };
    // It stays pending while it is read.
    drop(rqst);
    trace::pull_reply(conn::traced::peer(conn.owner()), header, len);
    let Some(pool) = pulls.with(|state| state.pages()) else {
        return conn.force_close();
    };
    let begun = prepare((qp, &pool), msg.bytes(), header, (len, max))
        .and_then(|pull| pulls.with(|state| state.add(pull)).map_err(|_| ENOBUFS))
        .and_then(|()| start(conn, qp));
    if begun.is_err() {
        // The server has to answer again over another connection.
        conn.force_close();
    }
}

/// Prepares to read a reply, which has been checked.
///
/// # Errors
///
/// `ENOMEM`; `EIO` if the device cannot map the memory; `EINVAL`.
fn prepare(
    (qp, pool): (&QueuePair, &PagePool),
    bytes: &[u8],
    header: &Message<'_>,
    (len, max): (u32, u32),
) -> Result<Pull> {
    let mut message = KVVec::new();
    message.extend_from_slice(bytes, GFP_NOWAIT)?;
    let mut sink = Sink::new(qp.pd(), GFP_NOWAIT)?;
    let pages = sink.pages().ok_or(EBUSY)?;
    // CAST: `usize` has at least 32 bits.
    pool.get_many((len as usize).div_ceil(PAGE_SIZE), pages, GFP_NOWAIT)?;
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
    Ok(Pull {
        xid: header.xid(),
        message,
        len,
        max,
        sink,
    })
}

/// Posts the RDMA Reads of the replies that wait, as far as there is room.
fn start(conn: &Conn, qp: &QueuePair) -> Result {
    let pulls = &conn.role().legacy.pulls;
    let post = |tag, sink: &mut Sink| qp.post_reads(tag, sink).map(drop).map_err(Error::from);
    while pulls.with(|state| state.start(post))? {}
    Ok(())
}

/// Handles the end of a work request of this tag. Completion worker.
#[cold]
pub(super) fn completed(conn: &Conn, qp: &QueuePair, tag: Tag) {
    let pulls = &conn.role().legacy.pulls;
    if !pulls.is_enabled() {
        return;
    }
    if let Some(mut pull) = pulls.with(|state| state.finish(tag)) {
        pulls.with(|state| state.owe(pull.xid));
        let message = assemble(conn, &mut pull);
        pulls.with(|state| state.put_back(&mut pull.sink));
        match message {
            Ok(message) => reply::handle_read(conn, qp, pull.xid, &pull.message, message),
            Err(_) => conn.force_close(),
        }
        if start(conn, qp).is_err() {
            conn.force_close();
        }
    }
    account(conn, qp);
}

/// Sends what waits for the buffer of the session's messages, which is free. Completion worker.
pub(super) fn control_sent(conn: &Conn, qp: &QueuePair) {
    if conn.role().legacy.pulls.is_enabled() {
        account(conn, qp);
    }
}

/// Puts a reply together whose RDMA Reads have completed.
fn assemble(conn: &Conn, pull: &mut Pull) -> Result<KVVec<u8>> {
    let header = Message::decode_as(Version::One, &pull.message, &LIMITS).map_err(|_| EINVAL)?;
    let pages = pull.sink.pages().ok_or(EBUSY)?;
    // CAST: `usize` has at least 32 bits, here and below.
    let mut message = KVVec::with_capacity(pull.len as usize, GFP_NOWAIT)?;
    for part in parts(&header, pull.max).map_err(|_| EINVAL)? {
        append(
            &mut message,
            &part.map_err(|_| EINVAL)?,
            header.payload(),
            pages,
        )?;
    }
    let begins = message.first_chunk().copied().map(u32::from_be_bytes) == Some(pull.xid);
    if !begins || Direction::of_rpc(&message) != Some(Direction::Reply) {
        conn.breach(Breach::ReplyClaim);
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

/// Sends the RDMA_DONEs for which there is a credit, and tells the transport of the credits that
/// are left for calls.
fn account(conn: &Conn, qp: &QueuePair) {
    let (pulls, credits) = (&conn.role().legacy.pulls, &conn.role().credits);
    loop {
        let limit = credits.left();
        let sent = pulls.with(|state| {
            let before = state.dones;
            let xid = state.next_done(limit, |act| each_call(conn, act))?;
            let requested = credits.requested();
            let posted = conn.post_control(qp, |out| done(out, xid, requested));
            if posted {
                trace::done_sent(conn::traced::peer(conn.owner()), xid);
            } else {
                // The buffer is in use: [`control_sent`] tries again.
                state.not_sent(xid, before);
            }
            Some(posted)
        });
        if sent != Some(true) {
            break;
        }
    }
    credits.set_charge(conn, pulls.with(|state| state.dones.unconfirmed()));
}

/// Calls `act` with the XID of each call in flight.
pub(super) fn each_call(conn: &Conn, act: &mut dyn FnMut(u32)) {
    for slot in conn.owner().slots() {
        let request: &Request = slot.data();
        let state = &request.lock().state;
        let sent = state.phase == Phase::Sent && state.epoch == conn.epoch();
        if sent && !state.answered {
            act(state.xid);
        }
    }
}
