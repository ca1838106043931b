// SPDX-License-Identifier: GPL-2.0

//! Errors of decoding.

use core::fmt;

/// The error in a refused message, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The error.
    pub what: What,
    /// Offset in bytes, from the start of the input, of the item that was refused.
    pub offset: usize,
}

impl DecodeError {
    /// Makes the error `what` about the item at byte `offset`.
    #[cold]
    pub(super) const fn new(what: What, offset: usize) -> Self {
        Self { what, offset }
    }
}

/// The error in a message.
///
/// A responder answers [`What::Version`] with `ERR_VERS` and every other error with `ERR_CHUNK`
/// (RFC 8166 section 4.5). A requester drops the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The message ends inside an item.
    Truncated,
    /// A version that this decoder does not support.
    Version(u32),
    /// A message type (`rdma_proc`) that the version does not define.
    Proc(u32),
    /// A list discriminator or boolean that is neither 0 nor 1.
    Bool(u32),
    /// The position of a read chunk is not a multiple of four, so it is no position in an XDR
    /// stream.
    Position(u32),
    /// The read list has more entries than [`super::Limits::read_segments`].
    ReadSegments,
    /// The write list has more chunks than [`super::Limits::write_chunks`].
    WriteChunks,
    /// A chunk counts more segments than [`super::Limits::chunk_segments`].
    ChunkSegments(u32),
    /// An error code that the version does not define.
    ErrorCode(u32),
    /// A direction that is neither CALL nor REPLY (version two).
    Direction(u32),
    /// Bytes after the end of an optional operation's data.
    Trailing,
    /// The data of the known characteristic with this id are not of its type.
    Characteristic(u32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated => f.write_str("message too short"),
            Self::Version(v) => write!(f, "unsupported version {v}"),
            Self::Proc(p) => write!(f, "unknown message type {p}"),
            Self::Bool(b) => write!(f, "bad discriminator {b}"),
            Self::Position(p) => write!(f, "unaligned read chunk position {p}"),
            Self::ReadSegments => f.write_str("too many read segments"),
            Self::WriteChunks => f.write_str("too many write chunks"),
            Self::ChunkSegments(n) => write!(f, "too many segments in a chunk: {n}"),
            Self::ErrorCode(e) => write!(f, "unknown error code {e}"),
            Self::Direction(d) => write!(f, "bad direction {d}"),
            Self::Trailing => f.write_str("bytes after the end"),
            Self::Characteristic(id) => write!(f, "bad value of characteristic {id}"),
        }
    }
}
