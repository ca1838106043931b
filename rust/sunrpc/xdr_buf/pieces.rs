// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of an XDR buffer lie in memory.

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};

use super::narrow;
use crate::mem::Piece;
use crate::raw;

/// Size of a page.
const PAGE: u32 = PAGE_SIZE as u32;

/// Are the page structures of adjacent pages always adjacent, and only those? With classic
/// sparsemem two sections' maps may happen to touch.
const ONE_MEMORY_MAP: bool = cfg!(any(CONFIG_SPARSEMEM_VMEMMAP, CONFIG_FLATMEM));

/// Iterator over the memory of a range of an XDR buffer, see [`super::XdrBuf::pieces`].
///
/// The pieces outlive the iterator. That the memory stays for as long as they are used is what whoever
/// has [registered](super::super::class::register) the transport vouches for: it uses none beyond the
/// time at which SUNRPC may free the memory. That is the end of the request, or for what an
/// authentication flavour has made for a call that is encoded anew, when the call was withdrawn.
///
/// # Invariants
///
/// - `buf` is well-formed as [`super::XdrBuf`] has it.
/// - `at + left` does not overflow.
pub(crate) struct Pieces<'a> {
    buf: &'a raw::xdr_buf,
    at: u32,
    left: u32,
}

impl<'a> Pieces<'a> {
    /// The range of `len` bytes from `offset` on; `buf` must be well-formed.
    #[inline]
    pub(super) fn new(buf: &'a raw::xdr_buf, offset: u32, len: u32) -> Self {
        // INVARIANT: `left` is at most what is left of the range of `u32`.
        Self {
            buf,
            at: offset,
            left: len.min(u32::MAX - offset),
        }
    }

    /// A piece of the buffer's head or tail, from `skip` on.
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
        // `page` on. It stays for as long as the transport has promised to use it at most, as the
        // type says.
        Some(unsafe { Piece::new(NonNull::new(page)?, offset, len) })
    }

    /// A piece of the buffer's pages, from `skip` on: as long as the pages are contiguous.
    fn of_pages(&self, skip: u32) -> Option<Piece> {
        let avail = self.left.min(self.buf.page_len.checked_sub(skip)?);
        let start = self.buf.page_base.checked_add(skip)?;
        let (index, offset) = ((start >> PAGE_SHIFT) as usize, start % PAGE);
        let first = self.page(index)?;
        let mut len = avail.min(PAGE - offset);
        let mut next = index;
        while ONE_MEMORY_MAP && len < avail {
            next += 1;
            // Compared, never followed.
            let expected = first.as_ptr().wrapping_add(next - index);
            if self.page(next).map(NonNull::as_ptr) != Some(expected) {
                break;
            }
            len += PAGE.min(avail - len);
        }
        // SAFETY: The loop has found the pages after `first`, up to `len` bytes, to be adjacent to
        // it. They stay for as long as the transport has promised to use them at most, as the type
        // says.
        (len != 0).then(|| unsafe { Piece::new(first, offset, len) })
    }

    /// Entry `index` of the array of pages.
    #[inline]
    fn page(&self, index: usize) -> Option<NonNull<k::page>> {
        // SAFETY: By the type invariants the array covers `page_base + page_len` bytes; callers
        // stay within.
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
        self.advance()
    }
}

impl Pieces<'_> {
    /// The next piece of a range that has not ended.
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
                // INVARIANT: The sum stays the same.
                self.at += piece.len();
                self.left -= piece.len();
            }
            // The end of the buffer, or a missing page: no more after it.
            None => self.left = 0,
        }
        piece
    }
}
