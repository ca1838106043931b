// SPDX-License-Identifier: GPL-2.0

//! The decoded message. Both versions share this type, so that callers do not branch on the
//! version.

use super::{Direction, Lists, Prefix, Version};

/// A decoded message of either version. Its accessors cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    version: Version,
    direction: Option<Direction>,
    xid: u32,
    credits: u32,
    header_len: usize,
    body: Body<'a>,
}

/// Message types, `enum rdma_proc` (RFC 8166 section 4.2.4) and `enum rpcrdma2_proc`. Both versions
/// use the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Proc {
    /// Chunk lists, then an RPC message.
    Msg = 0,
    /// Chunk lists only; the RPC message is in a chunk.
    Nomsg = 1,
    /// As `Msg`, with padding in the RPC message (RFC 5666 only).
    Msgp = 2,
    /// The requester has read the reply's read chunks (RFC 5666 only).
    Done = 3,
    /// A message could not be processed.
    Error = 4,
    /// An optional operation (version two only).
    Optional = 5,
}

/// The content of a message, by its type.
// The tag takes a whole word, so that the compiler builds and moves a body word by word. Decoding a
// message without chunks then takes 43 instructions instead of 51.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
//= 5666-4.1-8 depends on the message type
//= V2-4.2.1-3 all, part or nothing
pub enum Body<'a> {
    /// An RPC message, inline: RDMA_MSG, RDMA2_MSG.
    Msg {
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message, without the parts that are in read chunks.
        payload: &'a [u8],
    },
    /// An RPC message in a chunk: RDMA_NOMSG, RDMA2_NOMSG.
    Nomsg {
        /// The chunk lists.
        lists: Lists<'a>,
    },
    /// An RPC message with padding: RDMA_MSGP, version one only.
    Msgp {
        /// Padding alignment in bytes.
        align: u32,
        /// Size in bytes at or above which opaque data is padded.
        thresh: u32,
        /// The chunk lists.
        lists: Lists<'a>,
        /// The RPC message with its padding.
        payload: &'a [u8],
    },
    /// A reply's read chunks have been read: RDMA_DONE, version one only.
    Done,
    /// An earlier message could not be processed.
    Error(ErrorBody),
    /// An optional operation: RDMA2_OPTIONAL, version two only.
    Optional {
        /// The operation.
        opttype: u32,
        /// Its data.
        optinfo: &'a [u8],
        /// All, part or nothing of an RPC message.
        payload: &'a [u8],
    },
}

/// The error with which the peer answered a message. Version two has every error of version one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// ERR_VERS: the inclusive range of versions that the peer supports. The order is not checked.
    Vers {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// An error in the header or its chunks: ERR_CHUNK, with or without the eight words of padding
    /// of RFC 5666, or RDMA2_ERR_BAD_HEADER.
    BadHeader,
    /// RDMA2_ERR_INVAL_OPTION: the operation of an RDMA2_OPTIONAL is not known or supported.
    /// Version one has no such error.
    InvalidOption,
}

impl<'a> Message<'a> {
    /// Makes a message of its decoded parts.
    #[inline(always)]
    pub(super) const fn new(
        version: Version,
        direction: Option<Direction>,
        prefix: &Prefix,
        header_len: usize,
        body: Body<'a>,
    ) -> Self {
        Self {
            version,
            direction,
            xid: prefix.xid,
            credits: prefix.credits,
            header_len,
            body,
        }
    }

    /// Returns the version of the message.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the transaction ID, in the XID space of the message's direction.
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the credits requested (call) or granted (reply), as sent. Clamp them before use.
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Returns the direction that the header names, or that follows from the message type. `None`
    /// for version-one messages with chunk lists: there only the RPC message shows it.
    pub const fn direction(&self) -> Option<Direction> {
        self.direction
    }

    /// Returns the length of the header in bytes. An RPC message, if there is one, starts there.
    #[cfg(any(RPCRDMA_LEGACY, RPCRDMA_KUNIT))]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// Returns the content of the message.
    pub const fn body(&self) -> &Body<'a> {
        &self.body
    }

    /// Returns the message type.
    pub const fn proc(&self) -> Proc {
        match self.body {
            Body::Msg { .. } => Proc::Msg,
            Body::Nomsg { .. } => Proc::Nomsg,
            Body::Msgp { .. } => Proc::Msgp,
            Body::Done => Proc::Done,
            Body::Error(_) => Proc::Error,
            Body::Optional { .. } => Proc::Optional,
        }
    }

    /// Returns the chunk lists, if the message has any.
    pub const fn lists(&self) -> Option<&Lists<'a>> {
        match &self.body {
            Body::Msg { lists, .. } | Body::Nomsg { lists } | Body::Msgp { lists, .. } => {
                Some(lists)
            }
            Body::Done | Body::Error(_) | Body::Optional { .. } => None,
        }
    }

    /// Returns the inline part of the RPC message. It is empty when there is none.
    pub const fn payload(&self) -> &'a [u8] {
        match self.body {
            Body::Msg { payload, .. }
            | Body::Msgp { payload, .. }
            | Body::Optional { payload, .. } => payload,
            Body::Nomsg { .. } | Body::Done | Body::Error(_) => &[],
        }
    }

    /// Returns the direction of the message, from the header or else from the RPC message behind
    /// it.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] in three cases: header and RPC message disagree (version two, section 4.2.2);
    /// the XID of an inline RPC message differs from the header's (RFC 5666 section 4.1); a message
    /// that must carry an RPC message carries none (version two, section 4.2.1).
    //= 5666-4.1-1 header's XID that of message
    //= 5666-4.1-6 followed by an RPC message
    //= V2-4.2.1-1 RPC message follows RDMA2_MSG
    //= V2-4.2.2-2 direction is that of RPC message
    pub fn check_direction(&self) -> Result<Option<Direction>, Mismatch> {
        let rpc = match self.body {
            Body::Msg { payload, .. } | Body::Msgp { payload, .. } => payload,
            Body::Optional { payload, .. } => return self.check_partial(payload),
            Body::Nomsg { .. } | Body::Done | Body::Error(_) => return Ok(self.direction()),
        };
        let xid = rpc.first_chunk().ok_or(Mismatch::NoMessage)?;
        if u32::from_be_bytes(*xid) != self.xid {
            return Err(Mismatch::Xid);
        }
        let direction = Direction::of_rpc(rpc).ok_or(Mismatch::Direction)?;
        match self.direction() {
            Some(said) if said != direction => Err(Mismatch::Direction),
            _ => Ok(Some(direction)),
        }
    }
}

impl Message<'_> {
    /// Returns the direction as [`Message::check_direction`] does, and also checks a message whose
    /// RPC message is in a chunk.
    ///
    /// # Errors
    ///
    /// Those of [`Message::check_direction`]; [`Mismatch::NoMessage`] if no chunk can have it.
    //= V2-5-3 valid reply settles
    pub fn check_whole(&self) -> Result<Option<Direction>, Mismatch> {
        match self.body {
            Body::Nomsg { lists } if !self.is_long(&lists) => Err(Mismatch::NoMessage),
            _ => self.check_direction(),
        }
    }

    /// Returns whether the chunks of a message without an inline part can hold an RPC message: a
    /// call in a read chunk at position zero, a reply in the reply chunk or in a read chunk (RFC
    /// 5666 section 5.2).
    fn is_long(&self, lists: &Lists<'_>) -> bool {
        let read = lists
            .read_list()
            .any(|read| read.position == 0 && read.segment.length != 0);
        let reply = || {
            lists
                .reply_chunk()
                .is_some_and(|chunk| chunk.total_len() != 0)
        };
        read || self.direction() != Some(Direction::Call) && reply()
    }

    /// Returns the direction of an optional operation. Any part of an RPC message may follow the
    /// operation; the part is its beginning if it starts with the same XID.
    //= V2-4.2.2-4 direction of an optional operation
    fn check_partial(&self, rpc: &[u8]) -> Result<Option<Direction>, Mismatch> {
        let begins = rpc.first_chunk().map(|xid| u32::from_be_bytes(*xid)) == Some(self.xid);
        match (self.direction(), Direction::of_rpc(rpc)) {
            (Some(said), Some(found)) if begins && said != found => Err(Mismatch::Direction),
            _ => Ok(self.direction()),
        }
    }
}

/// A disagreement between a header and the RPC message behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// There is no RPC message where there must be one.
    NoMessage,
    /// Their XIDs differ.
    Xid,
    /// Their directions differ, or the RPC message has none.
    Direction,
}
