// SPDX-License-Identifier: GPL-2.0

//! Encodes RDMA2_OPTIONAL.

use super::super::encode::Writer;
use super::super::message::Proc;
use super::super::{Direction, EncodeError, Version};

/// Starts RDMA2_OPTIONAL.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= V2-3.1-2 optional operations may be supported
//= V2-4.2.2-6 XID and credits of optional operation
pub fn optional(
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    direction: Direction,
    opttype: u32,
) -> Result<OptionalWriter<'_>, EncodeError> {
    // CAST: the discriminants of `repr(u32)` enums.
    let mut w = Version::Two.start(buf, xid, credits, Proc::Optional as u32)?;
    w.word(direction as u32)?;
    w.word(opttype)?;
    let len_at = w.array()?;
    // No message is long enough for this length, so an unfinished message does not decode.
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

    /// Appends counted opaque data with its padding.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn opaque(&mut self, data: &[u8]) -> Result<(), EncodeError> {
        self.w
            .word(u32::try_from(data.len()).map_err(|_| EncodeError::NoRoom)?)?;
        self.w.bytes(data)?;
        for _ in 0..data.len().wrapping_neg() % 4 {
            self.w.put([0])?;
        }
        Ok(())
    }

    /// Finishes the operation. Returns the header's length in bytes. An RPC message may follow.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    //= XC-4-5 no RPC message follows these operations
    pub fn finish(self) -> Result<usize, EncodeError> {
        // A whole number of words.
        let len = self.w.written().wrapping_sub(self.start);
        let len = u32::try_from(len).map_err(|_| EncodeError::NoRoom)?;
        *self.len_at = len.to_be_bytes();
        Ok(self.w.written())
    }
}
