// SPDX-License-Identifier: GPL-2.0

//! A long reply to a call with a reply chunk of one segment and no write chunk: to a READDIR of an
//! ordinary client.

use super::super::super::super::wire::{
    v1, Direction, EncodeError, ListProc, Lists, Segment, Version,
};
use super::super::super::inline::Thresholds;
use super::{range, Write};

/// How such a reply is sent: all of it by one RDMA Write. [`Plan`] says the same, with more effort.
///
/// [`Plan`]: super::Plan
///
/// # Invariants
///
/// - The reply fits the segment, and does not fit the threshold.
/// - The header is no longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    segment: Segment,
    version: Version,
    len: u32,
}

impl Long {
    /// Plans a reply of `len` bytes. `offered` are the lists of the call. Returns `None` for any
    /// other reply, and for one that cannot be sent.
    #[inline]
    //= 8166-3.5-1 reply as a long reply
    pub fn new(len: u32, offered: &Lists<'_>, thresholds: &Thresholds) -> Option<Self> {
        let segment = offered.only_reply()?;
        // INVARIANT: the lengths are checked below.
        let plan = Self {
            segment,
            version: thresholds.version,
            len,
        };
        let room = thresholds.server_to_client.checked_sub(plan.send_len())?;
        (len > room && len <= segment.length).then_some(plan)
    }

    /// Returns the length in bytes of what the Send carries: the header.
    #[inline]
    pub const fn send_len(&self) -> u32 {
        // CAST: two small constants.
        self.version
            .min_header()
            .saturating_add(v1::len::reply_chunk(1)) as u32
    }

    /// Returns the RDMA Write of the reply.
    #[inline]
    pub const fn write(&self) -> Write {
        Write {
            range: range(0, self.len),
            handle: self.segment.handle,
            offset: self.segment.offset,
        }
    }

    /// Writes the header of the reply. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`] if `buf` is shorter than the header.
    #[inline]
    //= 8166-4.3-1 returns lengths written, never more
    pub fn encode(&self, buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
        let (version, proc) = (self.version, ListProc::Nomsg);
        let lists = version.begin(buf, xid, credits, Direction::Reply, proc)?;
        lists.only_reply(Segment {
            length: self.len,
            ..self.segment
        })
    }
}
