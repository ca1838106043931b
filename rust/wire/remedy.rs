// SPDX-License-Identifier: GPL-2.0

//! The answer to a message that cannot be processed.
//!
//! An error is never answered, nor is a reply: two peers could then answer each other endlessly. A
//! message without XID and version cannot be answered, and is dropped.

use super::message::{ErrorBody, Proc};
use super::{peek, Direction, Prefix, Version};

/// The role of the receiver in the forward direction of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It sends calls, so it mostly receives replies.
    Requester,
    /// It mostly receives calls.
    Responder,
}

/// The reaction to a message that cannot be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Drop it.
    Drop,
    /// Answer it with an error.
    Answer {
        /// The XID of the message.
        xid: u32,
        /// The version word of the message, which the answer repeats.
        version: u32,
        /// The error.
        error: ErrorBody,
    },
}

impl Remedy {
    /// Returns the answer on a connection of `low` to `high`: ERR_VERS with this range, if the
    /// message is in another version.
    pub fn within(self, (low, high): (u32, u32)) -> Self {
        match self {
            Self::Answer { xid, version, .. } if !(low..=high).contains(&version) => Self::Answer {
                xid,
                version,
                error: ErrorBody::Vers { low, high },
            },
            other => other,
        }
    }
}

/// Decides what to do with a message that could not be decoded. `versions` is the inclusive range
/// that the receiver supports.
pub fn answer(bytes: &[u8], receiver: Receiver, versions: (u32, u32)) -> Remedy {
    refuse(bytes, receiver, ErrorBody::BadHeader).within(versions)
}

/// Answers a message with this error, unless it must not be answered.
//= 5666-4.2-2 errors are answered by RDMA_ERROR
//= 5666-4.2-4 version otherwise valid at its receiver
//= 5666-4.2-5 other errors answered by ERR_CHUNK
//= V2-4.2.3-1 errors are handled as in version
pub fn refuse(bytes: &[u8], receiver: Receiver, error: ErrorBody) -> Remedy {
    match ids(bytes) {
        Some((xid, version)) if is_answered(bytes, receiver) => Remedy::Answer {
            xid,
            version,
            error,
        },
        _ => Remedy::Drop,
    }
}

/// Returns the XID and the version of a message, which may lack all other words.
fn ids(bytes: &[u8]) -> Option<(u32, u32)> {
    let &[x0, x1, x2, x3, v0, v1, v2, v3] = bytes.first_chunk()?;
    let words = ([x0, x1, x2, x3], [v0, v1, v2, v3]);
    Some((u32::from_be_bytes(words.0), u32::from_be_bytes(words.1)))
}

/// Returns whether a message may be answered. A reply must not be answered, nor a message that
/// [`Prefix::forbids_answer`] names. A header of version two may show the direction. If it does
/// not, or in another version, the role of the receiver decides.
fn is_answered(bytes: &[u8], receiver: Receiver) -> bool {
    let prefix = peek(bytes).ok();
    if prefix.is_some_and(|prefix| prefix.forbids_answer()) {
        return false;
    }
    match prefix.and_then(|prefix| said(&prefix, bytes)) {
        Some(direction) => direction == Direction::Call,
        None => receiver == Receiver::Responder,
    }
}

/// Returns the direction that the header of a message shows.
fn said(prefix: &Prefix, bytes: &[u8]) -> Option<Direction> {
    // CAST: the discriminants of a `repr(u32)` enum.
    const HAVE_ONE: [u32; 3] = [Proc::Msg as u32, Proc::Nomsg as u32, Proc::Optional as u32];
    if prefix.version != Version::Two.number() || !HAVE_ONE.contains(&prefix.proc) {
        return None;
    }
    let word = bytes.get(Prefix::LEN..)?.first_chunk()?;
    Direction::from_u32(u32::from_be_bytes(*word))
}
