// SPDX-License-Identifier: GPL-2.0

//! Calls in the backward direction: the responder of a connection asks, its requester answers.
//!
//! State: live.
//!
//! RFC 8167. A backward message travels as RDMA_MSG with everything inline. Its direction shows
//! in the RPC message alone, and XIDs and credits of the two directions have nothing to do with
//! each other. The peer asks for backward credits with its calls; how many it has is told in our
//! replies.

use super::super::wire::message::Body;
use super::super::wire::{Direction, Message};
use super::inline::Thresholds;

/// Credits granted in the backward direction, and with them the calls that a peer may have
/// outstanding.
pub const CREDITS: u32 = 16;

/// Why a call is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It came in another form than RDMA_MSG.
    Form,
    /// It has chunks.
    Chunks,
    /// The RPC message's XID is not that of the transport header.
    Xid,
    /// It is longer than there is room for.
    TooLong,
    /// More calls are outstanding than were ever granted.
    Overflow,
    /// There is nobody to serve it, not yet or not any more.
    NotServed,
}

impl Refusal {
    /// Whether the peer has broken the protocol. That nobody serves a call is a matter of moments
    /// while a service starts or ends.
    pub const fn is_breach(self) -> bool {
        !matches!(self, Self::NotServed)
    }

    /// Whether the connection has to go. A peer that does not count its credits would fill
    /// the Receives that replies in the other direction need; what is merely malformed is dropped.
    //= 8167-4-3 each direction has its own credits
    pub const fn ends_connection(self) -> bool {
        matches!(self, Self::Overflow)
    }
}

/// Whether a message is a call, and so belongs to the backward direction when a requester
/// receives it. XIDs do not tell: the two directions may use the same.
#[inline]
//= 8167-4-2 direction told by RPC message type
pub const fn is_call(message: &Message<'_>) -> bool {
    matches!(Direction::of_rpc(message.payload()), Some(Direction::Call))
}

/// The RPC message of a call, of `max` bytes at most.
///
/// # Errors
///
/// See [`Refusal`].
//= 8167-4-1 no chunks and fit inline
pub fn message<'a>(call: &Message<'a>, max: u32) -> Result<&'a [u8], Refusal> {
    let Body::Msg { lists, payload } = *call.body() else {
        return Err(Refusal::Form);
    };
    if !lists.is_empty() {
        return Err(Refusal::Chunks);
    }
    if payload.first_chunk() != Some(&call.xid().to_be_bytes()) {
        return Err(Refusal::Xid);
    }
    // CAST: lossless where `usize` has 32 bits or more.
    if payload.len() > max as usize {
        return Err(Refusal::TooLong);
    }
    Ok(payload)
}

/// Longest RPC message, call or reply, that a connection carries in the backward direction and
/// that fits a buffer together with its header of `buffer` bytes at most. In a reply the client
/// is the sender.
//= 8167-4-1 no chunks and fit inline
pub fn max_message(thresholds: &Thresholds, buffer: u32) -> u32 {
    // CAST: a header without chunks is a few dozen bytes.
    let header = thresholds.version.min_header() as u32;
    thresholds
        .max_backward_call()
        .min(thresholds.max_backward_reply())
        .min(buffer.saturating_sub(header))
}
