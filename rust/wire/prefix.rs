// SPDX-License-Identifier: GPL-2.0

//! The four words with which a header of any version begins.
//!
//! RFC 5666 section 4.1: "these first four fields and the start of the following message body
//! MUST always remain aligned at these fixed offsets for all versions".

use super::cursor::Cursor;
use super::message::Proc;
use super::{DecodeError, Version, What};

/// `rdma_xid`, `rdma_vers`, `rdma_credit`, `rdma_proc`, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= 5666-4.1-5 first four words have same place
pub struct Prefix {
    /// Transaction ID of the RPC.
    pub xid: u32,
    /// Protocol version.
    pub version: u32,
    /// Credits requested (call) or granted (reply). Not clamped.
    pub credits: u32,
    /// Message type, in the numbering of `version`.
    pub proc: u32,
}

impl Prefix {
    /// Bytes of the four words.
    pub const LEN: usize = 16;

    /// Reads the four words.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        let [x0, x1, x2, x3, v0, v1, v2, v3, c0, c1, c2, c3, p0, p1, p2, p3] = *b;
        Self {
            xid: u32::from_be_bytes([x0, x1, x2, x3]),
            version: u32::from_be_bytes([v0, v1, v2, v3]),
            credits: u32::from_be_bytes([c0, c1, c2, c3]),
            proc: u32::from_be_bytes([p0, p1, p2, p3]),
        }
    }

    /// Returns whether the type of the message forbids an answer: RDMA_ERROR in any version, and
    /// RDMA_DONE, whose number is undefined in version two.
    pub const fn forbids_answer(&self) -> bool {
        // CAST: the discriminants of a `repr(u32)` enum.
        const ERROR: u32 = Proc::Error as u32;
        const DONE: u32 = Proc::Done as u32;
        match self.proc {
            ERROR => true,
            DONE => self.version != Version::Two.number(),
            _ => false,
        }
    }

    /// Reads the four words of a message that must be of this `version`.
    #[inline(always)]
    pub(super) fn decode(c: &mut Cursor<'_>, version: u32) -> Result<Self, DecodeError> {
        let prefix = Self::from_bytes(c.array()?);
        if prefix.version != version {
            return Err(DecodeError::new(What::Version(prefix.version), 4));
        }
        Ok(prefix)
    }

    /// Encodes the four words.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        // The compiler stores one number with one instruction. CAST: widening; `From` is not const.
        let call = (self.xid as u128) << 96 | (self.version as u128) << 64;
        let words = call | (self.credits as u128) << 32 | self.proc as u128;
        words.to_be_bytes()
    }
}

/// Reads only the four fixed words. They suffice to find the request that a message answers, or to
/// log a message that is about to be dropped.
///
/// # Errors
///
/// [`What::Truncated`] when there are fewer than sixteen bytes.
//= 5666-4.1-2 header's XID alone
pub const fn peek(bytes: &[u8]) -> Result<Prefix, DecodeError> {
    match bytes.first_chunk() {
        Some(words) => Ok(Prefix::from_bytes(words)),
        None => Err(DecodeError::new(What::Truncated, bytes.len())),
    }
}
