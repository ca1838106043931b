// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version one: RFC 8166, and RFC 5666 where a peer can only be of that age.
//!
//! ```text
//! word  0    1       2        3
//!      xid  vers=1  credits  proc
//!  proc 0  RDMA_MSG    read list, write list, reply chunk, RPC message
//!       1  RDMA_NOMSG  read list, write list, reply chunk
//!       2  RDMA_MSGP   align, thresh, read list, write list, reply chunk, RPC message   (5666)
//!       3  RDMA_DONE                                                                    (5666)
//!       4  RDMA_ERROR  1 ERR_VERS low high  |  2 ERR_CHUNK [eight words in 5666]
//! ```

mod decode;
mod encode;
pub mod len;

pub use super::ListProc;
pub use decode::{decode, Body, ErrorBody, Header};
pub use encode::{begin, begin_padded, done, error, inline};

/// Version number of this protocol.
pub const VERSION: u32 = 1;

/// Inline threshold in bytes of a peer that has announced none (RFC 8166 section 3.3.3).
pub const DEFAULT_INLINE: u32 = 1024;

/// Message types, `enum rdma_proc` (RFC 8166 section 4.2.4).
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
    /// A request could not be understood.
    Error = 4,
}

impl Proc {
    /// The type with this number, if the version has one.
    #[inline]
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            0 => Some(Self::Msg),
            1 => Some(Self::Nomsg),
            2 => Some(Self::Msgp),
            3 => Some(Self::Done),
            4 => Some(Self::Error),
            _ => None,
        }
    }
}

/// `ERR_VERS` and `ERR_CHUNK`, `enum rpc_rdma_errcode`.
pub(super) const ERR_VERS: u32 = 1;
pub(super) const ERR_CHUNK: u32 = 2;
