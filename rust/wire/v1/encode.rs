// SPDX-License-Identifier: GPL-2.0

//! Encodes the message types that only RFC 5666 has.

use super::super::message::Proc;
use super::super::{EncodeError, ReadListWriter, Version};

/// The bytes of the words `align` and `thresh` that RDMA_MSGP adds to the header.
pub const PADDING: usize = 8;

/// Starts an RDMA_MSGP header (RFC 5666 section 3.9; not for RFC 8166 peers).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub fn begin_padded(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    align: u32,
    thresh: u32,
) -> Result<ReadListWriter<'_>, EncodeError> {
    // CAST: the discriminants of a `repr(u32)` enum, here and below.
    let mut w = Version::One.start(buf, xid, credits, Proc::Msgp as u32)?;
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
pub fn done(buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
    let w = Version::One.start(buf, xid, credits, Proc::Done as u32)?;
    Ok(w.written())
}
