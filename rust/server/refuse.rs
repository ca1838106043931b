// SPDX-License-Identifier: GPL-2.0

//! Errors that are sent to a requester (RFC 8166 section 4.5).

use kernel::prelude::*;

use super::breach;
use super::call::Call;
use super::endpoint::Endpoint;
use super::outgoing::Outgoing;
use crate::conn::traced;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::proto::responder::intake::Refusal;
use crate::proto::responder::marks::Mark;
use crate::proto::responder::reply::Cannot;
use crate::wire::message::ErrorBody;
use crate::wire::{error_as, Remedy};

/// Room for any error, in bytes.
const ERROR: u32 = 64;

/// Answers a message that is not served, if the protocol has an answer. May sleep.
#[cold]
pub(super) fn message(ep: &Endpoint, refusal: &Refusal) {
    let versions = ep.shared().with_session(|session, _| session.versions());
    let remedy = versions.map_or(refusal.remedy, |versions| refusal.remedy.within(versions));
    if let Remedy::Answer {
        version,
        xid,
        error,
    } = remedy
    {
        let credits = ep.role().calls.granted();
        send(ep, version, (xid, credits), error);
    }
}

/// Answers a call whose reply, of so many bytes, cannot be sent. May sleep.
#[cold]
pub(super) fn reply(ep: &Endpoint, call: &Call, (why, len): (Cannot, u32), credits: u32) {
    if let Some((bytes, segments)) = too_small(call, why, len) {
        let cid = traced::cid(ep.qp(), call.receive());
        trace::server::small_wrch_err(cid, bytes, segments);
    }
    breach::report(ep.shared(), call.xid(), RequesterBreach::ReplyRoom);
    send(
        ep,
        call.version().number(),
        (call.xid(), credits),
        ErrorBody::BadHeader,
    );
}

/// Returns how many bytes of a reply do not fit the chunk that is too small, and the number of its
/// segments. `len` is the length of the reply.
fn too_small(call: &Call, why: Cannot, len: u32) -> Option<(u32, u32)> {
    let lists = call.lists();
    let (chunk, bytes) = match why {
        Cannot::WriteChunk => {
            let mut chunks = lists.write_list().zip(call.marks());
            let (chunk, mark) =
                chunks.find(|(chunk, mark)| u64::from(mark.len) > chunk.total_len())?;
            (chunk, mark.len)
        }
        Cannot::ReplyChunk => {
            let padded = |mark: &Mark| mark.len.next_multiple_of(4);
            let payloads = call.marks().iter().map(padded).sum();
            (lists.reply_chunk()?, len.saturating_sub(payloads))
        }
        Cannot::Inline | Cannot::Header => return None,
    };
    let room = u32::try_from(chunk.total_len()).unwrap_or(u32::MAX);
    let segments = u32::try_from(chunk.count()).unwrap_or(u32::MAX);
    Some((bytes.saturating_sub(room), segments))
}

/// Sends an error with this version word. Without memory the connection is closed.
fn send(ep: &Endpoint, version: u32, (xid, credits): (u32, u32), error: ErrorBody) {
    match error {
        ErrorBody::Vers { .. } => trace::server::err_vers(xid),
        _ => trace::server::err_chunk(xid),
    }
    let written = ep.send_buffer(ERROR).and_then(|mut buf| {
        let len = error_as(version, buf.as_mut_slice(), xid, credits, error);
        let len = len.map_err(|_| EMSGSIZE)?;
        Ok((buf, len))
    });
    let Ok((buf, len)) = written else {
        return ep.shared().force_close();
    };
    ep.send(Outgoing::inline(buf, len, None));
}
