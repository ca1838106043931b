// SPDX-License-Identifier: GPL-2.0

//! Checks that a reply claims no more than its call offered.
//!
//! A responder returns the write list and the reply chunk, and replaces each length by the number
//! of bytes written (RFC 8166 sections 4.3.2 and 4.3.3). It fills segments in order and without
//! gaps. The lengths decide how many bytes of registered memory the upper layer gets, so each is
//! compared with the offer, segment by segment.
//!
//! Handles and offsets of the returned segments are not compared. The requester uses its own.

use super::super::super::wire::message::{Body, ErrorBody};
use super::super::super::wire::{Lists, OnlyChunk, Segment};

/// The memory that a call offered for its reply, with at most one write chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Segments of the write chunk, as encoded in the call.
    pub write_chunk: Option<&'a [Segment]>,
    /// Segments of the reply chunk, as encoded in the call.
    pub reply_chunk: Option<&'a [Segment]>,
}

/// The content of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// RDMA_MSG: the RPC message is inline. Its payload may be in the write chunk.
    Inline {
        /// Bytes of RPC message in the Receive buffer.
        inline_len: u32,
        /// Bytes written into the write chunk; zero without one. They may include up to three bytes
        /// of XDR padding, if the offer had room for them.
        write_len: u32,
    },
    /// RDMA_NOMSG: the RPC message is in the reply chunk.
    ReplyChunk {
        /// Bytes written into the reply chunk.
        reply_chunk_len: u32,
        /// Bytes written into the write chunk; zero without one.
        write_len: u32,
    },
    /// RDMA_ERROR: the responder could not process the call. Nothing was written.
    Error(ErrorBody),
}

/// The error in a reply. A requester cannot answer a reply; the RPC fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A message type that no responder sends in reply to a call: RDMA_DONE, RDMA_MSGP, an
    /// optional operation, or the refusal of one.
    MessageType,
    /// A read list in a reply (RFC 8166 section 4.3.1 forbids it).
    ReadList,
    /// More write chunks than offered.
    ExtraWriteChunk,
    /// A reply chunk where none was offered.
    ExtraReplyChunk,
    /// RDMA_NOMSG without a reply chunk: there is no RPC message.
    NoMessage,
    /// A chunk with another number of segments than offered.
    SegmentCount,
    /// A segment longer than offered.
    SegmentLength,
    /// Data after a segment that was not filled.
    Gap,
    /// The sum of a chunk's lengths exceeds 32 bits.
    Overflow,
}

/// Checks the decoded body of a reply against the offer of its call.
///
/// # Errors
///
/// The first [`Violation`] found. Nothing of such a reply may be used.
#[inline]
//= 8166-4.2-1 RDMA_MSGP and RDMA_DONE not accepted
pub fn check(body: &Body<'_>, offer: &Offer<'_>) -> Result<Outcome, Violation> {
    match body {
        Body::Msg { lists, payload } => inline(lists, payload, offer),
        Body::Nomsg { lists } => long(lists, offer),
        // An RPC call is not an optional operation.
        Body::Error(ErrorBody::InvalidOption) => Err(Violation::MessageType),
        Body::Error(error) => Ok(Outcome::Error(*error)),
        Body::Msgp { .. } | Body::Done | Body::Optional { .. } => Err(Violation::MessageType),
    }
}

#[inline]
//= 5666-3.4-4 server returns the data inline
fn inline(lists: &Lists<'_>, payload: &[u8], offer: &Offer<'_>) -> Result<Outcome, Violation> {
    let lens = check_offer(lists, offer)?;
    Ok(Outcome::Inline {
        inline_len: u32::try_from(payload.len()).map_err(|_| Violation::Overflow)?,
        write_len: lens.write,
    })
}

#[inline]
fn long(lists: &Lists<'_>, offer: &Offer<'_>) -> Result<Outcome, Violation> {
    let lens = check_offer(lists, offer)?;
    Ok(Outcome::ReplyChunk {
        reply_chunk_len: lens.reply.ok_or(Violation::NoMessage)?,
        write_len: lens.write,
    })
}

/// Checks a reply whose only chunk, if any, has one segment. Returns the bytes written into the
/// chunk; zero without a chunk. `Err` means that the reply does not fit the offer; [`check`] finds
/// the violation.
///
/// # Errors
///
/// The unit value.
#[inline(always)]
//= 8166-4.3-1 returns lengths written, never more
pub fn check_common(returned: &OnlyChunk, offer: &Offer<'_>) -> Result<u32, ()> {
    let (segment, chunk) = match returned {
        OnlyChunk::None => return Ok(0),
        OnlyChunk::Write(segment) => (segment, offer.write_chunk),
        OnlyChunk::Reply(segment) => (segment, offer.reply_chunk),
    };
    match chunk {
        Some([offered]) if segment.length <= offered.length => Ok(segment.length),
        _ => Err(()),
    }
}

/// Lengths found in a reply's lists.
struct Lengths {
    /// Bytes in the write chunk.
    write: u32,
    /// Bytes in the reply chunk, if the reply has one.
    reply: Option<u32>,
}

#[inline]
//= 8166-4.3-2 reply has no read list
fn check_offer(lists: &Lists<'_>, offer: &Offer<'_>) -> Result<Lengths, Violation> {
    if lists.is_empty() {
        return Ok(Lengths {
            write: 0,
            reply: None,
        });
    }
    if lists.read_list().next().is_some() {
        return Err(Violation::ReadList);
    }
    let mut chunks = lists.write_list();
    let write = match (chunks.next(), offer.write_chunk) {
        (None, _) => 0,
        (Some(_), None) => return Err(Violation::ExtraWriteChunk),
        (Some(chunk), Some(offered)) => check_chunk(chunk.segments(), offered.iter().copied())?,
    };
    if chunks.next().is_some() {
        return Err(Violation::ExtraWriteChunk);
    }
    let reply = match (lists.reply_chunk(), offer.reply_chunk) {
        (None, _) => None,
        (Some(_), None) => return Err(Violation::ExtraReplyChunk),
        (Some(chunk), Some(offered)) => {
            Some(check_chunk(chunk.segments(), offered.iter().copied())?)
        }
    };
    Ok(Lengths { write, reply })
}

/// Checks one returned chunk against the one offered, and returns the bytes written into it.
///
/// # Errors
///
/// [`Violation::SegmentCount`], [`Violation::SegmentLength`], [`Violation::Gap`] or
/// [`Violation::Overflow`].
#[inline]
//= 5666-3.4-3 byte counts agree with chunk lengths
//= 5666-3.4-9 filled in part, or not filled
//= 8166-4.3-1 returns lengths written, never more
//= 8166-4.3-4 not used: lengths of zero
pub fn check_chunk(
    returned: impl Iterator<Item = Segment>,
    mut offered: impl Iterator<Item = Segment>,
) -> Result<u32, Violation> {
    let mut total: u32 = 0;
    let mut short = false;
    for segment in returned {
        let room = offered.next().ok_or(Violation::SegmentCount)?.length;
        if segment.length > room {
            return Err(Violation::SegmentLength);
        }
        if short && segment.length != 0 {
            return Err(Violation::Gap);
        }
        short |= segment.length < room;
        let sum = total.checked_add(segment.length);
        total = sum.ok_or(Violation::Overflow)?;
    }
    let more = offered.next();
    more.map_or(Ok(total), |_| Err(Violation::SegmentCount))
}

/// Returns the index of the registration whose R_key the message of a reply has invalidated. That
/// registration needs no LOCAL_INV. `None` if the request did not expose the R_key, or the peer has
/// no permission: this violates the protocol. Memory of another request may be invalidated, so the
/// connection can no longer be trusted.
///
/// - `handles`: the R_keys that the answered request exposed, in the caller's order. R_keys that
///   several requests share must not be among them.
/// - `allowed`: both peers support remote invalidation (RFC 8797 section 4.1).
#[inline]
//= 8797-4.1-2 STag that belongs to the XID
pub fn match_rkey(
    handles: impl IntoIterator<Item = u32>,
    rkey: u32,
    allowed: bool,
) -> Option<usize> {
    let found = handles.into_iter().position(|handle| handle == rkey);
    found.filter(|_| allowed)
}
