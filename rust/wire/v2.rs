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
//! Section 3.2 says that the error structure has a direction field. The XDR of section 4.2 has
//! none, and by section 4.2.2 the direction of an error is always REPLY. This module follows the
//! XDR.

mod decode;
mod encode;
pub mod len;
mod lower;

pub(super) use decode::Decoder;
pub use encode::{optional, OptionalWriter};
pub use lower::to_version_one;

/// Inline threshold in bytes of a peer that has announced none (section 2.3).
pub const DEFAULT_INLINE: u32 = 4096;

/// Most bytes of a connection's first message, since the peer may support version one only (section
/// 5).
pub const FIRST_MESSAGE_MAX: u32 = super::v1::DEFAULT_INLINE;
