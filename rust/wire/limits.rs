// SPDX-License-Identifier: GPL-2.0

//! Bounds on the list elements of a peer's message.

/// The number of list elements that a decoder accepts. It refuses a message with more elements.
///
/// The receive buffer bounds the lists in any case. These limits say how many elements the local
/// side is prepared to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most entries of the read list.
    pub read_segments: u32,
    /// Most chunks of the write list.
    pub write_chunks: u32,
    /// Most segments of any one write chunk or of the reply chunk.
    pub chunk_segments: u32,
}

impl Limits {
    /// No bound except the length of the message.
    pub const NONE: Self = Self {
        read_segments: u32::MAX,
        write_chunks: u32::MAX,
        chunk_segments: u32::MAX,
    };

    /// Returns the limits of a requester that offers at most `chunks` write chunks of at most
    /// `segments` segments each. It accepts no read chunks in a reply (RFC 8166 section 4.3).
    pub const fn requester(chunks: u32, segments: u32) -> Self {
        Self {
            read_segments: 0,
            write_chunks: chunks,
            chunk_segments: segments,
        }
    }
}
