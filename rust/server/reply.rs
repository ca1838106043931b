// SPDX-License-Identifier: GPL-2.0

//! Replies.
//!
//! What goes inline is copied to a send buffer, and the page of the reply's head stays with the
//! thread. What goes by RDMA Write is written from the pages of the reply, which the connection
//! takes until the device has finished with them. Writes and Send are one chain, so that the
//! requester has the payload when it receives the reply (RFC 8166 section 3.4.6).

use kernel::prelude::*;

use super::call::Call;
use super::config::WRITES;
use super::endpoint::Endpoint;
use super::flights::{lane, Outgoing};
use super::refuse;
use super::responder::unmapped;
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::responder::reply::Plan;
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Source;
use crate::rdma::send::SendBuf;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::ListProc;

/// Sends a reply. Thread of the service; may sleep for memory, but not for the send queue.
///
/// # Errors
///
/// `ENOMEM`; `EIO` if the device cannot map the reply. The connection is closed then, so that the
/// requester asks again. `EMSGSIZE` if the requester has offered too little room; it was sent an
/// error.
pub(super) fn send(ep: &Endpoint, mut reply: Reply<'_, Call>) -> Result {
    let (message, call) = reply.parts();
    let credits = ep.role().calls.answer(call);
    let lists = call.lists();
    let thresholds = &ep.terms().thresholds;
    let plan = match Plan::new(message.len(), call.marks(), &lists, thresholds) {
        Ok(plan) => plan,
        Err(cannot) => {
            refuse::reply(ep, call, (cannot, message.len()), credits);
            return Err(EMSGSIZE);
        }
    };
    let closed = |_: &Error| ep.shared().force_close();
    let mut buf = ep.send_buffer().inspect_err(closed)?;
    let written = write(ep, &message, &plan, &mut buf, call, credits);
    let out = written.and_then(|len| {
        let source = source(ep, &message, &plan)?;
        Ok((len, source))
    });
    let (rkey, long) = (call.rkey(), plan.proc() == ListProc::Nomsg);
    let (len, mut source) = match out {
        Ok(out) => out,
        Err(error) => {
            ep.role().flights.keep(buf);
            let peer = traced::peer(ep.shared().owner());
            trace::server::send_err(peer, call.xid(), error.to_errno());
            ep.shared().force_close();
            return Err(error);
        }
    };
    match &mut source {
        Some(source) => take_pages(reply, source).inspect_err(closed)?,
        None => {
            reply.keep();
        }
    }
    let out = Outgoing {
        buf,
        len,
        source,
        long,
        rkey,
    };
    ep.send(out);
    Ok(())
}

/// Writes what goes inline to `buf`, and returns its length.
#[inline]
fn write(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    plan: &Plan<'_>,
    buf: &mut SendBuf,
    call: &Call,
    credits: u32,
) -> Result<usize> {
    let bytes = buf.as_mut_slice();
    let header = plan.encode(bytes, call.xid(), credits);
    let mut at = header.map_err(|_| EMSGSIZE)?;
    // CAST: `usize` has at least 32 bits.
    let len = plan.send_len() as usize;
    let cid = traced::cid(ep.qp(), call.receive());
    if !call.lists().is_empty() {
        trace::server::encode_lists(cid, bytes, ep.limits());
    }
    trace::server::send_pullup(cid, at, len.saturating_sub(at));
    if at == len {
        return Ok(len);
    }
    for range in plan.rest() {
        // CAST: `usize` has at least 32 bits.
        let end = at + range.len as usize;
        let part = bytes.get_mut(at..end).ok_or(EMSGSIZE)?;
        message.copy_to(range.start, part)?;
        at = end;
    }
    Ok(len)
}

/// Prepares the RDMA Writes of a reply, if there are any.
#[inline]
fn source(ep: &Endpoint, message: &XdrBuf<'_>, plan: &Plan<'_>) -> Result<Option<Source>> {
    if plan.is_inline() {
        return Ok(None);
    }
    let mut source = ep.role().spare.source(ep.pd())?;
    // RDMA Writes that follow each other in a segment count as one.
    let (mut segments, mut end) = (0, None);
    for write in plan.writes() {
        let len = u64::from(write.range.len);
        segments += u64::from(end != Some((write.handle, write.offset)));
        end = Some((write.handle, write.offset.wrapping_add(len)));
        let pieces = message.pieces(write.range.start, write.range.len);
        let to = Remote {
            addr: write.offset,
            rkey: write.handle,
        };
        if let Err(error) = source.write(pieces, to, ep.limits().sges) {
            unmapped(ep.qp(), to, write.range.len, error);
            ep.role().spare.put_source(source);
            return Err(error);
        }
    }
    WRITES.add(lane(ep.qp()), segments);
    Ok(Some(source))
}

/// Moves the pages of the reply to the source.
fn take_pages(reply: Reply<'_, Call>, source: &mut Source) -> Result {
    let pages = source.pages().ok_or(EBUSY)?;
    pages.reserve(reply.page_count(), GFP_KERNEL)?;
    reply.take(pages).map_err(|_| ENOSPC)
}
