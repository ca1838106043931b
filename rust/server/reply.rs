// SPDX-License-Identifier: GPL-2.0

//! Replies.
//!
//! What goes inline is copied to a send buffer, and the page of the reply's head stays with the
//! thread. What goes by RDMA Write is written from the pages of the reply, which the connection
//! takes until the device has finished with them. Writes and Send are one chain, so that the
//! requester has the payload when it receives the reply (RFC 8166 section 3.4.6).

use kernel::prelude::*;

use super::call::Call;
use super::endpoint::Endpoint;
use super::outgoing::Outgoing;
use super::writes::{self, Writes};
use super::{expose, refuse, session};
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::legacy::service::Reads;
use crate::proto::responder::reply::{self, Cannot, Plan, Range, Single};
use crate::rdma::send::SendBuf;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::{Direction, ListProc, Lists, Version};

/// Why a reply is not sent.
enum Unsent {
    /// The requester has offered too little room.
    Cannot(Cannot),
    /// `ENOMEM`; `EIO` if the device cannot map the reply.
    Error(Error),
}

impl From<Error> for Unsent {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Cannot> for Unsent {
    fn from(cannot: Cannot) -> Self {
        Self::Cannot(cannot)
    }
}

/// Sends a reply. Thread of the service; may sleep for memory, but not for the send queue.
///
/// # Errors
///
/// `ENOMEM`; `EIO` if the device cannot map the reply. The connection is closed then, so that the
/// requester asks again. `EMSGSIZE` if the requester has offered too little room; it was sent an
/// error.
#[inline]
pub(super) fn send(ep: &Endpoint, mut reply: Reply<'_, Call>) -> Result {
    let (message, call) = reply.parts();
    let credits = ep.role().calls.answer(call);
    if call.truncated(message.len()) {
        reply.disown_behind();
    }
    let (message, call) = reply.parts();
    if call.lists().is_empty() {
        match write_inline(ep, &message, call, credits) {
            Ok((buf, len, rkey)) => {
                reply.keep();
                ep.send_inline(buf, len, rkey);
            }
            Err(why) => return not_written(ep, reply, credits, why),
        }
    } else {
        match write_chunks(ep, &message, call, credits) {
            Ok(out) => send_chunks(ep, reply, out)?,
            Err(why) => return not_written(ep, reply, credits, why),
        }
    }
    session::replied(ep);
    Ok(())
}

/// Sends the reply to a call with chunks.
#[inline(always)]
fn send_chunks(ep: &Endpoint, reply: Reply<'_, Call>, mut out: Outgoing) -> Result {
    match &mut out.source {
        Some(source) => {
            expose::take_pages(reply, source).inspect_err(|_| ep.shared().force_close())?
        }
        None => {
            reply.keep();
        }
    }
    ep.send(out);
    Ok(())
}

/// Sends a reply as a read chunk, if that is possible, after it could not be written for `why`.
#[cold]
fn not_written(ep: &Endpoint, mut reply: Reply<'_, Call>, credits: u32, why: Unsent) -> Result {
    let (message, call) = reply.parts();
    match why {
        Unsent::Cannot(why) if why != Cannot::WriteChunk && may_expose(ep, call) => {
            expose::send(ep, reply, why, credits)
        }
        why => Err(unsent(ep, &message, call, credits, why)),
    }
}

/// Returns whether the reply to a call may be a read chunk.
fn may_expose(ep: &Endpoint, call: &Call) -> bool {
    let role = ep.role();
    let forbidden = role.configured.allowed() == Reads::Forbidden;
    call.version() == Version::One && !forbidden && role.exposures.room().is_some()
}

/// Returns the terms for the reply to a call, which has the version of the call.
#[inline]
fn thresholds(ep: &Endpoint, call: &Call) -> Thresholds {
    ep.role().configured.apply(Thresholds {
        version: call.version(),
        ..ep.thresholds()
    })
}

/// Handles that a reply is not sent. Returns the error for SUNRPC.
#[cold]
fn unsent(ep: &Endpoint, message: &XdrBuf<'_>, call: &Call, credits: u32, why: Unsent) -> Error {
    match why {
        Unsent::Cannot(cannot) => {
            refuse::reply(ep, call, (cannot, message.len()), credits);
            EMSGSIZE
        }
        Unsent::Error(error) => {
            let peer = traced::peer(ep.shared().owner());
            trace::server::send_err(peer, call.xid(), error.to_errno());
            ep.shared().force_close();
            error
        }
    }
}

/// Writes the reply to a call without chunks for it, all of which goes inline. Returns the message,
/// its length, and the R_key to be invalidated: read chunks have R_keys, too.
#[inline]
fn write_inline(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    call: &Call,
    credits: u32,
) -> Result<(SendBuf, usize, Option<u32>), Unsent> {
    let thresholds = thresholds(ep, call);
    // CAST: `usize` has at least 32 bits.
    let len = reply::inline_len(message.len(), &thresholds)? as usize;
    let mut buf = ep.send_buffer(thresholds.server_to_client)?;
    let bytes = buf.as_mut_slice();
    let version = thresholds.version;
    let header = version.inline(bytes, call.xid(), credits, Direction::Reply);
    let at = header.map_err(|_| EMSGSIZE)?;
    message.copy_to(0, bytes.get_mut(at..len).ok_or(EMSGSIZE)?)?;
    let cid = traced::cid(ep.qp(), call.receive());
    trace::server::send_pullup(cid, at, len.saturating_sub(at));
    let rkey = call.rkey().filter(|_| thresholds.remote_invalidation);
    Ok((buf, len, rkey))
}

/// Writes what goes inline of the reply to a call with chunks, and prepares the RDMA Writes, if
/// there are any.
#[inline(never)]
fn write_chunks(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    call: &Call,
    credits: u32,
) -> Result<Outgoing, Unsent> {
    let (lists, thresholds) = (call.lists(), thresholds(ep, call));
    match Single::new(message.len(), call.marks(), &lists, &thresholds) {
        Some(plan) => write_single(ep, message, (call, credits), &plan, &thresholds),
        None => write_any(ep, message, (call, credits), &lists, &thresholds),
    }
}

/// Implements [`write_chunks`] for a reply with one RDMA Write.
#[inline(always)]
fn write_single(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    (call, credits): (&Call, u32),
    plan: &Single,
    thresholds: &Thresholds,
) -> Result<Outgoing, Unsent> {
    let mut buf = ep.send_buffer(thresholds.server_to_client)?;
    let bytes = buf.as_mut_slice();
    let header = plan.encode(bytes, call.xid(), credits);
    let at = header.map_err(|_| EMSGSIZE)?;
    let cid = traced::cid(ep.qp(), call.receive());
    trace::server::encode_lists(cid, bytes, ep.limits());
    let len = write_rest(message, plan.rest(), bytes, at)?;
    trace::server::send_pullup(cid, at, len.saturating_sub(at));
    Ok(Outgoing {
        buf,
        len,
        source: Some(writes::single(ep, message, &plan.write())?),
        long: plan.is_long(),
        rkey: call.rkey().filter(|_| thresholds.remote_invalidation),
    })
}

/// Implements [`write_chunks`] for any reply.
#[inline(never)]
fn write_any(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    (call, credits): (&Call, u32),
    lists: &Lists<'_>,
    thresholds: &Thresholds,
) -> Result<Outgoing, Unsent> {
    let plan = Plan::new(message.len(), call.marks(), lists, thresholds)?;
    let mut buf = ep.send_buffer(thresholds.server_to_client)?;
    let bytes = buf.as_mut_slice();
    let mut writes = Writes::new(ep, message);
    let header = plan.encode(bytes, call.xid(), credits, |write| writes.add(&write));
    let at = header.map_err(|_| EMSGSIZE)?;
    let cid = traced::cid(ep.qp(), call.receive());
    trace::server::encode_lists(cid, bytes, ep.limits());
    // CAST: `usize` has at least 32 bits.
    let len = match plan.send_len() as usize {
        len if len == at => len,
        _ => write_rest(message, plan.rest(), bytes, at)?,
    };
    trace::server::send_pullup(cid, at, len.saturating_sub(at));
    Ok(Outgoing {
        buf,
        len,
        source: writes.finish()?,
        long: plan.proc() == ListProc::Nomsg,
        rkey: call.rkey().filter(|_| thresholds.remote_invalidation),
    })
}

/// Writes what goes inline to `bytes` behind the header, which ends at `at`. Returns its end.
#[inline]
fn write_rest(
    message: &XdrBuf<'_>,
    rest: impl Iterator<Item = Range>,
    bytes: &mut [u8],
    mut at: usize,
) -> Result<usize> {
    for range in rest {
        // CAST: `usize` has at least 32 bits.
        let end = at + range.len as usize;
        let part = bytes.get_mut(at..end).ok_or(EMSGSIZE)?;
        message.copy_to(range.start, part)?;
        at = end;
    }
    Ok(at)
}
