// SPDX-License-Identifier: GPL-2.0

//! Parts of an `xdr_buf`, as lengths and offsets.
//!
//! State: live.

/// The three parts of a `struct xdr_buf` (`include/linux/sunrpc/xdr.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `head[0]`.
    Head,
    /// The page list, from `page_base`.
    Pages,
    /// `tail[0]`.
    Tail,
}

/// A contiguous part of a section, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which section.
    pub section: Section,
    /// First byte, counted from the section's start.
    pub start: u32,
    /// Number of bytes, never zero.
    pub len: u32,
}

/// Parts of head, pages and tail, in that order.
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
    #[inline]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the part of the tail: its first byte, and the number of bytes.
    #[inline]
    pub const fn tail(&self) -> (u32, u32) {
        (self.tail_start, self.tail)
    }

    /// Returns whether it is only a payload: bytes of the pages, and nothing of head or tail.
    #[inline]
    pub const fn is_payload(&self) -> bool {
        self.head == 0 && self.pages != 0 && self.tail == 0
    }

    /// Returns whether it has no bytes.
    #[allow(dead_code, reason = "for tests")]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the extents in order, without empty ones.
    #[allow(dead_code, reason = "for tests")]
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        [
            (Section::Head, 0, self.head),
            (Section::Pages, 0, self.pages),
            (Section::Tail, self.tail_start, self.tail),
        ]
        .into_iter()
        .filter(|&(_, _, len)| len != 0)
        .map(|(section, start, len)| Extent {
            section,
            start,
            len,
        })
    }
}
