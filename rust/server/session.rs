// SPDX-License-Identifier: GPL-2.0

//! The session of a responder's connection: the messages that concern it, and what it decides.
//!
//! The first valid message settles the version of the connection. In version two, operations
//! without an RPC concern the session as well. All other messages are received by a thread of the
//! service.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use super::chosen::Chosen;
use super::responder::{Conn, QueuePair, Responder};
use super::{breach, done};
use crate::conn::agreement::BUFFER;
use crate::conn::connection::Connection;
use crate::conn::handshake;
use crate::observe::stats::RequesterBreach;
use crate::proto::inline::Thresholds;
use crate::proto::session::{Config, Output, Side, Take, Verdict};
use crate::rdma::pd::Pd;
use crate::rdma::send::SendBuf;
use crate::sunrpc::random;
use crate::wire::message::Body;
use crate::wire::xchar::BackwardSupport;
use crate::wire::{peek, Direction, Message, Proc, Version};

/// Begins the session of a connection whose handshake has led to `one`, the terms of version one.
/// May sleep.
///
/// # Errors
///
/// `ENOMEM`, `EIO`.
pub(super) fn begin(conn: &Conn, pd: &Arc<Pd>, chosen: &Chosen, one: Thresholds) -> Result {
    let buffer = SendBuf::new(pd, BUFFER, GFP_KERNEL)?;
    let announced = handshake::announced(&conn.role().lifecycle);
    let config = Config {
        side: Side::Server,
        versions: chosen.versions,
        one,
        announced,
        receive: chosen.inline,
        send: chosen.inline,
        invalidation: false,
        backward: BackwardSupport::SizeLimited,
        xid: random(),
    };
    conn.role().inline.store(chosen.inline, Relaxed);
    if !announced.spares {
        conn.role().requested.store(0, Relaxed);
    }
    conn.begin_session(config, buffer)
}

/// Handles a message, if it concerns the session alone. Returns `false` for a message that a thread
/// of the service has to receive. Completion worker; does not sleep.
#[inline]
pub(super) fn received(conn: &Conn, qp: &QueuePair, bytes: &[u8]) -> bool {
    let now = conn.now();
    (now.is_watched() || !is_ordinary(bytes, now.version())) && take(conn, qp, bytes)
}

/// Returns whether a message is of the connection's version, and of a type with chunk lists.
#[inline]
fn is_ordinary(bytes: &[u8], version: Version) -> bool {
    // CAST: the discriminants of a `repr(u32)` enum.
    const LISTS: [u32; 2] = [Proc::Msg as u32, Proc::Nomsg as u32];
    // A message that is too short is refused by the thread that receives it.
    peek(bytes).map_or(true, |prefix| {
        prefix.version == version.number() && LISTS.contains(&prefix.proc)
    })
}

/// Passes a message to the session. Returns whether it is done with.
#[cold]
fn take(conn: &Conn, qp: &QueuePair, bytes: &[u8]) -> bool {
    // What cannot be decoded is refused by the thread that receives it.
    let Ok(message) = Message::decode(bytes, &conn.role().limits.wire()) else {
        return false;
    };
    note_requested(conn, &message);
    let verdict = conn.with_session(|session, now| session.on_message(&message, now));
    if let Some(verdict) = &verdict {
        report(conn, bytes, &message, verdict);
    }
    conn.pump(qp);
    let Some(verdict) = verdict else {
        return false;
    };
    match (verdict.take, message.body()) {
        (Take::Done | Take::Drop, _) => true,
        (_, Body::Done) => {
            done::received(conn, qp, message.xid());
            true
        }
        _ => false,
    }
}

/// Takes the credits that a requester of version two asks for. If it may have no other Receives, it
/// is granted one credit less, so that there is one for an operation.
fn note_requested(conn: &Conn, message: &Message<'_>) {
    let role = conn.role();
    let asks = message.version() == Version::Two && message.direction() == Some(Direction::Call);
    if asks && role.requested.load(Relaxed) != u32::MAX {
        let requested = message.credits().min(u32::MAX - 1);
        role.requested.store(requested, Relaxed);
        role.calls.grant_below(requested);
    }
}

/// Traces what the session has done with a message, and counts what is wrong with it.
fn report(conn: &Conn, bytes: &[u8], message: &Message<'_>, verdict: &Verdict) {
    conn.trace_arrival(bytes, Some(message), verdict);
    if verdict.breach.is_some() {
        breach::report(conn, message.xid(), RequesterBreach::Session);
    }
}

/// Notes that a reply was sent, which may be the first one.
#[inline]
pub(super) fn replied(conn: &Connection<Responder>) {
    let shared = conn.shared();
    if shared.now().is_watched() {
        shared.with_session(|session, _| session.on_replied());
        shared.pump(conn.qp());
    }
}

/// Carries out what the session has decided.
pub(super) fn decided(conn: &Conn, output: &Output) {
    match output {
        Output::Close(_) => conn.force_close(),
        // The server never asks a requester for smaller Receives, so nothing waits for replies that
        // were prepared before.
        Output::Void { .. } => {
            conn.with_session(|session, _| session.on_voided(session.terms().generation));
        }
        // The watch posts larger Receives.
        Output::Post { .. } | Output::Settled(_) => {}
        Output::Room => {
            if conn.role().requested.load(Relaxed) > 1 {
                conn.with_session(|session, _| session.on_room());
            }
        }
        // Only a client remembers its peers and sends calls. Messages are sent by the connection.
        Output::Remember(_) | Output::Resend { .. } | Output::Send(_) | Output::Operated => {}
    }
}

/// Tells the session of the time, and of the inline threshold that is set now if it has changed.
/// May sleep.
pub(super) fn look(conn: &Connection<Responder>, inline: u32) {
    // Only the watch calls this, and so changes the value.
    let known = &conn.shared().role().inline;
    let changed = known.load(Relaxed) != inline;
    known.store(inline, Relaxed);
    conn.shared().with_session(|session, now| {
        session.on_timer(now);
        if changed {
            session.want_receive(inline);
            session.want_send(inline);
        }
    });
    conn.shared().pump(conn.qp());
    conn.follow_session();
}
