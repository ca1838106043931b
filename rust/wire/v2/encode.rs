// SPDX-License-Identifier: GPL-2.0

//! Encoding a version-two header into a caller's buffer.

use super::super::encode::Writer;
use super::super::{Direction, EncodeError, ListProc, Prefix, ReadListWriter};
use super::{ErrorBody, Proc, ERR_BAD_HEADER, ERR_INVAL_OPTION, ERR_VERS, VERSION};

/// Starts a header that carries chunk lists. `direction` is that of the RPC message
/// (section 4.2.2).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[inline]
pub fn begin(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    proc: ListProc,
) -> Result<ReadListWriter<'_>, EncodeError> {
    // CAST: the discriminants of a `repr(u32)` enum, here and below.
    let mut w = start(buf, xid, credits, proc as u32)?;
    w.word(direction as u32)?;
    Ok(w.lists())
}

/// Writes RDMA2_ERROR. `xid` is that of the message complained about (section 3.1). Returns the
/// length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= V2-4.2.1-2
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
        ErrorBody::BadHeader => w.word(ERR_BAD_HEADER)?,
        ErrorBody::InvalidOption => w.word(ERR_INVAL_OPTION)?,
    }
    Ok(w.written())
}

/// Starts RDMA2_OPTIONAL.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= V2-3.1-2 V2-4.2.2-6
pub fn optional(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    opttype: u32,
) -> Result<OptionalWriter<'_>, EncodeError> {
    let mut w = start(buf, xid, credits, Proc::Optional as u32)?;
    w.word(direction as u32)?;
    w.word(opttype)?;
    let len_at = w.array()?;
    // As long as the message is unfinished, no message is long enough for it.
    *len_at = [0xff; 4];
    let start = w.written();
    Ok(OptionalWriter { w, len_at, start })
}

/// Writes `rdma_optinfo`.
#[derive(Debug)]
#[must_use = "an optional operation that is not finished is not a message"]
pub struct OptionalWriter<'b> {
    w: Writer<'b>,
    len_at: &'b mut [u8; 4],
    start: usize,
}

impl OptionalWriter<'_> {
    /// Appends a 32-bit word.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn word(&mut self, word: u32) -> Result<(), EncodeError> {
        self.w.word(word)
    }

    /// Appends bytes as they are.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.w.bytes(bytes)
    }

    /// Appends counted opaque data with its padding.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn opaque(&mut self, data: &[u8]) -> Result<(), EncodeError> {
        self.w
            .word(u32::try_from(data.len()).map_err(|_| EncodeError::NoRoom)?)?;
        self.w.bytes(data)?;
        pad(&mut self.w, data.len())
    }

    /// Finishes the operation, with padding if need be. Returns the header's length in bytes; an
    /// RPC message may follow.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    //= XC-4-5
    pub fn finish(mut self) -> Result<usize, EncodeError> {
        let len = self.w.written().wrapping_sub(self.start);
        pad(&mut self.w, len)?;
        let len = u32::try_from(len).map_err(|_| EncodeError::NoRoom)?;
        *self.len_at = len.to_be_bytes();
        Ok(self.w.written())
    }
}

/// Appends zeros up to a multiple of four.
fn pad(w: &mut Writer<'_>, len: usize) -> Result<(), EncodeError> {
    for _ in 0..len.wrapping_neg() % 4 {
        w.put([0])?;
    }
    Ok(())
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
