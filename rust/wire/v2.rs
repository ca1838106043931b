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

use super::encode::Writer;
use super::header::start;
use super::{Direction, EncodeError, Prefix, Proc, Version};

/// Inline threshold in bytes of a peer that has announced none (section 2.3).
pub const DEFAULT_INLINE: u32 = 4096;

/// Maximum number of bytes of a connection's first message, since the peer may support version one
/// only (section 5).
pub const FIRST_MESSAGE_MAX: u32 = super::v1::DEFAULT_INLINE;

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
    let mut w = start(
        Version::Two.number(),
        buf,
        xid,
        credits,
        Proc::Optional as u32,
    )?;
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

/// Writes `message`, which is RDMA2_MSG or RDMA2_NOMSG, to `out` as RDMA_MSG or RDMA_NOMSG. Returns
/// the length.
///
/// A responder that has no version two answers the first call with ERR_VERS. The requester then
/// sends the same call again in version one (section 5.2). Both versions write chunk lists alike,
/// and the segments are still valid, so only the header's first words change.
///
/// # Errors
///
/// [`EncodeError`] if `out` is too short, or if `message` is not of these types and version.
//= V2-5.2-6 requester picks a version of the range
pub fn to_version_one(message: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
    let (prefix, rest) = message.split_first_chunk().ok_or(EncodeError::NoRoom)?;
    let prefix = Prefix::from_bytes(prefix);
    // CAST: the discriminants of a `repr(u32)` enum.
    let has_lists = [Proc::Msg as u32, Proc::Nomsg as u32].contains(&prefix.proc);
    if prefix.version != Version::Two.number() || !has_lists {
        return Err(EncodeError::NoRoom);
    }
    let lists = rest.get(len::DIRECTION..).ok_or(EncodeError::NoRoom)?;
    let version = Version::One.number();
    let (head, tail) = out.split_first_chunk_mut().ok_or(EncodeError::NoRoom)?;
    *head = Prefix { version, ..prefix }.to_bytes();
    tail.get_mut(..lists.len())
        .ok_or(EncodeError::NoRoom)?
        .copy_from_slice(lists);
    Ok(message.len().saturating_sub(len::DIRECTION))
}

pub mod len {
    //! Lengths in bytes of version-two headers, before they are written.

    use super::super::v1;

    /// The direction word, which version two adds to a header with chunk lists.
    pub const DIRECTION: usize = 4;

    /// Four fixed words, direction and three absent lists.
    pub const MIN: usize = 32;

    /// Returns the length of a header with chunk lists. The arguments are those of
    /// [`v1::len::header`].
    pub fn header(reads: usize, write: Option<usize>, reply: Option<usize>) -> usize {
        v1::len::header(reads, write, reply).saturating_add(DIRECTION)
    }
}
