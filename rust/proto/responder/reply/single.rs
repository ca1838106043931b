// SPDX-License-Identifier: GPL-2.0

//! The reply to a call whose only chunk is one segment for the reply: to a READ or a READDIR of an
//! ordinary client.

use super::super::super::super::wire::{
    v1, Direction, EncodeError, ListProc, Lists, ReadListWriter, Segment, Version,
};
use super::super::super::inline::Thresholds;
use super::super::marks::Mark;
use super::{padded, range, Range, Write};

/// How such a reply is sent: by one RDMA Write, either of the payload to the write chunk, with the
/// rest inline, or of the whole reply to the reply chunk. [`Plan`] gives the same result at a
/// higher cost.
///
/// [`Plan`]: super::Plan
///
/// # Invariants
///
/// - The bytes to be written lie within the reply and fit the segment.
/// - The header is no longer than the threshold together with the inline rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    segment: Segment,
    /// The bytes to be written.
    written: Mark,
    /// The end of these bytes with their XDR padding.
    behind: u32,
    len: u32,
    version: Version,
    /// The whole reply is sent to the reply chunk.
    long: bool,
}

impl Single {
    /// Plans a reply of `len` bytes whose payloads are at `marks`. `offered` are the lists of the
    /// call. Returns `None` for any other reply, and for a reply that cannot be sent.
    #[inline]
    pub fn new(
        len: u32,
        marks: &[Mark],
        offered: &Lists<'_>,
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let Some(segment) = offered.only_write() else {
            return Self::long(len, offered.only_reply()?, thresholds);
        };
        let &[mark] = marks else {
            return None;
        };
        let end = mark.start.checked_add(mark.len)?;
        let holds = mark.start % 4 == 0 && end <= len;
        let fits = mark.len != 0 && mark.len <= segment.length;
        // INVARIANT: both are checked here, the length of the message below.
        let plan = Self {
            segment,
            written: mark,
            behind: padded(end, len),
            len,
            version: thresholds.version,
            long: false,
        };
        let sent = plan.send_len() <= thresholds.server_to_client;
        (holds && fits && sent).then_some(plan)
    }

    /// Plans a reply that is sent to the reply chunk because it exceeds the threshold.
    //= 8166-3.5-1 reply as a long reply
    fn long(len: u32, segment: Segment, thresholds: &Thresholds) -> Option<Self> {
        // INVARIANT: all bytes are written, and the lengths are checked below.
        let plan = Self {
            segment,
            written: Mark { start: 0, len },
            behind: len,
            len,
            version: thresholds.version,
            long: true,
        };
        let room = thresholds.server_to_client.checked_sub(plan.send_len())?;
        (len > room && len <= segment.length).then_some(plan)
    }

    /// Returns whether the whole reply is sent to the reply chunk.
    pub const fn is_long(&self) -> bool {
        self.long
    }

    /// Returns the length of the Send in bytes: the header and the rest.
    #[inline]
    pub const fn send_len(&self) -> u32 {
        let chunk = if self.long {
            v1::len::reply_chunk(1)
        } else {
            v1::len::write_chunk(1)
        };
        // CAST: two small constants.
        let header = self.version.min_header().saturating_add(chunk) as u32;
        let rest = self.len.saturating_sub(self.behind);
        let first = header.saturating_add(self.written.start);
        first.saturating_add(rest)
    }

    /// Returns the RDMA Write.
    pub const fn write(&self) -> Write {
        Write {
            range: range(self.written.start, self.written.end()),
            handle: self.segment.handle,
            offset: self.segment.offset,
        }
    }

    /// Iterates over the ranges that are sent inline, in order.
    pub fn rest(&self) -> impl Iterator<Item = Range> {
        let parts = [range(0, self.written.start), range(self.behind, self.len)];
        parts.into_iter().filter(|part| part.len != 0)
    }

    /// Writes the header of the reply. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`] if `buf` is shorter than the header.
    #[inline]
    //= 8166-4.3-1 returns lengths written, never more
    pub fn encode(&self, buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
        let begin = |buf, proc| -> Result<ReadListWriter<'_>, EncodeError> {
            self.version
                .begin(buf, xid, credits, Direction::Reply, proc)
        };
        let returned = Segment {
            length: self.written.len,
            ..self.segment
        };
        if self.long {
            let lists = begin(buf, ListProc::Nomsg)?.write_list()?;
            let mut chunk = lists.reply_chunk()?;
            chunk.segment(returned)?;
            return Ok(chunk.finish());
        }
        let mut chunk = begin(buf, ListProc::Msg)?.write_list()?.chunk()?;
        chunk.segment(returned)?;
        chunk.end().finish()
    }
}
