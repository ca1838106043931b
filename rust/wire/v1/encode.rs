// SPDX-License-Identifier: GPL-2.0

//! Encoding a version-one header into a caller's buffer.

use super::super::encode::Writer;
use super::super::{EncodeError, ListProc, Prefix, ReadListWriter};
use super::{ErrorBody, Proc, ERR_CHUNK, ERR_VERS, VERSION};

/// Starts a header that carries chunk lists. `credits` is the number requested (call) or
/// granted (reply, never zero).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[inline]
//= 5666-3.3-1
pub fn begin(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    proc: ListProc,
) -> Result<ReadListWriter<'_>, EncodeError> {
    // CAST: the discriminants of a `repr(u32)` enum, here and below.
    Ok(start(buf, xid, credits, proc as u32)?.lists())
}

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
    let mut w = start(buf, xid, credits, Proc::Msgp as u32)?;
    w.word(align)?;
    w.word(thresh)?;
    Ok(w.lists())
}

/// Writes the whole header of an RDMA_MSG without chunks. Returns its length, [`super::len::MIN`].
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[inline]
pub fn inline(buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
    begin(buf, xid, credits, ListProc::Msg)?.finish()
}

/// Writes RDMA_DONE (RFC 5666 section 3.8). Returns its length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= 5666-4.1-7
pub fn done(buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
    Ok(start(buf, xid, credits, Proc::Done as u32)?.written())
}

/// Writes RDMA_ERROR in the form of RFC 8166 section 4.5, which RFC 5666 peers understand too.
/// `xid` is that of the message complained about. Returns the length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= 8166-4.5-1
pub fn error(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    error: ErrorBody,
) -> Result<usize, EncodeError> {
    let mut w = start(buf, xid, credits, Proc::Error as u32)?;
    match error {
        ErrorBody::Vers { low, high } => {
            w.word(ERR_VERS)?;
            w.word(low)?;
            w.word(high)?;
        }
        ErrorBody::Chunk => w.word(ERR_CHUNK)?,
    }
    Ok(w.written())
}

#[inline]
fn start(buf: &mut [u8], xid: u32, credits: u32, proc: u32) -> Result<Writer<'_>, EncodeError> {
    let prefix = Prefix {
        xid,
        version: VERSION,
        credits,
        proc,
    };
    Writer::start(buf, prefix)
}
