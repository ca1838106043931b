// SPDX-License-Identifier: GPL-2.0

//! Writes the three chunk lists (RFC 8166 section 4.3), in their order, one segment at a time.
//!
//! The types below follow each other as the lists do in the header:
//!
//! ```text
//! Version::begin ─► ReadListWriter ─► WriteListWriter ──────► ChunkWriter<true> ─► length
//!                     segment()*         │        ▲   reply_chunk()   segment()*  finish()
//!                                chunk() ▼        │ end()
//!                                       ChunkWriter<false>
//!                                         segment()*
//! ```
//!
//! A requester registers memory between these calls. To abort, it drops the writer. The buffer then
//! has no valid message, since the segment count of an unfinished chunk is impossible.

use core::mem;

use super::{ReadSegment, Segment};

/// An error of encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is too small. All further calls on this writer also fail with this error.
    NoRoom,
}

/// The message types that carry chunk lists; their numbers are the same in both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ListProc {
    /// RDMA_MSG, RDMA2_MSG: the RPC message follows the lists.
    Msg = 0,
    /// RDMA_NOMSG, RDMA2_NOMSG: the RPC message is in a position-zero read chunk or in the reply
    /// chunk.
    Nomsg = 1,
}

/// The result of a step of encoding.
type Result<T = ()> = core::result::Result<T, EncodeError>;

const ABSENT: [u8; 4] = 0u32.to_be_bytes();
const PRESENT: [u8; 4] = 1u32.to_be_bytes();
/// Count of an unfinished chunk. No message is long enough for that many segments.
const UNFINISHED: [u8; 4] = [0xff; 4];

/// Appends to a caller's buffer.
///
/// # Invariants
///
/// `rest` is the end of a buffer of `total` bytes, or empty after a failure.
#[derive(Debug)]
pub(super) struct Writer<'b> {
    rest: &'b mut [u8],
    total: usize,
}

impl<'b> Writer<'b> {
    pub(super) fn new(buf: &'b mut [u8]) -> Self {
        Self {
            total: buf.len(),
            rest: buf,
        }
    }

    /// Returns the next `N` bytes of the buffer for writing.
    pub(super) fn array<const N: usize>(&mut self) -> Result<&'b mut [u8; N]> {
        let split = mem::take(&mut self.rest).split_first_chunk_mut();
        let (head, rest) = split.ok_or(EncodeError::NoRoom)?;
        self.rest = rest;
        Ok(head)
    }

    /// Appends `bytes`.
    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result {
        *self.array()? = bytes;
        Ok(())
    }

    /// Appends any number of bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result {
        let split = mem::take(&mut self.rest).split_at_mut_checked(bytes.len());
        let (head, rest) = split.ok_or(EncodeError::NoRoom)?;
        head.copy_from_slice(bytes);
        self.rest = rest;
        Ok(())
    }

    /// Appends a 32-bit word.
    pub(super) fn word(&mut self, word: u32) -> Result {
        self.put(word.to_be_bytes())
    }

    /// Returns the number of bytes written. Meaningless after a failure.
    pub(super) fn written(&self) -> usize {
        self.total.wrapping_sub(self.rest.len())
    }

    /// Starts the chunk lists.
    pub(super) fn lists(self) -> ReadListWriter<'b> {
        ReadListWriter { writer: self }
    }
}

/// Writes the read list.
#[derive(Debug)]
#[must_use = "a header without its lists is not a message"]
pub struct ReadListWriter<'b> {
    writer: Writer<'b>,
}

impl<'b> ReadListWriter<'b> {
    /// Appends an entry. `position` is in bytes and a multiple of four. Entries of one chunk have
    /// the same position and are appended one after the other.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn segment(&mut self, position: u32, segment: Segment) -> Result {
        let dest: &mut [u8; ReadSegment::LEN] = self.writer.array()?;
        let [d0, d1, d2, d3, p0, p1, p2, p3, target @ ..] = dest;
        // The compiler stores one number with one instruction.
        let entry = 1 << 32 | u64::from(position);
        [*d0, *d1, *d2, *d3, *p0, *p1, *p2, *p3] = entry.to_be_bytes();
        *target = segment.to_bytes();
        Ok(())
    }

    /// Ends the read list and begins the write list.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn write_list(mut self) -> Result<WriteListWriter<'b>> {
        self.writer.put(ABSENT)?;
        Ok(WriteListWriter {
            writer: self.writer,
        })
    }

    /// Ends the read list and writes that there is neither write list nor reply chunk. Returns the
    /// header's length in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn finish(mut self) -> Result<usize> {
        self.writer.put([0; 12])?;
        Ok(self.writer.written())
    }
}

/// Writes the write list.
#[derive(Debug)]
#[must_use = "a header without its lists is not a message"]
pub struct WriteListWriter<'b> {
    writer: Writer<'b>,
}

impl<'b> WriteListWriter<'b> {
    /// Opens the next chunk.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn chunk(self) -> Result<ChunkWriter<'b, false>> {
        ChunkWriter::open(self.writer)
    }

    /// Ends the write list and opens the reply chunk.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn reply_chunk(mut self) -> Result<ChunkWriter<'b, true>> {
        self.writer.put(ABSENT)?;
        ChunkWriter::open(self.writer)
    }

    /// Ends the write list and writes that there is no reply chunk. Returns the header's length in
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn finish(mut self) -> Result<usize> {
        self.writer.put([0; 8])?;
        Ok(self.writer.written())
    }
}

/// Writes the reply chunk, or one chunk of the write list. The segment count is filled in when the
/// chunk is closed.
#[derive(Debug)]
#[must_use = "a chunk that is not closed makes the message invalid"]
pub struct ChunkWriter<'b, const REPLY: bool> {
    writer: Writer<'b>,
    count_at: &'b mut [u8; 4],
    count: u32,
}

impl<'b, const REPLY: bool> ChunkWriter<'b, REPLY> {
    fn open(mut writer: Writer<'b>) -> Result<Self> {
        writer.put(PRESENT)?;
        let count_at = writer.array()?;
        *count_at = UNFINISHED;
        Ok(Self {
            writer,
            count_at,
            count: 0,
        })
    }

    /// Appends a segment.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub fn segment(&mut self, segment: Segment) -> Result {
        self.writer.put(segment.to_bytes())?;
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    fn close(self) -> Writer<'b> {
        *self.count_at = self.count.to_be_bytes();
        self.writer
    }
}

impl<'b> ChunkWriter<'b, false> {
    /// Closes the chunk.
    pub fn end(self) -> WriteListWriter<'b> {
        WriteListWriter {
            writer: self.close(),
        }
    }
}

impl ChunkWriter<'_, true> {
    /// Closes the chunk and the header. Returns the header's length in bytes.
    pub fn finish(self) -> usize {
        self.close().written()
    }
}
