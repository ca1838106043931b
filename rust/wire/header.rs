// SPDX-License-Identifier: GPL-2.0

//! Writes the words before the chunk lists, and the messages without chunk lists.
//!
//! State: live.

use super::decode::{ERR_BAD_HEADER, ERR_INVAL_OPTION, ERR_VERS};
use super::encode::Writer;
use super::message::{ErrorBody, Proc};
use super::{Direction, EncodeError, ListProc, Prefix, ReadListWriter, Version};

impl Version {
    /// Starts a header with chunk lists. `credits` is the number requested (call) or granted
    /// (reply, never zero). The header of version one has no direction; only the RPC message shows
    /// it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    #[inline]
    //= 5666-3.3-1 call requests any number of credits
    pub fn begin(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        direction: Direction,
        proc: ListProc,
    ) -> Result<ReadListWriter<'_>, EncodeError> {
        // CAST: reads the discriminant of a `repr(u32)` enum.
        let mut w = self.start(buf, xid, credits, proc as u32)?;
        if self == Self::Two {
            w.word(direction as u32)?;
        }
        Ok(w.lists())
    }

    /// Writes the whole header of an inline RPC message without chunks. Returns its length,
    /// [`Version::min_header`].
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn inline(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        direction: Direction,
    ) -> Result<usize, EncodeError> {
        self.begin(buf, xid, credits, direction, ListProc::Msg)?
            .finish()
    }

    /// Writes an error about the message with this `xid`. ERR_CHUNK of version one has the form of
    /// RFC 8166 section 4.5, which RFC 5666 peers understand too. In version one it also stands for
    /// [`ErrorBody::InvalidOption`], since version one has no optional operations. Returns the
    /// length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    //= 5666-4.2-4 version otherwise valid at its receiver
    //= 8166-4.5-1 ERR_CHUNK has nothing behind
    //= V2-4.2.1-2 no RPC message follows RDMA2_ERROR
    pub fn error(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        error: ErrorBody,
    ) -> Result<usize, EncodeError> {
        let mut w = self.start(buf, xid, credits, Proc::Error as u32)?;
        match (error, self) {
            (ErrorBody::Vers { low, high }, _) => {
                w.word(ERR_VERS)?;
                w.word(low)?;
                w.word(high)?;
            }
            (ErrorBody::BadHeader, _) | (ErrorBody::InvalidOption, Self::One) => {
                w.word(ERR_BAD_HEADER)?;
            }
            (ErrorBody::InvalidOption, Self::Two) => w.word(ERR_INVAL_OPTION)?,
        }
        Ok(w.written())
    }

    /// Starts a message with its four fixed words.
    #[inline]
    pub(super) fn start(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        proc: u32,
    ) -> Result<Writer<'_>, EncodeError> {
        let prefix = Prefix {
            xid,
            version: self.number(),
            credits,
            proc,
        };
        Writer::start(buf, prefix)
    }
}
