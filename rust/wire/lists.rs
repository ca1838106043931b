// SPDX-License-Identifier: GPL-2.0

//! Read list, write list and reply chunk: checked once, then read by iterators that cannot fail.
//!
//! RFC 8166 section 4.3; `rdma_reads`, `rdma_writes`, `rdma_reply` in the XDR. The three lists are
//! the same in version one and version two.

use super::cursor::Cursor;
use super::{peek, DecodeError, Limits, ReadSegment, Segment, Version, What};

/// Bytes of three lists that are absent.
pub(super) const ABSENT_LEN: usize = 12;

/// Bytes of three lists with one chunk of one segment in the read list or in the write list.
pub(super) const ONE_CHUNK_LEN: usize = 36;

/// Bytes of a write chunk of one segment, including the word that announces it.
const WRITE_CHUNK: usize = 8 + Segment::LEN;

/// The words before the segment of a single write chunk: an absent read list, the word that
/// announces a chunk, and the number of its segments.
const ONE_WRITE: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];

/// The three chunk lists of a message.
///
/// # Invariants
///
/// - `reads` is a whole number of read list entries of [`ReadSegment::LEN`] bytes.
/// - `writes` is a whole number of write chunks: a word 1, a count, that many segments.
/// - `reply` is a whole number of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists<'a> {
    reads: &'a [u8],
    writes: &'a [u8],
    reply: Option<&'a [u8]>,
}

impl<'a> Lists<'a> {
    /// Three absent lists.
    pub const EMPTY: Lists<'static> = Lists {
        reads: &[],
        writes: &[],
        reply: None,
    };

    /// Returns whether all three lists are absent: a message with everything inline.
    pub const fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// Iterates over the entries of the read list, in order.
    pub const fn read_list(&self) -> ReadSegments<'a> {
        ReadSegments { rest: self.reads }
    }

    /// Iterates over the chunks of the write list, in order.
    pub const fn write_list(&self) -> WriteChunks<'a> {
        WriteChunks { rest: self.writes }
    }

    /// Returns the reply chunk, if there is one.
    pub fn reply_chunk(&self) -> Option<WriteChunk<'a>> {
        self.reply.map(|segments| WriteChunk { segments })
    }

    /// Returns the encoded chunks of the write list, and the encoded segments of the reply chunk,
    /// which a responder keeps from a call until its reply. [`Self::of_results`] is the inverse.
    pub const fn results(&self) -> (&'a [u8], Option<&'a [u8]>) {
        (self.writes, self.reply)
    }

    /// Makes lists from the result of [`Self::results`]. The read list is absent. Other bytes yield
    /// chunks that end early.
    pub const fn of_results(writes: &'a [u8], reply: Option<&'a [u8]>) -> Self {
        Self {
            reads: &[],
            writes,
            reply,
        }
    }

    /// Returns whether twelve encoded bytes are three absent lists.
    pub(super) const fn are_absent(words: &[u8; ABSENT_LEN]) -> bool {
        let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3] = *words;
        let first = u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
        first == 0 && u32::from_ne_bytes([b0, b1, b2, b3]) == 0
    }

    /// Decodes the three lists at the cursor. It is inlined with the functions it calls: the checks
    /// of one word take a few instructions, and returning their results in memory would double
    /// that.
    #[inline(always)]
    pub(super) fn decode(c: &mut Cursor<'a>, limits: &Limits) -> Result<Self, DecodeError> {
        // Most messages have one list only. The other two are skipped in one step.
        if c.absent_pair() {
            return Ok(Self {
                reply: reply_chunk(c, limits)?,
                ..Self::EMPTY
            });
        }
        // INVARIANT: each of these functions returns exactly the bytes that it has checked.
        let reads = read_list(c, limits)?;
        if c.absent_pair() {
            return Ok(Self {
                reads,
                ..Self::EMPTY
            });
        }
        let writes = write_list(c, limits)?;
        let reply = reply_chunk(c, limits)?;
        Ok(Self {
            reads,
            writes,
            reply,
        })
    }
}

/// Lists with one chunk of one segment, as in most calls with a payload. Their encoding is unique,
/// so a few comparisons recognise them. [`Lists::decode`] decodes them as well.
impl<'a> Lists<'a> {
    /// Returns the lists that these bytes encode, and their only segment, if that is in the read
    /// list. Returns `None` for all other bytes, well-formed or not.
    #[inline(always)]
    pub fn one_read(bytes: &'a [u8; ONE_CHUNK_LEN]) -> Option<(Self, ReadSegment)> {
        let (entry, absent) = bytes.split_first_chunk::<{ ReadSegment::LEN }>()?;
        let present = u32::from_be_bytes(*entry.first_chunk()?) == 1;
        if !present || !Self::are_absent(absent.first_chunk()?) {
            return None;
        }
        let segment = ReadSegment::from_bytes(entry);
        // INVARIANT: the bytes are one entry.
        let lists = Self {
            reads: entry,
            ..Self::EMPTY
        };
        (segment.position % 4 == 0).then_some((lists, segment))
    }

    /// Returns the lists that these bytes encode, and their only segment, if that is in the write
    /// list. Returns `None` for all other bytes, well-formed or not.
    #[inline(always)]
    pub fn one_write(bytes: &'a [u8; ONE_CHUNK_LEN]) -> Option<(Self, Segment)> {
        let (_, rest) = bytes.split_first_chunk::<4>()?;
        let (chunk, absent) = rest.split_first_chunk::<WRITE_CHUNK>()?;
        let absent = u64::from_ne_bytes(*absent.first_chunk()?) == 0;
        if bytes.first_chunk() != Some(&ONE_WRITE) || !absent {
            return None;
        }
        // INVARIANT: the bytes are the word 1, the count 1, and one segment.
        let lists = Self {
            writes: chunk,
            ..Self::EMPTY
        };
        Some((lists, Segment::from_bytes(chunk.last_chunk()?)))
    }

    /// Returns the segment of the read list, if it has exactly one.
    pub fn only_read(&self) -> Option<ReadSegment> {
        let entry = <&[u8; ReadSegment::LEN]>::try_from(self.reads).ok()?;
        Some(ReadSegment::from_bytes(entry))
    }

    /// Returns the segment of the write list, if it has exactly one and there is no reply chunk.
    pub fn only_write(&self) -> Option<Segment> {
        // A chunk of another length has another number of segments.
        let chunk = <&[u8; WRITE_CHUNK]>::try_from(self.writes).ok()?;
        let [_, _, _, _, n0, n1, n2, n3, segment @ ..] = chunk;
        let one = u32::from_be_bytes([*n0, *n1, *n2, *n3]) == 1;
        (one && self.reply.is_none()).then(|| Segment::from_bytes(segment))
    }

    /// Returns the segment of the reply chunk, if it has exactly one and the write list is absent.
    pub fn only_reply(&self) -> Option<Segment> {
        let segment = <&[u8; Segment::LEN]>::try_from(self.reply?).ok()?;
        self.writes.is_empty().then(|| Segment::from_bytes(segment))
    }
}

/// Returns whether the word where the chunk lists of a message begin is the one that announces an
/// entry of the read list. The rest of the message is not checked: it may have no chunk lists.
pub fn has_read_list(bytes: &[u8]) -> bool {
    let version = peek(bytes).map(|prefix| Version::from_u32(prefix.version));
    let Ok(Some(version)) = version else {
        return false;
    };
    let lists = bytes.get(version.min_header().wrapping_sub(ABSENT_LEN)..);
    let word = lists.and_then(|lists| lists.first_chunk().copied());
    word.map(u32::from_be_bytes) == Some(1)
}

/// Checks a read list and returns its entries, without the closing word.
//= 5666-3.4-6 any object may be a chunk
#[inline(always)]
fn read_list<'a>(c: &mut Cursor<'a>, limits: &Limits) -> Result<&'a [u8], DecodeError> {
    let start = c.rest();
    let mut left = limits.read_segments;
    while let Some(entry) = c.entry() {
        let position = ReadSegment::from_bytes(entry).position;
        if left == 0 || position % 4 != 0 {
            return Err(bad_entry(c.offset(), left, position));
        }
        left = left.wrapping_sub(1);
    }
    // The list ends here, or is malformed.
    if c.boolean()? {
        return Err(match left {
            0 => c.error_before(What::ReadSegments),
            _ => c.error(What::Truncated),
        });
    }
    Ok(walked(start, c))
}

/// Returns the error about a read list entry that is one too many, or that has a bad position. The
/// entry ends at byte `end`.
#[cold]
fn bad_entry(end: usize, left: u32, position: u32) -> DecodeError {
    let at = end.wrapping_sub(ReadSegment::LEN);
    match left {
        0 => DecodeError::new(What::ReadSegments, at),
        _ => DecodeError::new(What::Position(position), at.wrapping_add(4)),
    }
}

/// Returns the bytes from `start` to the word before the cursor, which closes a list.
#[inline(always)]
fn walked<'a>(start: &'a [u8], c: &Cursor<'a>) -> &'a [u8] {
    let len = start.len().wrapping_sub(c.rest().len()).wrapping_sub(4);
    start.get(..len).unwrap_or_default()
}

/// Checks a write list and returns its chunks, without the closing word.
#[inline(always)]
fn write_list<'a>(c: &mut Cursor<'a>, limits: &Limits) -> Result<&'a [u8], DecodeError> {
    let start = c.rest();
    let mut left = limits.write_chunks;
    while c.boolean()? {
        let Some(fewer) = left.checked_sub(1) else {
            return Err(c.error_before(What::WriteChunks));
        };
        left = fewer;
        segments(c, limits)?;
    }
    Ok(walked(start, c))
}

#[inline(always)]
fn reply_chunk<'a>(c: &mut Cursor<'a>, limits: &Limits) -> Result<Option<&'a [u8]>, DecodeError> {
    if c.boolean()? {
        segments(c, limits).map(Some)
    } else {
        Ok(None)
    }
}

/// Reads a counted array of segments and returns its elements' bytes.
#[inline(always)]
fn segments<'a>(c: &mut Cursor<'a>, limits: &Limits) -> Result<&'a [u8], DecodeError> {
    let count = c.word()?;
    if count > limits.chunk_segments {
        return Err(c.error_before(What::ChunkSegments(count)));
    }
    // CAST: `usize` has at least 32 bits. With 32 bits the product may saturate, and then exceeds
    // any input.
    c.bytes((count as usize).saturating_mul(Segment::LEN))
}

/// Iterator over the entries of a read list.
#[derive(Clone, Copy, Debug)]
pub struct ReadSegments<'a> {
    rest: &'a [u8],
}

impl Iterator for ReadSegments<'_> {
    type Item = ReadSegment;

    fn next(&mut self) -> Option<ReadSegment> {
        let (entry, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(ReadSegment::from_bytes(entry))
    }
}

/// Iterator over the chunks of a write list.
#[derive(Clone, Copy, Debug)]
pub struct WriteChunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for WriteChunks<'a> {
    type Item = WriteChunk<'a>;

    fn next(&mut self) -> Option<WriteChunk<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<8>()?;
        let [_, _, _, _, count @ ..] = *head;
        // CAST: `usize` has at least 32 bits. `segments` has accepted this count.
        let len = (u32::from_be_bytes(count) as usize).saturating_mul(Segment::LEN);
        let (segments, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(WriteChunk { segments })
    }
}

/// A write chunk or reply chunk: an array of segments to be filled in order.
///
/// # Invariants
///
/// `segments` is a whole number of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteChunk<'a> {
    segments: &'a [u8],
}

impl<'a> WriteChunk<'a> {
    /// Iterates over the segments in order.
    pub const fn segments(&self) -> Segments<'a> {
        Segments {
            rest: self.segments,
        }
    }

    /// Returns the number of segments, possibly none.
    pub const fn count(&self) -> usize {
        self.segments.len() / Segment::LEN
    }

    /// Returns the sum of the segments' lengths in bytes. It cannot overflow: a chunk has fewer
    /// than 2^32 segments of fewer than 2^32 bytes.
    #[inline]
    pub fn total_len(&self) -> u64 {
        self.segments()
            .fold(0, |sum: u64, s| sum.saturating_add(u64::from(s.length)))
    }
}

/// Iterator over the segments of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    rest: &'a [u8],
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let (segment, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(Segment::from_bytes(segment))
    }
}
