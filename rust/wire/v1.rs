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

#[cfg(RPCRDMA_LEGACY)]
use super::header::start;
#[cfg(RPCRDMA_LEGACY)]
use super::{EncodeError, Proc, ReadListWriter, Version};

/// Inline threshold in bytes of a peer that has announced none (RFC 8166 section 3.3.3).
pub const DEFAULT_INLINE: u32 = 1024;

/// The bytes of the words `align` and `thresh` that RDMA_MSGP adds to the header.
#[cfg(RPCRDMA_LEGACY)]
pub const PADDING: usize = 8;

/// Starts an RDMA_MSGP header (RFC 5666 section 3.9; not for RFC 8166 peers).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[cfg(RPCRDMA_LEGACY)]
pub fn begin_padded(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    align: u32,
    thresh: u32,
) -> Result<ReadListWriter<'_>, EncodeError> {
    // CAST: the discriminants of a `repr(u32)` enum, here and below.
    let mut w = start(Version::One.number(), buf, xid, credits, Proc::Msgp as u32)?;
    w.word(align)?;
    w.word(thresh)?;
    Ok(w.lists())
}

/// Writes RDMA_DONE (RFC 5666 section 3.8). Returns its length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= 5666-4.1-7 nothing follows RDMA_DONE and RDMA_ERROR
#[cfg(RPCRDMA_LEGACY)]
pub fn done(buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
    let w = start(Version::One.number(), buf, xid, credits, Proc::Done as u32)?;
    Ok(w.written())
}

pub mod len {
    //! Lengths in bytes of version-one headers, before they are written.

    use super::super::{ReadSegment, Segment};

    /// Four fixed words and three absent lists: the header of a message with everything inline.
    pub const MIN: usize = 28;

    /// Returns the bytes that one write chunk of `segments` segments adds to [`MIN`].
    pub const fn write_chunk(segments: usize) -> usize {
        segments.saturating_mul(Segment::LEN).saturating_add(8)
    }

    /// Returns the bytes that a reply chunk of `segments` segments adds to [`MIN`].
    pub const fn reply_chunk(segments: usize) -> usize {
        segments.saturating_mul(Segment::LEN).saturating_add(4)
    }

    /// Returns the length of a header with `reads` read segments, one write chunk of `write`
    /// segments unless `None`, and a reply chunk of `reply` segments unless `None`.
    pub fn header(reads: usize, write: Option<usize>, reply: Option<usize>) -> usize {
        MIN.saturating_add(reads.saturating_mul(ReadSegment::LEN))
            .saturating_add(write.map_or(0, write_chunk))
            .saturating_add(reply.map_or(0, reply_chunk))
    }
}
