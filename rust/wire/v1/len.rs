// SPDX-License-Identifier: GPL-2.0

//! Lengths in bytes of version-one headers, before they are written.

use super::super::{ReadSegment, Segment};

/// Four fixed words and three absent lists: the header of a message with everything inline.
pub const MIN: usize = 28;

/// Returns the bytes that `segments` entries of the read list add to [`MIN`].
pub const fn read_segments(segments: usize) -> usize {
    segments.saturating_mul(ReadSegment::LEN)
}

/// Returns the bytes that one write chunk of `segments` segments adds to [`MIN`].
pub const fn write_chunk(segments: usize) -> usize {
    segments.saturating_mul(Segment::LEN).saturating_add(8)
}

/// Returns the bytes that a reply chunk of `segments` segments adds to [`MIN`].
pub const fn reply_chunk(segments: usize) -> usize {
    segments.saturating_mul(Segment::LEN).saturating_add(4)
}

/// Returns the length of a header with `reads` read segments, one write chunk of `write` segments
/// unless `None`, and a reply chunk of `reply` segments unless `None`.
pub const fn header(reads: usize, write: Option<usize>, reply: Option<usize>) -> usize {
    let write = match write {
        Some(n) => write_chunk(n),
        None => 0,
    };
    let reply = match reply {
        Some(n) => reply_chunk(n),
        None => 0,
    };
    MIN.saturating_add(read_segments(reads))
        .saturating_add(write)
        .saturating_add(reply)
}
