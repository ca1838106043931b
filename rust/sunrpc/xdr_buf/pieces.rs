// SPDX-License-Identifier: GPL-2.0

//! The location of the bytes of an XDR buffer in memory.

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};

use super::narrow;
use crate::mem::Piece;
use crate::raw;

/// Size of a page.
const PAGE: u32 = PAGE_SIZE as u32;

/// Whether two `struct page`s are adjacent exactly if their pages are. With classic sparsemem the
/// maps of two sections that are not adjacent may be.
const ONE_MEMORY_MAP: bool = cfg!(any(CONFIG_SPARSEMEM_VMEMMAP, CONFIG_FLATMEM));

/// Iterator over the memory of a range of an XDR buffer, see [`super::XdrBuf::pieces`].
///
/// The pieces may outlive the iterator. The user guarantees that none is used after SUNRPC may have
/// freed the memory. A client transport guarantees it to the caller of
/// [`register`](super::super::xprt::class::register): SUNRPC frees the memory at the end of the
/// request, and the pages that an authentication flavour allocated for a call when the call is
/// encoded again.
///
/// # Invariants
///
/// - `buf` is well-formed as [`super::XdrBuf`] has it.
/// - `at + left` does not overflow.
/// - If `whole` is not 0, `at` is the first byte of the page in `slot`, an entry of the array of
///   pages, and the range contains that page and the next `whole - 1` as a whole.
pub(crate) struct Pieces<'a> {
    buf: &'a raw::xdr_buf,
    at: u32,
    left: u32,
    slot: *const *mut k::page,
    whole: u32,
}

impl<'a> Pieces<'a> {
    /// Creates an iterator over `len` bytes of `buf`, starting at `offset`. `buf` must be
    /// well-formed.
    #[inline]
    pub(super) fn new(buf: &'a raw::xdr_buf, offset: u32, len: u32) -> Self {
        // INVARIANT: `left` is at most `u32::MAX - at`.
        Self {
            buf,
            at: offset,
            left: len.min(u32::MAX - offset),
            slot: core::ptr::null(),
            whole: 0,
        }
    }

    /// Returns the page in `slot`, if the range contains it and the next page as a whole, and the
    /// two are not adjacent. Most pages of a payload are found here.
    #[inline]
    fn whole_page(&mut self) -> Option<Piece> {
        if self.whole < 2 {
            return None;
        }
        // SAFETY: By the type invariants the array has both entries.
        let (page, next) = unsafe { (*self.slot, *self.slot.add(1)) };
        if ONE_MEMORY_MAP && page.wrapping_add(1) == next {
            return None;
        }
        let page = NonNull::new(page)?;
        // INVARIANT: The range now begins with the next page. `whole` is at least 2, so `left` is
        // at least the size of two pages, and the sum of `at` and `left` does not change.
        self.slot = self.slot.wrapping_add(1);
        self.whole = self.whole.wrapping_sub(1);
        self.at = self.at.wrapping_add(PAGE);
        self.left = self.left.wrapping_sub(PAGE);
        // SAFETY: The page is one of the buffer's. The user of the pieces uses none after the
        // memory may have been freed.
        Some(unsafe { Piece::new(page, 0, PAGE) })
    }

    /// Sets `slot` and `whole` after a piece of the pages that ended at `skip`.
    fn find_whole_pages(&mut self, skip: u32) {
        let avail = self.left.min(self.buf.page_len.saturating_sub(skip));
        let start = self.buf.page_base.saturating_add(skip);
        // INVARIANT: `avail` bytes of the range from `start` on are in pages, and `start` is the
        // first byte of one.
        self.whole = if start % PAGE == 0 { avail / PAGE } else { 0 };
        let index = (start >> PAGE_SHIFT) as usize;
        self.slot = self.buf.pages.cast_const().wrapping_add(index);
    }

    /// Returns the piece of the buffer's head or tail that starts at `skip`.
    fn of_kvec(&self, vec: &raw::kvec, skip: u32) -> Option<Piece> {
        let len = self.left.min(narrow(vec.iov_len).checked_sub(skip)?);
        // CAST: `usize` has at least 32 bits.
        let start = vec.iov_base.cast::<u8>().wrapping_add(skip as usize);
        if len == 0 || start.is_null() {
            return None;
        }
        // SAFETY: By the type invariants the head and the tail lie in the direct map.
        let page = unsafe { raw::rr_virt_to_page(start.cast()) };
        // CAST: Below the size of a page.
        let offset = (start.addr() % PAGE_SIZE) as u32;
        // SAFETY: The direct map is linear, so the range is physically contiguous from `offset` in
        // `page` on. The user of the pieces uses none after the memory may have been freed.
        Some(unsafe { Piece::new(NonNull::new(page)?, offset, len) })
    }

    /// Returns the piece of the buffer's pages that starts at `skip` and ends with the last
    /// contiguous page.
    fn of_pages(&self, skip: u32) -> Option<Piece> {
        let avail = self.left.min(self.buf.page_len.checked_sub(skip)?);
        let start = self.buf.page_base.checked_add(skip)?;
        let (index, offset) = ((start >> PAGE_SHIFT) as usize, start % PAGE);
        let first = self.page(index)?;
        let mut len = avail.min(PAGE - offset);
        let mut next = index;
        while ONE_MEMORY_MAP && len < avail {
            next += 1;
            // The pointer is compared, but not dereferenced.
            let expected = first.as_ptr().wrapping_add(next - index);
            if self.page(next).map(NonNull::as_ptr) != Some(expected) {
                break;
            }
            len += PAGE.min(avail - len);
        }
        // SAFETY: The loop has checked that the pages after `first`, up to `len` bytes, are
        // adjacent to it. The user of the pieces uses none after the memory may have been freed.
        (len != 0).then(|| unsafe { Piece::new(first, offset, len) })
    }

    /// Returns entry `index` of the array of pages.
    #[inline]
    fn page(&self, index: usize) -> Option<NonNull<k::page>> {
        // SAFETY: By the type invariants the array covers `page_base + page_len` bytes, and all
        // callers pass an index below that.
        NonNull::new(unsafe { *self.buf.pages.add(index) })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        match self.whole_page() {
            None => self.advance(),
            page => page,
        }
    }
}

impl Pieces<'_> {
    /// Returns the next piece of a range that has not ended.
    fn advance(&mut self) -> Option<Piece> {
        let ([head], [tail]) = (&self.buf.head, &self.buf.tail);
        let head_len = narrow(head.iov_len);
        let piece = match self.at.checked_sub(head_len) {
            None => self.of_kvec(head, self.at),
            Some(skip) => match skip.checked_sub(self.buf.page_len) {
                None => self.of_pages(skip),
                Some(skip) => self.of_kvec(tail, skip),
            },
        };
        match piece {
            Some(piece) => {
                // INVARIANT: The sum does not change, and `whole` is set anew if it may not be 0.
                self.at += piece.len();
                self.left -= piece.len();
                self.whole = 0;
                if self.left >= 2 * PAGE {
                    self.find_whole_pages(self.at.saturating_sub(head_len));
                }
            }
            // The buffer ends, or a page is missing: the range ends here.
            None => self.left = 0,
        }
        piece
    }
}
