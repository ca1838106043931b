// SPDX-License-Identifier: GPL-2.0

//! RDMA segments, the unit in which memory is described to the peer.
//!
//! `struct xdr_rdma_segment` and `struct xdr_read_chunk`, RFC 5666 section 4.3 (unchanged in
//! RFC 8166 section 4.1 and in version two).

/// A stretch of registered memory: `struct xdr_rdma_segment`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= 5666-2-1 steering tag of at most 32 bits
pub struct Segment {
    /// Steering tag (R_key) of the registration.
    pub handle: u32,
    /// Length in bytes. In a reply: bytes actually written.
    pub length: u32,
    /// Virtual address or offset within the registration.
    pub offset: u64,
}

impl Segment {
    /// Bytes of an encoded segment.
    pub const LEN: usize = 16;

    /// Reads a segment from its sixteen bytes.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        let [h0, h1, h2, h3, l0, l1, l2, l3, o0, o1, o2, o3, o4, o5, o6, o7] = *b;
        Self {
            handle: u32::from_be_bytes([h0, h1, h2, h3]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
        }
    }

    /// Encodes this segment in its sixteen bytes.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        // The compiler stores one number with one instruction. CAST: widening; `From` is not const.
        let words = (self.handle as u128) << 96 | (self.length as u128) << 64 | self.offset as u128;
        words.to_be_bytes()
    }
}

/// An entry of a read list: `struct xdr_read_chunk`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadSegment {
    /// Offset of the chunk's first byte in the XDR stream. Entries with equal positions form one
    /// chunk, in order. The chunk at position zero is the whole RPC message.
    pub position: u32,
    /// The memory to read.
    pub segment: Segment,
}

impl ReadSegment {
    /// Bytes of an encoded entry, including the word that announces it.
    pub const LEN: usize = 24;

    /// Reads position and segment from an encoded entry.
    pub(super) const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        let [_, _, _, _, p0, p1, p2, p3, s @ ..] = *b;
        Self {
            position: u32::from_be_bytes([p0, p1, p2, p3]),
            segment: Segment::from_bytes(&s),
        }
    }
}
