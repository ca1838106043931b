// SPDX-License-Identifier: GPL-2.0

//! The life of one connection: the attempt to connect, its session, and its completions.
//!
//! This file has the completions, and the connection as the file `connections` shows it.

use kernel::sync::Arc;

use super::backchannel;
use super::call::slot::Slot;
use super::call::{fence, reply, SlotTable};
use super::endpoint::{silence, tags, Conn, Endpoint, Incoming, QueuePair, Requester};
use super::transport::{shown, Client};
use crate::conn::registry::DebugInfo;
use crate::conn::role::Role;
use crate::conn::terms::TermsSnapshot;
use crate::conn::traced;
use crate::observe::connections::{Counts, Credits, Up};
use crate::observe::trace::{self, WcStatus};
use crate::proto::backward::{is_call, is_rpc_call, CREDITS};
use crate::proto::session::Output;
use crate::rdma::cq::Workers;
use crate::rdma::qp::{Tag, WcError};
use crate::sunrpc::xprt::transport::ConnectError;
use crate::sunrpc::xprt::{Xprt, XprtHandle};
use crate::wire::{CommonReply, Direction, Message, OnlyChunk, Version};

pub(super) mod connect;
pub(super) mod session;

impl Role for Requester {
    type Owner = XprtHandle<Client>;

    const CONTROL: Tag = tags::CONTROL_TAG;
    /// SUNRPC continues an RPC on `rpciod`, whose workers are of the same kind.
    const WORKERS: Workers = Workers::Shared;

    #[inline(always)]
    fn received(conn: &Conn, qp: &QueuePair, msg: Incoming<'_>, now: TermsSnapshot) {
        let bytes = msg.bytes();
        trace::wc_receive(traced::cid(qp, msg.index()), bytes.len(), WcStatus::SUCCESS);
        // The message is dropped in one place, so that this is inlined.
        receive(conn, qp, &msg, now);
    }

    fn completed(conn: &Conn, qp: &QueuePair, tag: Tag, outcome: Result<(), WcError>) {
        if tag == tags::PROBE_TAG {
            return silence::probe_ended(conn, qp, outcome);
        }
        let fenced = tags::invalidated_by(tag).and_then(|index| slot(conn, index));
        match (outcome, fenced) {
            (Ok(()), Some(slot)) => fence::invalidated(conn, qp, slot),
            // A Send is signalled only so that the send queue learns the device's progress.
            (Ok(()), None) => {
                if conn.terms().has_dones() {
                    reply::handle_fetched(conn, qp, tag);
                }
            }
            (Err(error), fenced) => failed(conn, qp, (tag, fenced), &error),
        }
    }

    fn room(conn: &Conn, qp: &QueuePair) {
        if conn.terms().has_dones() && conn.role().quirks.reads.start(qp).is_err() {
            conn.force_close();
        }
        conn.owner().wake_write_space();
    }

    fn control_sent(conn: &Conn, qp: &QueuePair) {
        if conn.terms().has_dones() {
            let role = conn.role();
            let link = (conn, qp, &role.credits);
            role.quirks.reads.account(link, &reply::calls(conn));
        }
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
/// compiler inlines their handling here.
#[inline(always)]
fn receive(conn: &Conn, qp: &QueuePair, msg: &Incoming<'_>, now: TermsSnapshot) {
    let common = match now.plain_version() {
        Some(Version::One) => CommonReply::of(Version::One, msg.bytes()),
        Some(Version::Two) => session::common_reply(conn, now, msg.bytes()),
        None => return session::received(conn, qp, msg),
    };
    match common {
        Some(reply) if !is_rpc_call(reply.payload) => reply::handle_common(conn, qp, msg, &reply),
        // In version two the header of a call says so.
        Some(_) if now.version() == Version::Two => session::received(conn, qp, msg),
        Some(call) => {
            let chunks = call.chunk != OnlyChunk::None;
            backchannel::called_briefly(conn, msg, call.xid, call.payload, chunks);
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
    // The result is long, so it is not moved.
    let decoded = Message::decode_as(Version::One, msg.bytes(), &reply::LIMITS);
    match &decoded {
        Ok(header) if is_call(header) => backchannel::called(conn, msg, header),
        Ok(header) => reply::handle(conn, qp, msg, header, true),
        Err(error) => reply::handle_undecodable(conn, qp, msg, error),
    }
}

/// Returns request slot number `index`.
fn slot(conn: &Conn, index: u32) -> Option<&Slot> {
    conn.owner().slot(index).map(|slot| slot.data())
}

/// Handles the failure of a work request: of a Send, or of the LOCAL_INV chain of a slot. The queue
/// pair is then in the error state, and the sweep after the close handles every slot. A task that
/// waits for a LOCAL_INV may delay that close, so it is woken first.
fn failed(conn: &Conn, qp: &QueuePair, (tag, fenced): (Tag, Option<&Slot>), error: &WcError) {
    if !error.is_flush() {
        let status = traced::status(error);
        match fenced {
            Some(slot) => trace::wc_li(traced::cid(qp, fence::last_region(slot)), status),
            None => {
                let index = tags::slot_of(tag).unwrap_or(u32::MAX);
                trace::wc_send(traced::cid(qp, index), status);
            }
        }
        conn.force_close();
    }
    if let Some(slot) = fenced {
        fence::failed(conn, slot);
    }
}

impl DebugInfo for Endpoint {
    /// The calls are counted here, so that sending a call costs nothing extra.
    fn show(&self) -> Up {
        let (role, owner) = (self.requester(), self.shared().owner());
        let (calls, used) = SlotTable::of(owner).calls(self.epoch());
        let counts = owner.counts();
        Up {
            credits: Credits {
                limit: role.credits.requested(),
                granted: role.credits.grant(),
                used,
            },
            calls,
            regions: self.regions.counts().into(),
            silent: role.silence.silent(),
            transport: Some((counts.xprt, counts.sends)),
            ..self.describe()
        }
    }

    fn counts(&self) -> Counts {
        self.shared().tally().counts()
    }
}

/// Records the result of an attempt to connect, for the file `connections`.
pub(super) fn show_attempt(
    client: &Client,
    xprt: &Xprt<Client>,
    made: &Result<Arc<Endpoint>, ConnectError>,
) {
    let peer = shown(xprt);
    let Some(registered) = client.registered(xprt.net().cookie(), peer) else {
        return;
    };
    match made {
        Ok(ep) => registered.up(peer, ep.clone()),
        Err(error) => registered.failed(peer, error.to_errno()),
    }
}
