// SPDX-License-Identifier: GPL-2.0

//! Protocol versions and message directions.

/// A version of the protocol that this module supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Version {
    /// RFC 8166 and RFC 5666.
    One = 1,
    /// draft-cel-nfsv4-rpcrdma-version-two-01.
    Two = 2,
}

impl Version {
    /// Returns the version with this number, if it is supported.
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    /// Returns the number in `rdma_vers`.
    pub const fn number(self) -> u32 {
        // CAST: the discriminants of a `repr(u32)` enum.
        self as u32
    }

    /// Returns the inline threshold in bytes of a peer that has announced none.
    pub const fn default_inline(self) -> u32 {
        match self {
            Self::One => super::v1::DEFAULT_INLINE,
            Self::Two => super::v2::DEFAULT_INLINE,
        }
    }

    /// Returns the length in bytes of the header of a message with everything inline.
    pub const fn min_header(self) -> usize {
        match self {
            Self::One => super::v1::len::MIN,
            Self::Two => super::v2::len::MIN,
        }
    }

    /// Returns the length in bytes of a header with `reads` read segments, one write chunk of
    /// `write` segments unless `None`, and a reply chunk of `reply` segments unless `None`.
    pub fn header_len(self, reads: usize, write: Option<usize>, reply: Option<usize>) -> usize {
        match self {
            Self::One => super::v1::len::header(reads, write, reply),
            Self::Two => super::v2::len::header(reads, write, reply),
        }
    }
}

/// Whether a message belongs to a call or to a reply: `enum msg_type` of RFC 5531 section 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// From requester to responder.
    Call = 0,
    /// From responder to requester.
    Reply = 1,
}

impl Direction {
    /// Returns the direction with this number.
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            0 => Some(Self::Call),
            1 => Some(Self::Reply),
            _ => None,
        }
    }

    /// Returns the direction of an RPC message, from its second word. `None` if the message is too
    /// short, or if the word is no direction.
    //= 8167-4-2 direction told by RPC message type
    pub const fn of_rpc(message: &[u8]) -> Option<Self> {
        match message.first_chunk() {
            Some(&[_, _, _, _, m0, m1, m2, m3]) => {
                Self::from_u32(u32::from_be_bytes([m0, m1, m2, m3]))
            }
            None => None,
        }
    }
}
