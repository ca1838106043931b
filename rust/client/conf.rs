// SPDX-License-Identifier: GPL-2.0

//! Asks the server by the Connection Configuration Protocol of RFC 5666, if a setting says so.
//!
//! The call is the first message of a connection, before its session begins, and nothing else is
//! sent before its answer has come. No RPC of SUNRPC is involved.

use kernel::prelude::*;

use super::asked::Outcome;
use super::requester::{Conn, Incoming, QueuePair};
use super::{config, reply, tags};
use crate::conn::live::Capabilities;
use crate::conn::owner::Owner as _;
use crate::conn::traced::peer;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::legacy::conf::Configuration;
use crate::proto::legacy::request::call;
use crate::rdma::send::SendBuf;
use crate::sunrpc::random;
use crate::wire::conf_rdma::Request;
use crate::wire::{Direction, Message, Version};

/// Handles a message that comes before the answer has come. Anything else than the answer is
/// dropped. Completion worker.
#[cold]
pub(super) fn received(conn: &Conn, msg: &Incoming<'_>) {
    let message = Message::decode_as(Version::One, msg.bytes(), &reply::LIMITS);
    if !conn.role().legacy.conf.hear(message.ok().as_ref()) {
        conn.breach(Breach::Conf);
    }
}

/// Asks the server, and returns the terms of version one that follow: what the server answers has
/// precedence over `one`, which its private data say. `out` is a buffer for the call. Sleeps.
///
/// # Errors
///
/// `EPROTO` if the answer is not accepted; `ETIMEDOUT` if none comes; `ENOTCONN` if the call cannot
/// be sent.
//= 5666-6.1-4 sends nothing else until answered
pub(super) fn ask(
    conn: &Conn,
    qp: &QueuePair,
    out: &mut SendBuf,
    request: Request,
    one: Thresholds,
) -> Result<Thresholds> {
    let legacy = &conn.role().legacy;
    let xid = random();
    let len = write(conn, out.as_mut_slice(), xid, &request)?;
    legacy.conf.begin(xid, request);
    let no_regions = core::iter::empty();
    let posted = qp.post_send(tags::CONTROL_TAG, no_regions, out, len, true);
    posted.map_err(|_| ENOTCONN)?;
    let outcome = legacy.conf.wait(|| conn.owner().is_abandoned());
    traced(conn, outcome.as_ref());
    match outcome {
        None => Err(ETIMEDOUT),
        Some(Outcome::Rejected) => Err(EPROTO),
        Some(Outcome::Unserved) => Ok(one),
        Some(Outcome::Agreed(agreed)) => {
            configure(conn, &agreed);
            Ok(Thresholds {
                client_to_server: agreed.max_call,
                server_to_client: agreed.max_reply,
                ..one
            })
        }
    }
}

/// Traces what has come of asking.
fn traced(conn: &Conn, outcome: Option<&Outcome>) {
    let (word, agreed) = match outcome {
        None => ("silent", None),
        Some(Outcome::Rejected) => ("rejected", None),
        Some(Outcome::Unserved) => ("unserved", None),
        Some(Outcome::Agreed(agreed)) => ("agreed", Some(agreed)),
    };
    trace::conf_answer(peer(conn.owner()), word, agreed);
}

/// Writes the call. Returns its length.
fn write(conn: &Conn, out: &mut [u8], xid: u32, request: &Request) -> Result<usize> {
    let credits = conn.role().credits.requested();
    let header = Version::One.inline(out, xid, credits, Direction::Call);
    let at = header.map_err(|_| EMSGSIZE)?;
    let call = call(xid, request);
    let len = at + call.len();
    out.get_mut(at..len).ok_or(EMSGSIZE)?.copy_from_slice(&call);
    Ok(len)
}

/// Takes over what the server has answered, apart from the thresholds, before the session begins.
fn configure(conn: &Conn, agreed: &Configuration) {
    if !agreed.may_offer_read_chunks() {
        conn.add_capabilities(Capabilities::NO_READ_CHUNKS);
    }
    let padding = agreed.padding.filter(|padding| {
        // The administrator bounds the padding.
        padding.align() <= config::padding()
    });
    if let Some(padding) = padding {
        conn.add_capabilities(Capabilities::aligned(padding.align()));
    }
}
