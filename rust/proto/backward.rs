// SPDX-License-Identifier: GPL-2.0

//! Calls in the backward direction: the server of a connection calls, its client answers.
//!
//! RFC 8167. A backward message is an RDMA_MSG with everything inline. Its RPC message shows its
//! direction, and in version two also its header. XIDs and credits of the two directions are
//! independent of each other. The peer requests backward credits with its calls, and our replies
//! grant them.

use super::super::wire::message::Body;
use super::super::wire::{Direction, Message, Proc, Version};
use super::inline::Thresholds;

/// Credits granted in the backward direction: the number of calls that a peer may have outstanding.
pub const CREDITS: u32 = 16;

/// Why a call is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The message is not an RDMA_MSG, or its RPC message is neither a call nor a reply.
    Form,
    /// The message has chunks.
    Chunks,
    /// The RPC message's XID is not that of the transport header.
    Xid,
    /// The RPC message is too long for its buffer.
    TooLong,
    /// More calls are outstanding than were ever granted.
    Overflow,
    /// No service accepts calls, because it has not started, has ended, or is busy with calls of
    /// earlier connections.
    NotServed,
}

impl Refusal {
    /// Returns whether the peer has broken the protocol. A call that finds no service for a moment
    /// is no breach.
    pub const fn is_breach(self) -> bool {
        !matches!(self, Self::NotServed)
    }

    /// Returns whether the connection must be closed. A peer that exceeds its credits would use up
    /// the Receives that replies in the other direction need. A malformed call is only dropped.
    //= 8167-4-3 each direction has its own credits
    pub const fn ends_connection(self) -> bool {
        matches!(self, Self::Overflow)
    }
}

/// Returns whether a message that is not torn is a call: in version two by its header, which may
/// have no RPC message behind it. A call that a requester receives belongs to the backward
/// direction. The XID does not show this, since the two directions may use the same XIDs.
//= 8167-4-2 direction told by RPC message type
pub fn is_call(message: &Message<'_>) -> bool {
    match message.version() {
        Version::One => is_rpc_call(message.payload()),
        Version::Two => message.direction() == Some(Direction::Call),
    }
}

/// Returns whether the header of a message names another direction than its RPC message does. In
/// version one no header names a direction.
//= V2-4.2.2-2 direction is that of RPC message
pub fn is_torn(message: &Message<'_>) -> bool {
    match (message.direction(), Direction::of_rpc(message.payload())) {
        (Some(said), Some(found)) => said != found,
        _ => false,
    }
}

/// Returns whether an RPC message, or the inline part of it, is a call.
#[inline]
pub const fn is_rpc_call(rpc: &[u8]) -> bool {
    matches!(Direction::of_rpc(rpc), Some(Direction::Call))
}

/// Returns whether a message of this version answers a call of its receiver: it is an RDMA_ERROR,
/// or an RDMA_MSG without chunks whose RPC message is a reply. Only a few words are compared, so
/// that a responder can check every message. [`message`] checks the answer.
#[inline]
//= 8167-4-2 direction told by RPC message type
pub fn is_answer(version: Version, bytes: &[u8]) -> bool {
    // CAST: the discriminants of `repr(u32)` enums.
    const ERROR: [u8; 4] = (Proc::Error as u32).to_be_bytes();
    const REPLY: [u8; 4] = (Direction::Reply as u32).to_be_bytes();
    /// The type, which is zero for RDMA_MSG, and the direction in a header of version two.
    const TWO: [u8; 8] = (Direction::Reply as u64).to_be_bytes();
    /// Three empty lists.
    const PLAIN: [u8; 12] = [0; 12];
    /// The place of the type in a message.
    const TYPE: usize = 12;
    /// The place of the direction of an RPC message, counted from the lists.
    const DIRECTION: core::ops::Range<usize> = 16..20;
    let rest = bytes.get(TYPE..).unwrap_or_default();
    let lists = match version {
        Version::One => rest.strip_prefix(&[0; 4]),
        Version::Two => rest.strip_prefix(&TWO),
    };
    lists.is_some_and(|lists| lists.get(DIRECTION) == Some(&REPLY) && lists.starts_with(&PLAIN))
        || rest.starts_with(&ERROR)
}

/// Returns the RPC message of a call, or of a reply, of `max` bytes at most.
///
/// # Errors
///
/// See [`Refusal`].
//= 8167-4-1 no chunks and fit inline
//= XC-3.3-4 only GENL permits chunks
pub fn message<'a>(message: &Message<'a>, max: u32) -> Result<&'a [u8], Refusal> {
    let Body::Msg { lists, payload } = *message.body() else {
        return Err(Refusal::Form);
    };
    if !lists.is_empty() {
        return Err(Refusal::Chunks);
    }
    if Direction::of_rpc(payload).is_none() {
        return Err(Refusal::Form);
    }
    plain(message.xid(), payload, max)
}

/// Returns the RPC message of a call, or of a reply, of `max` bytes at most, which has arrived
/// without chunks and with this XID in its header.
///
/// # Errors
///
/// [`Refusal::Xid`], [`Refusal::TooLong`].
#[inline]
pub fn plain(xid: u32, payload: &[u8], max: u32) -> Result<&[u8], Refusal> {
    if payload.first_chunk() != Some(&xid.to_be_bytes()) {
        return Err(Refusal::Xid);
    }
    // CAST: lossless where `usize` has 32 bits or more.
    if payload.len() > max as usize {
        return Err(Refusal::TooLong);
    }
    Ok(payload)
}

/// Returns the length of the longest RPC message, call or reply, in the backward direction. With
/// its header it fits both the thresholds and a buffer of `buffer` bytes. The client is the sender
/// of a reply.
//= 8167-4-1 no chunks and fit inline
pub fn max_message(thresholds: &Thresholds, buffer: u32) -> u32 {
    max_call(thresholds, buffer).min(thresholds.max_backward_reply())
}

/// Returns the length of the longest RPC message of a call in the backward direction. With its
/// header it fits the threshold and a buffer of `buffer` bytes. The server is the sender.
//= 8167-4-1 no chunks and fit inline
pub fn max_call(thresholds: &Thresholds, buffer: u32) -> u32 {
    // CAST: a header without chunks is a few dozen bytes.
    let header = thresholds.version.min_header() as u32;
    thresholds
        .max_backward_call()
        .min(buffer.saturating_sub(header))
}
