// SPDX-License-Identifier: GPL-2.0

//! Accepts or refuses the messages that a responder receives.
//!
//! A message that is not served is answered with an error where the protocol has one: ERR_VERS, or
//! ERR_CHUNK (RFC 8166 section 4.5). An error message is never answered, nor is a reply: two peers
//! could then answer each other endlessly. [`Call`] has the checks of the chunks.

use super::super::super::wire::message::{Body, ErrorBody, Mismatch};
use super::super::super::wire::{
    self, peek, DecodeError, Direction, ListProc, Lists, Message, OneSegment, Proc, Receiver,
    Remedy, Version,
};
use super::super::version;
use super::call::{Call, Unfit};
use super::limits::Limits;
use super::reassembly::Violation;

/// A message that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A call to be served.
    Call(Call<'a>),
    /// A reply to a call of the backward direction. [`super::super::backward::message`] checks it.
    Reply(Message<'a>),
    /// An optional operation of version two.
    Optional(Message<'a>),
    /// An RDMA_MSGP with a call, whose padding has to be removed.
    Padded(Message<'a>),
    /// An RDMA_DONE: the requester has read the read chunks of the reply with this XID. It is not
    /// answered.
    Done(u32),
}

/// A message that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// The answer, if any.
    pub remedy: Remedy,
}

/// The reason for which a message is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The message is too short for an XID and a version.
    Short,
    /// The version is not served.
    Version(u32),
    /// The header cannot be decoded, or has more elements than the limits permit.
    Header(DecodeError),
    /// The type is not that of a call: RDMA_ERROR, or RDMA_MSGP with a reply.
    Type(Proc),
    /// The padding of an RDMA_MSGP cannot be removed, for this reason.
    Padding(&'static str),
    /// The RPC message is missing or does not agree with the header.
    Message(Mismatch),
    /// The chunks are not permitted for a call.
    Chunks(Unfit),
}

/// Decides what to do with the `bytes` of a Receive.
///
/// # Errors
///
/// [`Refusal`], with the answer, if any.
#[inline(always)]
pub fn take<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Arrival<'a>, Refusal> {
    match plain(bytes, limits) {
        Some(call) => Ok(Arrival::Call(call)),
        None => take_written(bytes, limits),
    }
}

/// Decides what to do with the `bytes` of a Receive that most likely are a call with a read chunk.
/// The result is that of [`take`].
///
/// # Errors
///
/// [`Refusal`], with the answer, if any.
#[inline(never)]
pub fn take_read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Arrival<'a>, Refusal> {
    match one_read(bytes, limits) {
        Some(call) => Ok(Arrival::Call(call)),
        None => take_any(bytes, limits),
    }
}

/// Decides what to do with a message that most likely is a call with a write chunk.
#[inline(never)]
fn take_written<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Arrival<'a>, Refusal> {
    match one_write(bytes, limits) {
        Some(call) => Ok(Arrival::Call(call)),
        None => take_any(bytes, limits),
    }
}

/// Takes a call with one read chunk of one segment, a long call included, with a few comparisons.
/// Returns `None` for any other message, and for a call that must be refused.
#[inline(always)]
pub(in super::super) fn one_read<'a>(bytes: &'a [u8], limits: &Limits) -> Option<Call<'a>> {
    let version = served(bytes, limits)?;
    let message = Message::split_single(version, bytes, Lists::one_read)?;
    match message.proc {
        ListProc::Msg if one_call(&message) => Call::one_read(&message, version, limits),
        ListProc::Nomsg if message.direction != Some(Direction::Reply) => {
            Call::one_long(&message, version, limits)
        }
        _ => None,
    }
}

/// Takes a call with one write chunk of one segment, with a few comparisons. Returns `None` for any
/// other message, and for a call that must be refused.
#[inline(always)]
pub(in super::super) fn one_write<'a>(bytes: &'a [u8], limits: &Limits) -> Option<Call<'a>> {
    let version = served(bytes, limits)?;
    let message = Message::split_single(version, bytes, Lists::one_write)?;
    if message.proc != ListProc::Msg || !one_call(&message) {
        return None;
    }
    Call::one_write(&message, version, limits)
}

/// Returns the version of a message, if it is served.
#[inline(always)]
fn served(bytes: &[u8], limits: &Limits) -> Option<Version> {
    let (low, high) = limits.versions;
    version::answer(peek(bytes).ok()?.version, low, high).ok()
}

/// Returns whether a message is a call for certain.
#[inline(always)]
fn one_call<S>(message: &OneSegment<'_, S>) -> bool {
    let reply = message.direction == Some(Direction::Reply);
    begins_call(message.prefix.xid, message.payload) && !reply
}

/// Takes a call without chunks, by far the most common message, with a few comparisons. Returns
/// `None` for any other message.
#[inline(always)]
pub(in super::super) fn plain<'a>(bytes: &'a [u8], limits: &Limits) -> Option<Call<'a>> {
    let version = served(bytes, limits)?;
    let (prefix, direction, payload) = Message::split_plain(version, bytes)?;
    let is_call = begins_call(prefix.xid, payload) && direction != Some(Direction::Reply);
    // CAST: `usize` has at least 32 bits.
    let fits = payload.len() <= limits.max_call as usize && payload.len() % 4 == 0;
    (is_call && fits).then(|| Call::plain(&prefix, version, payload))
}

/// Decides what to do with any message.
#[inline(never)]
//= 5666-4.2-2 errors are answered by RDMA_ERROR
fn take_any<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Arrival<'a>, Refusal> {
    let Some(&[x0, x1, x2, x3, v0, v1, v2, v3]) = bytes.first_chunk() else {
        return Err(dropped(Reason::Short));
    };
    let (xid, asked) = (
        u32::from_be_bytes([x0, x1, x2, x3]),
        u32::from_be_bytes([v0, v1, v2, v3]),
    );
    let (low, high) = limits.versions;
    let version = version::answer(asked, low, high)
        .map_err(|error| refused(bytes, Reason::Version(asked), error))?;
    let bad = |reason| refused(bytes, reason, ErrorBody::BadHeader);
    let message = Message::decode_as(version, bytes, &limits.wire())
        .map_err(|error| bad(Reason::Header(error)))?;
    // Most messages are calls whose header and RPC message agree.
    if !is_call(&message) {
        match classify(message) {
            Ok(None) => {}
            Ok(Some(other)) => return Ok(other),
            // A reply, or an error.
            Err(reason @ Reason::Type(_)) => return Err(dropped(reason)),
            Err(reason) => return Err(bad(reason)),
        }
    }
    let inline = message.payload().len();
    // CAST: compared before, and `usize` has 32 bits or more.
    if inline > limits.max_call as usize {
        return Err(bad(Reason::Chunks(Unfit::Reads(Violation::TooLong))));
    }
    let mut call = Call::new(&message, xid, version, inline as u32);
    if call.has_chunks() {
        call.check(limits)
            .map_err(|unfit| bad(Reason::Chunks(unfit)))?;
    }
    if call.total_len() % 4 != 0 {
        return Err(bad(Reason::Chunks(Unfit::Reads(Violation::Odd))));
    }
    Ok(Arrival::Call(call))
}

/// Returns whether a message is a call for certain: the RPC message that is inline begins with the
/// same XID and says so, and the header does not say otherwise.
fn is_call(message: &Message<'_>) -> bool {
    let Body::Msg { payload, .. } = message.body() else {
        return false;
    };
    begins_call(message.xid(), payload) && message.direction() != Some(Direction::Reply)
}

/// Returns whether an RPC message is the call with this XID.
fn begins_call(xid: u32, rpc: &[u8]) -> bool {
    let call = u64::from(xid) << 32 | Direction::Call as u64;
    rpc.first_chunk().copied().map(u64::from_be_bytes) == Some(call)
}

/// Classifies a message that is not certain to be a call. Returns `None` for a call.
#[cold]
//= 5666-4.1-6 followed by an RPC message
fn classify(message: Message<'_>) -> Result<Option<Arrival<'_>>, Reason> {
    match message.body() {
        Body::Msg { .. } | Body::Nomsg { .. } => {}
        Body::Optional { .. } => return Ok(Some(Arrival::Optional(message))),
        Body::Done => return Ok(Some(Arrival::Done(message.xid()))),
        Body::Msgp { .. } if !is_reply(&message) => {
            message.check_direction().map_err(Reason::Message)?;
            return Ok(Some(Arrival::Padded(message)));
        }
        Body::Msgp { .. } | Body::Error(_) => return Err(Reason::Type(message.proc())),
    }
    if is_reply(&message) {
        return Ok(Some(Arrival::Reply(message)));
    }
    message.check_direction().map_err(Reason::Message)?;
    Ok(None)
}

/// Returns whether a message with chunk lists is a reply. Its header says so, or its RPC message.
//= 8167-4-2 direction told by RPC message type
fn is_reply(message: &Message<'_>) -> bool {
    let said = message.direction();
    said == Some(Direction::Reply) || Direction::of_rpc(message.payload()) == Some(Direction::Reply)
}

/// Refuses a call that was accepted, for a reason that only the caller can find: padding that
/// cannot be removed, or RDMA Reads that the requester has forbidden.
#[cold]
pub const fn refuse(version: Version, xid: u32, reason: Reason) -> Refusal {
    Refusal {
        reason,
        remedy: Remedy::Answer {
            version: version.number(),
            xid,
            error: ErrorBody::BadHeader,
        },
    }
}

#[cold]
const fn dropped(reason: Reason) -> Refusal {
    Refusal {
        reason,
        remedy: Remedy::Drop,
    }
}

/// Refuses a message by an error, if it may be answered.
#[cold]
fn refused(bytes: &[u8], reason: Reason, error: ErrorBody) -> Refusal {
    Refusal {
        reason,
        remedy: wire::refuse(bytes, Receiver::Responder, error),
    }
}
