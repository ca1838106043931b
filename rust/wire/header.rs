// SPDX-License-Identifier: GPL-2.0

//! Writes the words before the chunk lists, and the messages without chunk lists.

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
        let mut w = start(self.number(), buf, xid, credits, proc as u32)?;
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

    /// Writes an error in this version about the message with this `xid`. See [`error_as`].
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    //= V2-4.2.1-2 no RPC message follows RDMA2_ERROR
    pub fn error(
        self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        error: ErrorBody,
    ) -> Result<usize, EncodeError> {
        error_as(self.number(), buf, xid, credits, error)
    }
}

/// Starts a message with its four fixed words.
pub(super) fn start(
    version: u32,
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    proc: u32,
) -> Result<Writer<'_>, EncodeError> {
    let prefix = Prefix {
        xid,
        version,
        credits,
        proc,
    };
    let mut writer = Writer::new(buf);
    writer.put(prefix.to_bytes())?;
    Ok(writer)
}

/// Writes an error about the message with this `xid`, with the `version` word of that message,
/// known or not: its sender understands that version, and ERR_VERS has the same form in all.
/// ERR_CHUNK of version one has the form of RFC 8166 section 4.5, which RFC 5666 peers also
/// understand. It also represents [`ErrorBody::InvalidOption`] in any version but two, since only
/// version two has optional operations. Returns the length.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
//= 5666-4.2-4 version otherwise valid at its receiver
//= 8166-4.5-1 ERR_CHUNK has nothing behind
pub fn error_as(
    version: u32,
    buf: &mut [u8],
    xid: u32,
    credits: u32,
    error: ErrorBody,
) -> Result<usize, EncodeError> {
    let mut w = start(version, buf, xid, credits, Proc::Error as u32)?;
    match error {
        ErrorBody::Vers { low, high } => {
            w.word(ERR_VERS)?;
            w.word(low)?;
            w.word(high)?;
        }
        ErrorBody::InvalidOption if version == Version::Two.number() => w.word(ERR_INVAL_OPTION)?,
        ErrorBody::BadHeader | ErrorBody::InvalidOption => w.word(ERR_BAD_HEADER)?,
    }
    Ok(w.written())
}
