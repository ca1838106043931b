// SPDX-License-Identifier: GPL-2.0

//! Puts a message together from its inline part and its read chunks.
//!
//! Each read chunk stands for bytes that were taken out of the XDR stream at its position (RFC 8166
//! section 3.4.5). With RDMA_NOMSG the chunk at position zero takes the place of the inline part. A
//! receiver of calls needs this, and a receiver of replies with read chunks.
//!
//! XDR round-up: a chunk whose length is not a multiple of four lacks its padding. The padding is
//! then inserted without a transfer.
//!
//! [`Reassembly`] gives the pieces of a call in order. [`Placement`] resolves the chunk at position
//! zero into its segments, and gives each part its offset in the call. A segment is split where
//! another chunk lies between its bytes, so each RDMA Read can go to its final place.

use super::super::super::wire::{Lists, ReadSegment, ReadSegments, Segment};

/// The next bytes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the base: the inline part, or what was read from the chunk at position zero.
    Base {
        /// First byte.
        start: u32,
        /// Number of bytes, never zero.
        len: u32,
    },
    /// Bytes to be read by RDMA Read.
    Read(ReadSegment),
    /// Up to three zero bytes that were not transferred.
    RoundUp {
        /// Number of bytes, never zero.
        len: u32,
    },
}

/// The error in a read list. A responder answers it with ERR_CHUNK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A position is less than the end of the preceding chunk.
    Overlap,
    /// A position is behind the end of the message.
    Beyond,
    /// A chunk at position zero beside an inline message.
    PositionZero,
    /// A position within the header of the RPC call, in which no data item lies.
    Header,
    /// RDMA_NOMSG without a chunk at position zero at the head of the list.
    NoMessage,
    /// The whole message is longer than the receiver allows.
    TooLong,
    /// The length of the whole message is not a multiple of four.
    Odd,
}

/// Iterator over the pieces of a message, in the order of the message.
///
/// The pieces follow each other without gaps: their lengths add up to the message. No piece follows
/// an error.
#[derive(Clone, Debug)]
pub struct Reassembly<'a> {
    reads: ReadSegments<'a>,
    /// Bytes of the base that were returned so far, and the bytes of all of it.
    base: u32,
    base_len: u32,
    /// Bytes of the message that were returned so far, and the maximum length of the message.
    stream: u32,
    max_len: u32,
    /// Position of the chunk that is being returned, and its length so far.
    chunk: Option<(u32, u32)>,
    failed: bool,
}

impl<'a> Reassembly<'a> {
    /// Starts with an inline message of `payload_len` bytes: RDMA_MSG. `max_len` bounds the whole
    /// message.
    ///
    /// # Errors
    ///
    /// [`Violation::PositionZero`], [`Violation::TooLong`].
    pub fn inline(lists: &Lists<'a>, payload_len: u32, max_len: u32) -> Result<Self, Violation> {
        match lists.read_list().next() {
            Some(first) if first.position == 0 => Err(Violation::PositionZero),
            _ => Self::new(lists.read_list(), payload_len, max_len),
        }
    }

    /// Starts with a long message: RDMA_NOMSG. The caller first reads the segments of the chunk at
    /// position zero, in order; [`position_zero`] returns them. Their bytes are the base of the
    /// pieces.
    ///
    /// # Errors
    ///
    /// [`Violation::NoMessage`], [`Violation::TooLong`].
    //= 5666-5.1-1 message is in first read chunk
    pub fn long(lists: &Lists<'a>, max_len: u32) -> Result<Self, Violation> {
        let mut len: u64 = 0;
        for r in position_zero(lists) {
            len = len.saturating_add(u64::from(r.segment.length));
        }
        if len == 0 {
            return Err(Violation::NoMessage);
        }
        let len = u32::try_from(len).map_err(|_| Violation::TooLong)?;
        let mut rest = lists.read_list();
        for _ in position_zero(lists) {
            rest.next();
        }
        Self::new(rest, len, max_len)
    }

    fn new(reads: ReadSegments<'a>, base_len: u32, max_len: u32) -> Result<Self, Violation> {
        if base_len > max_len {
            return Err(Violation::TooLong);
        }
        Ok(Self {
            reads,
            base: 0,
            base_len,
            stream: 0,
            max_len,
            chunk: None,
            failed: false,
        })
    }

    //= 5666-3.7-1 round-up that was not transferred
    //= 8166-3.4-2 round-up bytes present, and absent
    //= 8166-4.3-3 equal positions are one chunk
    fn step(&mut self) -> Result<Option<Piece>, Violation> {
        let next = self.reads.clone().next();
        match (self.chunk, next) {
            (Some((position, len)), Some(r)) if r.position == position => self.read(r, len),
            (Some((_, len)), _) => {
                self.chunk = None;
                match len.wrapping_neg() % 4 {
                    0 => self.step_between(next),
                    pad => self.emit(Piece::RoundUp { len: pad }, pad),
                }
            }
            (None, _) => self.step_between(next),
        }
    }

    /// Returns the piece between two chunks: bytes of the base up to the next chunk, or to the end.
    fn step_between(&mut self, next: Option<ReadSegment>) -> Result<Option<Piece>, Violation> {
        let left = self.base_len.saturating_sub(self.base);
        let want = match next {
            None => left,
            Some(r) => {
                let gap = r.position.checked_sub(self.stream);
                gap.ok_or(Violation::Overlap)?
            }
        };
        match (want, next) {
            (0, None) => Ok(None),
            (0, Some(r)) => self.read(r, 0),
            (len, _) if len > left => Err(Violation::Beyond),
            (len, _) => {
                let start = self.base;
                self.base = start.saturating_add(len);
                self.emit(Piece::Base { start, len }, len)
            }
        }
    }

    /// Returns a segment of a chunk that has `len` bytes so far.
    fn read(&mut self, r: ReadSegment, len: u32) -> Result<Option<Piece>, Violation> {
        self.reads.next();
        let len = len.checked_add(r.segment.length);
        self.chunk = Some((r.position, len.ok_or(Violation::TooLong)?));
        self.emit(Piece::Read(r), r.segment.length)
    }

    fn emit(&mut self, piece: Piece, len: u32) -> Result<Option<Piece>, Violation> {
        let stream = self.stream.checked_add(len);
        self.stream = stream
            .filter(|&n| n <= self.max_len)
            .ok_or(Violation::TooLong)?;
        Ok(Some(piece))
    }
}

impl Iterator for Reassembly<'_> {
    type Item = Result<Piece, Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

/// Iterates over the segments of the chunk at position zero, at the head of the read list.
pub fn position_zero<'a>(lists: &Lists<'a>) -> impl Iterator<Item = ReadSegment> + 'a {
    lists.read_list().take_while(|r| r.position == 0)
}

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
