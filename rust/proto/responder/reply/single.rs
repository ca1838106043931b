// SPDX-License-Identifier: GPL-2.0

//! The reply to a call with one write chunk of one segment: to a READ of an ordinary client.

use super::super::super::super::wire::{
    v1, Direction, EncodeError, ListProc, Lists, Segment, Version,
};
use super::super::super::inline::Thresholds;
use super::super::marks::Mark;
use super::{padded, range, Range, Write};

/// How such a reply is sent: the payload by one RDMA Write, the rest inline. [`Plan`] says the
/// same, with more effort.
///
/// [`Plan`]: super::Plan
///
/// # Invariants
///
/// - The payload is not empty, lies within the reply, and fits the segment.
/// - The header is no longer than the threshold together with the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    segment: Segment,
    mark: Mark,
    version: Version,
    /// The end of the payload with its XDR padding.
    behind: u32,
    len: u32,
}

impl Single {
    /// Plans a reply of `len` bytes whose only payload is at `marks`. `offered` are the lists of
    /// the call. Returns `None` for any other reply, and for one that cannot be sent.
    #[inline]
    pub fn new(
        len: u32,
        marks: &[Mark],
        offered: &Lists<'_>,
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let &[mark] = marks else {
            return None;
        };
        let segment = offered.only_write()?;
        let end = mark.start.checked_add(mark.len)?;
        let holds = mark.start % 4 == 0 && end <= len;
        let fits = mark.len != 0 && mark.len <= segment.length;
        // INVARIANT: both are checked here, the length of the message below.
        let plan = Self {
            segment,
            mark,
            version: thresholds.version,
            behind: padded(end, len),
            len,
        };
        let sent = plan.send_len() <= thresholds.server_to_client;
        (holds && fits && sent).then_some(plan)
    }

    /// Returns the length in bytes of what the Send carries: the header and the rest.
    #[inline]
    pub const fn send_len(&self) -> u32 {
        // CAST: two small constants.
        let header = self
            .version
            .min_header()
            .saturating_add(v1::len::write_chunk(1)) as u32;
        let rest = self.len.saturating_sub(self.behind);
        header.saturating_add(self.mark.start).saturating_add(rest)
    }

    /// Returns the RDMA Write of the payload.
    #[inline]
    pub const fn write(&self) -> Write {
        Write {
            range: range(self.mark.start, self.mark.end()),
            handle: self.segment.handle,
            offset: self.segment.offset,
        }
    }

    /// Iterates over what is sent inline, in order.
    #[inline]
    pub fn rest(&self) -> impl Iterator<Item = Range> {
        let parts = [range(0, self.mark.start), range(self.behind, self.len)];
        parts.into_iter().filter(|part| part.len != 0)
    }

    /// Writes the header of the reply. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`] if `buf` is shorter than the header.
    #[inline]
    pub fn encode(&self, buf: &mut [u8], xid: u32, credits: u32) -> Result<usize, EncodeError> {
        let (version, proc) = (self.version, ListProc::Msg);
        let lists = version.begin(buf, xid, credits, Direction::Reply, proc)?;
        let mut chunk = lists.write_list()?.chunk()?;
        chunk.segment(Segment {
            length: self.mark.len,
            ..self.segment
        })?;
        chunk.end().finish()
    }
}
