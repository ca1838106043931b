// SPDX-License-Identifier: GPL-2.0

//! The session of a responder's connection: its messages and its decisions.
//!
//! The first valid message settles the version of the connection. In version two, operations
//! without an RPC also concern the session. All other messages are received by a thread of the
//! service.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use super::endpoint::{Conn, QueuePair, Responder};
use super::failure;
use crate::conn::connection::Connection;
use crate::conn::session::BUFFER;
use crate::observe::stats::RequesterBreach;
use crate::proto::inline::Thresholds;
use crate::proto::session::{Announced, Config, Output, Side, Take, Verdict};
use crate::rdma::buffer::SendBuf;
use crate::rdma::pd::Pd;
use crate::server::config::ConnConfig;
use crate::sunrpc::random;
use crate::wire::xchar::BackwardSupport;
use crate::wire::{peek, Direction, Message, Proc, Version};

/// Begins the session of a connection. `one` are the terms of version one that follow from the
/// handshake. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn begin(conn: &Conn, pd: &Arc<Pd>, settings: &ConnConfig, one: Thresholds) -> Result {
    let buffer = SendBuf::new(pd, BUFFER, GFP_KERNEL)?;
    let announced = Announced::of(conn.role().lifecycle.peer().as_ref());
    let config = Config {
        side: Side::Server,
        versions: settings.versions,
        one,
        announced,
        receive: settings.inline,
        send: settings.inline,
        invalidation: false,
        backward: BackwardSupport::SizeLimited,
        xid: random(),
    };
    if !announced.spares {
        conn.role().requested.store(0, Relaxed);
    }
    conn.begin_session(config, buffer)
}

/// Handles a message that is only for the session. Returns `false` for a message that a thread of
/// the service must receive. Completion worker; does not sleep.
pub(crate) fn received(conn: &Conn, qp: &QueuePair, bytes: &[u8]) -> bool {
    let now = conn.terms();
    (now.is_watched() || !is_ordinary(bytes, now.version())) && take(conn, qp, bytes)
}

/// Returns whether a message has the connection's version, and a type with chunk lists.
fn is_ordinary(bytes: &[u8], version: Version) -> bool {
    // CAST: the discriminants of a `repr(u32)` enum.
    const LISTS: [u32; 2] = [Proc::Msg as u32, Proc::Nomsg as u32];
    // A message that is too short is refused by the thread that receives it.
    peek(bytes).map_or(true, |prefix| {
        prefix.version == version.number() && LISTS.contains(&prefix.proc)
    })
}

/// Passes a message to the session. Returns whether the message is handled.
#[cold]
fn take(conn: &Conn, qp: &QueuePair, bytes: &[u8]) -> bool {
    // The thread that receives the message refuses it if it cannot be decoded.
    let Ok(message) = Message::decode(bytes, &conn.role().limits.wire()) else {
        return false;
    };
    let heard = conn.with_session(|session, now| {
        let verdict = session.on_message(&message, now);
        (verdict, session.settled())
    });
    let Some((verdict, settled)) = heard else {
        return false;
    };
    report(conn, bytes, &message, &verdict);
    if settled == Some(Version::Two) {
        note_requested(conn, &message);
    }
    conn.pump(qp);
    let role = conn.role();
    verdict.take != Take::Deliver || role.quirks.received((conn, qp, &role.in_flight), &message)
}

/// Records the credits that a requester of version two requests with its calls, or with the
/// operation that begins the connection. A requester that may have no other Receives is granted one
/// credit less, which leaves one Receive for an operation.
fn note_requested(conn: &Conn, message: &Message<'_>) {
    let (role, credits) = (conn.role(), message.credits());
    let asks = message.version() == Version::Two && message.direction() == Some(Direction::Call);
    let noted = role.requested.load(Relaxed);
    let counts = message.lists().is_some() || noted == 0 && credits > 1;
    if asks && counts && noted != u32::MAX {
        let requested = credits.min(u32::MAX - 1);
        role.requested.store(requested, Relaxed);
        role.calls.grant_below(requested);
    }
}

/// Traces the verdict of the session on a message, and counts a breach.
fn report(conn: &Conn, bytes: &[u8], message: &Message<'_>, verdict: &Verdict) {
    conn.trace_arrival(bytes, Some(message), verdict);
    if verdict.breach.is_some() {
        failure::report(conn, message.xid(), RequesterBreach::Session);
    }
}

/// Notifies the session of a reply that was sent, which may be the first reply.
pub(crate) fn replied(conn: &Connection<Responder>) {
    let shared = conn.shared();
    if shared.terms().is_watched() {
        shared.with_session(|session, _| session.on_replied());
        shared.pump(conn.qp());
    }
}

/// Carries out a decision of the session.
pub(crate) fn decided(conn: &Conn, output: &Output) {
    match output {
        Output::Close(_) => conn.force_close(),
        // The server never asks a requester for a size of Receives, so it does not wait for replies
        // that were prepared before.
        Output::Void { .. } => {
            conn.with_session(|session, _| session.on_voided(session.terms().generation));
        }
        Output::Room if conn.role().requested.load(Relaxed) > 1 => {
            conn.with_session(|session, _| session.on_room());
        }
        // The watch posts larger Receives.
        Output::Post { .. } | Output::Settled(_) | Output::Room => {}
        // Only a client remembers its peers and sends calls. The connection sends messages.
        Output::Remember(_) | Output::Resend { .. } | Output::Send(_) | Output::Operated => {}
    }
}

/// Runs the timer of the session, and passes on the settings. May sleep.
pub(crate) fn check(conn: &Connection<Responder>) {
    let inline = ConnConfig::threshold(conn.is_at_work());
    conn.shared().with_session(|session, now| {
        session.on_timer(now);
        session.follow(inline, inline);
    });
    conn.shared().pump(conn.qp());
    conn.follow_session();
}
