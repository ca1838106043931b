// SPDX-License-Identifier: GPL-2.0

//! Padding of opaque data in RDMA_MSGP: RFC 5666 section 3.9.
//!
//! The sender inserts bytes before opaque data of at least `thresh` bytes, so that the data begin
//! at a multiple of `align` and fall into a Receive buffer of their own. The receiver finds the
//! same two numbers in the header and skips the padding.
//!
//! The text pads at sizes "at or above" the threshold, and skips where the length "exceeds" it. By
//! these words, padding of data of exactly `thresh` bytes is inserted and not skipped. In this
//! module both sides use the first reading.

/// The two numbers of an RDMA_MSGP header.
///
/// # Invariants
///
/// `align` is a power of two of at least 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    align: u32,
    thresh: u32,
}

impl Padding {
    /// Checks the numbers of a header or of a server's recommendation. `None`: the alignment is no
    /// power of two, as the lengths of buffers are, or less than an XDR unit.
    //= 5666-3.9-1 alignment and threshold of RDMA_MSGP
    pub const fn new(align: u32, thresh: u32) -> Option<Self> {
        if align >= 4 && align.is_power_of_two() {
            Some(Self { align, thresh })
        } else {
            None
        }
    }

    /// `rdma_align` in bytes.
    pub const fn align(&self) -> u32 {
        self.align
    }

    /// `rdma_thresh` in bytes.
    pub const fn thresh(&self) -> u32 {
        self.thresh
    }

    /// Returns the bytes of padding before opaque data of `len` bytes. Without padding the data
    /// would begin at `position` in the message as sent, earlier padding included. The result is
    /// less than the alignment.
    //= 5666-3.9-2 skips the padding before opaque data
    pub const fn before(&self, position: u32, len: u32) -> u32 {
        if len < self.thresh {
            return 0;
        }
        // The alignment is a power of two by the type invariant.
        position.wrapping_neg() & self.align.wrapping_sub(1)
    }
}
