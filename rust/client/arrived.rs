// SPDX-License-Identifier: GPL-2.0

//! The two ways in which a reply arrives.

use super::requester::Incoming;

/// How a reply has arrived.
#[derive(Clone, Copy)]
pub(super) enum Arrived<'a, 'm> {
    /// As this message.
    Message(&'a Incoming<'m>),
    /// By RDMA Reads, which a message with these bytes has announced. That message has invalidated
    /// nothing, or was checked when it came.
    Read(&'a [u8]),
}

impl<'a, 'm> Arrived<'a, 'm> {
    /// Returns the bytes of the message.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Message(msg) => msg.bytes(),
            Self::Read(bytes) => bytes,
        }
    }

    /// Returns the message, if it has invalidated an R_key, and the R_key.
    #[inline(always)]
    pub(super) fn invalidated(self) -> Option<(&'a Incoming<'m>, u32)> {
        match self {
            Self::Message(msg) => msg.invalidated().map(|rkey| (msg, rkey)),
            Self::Read(_) => None,
        }
    }
}
