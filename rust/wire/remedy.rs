// SPDX-License-Identifier: GPL-2.0

//! What to do with a message that cannot be processed.
//!
//! An error is never answered, nor is a reply: two peers could then answer each other for ever. A
//! message of fewer than 16 bytes may lack what an answer needs, and is dropped.

use super::message::ErrorBody;
use super::{peek, DecodeError, Direction, Prefix, Version, What};

/// The role of the receiver in the forward direction of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It has sent calls, so it mostly receives replies.
    Requester,
    /// It mostly receives calls.
    Responder,
}

/// What to do with a message that cannot be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Drop it.
    Drop,
    /// Answer it by an error.
    Answer {
        /// The XID of the message.
        xid: u32,
        /// The version word of the message, which the answer repeats.
        version: u32,
        /// The error.
        error: ErrorBody,
    },
}

/// Decides what to do with a message that could not be decoded. `versions` is the inclusive range
/// that the receiver supports.
//= 5666-4.2-2 errors are answered by RDMA_ERROR
//= 5666-4.2-5 other errors answered by ERR_CHUNK
//= V2-4.2.3-1 errors are handled as in version
pub fn answer(
    bytes: &[u8],
    error: &DecodeError,
    receiver: Receiver,
    versions: (u32, u32),
) -> Remedy {
    let Ok(prefix) = peek(bytes) else {
        return Remedy::Drop;
    };
    if !is_answered(&prefix, bytes, receiver) {
        return Remedy::Drop;
    }
    Remedy::Answer {
        xid: prefix.xid,
        version: prefix.version,
        error: error.body(versions),
    }
}

/// Returns whether a message may be answered. A reply may not, nor what
/// [`Prefix::forbids_answer`] names. The header of version two shows its direction. If it does not,
/// or in another version, the role of the receiver decides.
fn is_answered(prefix: &Prefix, bytes: &[u8], receiver: Receiver) -> bool {
    if prefix.forbids_answer() {
        return false;
    }
    match said(prefix, bytes) {
        Some(direction) => direction == Direction::Call,
        None => receiver == Receiver::Responder,
    }
}

/// Returns the direction that the header of a message shows.
fn said(prefix: &Prefix, bytes: &[u8]) -> Option<Direction> {
    if prefix.version != Version::Two.number() {
        return None;
    }
    let word = bytes.get(Prefix::LEN..)?.first_chunk()?;
    Direction::from_u32(u32::from_be_bytes(*word))
}

impl DecodeError {
    /// Returns the error about a message that could not be decoded.
    const fn body(&self, (low, high): (u32, u32)) -> ErrorBody {
        match self.what {
            What::Version(_) => ErrorBody::Vers { low, high },
            _ => ErrorBody::BadHeader,
        }
    }
}
