// SPDX-License-Identifier: GPL-2.0

//! Bounds on what a peer may make us walk through.
//!
//! State: live.

/// How many list elements a decoder accepts. A message with more is refused, whatever its length.
///
/// The lists are bounded by the receive buffer in any case; these limits express what the local
/// side is prepared to act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most entries of the read list.
    pub read_segments: u32,
    /// Most chunks of the write list.
    pub write_chunks: u32,
    /// Most segments of any one write chunk or of the reply chunk.
    pub chunk_segments: u32,
    /// Most transport characteristics in one message (version two).
    pub characteristics: u32,
}

impl Limits {
    /// No bound but the message's own length.
    #[allow(dead_code, reason = "for tests")]
    pub const NONE: Self = Self {
        read_segments: u32::MAX,
        write_chunks: u32::MAX,
        chunk_segments: u32::MAX,
        characteristics: u32::MAX,
    };

    /// A requester that offers at most `chunks` write chunks of at most `segments` segments
    /// each, and never accepts read chunks in a reply (RFC 8166 section 4.3).
    pub const fn requester(chunks: u32, segments: u32) -> Self {
        Self {
            read_segments: 0,
            write_chunks: chunks,
            chunk_segments: segments,
            characteristics: 32,
        }
    }
}
