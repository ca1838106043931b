// SPDX-License-Identifier: GPL-2.0

//! The session of a requester's connection: its messages and its decisions.
//!
//! In version one, the session handles only the messages up to the first reply. In version two, it
//! also handles operations without an RPC, and messages that cannot be decoded.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use kernel::workqueue::WorkItem;

use super::super::backchannel;
use super::super::call::reply::{self, Arrived};
use super::super::call::{fence, SlotTable};
use super::super::config::Config;
use super::super::endpoint::{tags, Conn, Endpoint, Incoming, QueuePair, CLOSE, GROW};
use super::super::quirks::Settings;
use super::super::transport::{peer_of, Client};
use crate::conn::session::BUFFER;
use crate::conn::terms::TermsSnapshot;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::backward::{is_call, is_torn};
use crate::proto::inline::Thresholds;
use crate::proto::session::{self, Announced, Output, Side, Take, Verdict};
use crate::proto::version::Memory;
use crate::rdma::buffer::SendBuf;
use crate::sunrpc::random;
use crate::sunrpc::xprt::Xprt;
use crate::wire::message::Body;
use crate::wire::v2::to_version_one;
use crate::wire::xchar::BackwardSupport;
use crate::wire::{peek, CommonReply, EncodeError, Message, Version};

/// Begins the session of a connection whose handshake resulted in `one`, the terms of version one.
/// `ended` returns whether the connection has ended. May sleep.
///
/// # Errors
///
/// `ENOMEM`; those of [`Quirks::begin`](super::super::quirks::Quirks::begin).
pub(super) fn begin(
    xprt: &Xprt<Client>,
    conn: &Conn,
    qp: &QueuePair,
    (config, settings, served): (&Config, Settings, u8),
    (mut one, announced): (Thresholds, Announced),
    ended: &dyn Fn() -> bool,
) -> Result {
    let peers = &xprt.data().context.peers;
    let one_only = peers.is_one_only(xprt.net(), &xprt.addr());
    let first = config.version.first_version(announced.two, one_only);
    let mut buffer = SendBuf::new(qp.pd(), BUFFER, GFP_KERNEL)?;
    let role = conn.role();
    if first == Version::One {
        let link = (conn, qp, &role.credits);
        let call = (&mut buffer, tags::count(config.slots));
        let quirks = &role.quirks;
        one = quirks.begin(link, (settings, served), config, call, (one, ended))?;
    }
    let config = session::Config {
        side: Side::Client,
        versions: (first, first),
        one,
        announced,
        receive: config.receive_size(),
        send: config.inline_send,
        invalidation: true,
        backward: BackwardSupport::SizeLimited,
        xid: random(),
    };
    conn.begin_session(config, buffer)
}

/// Handles a message that may concern the session. Completion worker; does not sleep.
#[inline(never)]
pub(super) fn received(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>) {
    let (bytes, now) = (msg.bytes(), conn.terms());
    let watched = now.is_watched();
    if watched && conn.role().quirks.received_early(conn, bytes) {
        return;
    }
    if now.has_dones() && reply::handle_announced(conn, qp, msg) {
        return;
    }
    let decoded = if watched {
        Message::decode(bytes, &reply::LIMITS)
    } else {
        Message::decode_as(now.version(), bytes, &reply::LIMITS)
    };
    let verdict = match &decoded {
        Ok(header) if !watched && !is_control(header) => {
            note_length(conn, now, bytes.len());
            return deliver(conn, qp, msg, header, true);
        }
        Ok(header) => conn.with_session(|session, now| session.on_message(header, now)),
        Err(error) => conn.with_session(|session, now| session.on_undecodable(bytes, error, now)),
    };
    // There is no session before the handshake has ended. An honest peer sends nothing until then.
    let Some(verdict) = verdict else {
        return conn.force_close();
    };
    report(conn, bytes, decoded.as_ref().ok(), &verdict);
    match (&decoded, verdict.take) {
        (Ok(header), Take::Deliver) => deliver(conn, qp, msg, header, verdict.grant),
        (Ok(header), Take::Done | Take::Drop) => {
            if verdict.grant {
                let credits = &conn.role().credits;
                credits.granted(conn, header.xid(), header.credits(), 0);
            }
            reply::check_unmatched_rkey(conn, header.xid(), Arrived::Message(msg));
        }
        // The first call does not fail: it is about to be retransmitted with the same R_keys.
        (Err(_), Take::Done) => {
            let xid = peek(bytes).map_or(0, |prefix| prefix.xid);
            reply::check_unmatched_rkey(conn, xid, Arrived::Message(msg));
        }
        (Err(error), Take::Deliver | Take::Drop) => {
            reply::handle_undecodable(conn, qp, msg, error);
        }
    }
    conn.pump(qp);
}

/// Returns whether a message of version two always concerns the session.
fn is_control(header: &Message<'_>) -> bool {
    matches!(header.body(), Body::Optional { .. } | Body::Error(_))
}

/// Decodes a common reply of version two. Returns `None` for any other message.
#[inline(always)]
pub(super) fn common_reply<'a>(
    conn: &Conn,
    now: TermsSnapshot,
    bytes: &'a [u8],
) -> Option<CommonReply<'a>> {
    let reply = CommonReply::of(Version::Two, bytes)?;
    note_length(conn, now, bytes.len());
    Some(reply)
}

/// Notifies the session of a reply whose length shows that the server knows the size of our
/// Receives.
fn note_length(conn: &Conn, now: TermsSnapshot, len: usize) {
    // CAST: `usize` has at least 32 bits.
    if len > now.thresholds().server_to_client as usize {
        note_long_reply(conn, len);
    }
}

/// Implements [`note_length`] for a reply that is longer than expected.
#[cold]
fn note_long_reply(conn: &Conn, len: usize) {
    if let Ok(len) = u32::try_from(len) {
        conn.with_session(|session, _| session.on_long_reply(len));
    }
}

/// Handles a message that carries an RPC message, or an error about one.
#[inline(never)]
fn deliver(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, header: &Message<'_>, grant: bool) {
    if is_torn(header) {
        let verdict = Verdict::dropped(Some(session::Breach::Form));
        report(conn, msg.bytes(), Some(header), &verdict);
        reply::check_unmatched_rkey(conn, header.xid(), Arrived::Message(msg));
    } else if is_call(header) {
        backchannel::called(conn, msg, header);
    } else {
        reply::handle(conn, qp, msg, header, grant);
    }
}

/// Traces the session's verdict on a message, and counts a breach.
fn report(conn: &Conn, bytes: &[u8], header: Option<&Message<'_>>, verdict: &Verdict) {
    conn.trace_arrival(bytes, header, verdict);
    if verdict.breach.is_some() {
        conn.breach(Breach::Session);
    }
}

/// Carries out the session's decision.
pub(super) fn decided(conn: &Conn, qp: &QueuePair, output: Output) {
    match output {
        Output::Remember(memory) => remember(conn, memory),
        Output::Resend { xid, version } => resend(conn, qp, xid, version),
        Output::Void { .. } => void(conn),
        Output::Post { .. } => {
            if let Some(ep) = current(conn) {
                order_growth(&ep);
            }
        }
        Output::Close(_) => conn.force_close(),
        Output::Room => keep_credit(conn),
        Output::Operated => conn.role().credits.sent_one(in_flight(conn)),
        // The connection itself sends messages.
        Output::Send(_) => {}
        Output::Settled(_) => set_backward_max(conn),
    }
}

/// Returns the endpoint of a connection, while the transport uses it.
fn current(conn: &Conn) -> Option<Arc<Endpoint>> {
    let current = conn.owner().data().endpoint();
    current.filter(|ep| ep.epoch() == conn.epoch())
}

/// Keeps a credit free for an operation, and notifies the session if the operation may be sent now.
fn keep_credit(conn: &Conn) {
    if conn.role().credits.keep_one(conn, || in_flight(conn)) {
        conn.with_session(|session, _| session.on_room());
    }
}

/// Returns an upper bound of the calls in flight: the unanswered calls, and a call that may be
/// about to be posted.
fn in_flight(conn: &Conn) -> u32 {
    1 + SlotTable::of(conn.owner()).unanswered(conn.epoch())
}

/// Sets the longest message of the backward direction for NFS, which reads the length when it
/// creates an NFS session, long after the first reply.
pub(in crate::client) fn set_backward_max(conn: &Conn) {
    let max = backchannel::max_message(&conn.thresholds());
    conn.owner().data().backward_max.store(max, Relaxed);
}

/// Retransmits the first call, in `version`. If the call was aborted meanwhile, the connection is
/// closed.
fn resend(conn: &Conn, qp: &QueuePair, xid: u32, version: Version) {
    let slots = SlotTable::of(conn.owner());
    let sent = slots.resend(conn.epoch(), xid, |message| {
        conn.post_control(qp, |out| write(message, version, out))
    });
    if !sent {
        // Otherwise the call would keep its credit, which is the only one.
        conn.force_close();
    }
}

/// Writes `message`, a call in version two, to `out` in `version`. Returns its length.
fn write(message: &[u8], version: Version, out: &mut [u8]) -> Result<usize, EncodeError> {
    if version == Version::One {
        return to_version_one(message, out);
    }
    out.get_mut(..message.len())
        .ok_or(EncodeError::NoRoom)?
        .copy_from_slice(message);
    Ok(message.len())
}

/// Ensures that no call prepared under former terms, and no such reply to the server, is posted any
/// more, and notifies the session.
fn void(conn: &Conn) {
    let generation = conn.with_session(|session, _| session.terms().generation);
    SlotTable::of(conn.owner()).wait_for_posts();
    if let Some(ep) = current(conn) {
        ep.replies().wait_for_posts();
    }
    if let Some(generation) = generation {
        conn.with_session(|session, _| session.on_voided(generation));
    }
}

/// Notifies the session of the time and of the settings. Process context; does not sleep.
pub(in crate::client) fn check(ep: &Arc<Endpoint>, config: &Config) {
    let conn = ep.shared();
    if !conn.terms().concerns_session() {
        return;
    }
    conn.with_session(|session, now| {
        session.on_timer(now);
        // The server need not post larger Receives than we use.
        session.follow(config.receive_size(), config.inline_send);
    });
    conn.pump(ep.qp());
    if ep.wants_receives() || SlotTable::of(conn.owner()).has_shorter_buffer(longest(ep)) {
        order_growth(ep);
    }
}

/// Returns the longest message that may be sent, in bytes.
fn longest(ep: &Endpoint) -> usize {
    // CAST: `usize` has at least 32 bits.
    ep.thresholds().client_to_server as usize
}

/// Queues the work item that gives Receives and slots larger buffers.
fn order_growth(ep: &Arc<Endpoint>) {
    // The queue refuses an item that is queued already. That item suffices.
    let _ = ep.shared().owner().queue().enqueue::<_, GROW>(ep.clone());
}

impl WorkItem<GROW> for Endpoint {
    type Pointer = Arc<Self>;

    /// Gives Receives and idle slots larger buffers, as the session requests.
    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            this.follow_session();
            SlotTable::of(this.shared().owner()).lengthen_buffers(&this, longest(&this));
        }
    }
}

impl WorkItem<CLOSE> for Endpoint {
    type Pointer = Arc<Self>;

    /// Closes the connection without SUNRPC, whose own close may wait for calls over it.
    fn run(this: Arc<Self>) {
        lost(&this);
        this.close();
        fence::finish_closed(&this);
    }
}

/// Records that the connection is lost, and remembers the server's version for the next connection.
/// Call this before the connection is closed. A second call has no effect.
pub(in crate::client) fn lost(ep: &Endpoint) {
    let (conn, cause) = (ep.shared(), ep.cause());
    let memory = conn.with_session(|session, _| session.on_lost(cause));
    if let Some(memory) = memory.flatten() {
        trace::peer_remembered(peer_of(conn.owner()), memory);
        remember(conn, memory);
    }
}

/// Stores the knowledge about the server for the next connection.
fn remember(conn: &Conn, memory: Memory) {
    let xprt = conn.owner();
    let peers = &xprt.data().context.peers;
    peers.note(xprt.net(), &xprt.addr(), memory);
}
