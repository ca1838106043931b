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
use super::responder::unmapped;
use super::{refuse, session};
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::responder::reply::{Plan, Write};
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Source;
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
    let thresholds = Thresholds {
        // A reply has the version of its call.
        version: call.version(),
        ..ep.thresholds()
    };
    let plan = match Plan::new(message.len(), call.marks(), &lists, &thresholds) {
        Ok(plan) => plan,
        Err(cannot) => {
            refuse::reply(ep, call, (cannot, message.len()), credits);
            return Err(EMSGSIZE);
        }
    };
    let closed = |_: &Error| ep.shared().force_close();
    let mut buf = ep
        .send_buffer(thresholds.server_to_client)
        .inspect_err(closed)?;
    let mut writes = Writes::new(ep, &message);
    let bytes = buf.as_mut_slice();
    let header = plan.encode(bytes, call.xid(), credits, |write| writes.add(&write));
    let written = header
        .map_err(|_| EMSGSIZE)
        .and_then(|at| write(ep, &message, &plan, bytes, call, at));
    let out = written.and_then(|len| Ok((len, writes.finish()?)));
    let rkey = call.rkey().filter(|_| thresholds.remote_invalidation);
    let long = plan.proc() == ListProc::Nomsg;
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
    session::replied(ep);
    Ok(())
}

/// Writes what goes inline to `bytes` behind the header, which ends at `at`. Returns its end.
#[inline]
fn write(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    plan: &Plan<'_>,
    bytes: &mut [u8],
    call: &Call,
    mut at: usize,
) -> Result<usize> {
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

/// The RDMA Writes of a reply, as they are added to a list.
struct Writes<'w> {
    ep: &'w Endpoint,
    message: &'w XdrBuf<'w>,
    /// The list, once there is one.
    source: Option<Source>,
    /// RDMA Writes so far. Those that follow each other in a segment count as one.
    segments: u64,
    /// R_key and address behind the last one.
    end: Option<(u32, u64)>,
    /// The first error.
    result: Result,
}

impl<'w> Writes<'w> {
    #[inline]
    fn new(ep: &'w Endpoint, message: &'w XdrBuf<'w>) -> Self {
        Self {
            ep,
            message,
            source: None,
            segments: 0,
            end: None,
            result: Ok(()),
        }
    }

    /// Adds an RDMA Write, unless there was an error. May sleep.
    #[inline]
    fn add(&mut self, write: &Write) {
        if self.result.is_ok() {
            self.result = self.try_add(write);
        }
    }

    #[inline]
    fn try_add(&mut self, write: &Write) -> Result {
        let (to, len) = (remote(write), write.range.len);
        self.segments += u64::from(self.end != Some((to.rkey, to.addr)));
        self.end = Some((to.rkey, to.addr.wrapping_add(u64::from(len))));
        let source = match &mut self.source {
            Some(source) => source,
            none => none.insert(self.ep.role().spare.source(self.ep.pd())?),
        };
        let pieces = self.message.pieces(write.range.start, len);
        let added = source.write(pieces, to, self.ep.limits().sges);
        added.inspect_err(|error| unmapped(self.ep.qp(), to, len, *error))
    }

    /// Removes and returns the list, if there are any RDMA Writes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the device cannot map the reply.
    #[inline]
    fn finish(&mut self) -> Result<Option<Source>> {
        self.result?;
        if self.source.is_some() {
            WRITES.add(lane(self.ep.qp()), self.segments);
        }
        Ok(self.source.take())
    }
}

/// Returns where an RDMA Write writes to.
#[inline]
fn remote(write: &Write) -> Remote {
    Remote {
        addr: write.offset,
        rkey: write.handle,
    }
}

/// Moves the pages of the reply to the source.
fn take_pages(reply: Reply<'_, Call>, source: &mut Source) -> Result {
    let pages = source.pages().ok_or(EBUSY)?;
    pages.reserve(reply.page_count(), GFP_KERNEL)?;
    reply.take(pages).map_err(|_| ENOSPC)
}
