// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version two: draft-cel-nfsv4-rpcrdma-version-two-01, section 4.
//!
//! ```text
//! word  0    1       2        3
//!      xid  vers=2  credits  proc
//!  proc 0  RDMA2_MSG       direction, read list, write list, reply chunk, RPC message
//!       1  RDMA2_NOMSG     direction, read list, write list, reply chunk
//!       4  RDMA2_ERROR     1 ERR_VERS low high  |  2 BAD_HEADER  |  3 INVAL_OPTION
//!       5  RDMA2_OPTIONAL  direction, opttype, optinfo<>, any part of an RPC message
//! ```
//!
//! The text says in section 3.2 that the error structure has got a direction field; the XDR of
//! section 4.2 has none, and section 4.2.2 makes the direction of an error a matter of course. The
//! XDR decides.

mod decode;
mod encode;
pub mod len;

pub use decode::{decode, Body, ErrorBody, Header};
pub use encode::{begin, error, optional, OptionalWriter};

/// Version number of this protocol.
pub const VERSION: u32 = 2;

/// Inline threshold in bytes of a peer that has announced none (section 2.3).
pub const DEFAULT_INLINE: u32 = 4096;

/// Most bytes of a connection's first message: the peer may speak version one only (section 5).
pub const FIRST_MESSAGE_MAX: u32 = super::v1::DEFAULT_INLINE;

/// Message types, `enum rpcrdma2_proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Proc {
    /// Chunk lists, then an RPC message.
    Msg = 0,
    /// Chunk lists only; the RPC message is in a chunk.
    Nomsg = 1,
    /// A message could not be processed.
    Error = 4,
    /// An optional operation.
    Optional = 5,
}

impl Proc {
    /// The type with this number, if the version has one.
    #[inline]
    pub const fn from_u32(n: u32) -> Option<Self> {
        match n {
            0 => Some(Self::Msg),
            1 => Some(Self::Nomsg),
            4 => Some(Self::Error),
            5 => Some(Self::Optional),
            _ => None,
        }
    }
}

/// `enum rpcrdma2_errcode`.
pub(super) const ERR_VERS: u32 = 1;
pub(super) const ERR_BAD_HEADER: u32 = 2;
pub(super) const ERR_INVAL_OPTION: u32 = 3;
