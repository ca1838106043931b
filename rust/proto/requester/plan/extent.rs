// SPDX-License-Identifier: GPL-2.0

//! Parts of an `xdr_buf`, as lengths and offsets.

/// Parts of head, pages and tail of a `struct xdr_buf` (`include/linux/sunrpc/xdr.h`), in that
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    head: u32,
    pages: u32,
    tail_start: u32,
    tail: u32,
}

impl Extents {
    /// Nothing.
    pub const EMPTY: Self = Self::of(0, 0, 0);

    /// Returns the first bytes of each section, as many as given.
    pub(super) const fn of(head: u32, pages: u32, tail: u32) -> Self {
        Self {
            head,
            pages,
            tail_start: 0,
            tail,
        }
    }

    /// Returns these parts without the first `n` bytes of the tail.
    pub(super) const fn skip_in_tail(self, n: u32) -> Self {
        Self {
            tail_start: n,
            tail: self.tail.saturating_sub(n),
            ..self
        }
    }

    /// Returns the number of bytes in all. It saturates; plans are made only of lengths whose sum
    /// fits.
    pub const fn len(&self) -> u32 {
        self.head
            .saturating_add(self.pages)
            .saturating_add(self.tail)
    }

    /// Returns the number of bytes of the head, the first of which is the first byte of the head.
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the part of the tail: its first byte, and the number of bytes.
    pub const fn tail(&self) -> (u32, u32) {
        (self.tail_start, self.tail)
    }
}
