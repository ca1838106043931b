// SPDX-License-Identifier: GPL-2.0

//! A payload in pages, as arrays of page pointers describe it.

use core::ptr::NonNull;

use kernel::bindings as k;

use super::{Piece, PAGE};
use crate::compat::casts::u32_as_usize;

/// Whether two `struct page`s are adjacent exactly if their pages are. With classic sparsemem, the
/// maps of two sections may be adjacent although the sections are not.
const ONE_MEMORY_MAP: bool = cfg!(any(CONFIG_SPARSEMEM_VMEMMAP, CONFIG_FLATMEM));

/// Bytes in an array of pages. They may begin and end within a page, and fill the pages between.
///
/// # Invariants
///
/// - `offset` is less than the size of a page, and `offset + len` does not overflow.
/// - `slots` has as many entries as `offset + len` bytes have pages. An entry is null, or a page of
///   lowmem for which the caller of [`Self::new`] has made the promise of [`Piece::new`].
#[derive(Clone, Copy)]
pub(crate) struct Payload<'a> {
    slots: &'a [*mut k::page],
    offset: u32,
    len: u32,
}

impl<'a> Payload<'a> {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self {
        slots: &[],
        offset: 0,
        len: 0,
    };

    /// Describes `len` bytes from byte `offset` of the first of `slots` on.
    ///
    /// # Safety
    ///
    /// - `offset` is less than the size of a page, and `offset + len` does not overflow.
    /// - `slots` has as many entries as `offset + len` bytes have pages. An entry is null, or a
    ///   page of lowmem.
    /// - The pages stay allocated, and a peer may access the bytes, as [`Piece::new`] demands.
    pub(crate) unsafe fn new(slots: &'a [*mut k::page], offset: u32, len: u32) -> Self {
        // INVARIANT: The caller promises the bounds, the entries and the pages.
        Self { slots, offset, len }
    }

    /// Returns whether there are no bytes left.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that are left.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of pages that the bytes occupy.
    pub(crate) fn pages(&self) -> usize {
        self.slots.len()
    }

    /// Removes the first run of adjacent pages, and returns it. Returns `None` at the end, or if a
    /// page is missing.
    #[inline]
    pub(crate) fn next_run(&mut self) -> Option<Piece> {
        let mut runs = self.runs(u32::MAX);
        let run = runs.next()?;
        let (offset, slots) = (self.offset, runs.slots);
        let len = run.len().wrapping_sub(offset).min(self.len);
        // INVARIANT: The rest begins with the page behind the run, or is empty.
        (self.slots, self.offset, self.len) = (slots, 0, self.len.wrapping_sub(len));
        // INVARIANT: The pages of the run, up to `len` bytes, are adjacent. The caller of `new` has
        // promised the rest.
        Some(Piece {
            page: run.first,
            offset,
            len,
        })
    }

    /// Removes all bytes and returns them, if they are in one page.
    pub(crate) fn take_single_page(&mut self) -> Option<Piece> {
        let &[page] = self.slots else {
            return None;
        };
        let piece = Piece {
            page: NonNull::new(page)?,
            offset: self.offset,
            len: self.len,
        };
        *self = Self::EMPTY;
        Some(piece)
    }

    /// Removes the part that is in the first `most` pages, or all if there are fewer, and returns
    /// it.
    pub(crate) fn split_front(&mut self, most: u32) -> Self {
        let Some((slots, rest)) = self.slots.split_at_checked(u32_as_usize(most)) else {
            return core::mem::replace(self, Self::EMPTY);
        };
        let (offset, len) = (
            self.offset,
            most.saturating_mul(PAGE).wrapping_sub(self.offset),
        );
        let len = len.min(self.len);
        // INVARIANT: The first part ends with the last byte of `slots`, or with the last of all.
        (self.slots, self.offset, self.len) = (rest, 0, self.len.wrapping_sub(len));
        Self { slots, offset, len }
    }

    /// Removes the first `bytes` bytes, or all if there are fewer.
    #[cold]
    pub(crate) fn skip(&mut self, bytes: u32) {
        if bytes >= self.len {
            *self = Self::EMPTY;
            return;
        }
        let start = self.offset + bytes;
        let whole = u32_as_usize(start / PAGE);
        // INVARIANT: There are bytes left, so the page of the first of them is one of `slots`.
        self.slots = self.slots.get(whole..).unwrap_or_default();
        (self.offset, self.len) = (start % PAGE, self.len - bytes);
    }

    /// Returns the runs of adjacent pages, from the first to the last page or to the first that is
    /// missing. A run that is longer than `most` pages, at least one, is cut.
    pub(crate) fn runs(&self, most: u32) -> Runs<'a> {
        Runs {
            slots: self.slots,
            most,
        }
    }

    /// Returns the offset of the first byte in its page.
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns the number of bytes behind the last one in its page.
    pub(crate) fn behind(&self) -> u32 {
        self.offset.wrapping_add(self.len).wrapping_neg() % PAGE
    }
}

/// Adjacent pages.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first page.
    pub(crate) first: NonNull<k::page>,
    /// The number of pages.
    pages: u32,
}

impl Run {
    /// Returns the number of bytes in the pages.
    pub(crate) fn len(&self) -> u32 {
        self.pages.wrapping_mul(PAGE)
    }
}

/// Iterator over the runs of a [`Payload`].
pub(crate) struct Runs<'a> {
    /// The pages that are left.
    slots: &'a [*mut k::page],
    most: u32,
}

impl Runs<'_> {
    /// Returns whether the iterator has returned the last page.
    pub(crate) fn is_done(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns how many of the pages that are left follow `first`.
    fn followers(&self, first: *mut k::page) -> u32 {
        let mut count = 0;
        for page in self.slots {
            count += 1;
            // The pointer is compared, but not dereferenced.
            if count == self.most || *page != first.wrapping_add(count as usize) {
                return count - 1;
            }
        }
        count
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        let (first, rest) = self.slots.split_first()?;
        let first = NonNull::new(*first)?;
        self.slots = rest;
        let mut pages = 1;
        if ONE_MEMORY_MAP && rest.first() == Some(&first.as_ptr().wrapping_add(1)) {
            let followers = self.followers(first.as_ptr());
            self.slots = rest.get(u32_as_usize(followers)..).unwrap_or_default();
            pages += followers;
        }
        Some(Run { first, pages })
    }
}
