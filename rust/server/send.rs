// SPDX-License-Identifier: GPL-2.0

//! Sending: replies, and errors (RFC 8166 section 4.5).
//!
//! The inline part of a reply is copied to a send buffer, and the thread keeps the page of the
//! reply's head. The rest is written by RDMA Write from the pages of the reply, which the
//! connection takes until the device has finished with them. Writes and Send are one chain, so that
//! the requester has the payload when it receives the reply (RFC 8166 section 3.4.6).

use kernel::prelude::*;

use super::call::context::Call;
use super::call::in_flight::{lane, Outgoing};
use super::call::memory::{lacks_space, pause, MAPPING_PAUSES};
use super::config::{UNMAPPED, WRITES};
use super::conn::endpoint::{unmapped, Endpoint, Responder};
use super::conn::{failure, session};
use super::log;
use super::quirks::Sender;
use crate::conn::role::XprtRef as _;
use crate::conn::traced;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::responder::call;
use crate::proto::responder::intake::Refusal;
use crate::proto::responder::marks::Mark;
use crate::proto::responder::reply::{Cannot, Plan, Range, Single, Write};
use crate::rdma::buffer::SendBuf;
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Source;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::message::ErrorBody;
use crate::wire::{error_as, Direction, ListProc, Remedy};

/// The length of a buffer for any error, in bytes.
const ERROR: u32 = 64;

/// Why a reply is not sent.
enum SendError {
    /// The chunks that the requester offers are too short.
    Cannot(Cannot),
    /// `ENOMEM`, `EMSGSIZE` if the message does not fit its buffer, or an error of the device.
    Other(Error),
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Cannot> for SendError {
    fn from(cannot: Cannot) -> Self {
        Self::Cannot(cannot)
    }
}

/// Returns the pages of a payload that the service has removed from a reply. Call this first, even
/// if the connection is gone and the reply is not sent.
pub(crate) fn disown_truncated(reply: &mut Reply<'_, Call>) {
    let (message, call) = reply.parts();
    if call.truncated(message.len()) {
        reply.disown_behind();
    }
}

/// Sends a reply. Thread of the service; may sleep for memory, but not for the send queue.
///
/// # Errors
///
/// `EMSGSIZE` if the chunks that the requester offers are too short: the requester has been sent an
/// error. After any other error, or if the message does not fit its own buffer, the call has been
/// given up or the connection is being closed: see [`give_up`].
pub(crate) fn reply(ep: &Endpoint, mut reply: Reply<'_, Call>) -> Result {
    let (message, call) = reply.parts();
    let credits = ep.role().calls.answer(call);
    let thresholds = thresholds(ep, call);
    if call.lists().is_empty() {
        // Read chunks also have R_keys.
        let rkey = rkey(call, &thresholds);
        let write = || write_inline(ep, &message, (call, credits), &thresholds);
        match write().or_else(|why| write_later(ep, Err(why), write)) {
            Ok((buf, len)) => {
                let out = Outgoing::inline(buf, len);
                reply.keep();
                ep.send(Outgoing { rkey, ..out });
            }
            Err(why) => return not_written(ep, reply, credits, why),
        }
        session::replied(ep);
        return Ok(());
    }
    call.settle_marks(&message);
    let write = || write(ep, &message, (call, credits), &thresholds);
    let mut out = match write().or_else(|why| write_later(ep, Err(why), write)) {
        Ok(out) => out,
        Err(why) => return not_written(ep, reply, credits, why),
    };
    match &mut out.source {
        Some(source) => {
            let pages = source.pages().ok_or(EBUSY);
            let taken = pages.and_then(|pages| reply.take(pages));
            taken.inspect_err(|_| ep.shared().force_close())?;
        }
        None => {
            reply.keep();
        }
    }
    ep.send(out);
    session::replied(ep);
    Ok(())
}

/// Handles a reply that could not be written, because of `why`: lets the requester read the reply,
/// if it supports that, or answers with an error.
#[cold]
fn not_written(ep: &Endpoint, mut reply: Reply<'_, Call>, credits: u32, why: SendError) -> Result {
    let role = ep.role();
    let why = match why {
        SendError::Cannot(why) => why,
        SendError::Other(error) => {
            let (peer, call) = (traced::peer(ep.shared().owner()), reply.parts().1);
            trace::server::send_err(peer, call.xid, error.to_errno());
            give_up(ep, (call.version.number(), call.xid), error);
            return Err(error);
        }
    };
    let readable = match why {
        Cannot::WriteChunk => None,
        _ => role.quirks.prepare(&mut reply, |pages| {
            let mut permit = role.permit();
            role.grow(&mut permit, pages).then_some(permit)
        }),
    };
    let Some(readable) = readable else {
        let (message, call) = reply.parts();
        too_long(ep, call, (why, message.len()), credits);
        return Err(EMSGSIZE);
    };
    let sent = role.quirks.send(sender(ep), reply, readable, credits);
    sent.inspect_err(|_| ep.shared().force_close())?;
    session::replied(ep);
    Ok(())
}

/// Gives a call up because of an error of this host. Closes the connection, so that the requester
/// repeats the call; or refuses the call, if the DMA layer has had no space for it for long. May
/// sleep.
#[cold]
pub(crate) fn give_up(ep: &Endpoint, (version, xid): (u32, u32), error: Error) {
    if error != ENOMEM || !lacks_space(xid) {
        return ep.shared().force_close();
    }
    UNMAPPED.add(lane(ep.qp()), 1);
    log::no_space(&ep.shared().owner().peer());
    let ids = (xid, ep.role().calls.granted());
    send_error(ep, version, ids, ErrorBody::BadHeader);
}

/// Returns the objects that are needed to send a message of `quirks`.
pub(crate) fn sender(ep: &Endpoint) -> Sender<'_, Responder> {
    (ep.shared(), ep.qp(), &ep.role().in_flight)
}

/// Answers a call that the service does not see, and applies the limits that the call sets. May
/// sleep.
#[cold]
pub(crate) fn answer_here(ep: &Endpoint, call: &call::Call<'_>) {
    let role = ep.role();
    let answer = role.quirks.answer(sender(ep), call, role.calls.granted());
    let Ok((buf, len)) = answer else {
        return ep.shared().force_close();
    };
    // The requester may send its next call as soon as it has the answer.
    role.ready.set_bounded(role.quirks.bounds_reads());
    ep.send(Outgoing::inline(buf, len));
    session::replied(ep);
}

/// Returns the terms for the reply to a call, which has the version of the call.
fn thresholds(ep: &Endpoint, call: &Call) -> Thresholds {
    ep.role().quirks.apply(Thresholds {
        version: call.version,
        ..ep.thresholds()
    })
}

/// Writes an entirely inline reply, to a call that offers no chunks. Returns the message and its
/// length.
#[inline(always)]
fn write_inline(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    (call, credits): (&Call, u32),
    thresholds: &Thresholds,
) -> Result<(SendBuf, usize), SendError> {
    // CAST: a small constant.
    let len = message
        .len()
        .saturating_add(thresholds.version.min_header() as u32);
    if len > thresholds.server_to_client {
        return Err(Cannot::Inline.into());
    }
    // CAST: `usize` has at least 32 bits.
    let len = len as usize;
    let in_flight = &ep.role().in_flight;
    let mut buf = in_flight.send_buffer(ep.pd(), thresholds.server_to_client)?;
    let bytes = buf.as_mut_slice();
    let version = thresholds.version;
    let header = version.inline(bytes, call.xid, credits, Direction::Reply);
    let at = header.map_err(|_| EMSGSIZE)?;
    message.copy_to(0, bytes.get_mut(at..len).ok_or(EMSGSIZE)?)?;
    let cid = traced::cid(ep.qp(), call.receive);
    trace::server::send_pullup(cid, at, len.saturating_sub(at));
    Ok((buf, len))
}

/// Returns the R_key that the reply invalidates.
#[inline(always)]
fn rkey(call: &Call, thresholds: &Thresholds) -> Option<u32> {
    call.rkey.filter(|_| thresholds.remote_invalidation)
}

/// Writes the reply to a call with chunks, and prepares the RDMA Writes before it.
#[inline(never)]
fn write(
    ep: &Endpoint,
    message: &XdrBuf<'_>,
    (call, credits): (&Call, u32),
    thresholds: &Thresholds,
) -> Result<Outgoing, SendError> {
    let in_flight = &ep.role().in_flight;
    let (mut buf, source) = in_flight.buffer_and_source(ep.pd(), thresholds.server_to_client)?;
    let bytes = buf.as_mut_slice();
    let mut writes = Writes::new(ep, message, source);
    let written = write_parts(&mut writes, bytes, (call, credits), thresholds);
    let Written { header, len, long } = match written {
        Ok(written) => written,
        Err(why) => {
            in_flight.put_unused(Some(buf), writes.source);
            return Err(why);
        }
    };
    let cid = traced::cid(ep.qp(), call.receive);
    trace::server::encode_lists(cid, bytes, &ep.role().limits);
    trace::server::send_pullup(cid, header, len.saturating_sub(header));
    Ok(Outgoing {
        buf,
        len,
        source: writes.finish(),
        long,
        rkey: rkey(call, thresholds),
    })
}

/// Implements [`write`]: writes the message to `bytes`, and adds the RDMA Writes.
#[inline(always)]
fn write_parts(
    writes: &mut Writes<'_>,
    bytes: &mut [u8],
    (call, credits): (&Call, u32),
    thresholds: &Thresholds,
) -> Result<Written, SendError> {
    let (lists, len, from) = (call.lists(), writes.message.len(), (call.xid, credits));
    let written = match Single::new(len, call.marks(), &lists, thresholds) {
        Some(plan) => write_one(&plan, from, bytes, writes)?,
        None => {
            let plan = Plan::new(len, call.marks(), &lists, thresholds)?;
            write_any(&plan, from, bytes, writes)?
        }
    };
    Ok(writes.result.map(|()| written)?)
}

/// Calls `write` again for a reply that could not be written because of the error in `result`, if
/// that was a lack of memory or of space in the DMA layer: waits until other calls may have freed
/// some.
#[cold]
fn write_later<T>(
    ep: &Endpoint,
    mut result: Result<T, SendError>,
    write: impl Fn() -> Result<T, SendError>,
) -> Result<T, SendError> {
    for _ in 0..MAPPING_PAUSES {
        let over = ep.role().lifecycle.has_ended() || ep.qp().is_broken();
        if over || !matches!(result, Err(SendError::Other(ENOMEM))) {
            break;
        }
        pause();
        result = write();
    }
    result
}

/// A written message: the length of its header and its total length in bytes, and whether the RDMA
/// Writes go to the reply chunk.
struct Written {
    header: usize,
    len: usize,
    long: bool,
}

/// Writes the usual reply to a READ or READDIR, with one RDMA Write.
#[inline(always)]
fn write_one(
    plan: &Single,
    (xid, credits): (u32, u32),
    bytes: &mut [u8],
    writes: &mut Writes<'_>,
) -> Result<Written> {
    let header = plan.encode(bytes, xid, credits).map_err(|_| EMSGSIZE)?;
    writes.add(&plan.write());
    let len = write_rest(writes.message, plan.rest(), bytes, header)?;
    let long = plan.is_long();
    Ok(Written { header, len, long })
}

/// Writes any reply.
#[inline(never)]
fn write_any(
    plan: &Plan<'_>,
    (xid, credits): (u32, u32),
    bytes: &mut [u8],
    writes: &mut Writes<'_>,
) -> Result<Written> {
    let header = plan.encode(bytes, xid, credits, |write| writes.add(&write));
    let header = header.map_err(|_| EMSGSIZE)?;
    let long = plan.proc() == ListProc::Nomsg;
    // CAST: `usize` has at least 32 bits.
    let len = match plan.send_len() as usize {
        len if len == header => len,
        _ => write_rest(writes.message, plan.rest(), bytes, header)?,
    };
    Ok(Written { header, len, long })
}

/// Writes the inline ranges to `bytes` behind the header, which ends at `at`. Returns their end.
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

/// The RDMA Writes of a reply, as they are added to a list.
struct Writes<'w> {
    ep: &'w Endpoint,
    message: &'w XdrBuf<'w>,
    /// The list.
    source: Source,
    /// RDMA Writes so far. Consecutive Writes within a segment count once.
    segments: u64,
    /// R_key and address behind the latest RDMA Write.
    end: Option<(u32, u64)>,
    /// The first error.
    result: Result,
}

impl<'w> Writes<'w> {
    /// Makes the value without RDMA Writes.
    fn new(ep: &'w Endpoint, message: &'w XdrBuf<'w>, source: Source) -> Self {
        Self {
            ep,
            message,
            source,
            segments: 0,
            end: None,
            result: Ok(()),
        }
    }

    /// Appends an RDMA Write; does nothing after an error. May sleep.
    #[inline(always)]
    fn add(&mut self, write: &Write) {
        if self.result.is_ok() {
            self.result = self.try_add(write);
        }
    }

    #[inline(always)]
    fn try_add(&mut self, write: &Write) -> Result {
        let (addr, rkey, len) = (write.offset, write.handle, write.range.len);
        let to = Remote { addr, rkey };
        self.segments += u64::from(self.end != Some((to.rkey, to.addr)));
        self.end = Some((to.rkey, to.addr.wrapping_add(u64::from(len))));
        let pieces = self.message.pieces(write.range.start, len);
        let added = self.source.write(pieces, to, self.ep.role().limits.sges);
        added.inspect_err(|error| unmapped(self.ep.qp(), to, len, *error))
    }

    /// Returns the list; `None` without RDMA Writes. There was no error.
    fn finish(self) -> Option<Source> {
        if self.segments == 0 {
            self.ep.role().in_flight.put_unused(None, self.source);
            return None;
        }
        WRITES.add(lane(self.ep.qp()), self.segments);
        Some(self.source)
    }
}

/// Answers a message that is not served, if the protocol defines an answer. May sleep.
#[cold]
pub(crate) fn refuse(ep: &Endpoint, refusal: &Refusal) {
    let versions = ep.shared().with_session(|session, _| session.versions());
    let remedy = versions.map_or(refusal.remedy, |versions| refusal.remedy.within(versions));
    if let Remedy::Answer {
        version,
        xid,
        error,
    } = remedy
    {
        let credits = ep.role().calls.granted();
        send_error(ep, version, (xid, credits), error);
    }
}

/// Answers a call with an error: its reply, of `len` bytes, cannot be sent. May sleep.
#[cold]
fn too_long(ep: &Endpoint, call: &Call, (why, len): (Cannot, u32), credits: u32) {
    if let Some((bytes, segments)) = too_small(call, why, len) {
        let cid = traced::cid(ep.qp(), call.receive);
        trace::server::small_wrch_err(cid, bytes, segments);
    }
    failure::report(ep.shared(), call.xid, RequesterBreach::ReplyRoom);
    let (version, ids) = (call.version.number(), (call.xid, credits));
    send_error(ep, version, ids, ErrorBody::BadHeader);
}

/// Returns how many bytes of a reply exceed the chunk that is too small, and the number of its
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

/// Sends an error with this version word. If memory is short, the connection is closed.
fn send_error(ep: &Endpoint, version: u32, (xid, credits): (u32, u32), error: ErrorBody) {
    match error {
        ErrorBody::Vers { .. } => trace::server::err_vers(xid),
        _ => trace::server::err_chunk(xid),
    }
    let buf = ep.role().in_flight.send_buffer(ep.pd(), ERROR);
    let written = buf.and_then(|mut buf| {
        let len = error_as(version, buf.as_mut_slice(), xid, credits, error);
        let len = len.map_err(|_| EMSGSIZE)?;
        Ok((buf, len))
    });
    let Ok((buf, len)) = written else {
        return ep.shared().force_close();
    };
    ep.send(Outgoing::inline(buf, len));
}
