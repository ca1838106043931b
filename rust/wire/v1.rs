// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version one: RFC 8166, and the messages that only RFC 5666 has.
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
#[cfg(RPCRDMA_LEGACY)]
mod encode;
pub mod len;

pub(super) use decode::Decoder;
#[cfg(RPCRDMA_LEGACY)]
pub use encode::{begin_padded, done, PADDING};

/// Inline threshold in bytes of a peer that has announced none (RFC 8166 section 3.3.3).
pub const DEFAULT_INLINE: u32 = 1024;
