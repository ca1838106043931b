// SPDX-License-Identifier: GPL-2.0

//! Chunk lists with one chunk of one segment, which most calls with a payload have.
//!
//! They have one encoding only, so a few comparisons recognize them, and a few stores write them.
//! [`Lists::decode`] decodes them as well, and the writers of [`encode`](super::super::encode)
//! write the same.

use super::{Lists, ReadSegment, Segment};

/// Bytes of three lists with one chunk of one segment in the read list or in the write list.
pub(in super::super) const LEN: usize = 36;

/// Bytes of a write chunk of one segment, including the word that announces it.
const WRITE_CHUNK: usize = 8 + Segment::LEN;

/// What stands before the segment of a single write chunk: an absent read list, the word that
/// announces a chunk, and the number of its segments.
const ONE_WRITE: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];

impl<'a> Lists<'a> {
    /// Returns the lists that these bytes encode, and their only segment, if that is in the read
    /// list. Returns `None` for all other bytes, well-formed or not.
    #[inline(always)]
    pub(in super::super) fn one_read(bytes: &'a [u8; LEN]) -> Option<(Self, ReadSegment)> {
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
    pub(in super::super) fn one_write(bytes: &'a [u8; LEN]) -> Option<(Self, Segment)> {
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
    #[inline]
    pub fn only_read(&self) -> Option<ReadSegment> {
        let entry = <&[u8; ReadSegment::LEN]>::try_from(self.reads).ok()?;
        Some(ReadSegment::from_bytes(entry))
    }

    /// Returns the segment of the write list, if it has exactly one and there is no reply chunk.
    #[inline]
    pub fn only_write(&self) -> Option<Segment> {
        // A chunk of another length has another number of segments.
        let chunk = <&[u8; WRITE_CHUNK]>::try_from(self.writes).ok()?;
        let [_, _, _, _, n0, n1, n2, n3, segment @ ..] = chunk;
        let one = u32::from_be_bytes([*n0, *n1, *n2, *n3]) == 1;
        (one && self.reply.is_none()).then(|| Segment::from_bytes(segment))
    }

    /// Returns the segment of the reply chunk, if it has exactly one and the write list is absent.
    #[inline]
    pub fn only_reply(&self) -> Option<Segment> {
        let segment = <&[u8; Segment::LEN]>::try_from(self.reply?).ok()?;
        self.writes.is_empty().then(|| Segment::from_bytes(segment))
    }
}
