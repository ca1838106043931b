// SPDX-License-Identifier: GPL-2.0

//! Determines the source of each part of a call, and its offset in the call.
//!
//! [`Reassembly`] gives the pieces of a call in order. Here the chunk at position zero is resolved
//! into its segments, and each part gets its offset in the call. A segment is split where another
//! chunk lies between its bytes, so each RDMA Read can go to its final place.

use super::super::super::wire::{Lists, ReadSegments, Segment};
use super::reassembly::{Piece, Reassembly, Violation};

/// A part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset of the first byte in the call.
    pub at: u32,
    /// Number of bytes, never zero.
    pub len: u32,
    /// The source of its bytes.
    pub source: Source,
}

/// The source of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The RPC message in the Receive buffer.
    Inline {
        /// The first byte, counted from the end of the header.
        start: u32,
    },
    /// The requester's memory, by RDMA Read.
    Read {
        /// R_key.
        handle: u32,
        /// Address of the first byte.
        offset: u64,
    },
    /// None: XDR round-up that was not transferred. These bytes are zero.
    RoundUp,
}

/// The source of the pieces of the base.
#[derive(Clone, Debug)]
enum Base<'a> {
    /// The inline part.
    Inline,
    /// The chunk at position zero: the rest of a segment, and the segments behind it.
    Zero(Segment, ReadSegments<'a>),
}

/// Iterator over the parts of a call, in order and without gap. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    pieces: Reassembly<'a>,
    base: Base<'a>,
    /// The rest of the piece of the base that is being returned: first byte and length.
    piece: (u32, u32),
    at: u32,
}

impl<'a> Placement<'a> {
    /// Starts with a message of at most `max` bytes. Its base is the `inline` part, or the chunk at
    /// position zero if the message is `long`.
    ///
    /// # Errors
    ///
    /// Those of [`Reassembly::inline`] and [`Reassembly::long`].
    pub fn new(lists: &Lists<'a>, inline: &[u8], long: bool, max: u32) -> Result<Self, Violation> {
        let (pieces, base) = if long {
            let base = Base::Zero(Segment::default(), lists.read_list());
            (Reassembly::long(lists, max)?, base)
        } else {
            let len = u32::try_from(inline.len()).map_err(|_| Violation::TooLong)?;
            (Reassembly::inline(lists, len, max)?, Base::Inline)
        };
        Ok(Self {
            pieces,
            base,
            piece: (0, 0),
            at: 0,
        })
    }

    /// Returns the next part, of `len` bytes.
    fn give(&mut self, source: Source, len: u32) -> Option<Result<Part, Violation>> {
        let at = self.at;
        // `Reassembly` has bounded the sum.
        self.at = at.saturating_add(len);
        Some(Ok(Part { at, len, source }))
    }

    /// Returns the first bytes of the base's piece.
    fn next_of_base(&mut self) -> Option<Result<Part, Violation>> {
        let (start, left) = self.piece;
        let (source, len) = match &mut self.base {
            Base::Inline => (Source::Inline { start }, left),
            Base::Zero(segment, reads) => take(segment, reads, left)?,
        };
        self.piece = (start.saturating_add(len), left.saturating_sub(len));
        self.give(source, len)
    }
}

/// Removes up to `most` bytes, at least one, from a segment and the segments behind it.
fn take(segment: &mut Segment, reads: &mut ReadSegments<'_>, most: u32) -> Option<(Source, u32)> {
    while segment.length == 0 {
        *segment = reads.next()?.segment;
    }
    let (handle, offset) = (segment.handle, segment.offset);
    let len = segment.length.min(most);
    segment.length = segment.length.saturating_sub(len);
    segment.offset = offset.wrapping_add(u64::from(len));
    Some((Source::Read { handle, offset }, len))
}

impl Iterator for Placement<'_> {
    type Item = Result<Part, Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.piece.1 != 0 {
                return self.next_of_base();
            }
            match self.pieces.next()? {
                Ok(Piece::Base { start, len }) => self.piece = (start, len),
                Ok(Piece::Read(r)) if r.segment.length == 0 => {}
                Ok(Piece::Read(r)) => {
                    let (handle, offset) = (r.segment.handle, r.segment.offset);
                    return self.give(Source::Read { handle, offset }, r.segment.length);
                }
                Ok(Piece::RoundUp { len }) => return self.give(Source::RoundUp, len),
                Err(violation) => return Some(Err(violation)),
            }
        }
    }
}
