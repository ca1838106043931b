// SPDX-License-Identifier: GPL-2.0

//! What a requester does with the completions of its connection.

use super::request::Request;
use super::requester::{Conn, Incoming, QueuePair, Requester};
use super::transport::Client;
use super::{backward, fence, probe, pull, reply, session, tags};
use crate::conn::live::Now;
use crate::conn::role::Role;
use crate::conn::traced;
use crate::observe::trace::{self, WcStatus};
use crate::proto::backward::{is_call, is_rpc_call, CREDITS};
use crate::proto::session::Output;
use crate::rdma::cq::Workers;
use crate::rdma::mr::Mr;
use crate::rdma::qp::{Tag, WcError};
use crate::sunrpc::xprt::XprtHandle;
use crate::wire::{CommonReply, Direction, Message, OnlyChunk, Version};

impl Role for Requester {
    type Owner = XprtHandle<Client>;

    const CONTROL: Tag = tags::CONTROL_TAG;
    /// SUNRPC goes on with an RPC on `rpciod`, whose workers are the same.
    const WORKERS: Workers = Workers::Shared;

    fn received(conn: &Conn, qp: &QueuePair, msg: Incoming<'_>, now: Now) {
        let bytes = msg.bytes();
        trace::wc_receive(traced::cid(qp, msg.index()), bytes.len(), WcStatus::SUCCESS);
        // The message is dropped in one place, so that this is inlined.
        receive(conn, qp, &msg, now);
    }

    fn completed(conn: &Conn, qp: &QueuePair, tag: Tag, outcome: Result<(), WcError>) {
        if tag == tags::PROBE_TAG {
            return probe::ended(conn, qp, outcome);
        }
        let fenced = tags::invalidated_by(tag).and_then(|index| request(conn, index));
        match (outcome, fenced) {
            (Ok(()), Some(request)) => fence::invalidated(conn, qp, request),
            // A Send is signalled only so that the send queue knows how far the device has come.
            (Ok(()), None) => pull::completed(conn, qp, tag),
            (Err(error), fenced) => failed(conn, qp, (tag, fenced), &error),
        }
    }

    fn room(conn: &Conn, _qp: &QueuePair) {
        conn.owner().wake_write_space();
    }

    fn control_sent(conn: &Conn, qp: &QueuePair) {
        pull::control_sent(conn, qp);
    }

    fn credits(conn: &Conn, direction: Direction) -> u32 {
        match direction {
            Direction::Call => conn.role().credits.requested(),
            Direction::Reply => CREDITS,
        }
    }

    fn decided(conn: &Conn, qp: &QueuePair, output: Output) {
        session::decided(conn, qp, output);
    }
}

/// Handles a message. The common replies of both versions are handled in one place, so that the
/// compiler puts all of it into this function.
#[inline(always)]
fn receive(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, now: Now) {
    let common = match now.plain_version() {
        Some(Version::One) => CommonReply::of(Version::One, msg.bytes()),
        Some(Version::Two) => session::common_reply(conn, now, msg.bytes()),
        None => return session::received(conn, qp, msg),
    };
    match common {
        Some(reply) if !is_rpc_call(reply.payload) => reply::handle(conn, qp, msg, &reply, true),
        // In version two the header of a call says so.
        Some(_) if now.version() == Version::Two => session::received(conn, qp, msg),
        Some(call) => {
            let chunks = call.chunk != OnlyChunk::None;
            backward::called_briefly(conn, msg, call.xid, call.payload, chunks);
        }
        None => receive_any(conn, qp, msg),
    }
}

/// Handles a message in any form.
#[inline(never)]
fn receive_any(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>) {
    if conn.version() == Version::Two {
        return session::received(conn, qp, msg);
    }
    // The result is long, so it is not moved out of its place.
    let decoded = Message::decode_as(Version::One, msg.bytes(), &reply::LIMITS);
    match &decoded {
        Ok(header) if is_call(header) => backward::called(conn, msg, header),
        Ok(header) => reply::handle(conn, qp, msg, header, true),
        Err(error) => reply::handle_undecodable(conn, qp, msg, error),
    }
}

/// Returns request slot number `index`.
fn request(conn: &Conn, index: u32) -> Option<&Request> {
    conn.owner().slot(index).map(|slot| slot.data())
}

/// Handles the failure of a work request. The queue pair is in error then, and the sweep after the
/// close takes care of every request. A task that waits for a LOCAL_INV may delay that close, so
/// it is woken first.
fn failed(conn: &Conn, qp: &QueuePair, (tag, fenced): (Tag, Option<&Request>), error: &WcError) {
    if !error.is_flush() {
        trace_failure(qp, (tag, fenced), traced::status(error));
        conn.force_close();
    }
    if let Some(request) = fenced {
        fence::failed(conn, request);
    }
}

/// Traces the failure of a Send, or of a LOCAL_INV by its memory region.
fn trace_failure(qp: &QueuePair, (tag, fenced): (Tag, Option<&Request>), status: WcStatus) {
    match fenced {
        Some(request) => {
            let region = request.lock().state.last_invalidating().map(Mr::id);
            trace::wc_li(traced::cid(qp, region.unwrap_or(u32::MAX)), status);
        }
        None => {
            let index = tags::request_of(tag).unwrap_or(u32::MAX);
            trace::wc_send(traced::cid(qp, index), status);
        }
    }
}
