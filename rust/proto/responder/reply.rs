// SPDX-License-Identifier: GPL-2.0

//! Plans a reply: which bytes go inline, to a write chunk or to the reply chunk.
//!
//! | the reply | payloads | the rest |
//! | --- | --- | --- |
//! | fits the threshold | write chunks | inline: RDMA_MSG |
//! | fits the reply chunk | write chunks | reply chunk: RDMA_NOMSG |
//! | fits neither | | ERR_CHUNK is sent instead |
//!
//! The rest is the reply without the payloads that have a write chunk, and without the XDR padding
//! behind those (RFC 8166 section 3.4.6). All offered chunks come back, with the lengths that were
//! written into each segment; a short reply leaves the reply chunk at zero.
//!
//! A mark that does not fit the final reply is ignored: its bytes belong to the rest. Some upper
//! layers truncate a reply after they have marked it.

use super::super::super::wire::{
    v1, Direction, EncodeError, ListProc, Lists, ReadListWriter, Segment, Version,
};
use super::super::inline::Thresholds;
use super::marks::Mark;

mod single;

pub use single::Single;

/// Bytes of the encoded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte, counted from the start of the RPC message.
    pub start: u32,
    /// Number of bytes, never zero.
    pub len: u32,
}

/// An RDMA Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The bytes that are written.
    pub range: Range,
    /// R_key of the requester's memory.
    pub handle: u32,
    /// Address of the first byte there.
    pub offset: u64,
}

/// The reason for which a reply cannot be sent. The requester is answered with ERR_CHUNK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cannot {
    /// A payload is longer than its write chunk.
    WriteChunk,
    /// The rest is longer than the reply chunk.
    ReplyChunk,
    /// The rest does not fit inline, and there is no reply chunk.
    Inline,
    /// The header, with the returned chunks, exceeds the threshold.
    Header,
}

/// How a reply is sent.
///
/// # Invariants
///
/// - Each payload fits its write chunk. The rest fits the reply chunk if it is sent there.
/// - The header is no longer than the threshold, nor is the header together with an inline rest.
/// - There are no more `marks` than write chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    lists: Lists<'a>,
    marks: &'a [Mark],
    version: Version,
    len: u32,
    rest: u32,
    header: u32,
    long: bool,
}

impl<'a> Plan<'a> {
    /// Plans a reply of `len` bytes whose payloads are at `marks`. `offered` are the lists of the
    /// call.
    ///
    /// # Errors
    ///
    /// See [`Cannot`].
    #[inline]
    //= 8166-3.5-1 reply as a long reply
    pub fn new(
        len: u32,
        marks: &'a [Mark],
        offered: &Lists<'a>,
        thresholds: &Thresholds,
    ) -> Result<Self, Cannot> {
        let mut plan = Self {
            lists: *offered,
            marks: &[],
            version: thresholds.version,
            len,
            rest: len,
            header: 0,
            long: false,
        };
        let mut header = thresholds.version.min_header();
        if !offered.is_empty() {
            header = header.saturating_add(plan.add_chunks(marks)?);
        }
        plan.header = u32::try_from(header).unwrap_or(u32::MAX);
        let Some(room) = thresholds.server_to_client.checked_sub(plan.header) else {
            return Err(Cannot::Header);
        };
        // INVARIANT: the sum fits, or the reply chunk takes the rest.
        plan.long = plan.rest > room && plan.check_long()?;
        Ok(plan)
    }

    /// Checks that each payload fits its chunk, and subtracts the payloads from the rest. Returns
    /// the bytes that the chunks add to the header.
    fn add_chunks(&mut self, marks: &'a [Mark]) -> Result<usize, Cannot> {
        let (mut header, mut chunks) = (0usize, 0usize);
        let mut payloads = Payloads::new(marks, self.len);
        for chunk in self.lists.write_list() {
            header = header.saturating_add(v1::len::write_chunk(chunk.count()));
            chunks = chunks.saturating_add(1);
            let Some(mark) = payloads.next().flatten() else {
                continue;
            };
            if u64::from(mark.len) > chunk.total_len() {
                return Err(Cannot::WriteChunk);
            }
            let len = payloads.from.saturating_sub(mark.start);
            self.rest = self.rest.saturating_sub(len);
        }
        // INVARIANT: those without a chunk are left out.
        self.marks = marks.get(..chunks).unwrap_or(marks);
        if let Some(chunk) = self.lists.reply_chunk() {
            header = header.saturating_add(v1::len::reply_chunk(chunk.count()));
        }
        Ok(header)
    }

    /// Checks that the reply chunk takes the rest.
    #[cold]
    fn check_long(&self) -> Result<bool, Cannot> {
        match self.lists.reply_chunk() {
            None => Err(Cannot::Inline),
            Some(chunk) if chunk.total_len() < u64::from(self.rest) => Err(Cannot::ReplyChunk),
            Some(_) => Ok(true),
        }
    }

    /// Returns the message type.
    pub const fn proc(&self) -> ListProc {
        if self.long {
            ListProc::Nomsg
        } else {
            ListProc::Msg
        }
    }

    /// Returns the length of the Send in bytes: the header and an inline rest.
    pub const fn send_len(&self) -> u32 {
        if self.long {
            self.header
        } else {
            self.header.saturating_add(self.rest)
        }
    }

    /// Iterates over the ranges that are sent inline or to the reply chunk, in order.
    pub fn rest(&self) -> Rest<'a> {
        Rest {
            payloads: Payloads::new(self.marks, self.len),
            at: 0,
        }
    }

    /// Writes the header of the reply. Returns its length in bytes. Calls `each` for the RDMA
    /// Writes, in order: the payloads, then a rest that is not inline.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`] if `buf` is shorter than the header.
    //= 8166-4.3-1 returns lengths written, never more
    //= 8166-4.3-2 reply has no read list
    //= 8166-4.3-4 not used: lengths of zero
    pub fn encode(
        &self,
        buf: &mut [u8],
        xid: u32,
        credits: u32,
        each: impl FnMut(Write),
    ) -> Result<usize, EncodeError> {
        let w = self
            .version
            .begin(buf, xid, credits, Direction::Reply, self.proc())?;
        if self.lists.is_empty() {
            return w.finish();
        }
        self.encode_lists(w, each)
    }

    //= 5666-3.6-1 results into the write list
    fn encode_lists(
        &self,
        w: ReadListWriter<'_>,
        mut each: impl FnMut(Write),
    ) -> Result<usize, EncodeError> {
        let mut w = w.write_list()?;
        let mut payloads = Payloads::new(self.marks, self.len);
        for chunk in self.lists.write_list() {
            let payload = payloads.next().flatten();
            let mut bytes = Filling::new(payload.map(|mark| range(mark.start, mark.end())));
            let mut c = w.chunk()?;
            for segment in chunk.segments() {
                c.segment(bytes.fill(segment, &mut each))?;
            }
            w = c.end();
        }
        let Some(chunk) = self.lists.reply_chunk() else {
            return w.finish();
        };
        let mut bytes = Filling::new(self.long.then(|| self.rest()).into_iter().flatten());
        let mut c = w.reply_chunk()?;
        for segment in chunk.segments() {
            c.segment(bytes.fill(segment, &mut each))?;
        }
        Ok(c.finish())
    }
}

/// Bytes of a reply on their way to the segments of a chunk.
struct Filling<I> {
    ranges: I,
    /// The rest of the bytes that are being written.
    range: Range,
}

impl<I: Iterator<Item = Range>> Filling<I> {
    fn new(ranges: impl IntoIterator<IntoIter = I>) -> Self {
        Self {
            ranges: ranges.into_iter(),
            range: Range { start: 0, len: 0 },
        }
    }

    /// Returns whether any bytes are left.
    fn goes_on(&mut self) -> bool {
        if self.range.len == 0 {
            match self.ranges.next() {
                Some(range) => self.range = range,
                None => return false,
            }
        }
        self.range.len != 0
    }

    /// Fills a segment with the bytes that are left, and calls `each` for the RDMA Writes. Returns
    /// the segment with the length that was filled.
    #[inline]
    fn fill(&mut self, segment: Segment, each: &mut impl FnMut(Write)) -> Segment {
        let mut length = 0u32;
        while length < segment.length && self.goes_on() {
            let len = self.range.len.min(segment.length.saturating_sub(length));
            each(Write {
                range: Range { len, ..self.range },
                handle: segment.handle,
                offset: segment.offset.wrapping_add(u64::from(length)),
            });
            self.range.start = self.range.start.saturating_add(len);
            self.range.len = self.range.len.saturating_sub(len);
            length = length.saturating_add(len);
        }
        Segment { length, ..segment }
    }
}

/// Iterator over the payloads, one for each mark. An ignored mark yields `None`.
#[derive(Clone, Debug)]
struct Payloads<'a> {
    marks: core::slice::Iter<'a, Mark>,
    /// Where the next payload may begin: behind the XDR padding of the one before.
    from: u32,
    /// The length of the reply.
    len: u32,
}

impl<'a> Payloads<'a> {
    #[inline]
    fn new(marks: &'a [Mark], len: u32) -> Self {
        Self {
            marks: marks.iter(),
            from: 0,
            len,
        }
    }
}

impl Iterator for Payloads<'_> {
    type Item = Option<Mark>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mark = *self.marks.next()?;
        // It lies within the reply, behind the one before, and where an XDR item can begin.
        let end = mark
            .start
            .checked_add(mark.len)
            .filter(|&end| end <= self.len);
        let Some(end) = end.filter(|_| mark.start % 4 == 0 && mark.start >= self.from) else {
            return Some(None);
        };
        self.from = padded(end, self.len);
        Some(Some(mark))
    }
}

/// Returns `end` with the XDR padding behind it, as far as the reply of `len` bytes has it.
//= 8166-3.4-1 do not write XDR padding
fn padded(end: u32, len: u32) -> u32 {
    end.saturating_add(end.wrapping_neg() % 4).min(len)
}

/// Iterator over the parts of a reply that lie outside its payloads.
#[derive(Clone, Debug)]
pub struct Rest<'a> {
    payloads: Payloads<'a>,
    at: u32,
}

impl Iterator for Rest<'_> {
    type Item = Range;

    #[inline]
    fn next(&mut self) -> Option<Range> {
        // An empty payload does not divide the rest, nor does a payload that directly follows
        // another.
        while let Some(payload) = self.payloads.next() {
            let Some(mark) = payload.filter(|mark| mark.len != 0) else {
                continue;
            };
            let from = core::mem::replace(&mut self.at, self.payloads.from);
            if mark.start != from {
                return Some(range(from, mark.start));
            }
        }
        let from = core::mem::replace(&mut self.at, self.payloads.len);
        (from != self.payloads.len).then_some(range(from, self.payloads.len))
    }
}

const fn range(start: u32, end: u32) -> Range {
    Range {
        start,
        len: end.saturating_sub(start),
    }
}
