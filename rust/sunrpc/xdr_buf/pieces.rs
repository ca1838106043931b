// SPDX-License-Identifier: GPL-2.0

//! The location of the bytes of an XDR buffer in memory.

use core::ptr::NonNull;

use kernel::page::{PAGE_SHIFT, PAGE_SIZE};

use super::narrow;
use crate::compat::casts::u32_as_usize;
use crate::mem::{Payload, Piece, Sections, PAGE};
use crate::raw;

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
/// - `buf` upholds the invariants of [`super::XdrBuf`].
/// - `at + left` does not overflow.
/// - The range continues with `pages`, and after that with the `left` bytes from `at` on.
#[derive(Clone)]
pub(crate) struct Pieces<'a> {
    buf: &'a raw::xdr_buf,
    pages: Payload<'a>,
    at: u32,
    left: u32,
}

impl<'a> Pieces<'a> {
    /// Creates an iterator over `len` bytes of `buf`, starting at `offset`. `buf` must be
    /// well-formed.
    pub(super) fn new(buf: &'a raw::xdr_buf, offset: u32, len: u32) -> Self {
        // INVARIANT: `left` is at most `u32::MAX - at`.
        Self {
            buf,
            pages: Payload::EMPTY,
            at: offset,
            left: len.min(u32::MAX - offset),
        }
    }
}

/// Returns the part of a buffer's head or tail that starts at `skip`, of `len` bytes at most. The
/// buffer must be well-formed.
fn piece(vec: &raw::kvec, skip: u32, len: u32) -> Option<Piece> {
    let len = len.min(narrow(vec.iov_len).checked_sub(skip)?);
    let start = vec.iov_base.cast::<u8>().wrapping_add(u32_as_usize(skip));
    if len == 0 || start.is_null() {
        return None;
    }
    // SAFETY: The buffer is well-formed, so that head and tail lie in the direct map.
    let page = unsafe { raw::rr_virt_to_page(start.cast()) };
    // CAST: Below the size of a page.
    let offset = (start.addr() % PAGE_SIZE) as u32;
    // SAFETY: The direct map is linear, so the range is physically contiguous from `offset` in
    // `page` on. The user of the pieces does not use them after SUNRPC may have freed the memory.
    Some(unsafe { Piece::new(NonNull::new(page)?, offset, len) })
}

/// Returns head, pages and tail of a buffer, which must be well-formed.
pub(super) fn sections(buf: &raw::xdr_buf) -> Sections<'_> {
    let ([head], [tail]) = (&buf.head, &buf.tail);
    Sections::new(
        piece(head, 0, u32::MAX),
        payload(buf, 0, u32::MAX),
        piece(tail, 0, u32::MAX),
    )
}

/// Returns the part of a buffer's pages that starts at `skip`, of `len` bytes at most. `buf` must
/// be well-formed.
pub(super) fn payload(buf: &raw::xdr_buf, skip: u32, len: u32) -> Payload<'_> {
    let len = len.min(buf.page_len.saturating_sub(skip));
    let (Some(start), 1..) = (buf.page_base.checked_add(skip), len) else {
        return Payload::EMPTY;
    };
    let (offset, index) = (start % PAGE, start >> PAGE_SHIFT);
    let index = u32_as_usize(index);
    let count = (u32_as_usize(offset) + u32_as_usize(len)).div_ceil(PAGE_SIZE);
    // SAFETY: The buffer is well-formed: its array has room for `page_base + page_len` bytes, of
    // which these are a part, its entries are pages or null, and it does not change. The user of
    // the pieces does not use them after SUNRPC may have freed the memory.
    unsafe {
        let slots = core::slice::from_raw_parts(buf.pages.add(index), count);
        Payload::new(slots, offset, len)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if !self.pages.is_empty() {
            return self.next_page();
        }
        if self.left == 0 {
            return None;
        }
        self.advance()
    }
}

impl Pieces<'_> {
    /// Returns the next piece of the pages that are left.
    fn next_page(&mut self) -> Option<Piece> {
        let piece = self.pages.next_run();
        if piece.is_none() {
            self.end();
        }
        piece
    }

    /// Ends the range where the buffer ends, or where a page is missing.
    #[cold]
    fn end(&mut self) {
        (self.pages, self.left) = (Payload::EMPTY, 0);
    }

    /// Returns the first piece of the next part of the buffer.
    fn advance(&mut self) -> Option<Piece> {
        let ([head], [tail]) = (&self.buf.head, &self.buf.tail);
        let piece = match self.at.checked_sub(narrow(head.iov_len)) {
            None => piece(head, self.at, self.left),
            Some(skip) => match skip.checked_sub(self.buf.page_len) {
                None => return self.begin_pages(skip),
                Some(skip) => piece(tail, skip, self.left),
            },
        };
        match piece {
            Some(piece) => self.skip(piece.len()),
            None => self.end(),
        }
        piece
    }

    /// Continues with the buffer's pages, of which the first `skip` bytes are not part of the
    /// range. Returns their first piece.
    fn begin_pages(&mut self, skip: u32) -> Option<Piece> {
        let pages = payload(self.buf, skip, self.left);
        self.skip(pages.len());
        // INVARIANT: `at` is behind these pages now.
        self.pages = pages;
        self.next_page()
    }

    /// Moves `at` forward by `n` bytes, which is not more than `left`.
    fn skip(&mut self, n: u32) {
        // INVARIANT: The sum does not change.
        self.at += n;
        self.left -= n;
    }
}
