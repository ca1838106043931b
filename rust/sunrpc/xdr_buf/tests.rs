// SPDX-License-Identifier: GPL-2.0

//! KUnit: reading the pieces of XDR buffers, and placing replies in them.

use kernel::bindings as k;
use kernel::page::{Page, PAGE_SIZE};
use kernel::prelude::*;

use super::{Placed, XdrBuf, XdrBufMut};
use crate::raw;

/// Initial value of all bytes.
const BLANK: u8 = 0xee;

/// Bytes of memory behind head and tail, of which no buffer may use the last ones.
const SPARE: usize = 464;
const UNUSED: usize = 64;

/// Byte number `at` of the test message.
fn pattern(at: usize) -> u8 {
    // CAST: The remainder is below 251.
    (at % 251) as u8
}

/// Two equal `xdr_buf`s, as in an `rpc_rqst`, and the memory that they describe.
struct Fixture {
    /// Head, tail, and [`SPARE`] further bytes.
    memory: KVec<u8>,
    head: usize,
    tail: usize,
    pages: KVec<Page>,
    entries: KVec<*mut k::page>,
    rcv: raw::xdr_buf,
    private: raw::xdr_buf,
}

/// Allocates `len` bytes with the initial value.
fn blank(len: usize) -> Result<KVec<u8>> {
    Ok(KVec::from_elem(BLANK, len, GFP_KERNEL)?)
}

impl Fixture {
    /// Creates a buffer of `head` bytes, `page_len` bytes in pages from byte `page_base` on, and
    /// `tail` bytes.
    fn new(head: usize, page_base: usize, page_len: usize, tail: usize) -> Result<Self> {
        let mut this = Self {
            memory: blank(head + tail + SPARE)?,
            head,
            tail,
            pages: KVec::new(),
            entries: KVec::new(),
            rcv: raw::xdr_buf::default(),
            private: raw::xdr_buf::default(),
        };
        for _ in 0..(page_base + page_len).div_ceil(PAGE_SIZE) {
            let page = Page::alloc_page(GFP_KERNEL)?;
            this.entries.push(page.as_ptr(), GFP_KERNEL)?;
            this.pages.push(page, GFP_KERNEL)?;
        }
        this.describe(page_base, page_len);
        for at in 0..this.len() {
            this.poke(at, BLANK);
        }
        Ok(this)
    }

    fn describe(&mut self, page_base: usize, page_len: usize) {
        let buf = |this: &mut Self| raw::xdr_buf {
            head: [kvec(&mut this.memory[..this.head])],
            tail: [kvec(&mut this.memory[this.head..this.head + this.tail])],
            pages: this.entries.as_mut_ptr(),
            page_base: super::narrow(page_base),
            page_len: super::narrow(page_len),
            buflen: super::narrow(this.head + page_len + this.tail),
            ..Default::default()
        };
        self.rcv = buf(self);
        self.private = buf(self);
    }

    /// Returns the total number of bytes.
    fn len(&self) -> usize {
        self.head + self.rcv.page_len as usize + self.tail
    }

    fn buf(&mut self) -> XdrBuf<'_> {
        // SAFETY: The fixture owns the memory that the buffer describes, and does not change the
        // buffer.
        unsafe { XdrBuf::from_raw(&mut self.rcv) }
    }

    fn place(&mut self, inline: &[u8], chunk: u32) -> Placed {
        let room = self.memory.len() - UNUSED;
        // SAFETY: The fixture owns the memory that both buffers describe, and is exclusively
        // borrowed.
        unsafe { XdrBufMut::from_raw(&mut self.rcv, &mut self.private, room) }.place(inline, chunk)
    }

    /// Returns the page of byte `at` of the pages, and the offset in it.
    fn spot(&self, at: usize) -> (&Page, usize) {
        let at = self.rcv.page_base as usize + at;
        (&self.pages[at / PAGE_SIZE], at % PAGE_SIZE)
    }

    /// Writes byte `at` of head, pages and tail.
    fn poke(&mut self, at: usize, byte: u8) {
        let (head, pages) = (self.head, self.rcv.page_len as usize);
        if at < head {
            self.memory[at] = byte;
        } else if at < head + pages {
            let (page, offset) = self.spot(at - head);
            // SAFETY: The fixture owns the page, and the offset is below its size.
            let _ = unsafe { page.write_raw(&byte, offset, 1) };
        } else {
            self.memory[at - pages] = byte;
        }
    }

    /// Reads byte `at` of head, pages and tail.
    fn peek(&self, at: usize) -> u8 {
        let (head, pages) = (self.head, self.rcv.page_len as usize);
        if at < head {
            return self.memory[at];
        }
        if at >= head + pages {
            return self.memory[at - pages];
        }
        let (page, offset) = self.spot(at - head);
        let mut byte = 0;
        // SAFETY: The fixture owns the page, and the offset is below its size.
        let _ = unsafe { page.read_raw(&mut byte, offset, 1) };
        byte
    }

    fn fill(&mut self) {
        for at in 0..self.len() {
            self.poke(at, pattern(at));
        }
    }

    /// Returns whether the bytes from `at` on equal `bytes`.
    fn holds(&self, at: usize, bytes: &[u8]) -> bool {
        (at..).zip(bytes).all(|(i, byte)| self.peek(i) == *byte)
    }

    /// Returns whether the bytes from `at` to `end` have the initial value.
    fn untouched(&self, at: usize, end: usize) -> bool {
        (at..end).all(|i| self.peek(i) == BLANK)
    }

    /// Returns whether the two descriptions are equal. `call_decode()` warns if they are not.
    fn agree(&self) -> bool {
        let same =
            |a: &raw::kvec, b: &raw::kvec| a.iov_base == b.iov_base && a.iov_len == b.iov_len;
        same(&self.rcv.head[0], &self.private.head[0])
            && same(&self.rcv.tail[0], &self.private.tail[0])
            && self.rcv.page_len == self.private.page_len
            && self.rcv.buflen == self.private.buflen
    }

    /// Returns the bytes to which the pieces of a range refer.
    fn through_pieces(&mut self, offset: usize, len: usize) -> Result<(KVec<u8>, usize)> {
        let (mut bytes, mut count) = (KVec::new(), 0);
        let (offset, len) = (super::narrow(offset), super::narrow(len));
        for piece in self.buf().pieces(offset, len) {
            // SAFETY: The piece refers to memory that the fixture owns and that lies in the direct
            // map.
            let found = unsafe {
                let start = raw::rr_page_to_virt(piece.page().as_ptr()).cast::<u8>();
                core::slice::from_raw_parts(
                    start.add(piece.offset() as usize),
                    piece.len() as usize,
                )
            };
            bytes.extend_from_slice(found, GFP_KERNEL)?;
            count += 1;
        }
        Ok((bytes, count))
    }
}

fn kvec(bytes: &mut [u8]) -> raw::kvec {
    raw::kvec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// Creates a message of `len` bytes.
fn message(start: usize, len: usize) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(len, GFP_KERNEL)?;
    for at in start..start + len {
        bytes.push(pattern(at), GFP_KERNEL)?;
    }
    Ok(bytes)
}

#[kunit_tests(rpcrdma_sunrpc_xdr_buf)]
mod cases {
    use super::*;

    /// Offset of the bytes in pages, which continue in a further page whatever the size of pages.
    const BASE: usize = PAGE_SIZE - 2862;

    /// Tests ranges that start and end in every combination of head, pages and tail.
    const RANGES: [(usize, usize); 10] = [
        (0, 0),
        (0, 100),
        (40, 61),
        (99, 2),
        (100, 4096),
        (150, 9000),
        (0, 10151),
        (10099, 2),
        (10100, 51),
        (10150, 1),
    ];

    #[test]
    fn copies_any_range() -> Result {
        let mut f = Fixture::new(100, BASE, 10_000, 51)?;
        f.fill();
        for (offset, len) in RANGES {
            let mut out = blank(len)?;
            f.buf().copy_to(offset as u32, &mut out)?;
            assert!(out == message(offset, len)?);
        }
        Ok(())
    }

    #[test]
    fn copies_nothing_beyond_the_end() -> Result {
        let mut f = Fixture::new(100, 0, 5000, 20)?;
        let mut out = blank(21)?;
        assert!(f.buf().copy_to(5100, &mut out).is_err());
        assert!(f.buf().copy_to(u32::MAX, &mut out).is_err());
        assert!(f.buf().copy_to(5121, &mut out[..0]).is_err());
        assert!(f.buf().copy_to(5120, &mut out[..0]).is_ok());
        Ok(())
    }

    #[test]
    fn pieces_name_any_range() -> Result {
        let mut f = Fixture::new(100, BASE, 10_000, 51)?;
        f.fill();
        for (offset, len) in RANGES {
            let (bytes, _) = f.through_pieces(offset, len)?;
            assert!(bytes == message(offset, len)?);
        }
        Ok(())
    }

    #[test]
    fn pieces_name_many_pages() -> Result {
        for base in [0, 1, PAGE_SIZE - 1, PAGE_SIZE] {
            let mut f = Fixture::new(100, base, 9 * PAGE_SIZE, 51)?;
            // The pages as they were allocated, and in reverse order.
            for _ in 0..2 {
                f.fill();
                let ranges = [
                    (0, f.len()),
                    (100, 9 * PAGE_SIZE),
                    (101, 8 * PAGE_SIZE),
                    (50, 5 * PAGE_SIZE + 50),
                    (100 + PAGE_SIZE, 3 * PAGE_SIZE + 1),
                ];
                for (offset, len) in ranges {
                    let (bytes, _) = f.through_pieces(offset, len)?;
                    assert!(bytes == message(offset, len)?);
                }
                f.pages.reverse();
                f.entries.reverse();
            }
        }
        Ok(())
    }

    #[test]
    fn pieces_end_with_the_buffer() -> Result {
        let mut f = Fixture::new(8, PAGE_SIZE - 96, 200, 4)?;
        assert_eq!(f.through_pieces(0, 1000)?.0.len(), 212);
        assert_eq!(f.through_pieces(212, 1)?.0.len(), 0);
        assert_eq!(f.through_pieces(u32::MAX as usize, 1)?.0.len(), 0);
        let mut empty = Fixture::new(0, 0, 0, 0)?;
        assert_eq!(empty.through_pieces(0, 1)?.0.len(), 0);
        Ok(())
    }

    #[test]
    fn pieces_merge_adjacent_pages() -> Result {
        let mut f = Fixture::new(16, 100, 3 * PAGE_SIZE, 0)?;
        // SAFETY: The function has no preconditions. The pages are freed below.
        let block = unsafe { k::alloc_pages(k::GFP_KERNEL, 2) };
        assert!(!block.is_null());
        for (i, entry) in f.entries.iter_mut().enumerate() {
            *entry = block.wrapping_add(i);
        }
        let len = super::super::narrow(3 * PAGE_SIZE);
        let pieces = f.buf().pieces(16, len).count();
        // In reverse order the pages cannot be merged.
        f.entries.reverse();
        let reversed = f.buf().pieces(16, len).count();
        // SAFETY: The pages were allocated above, with this order.
        unsafe { k::__free_pages(block, 2) };
        assert_eq!(pieces, 1);
        assert_eq!(reversed, 4);
        Ok(())
    }

    #[test]
    fn pieces_stop_at_a_missing_page() -> Result {
        let mut f = Fixture::new(16, 0, 3 * PAGE_SIZE, 16)?;
        f.entries[1] = core::ptr::null_mut();
        let len: u32 = f.buf().pieces(0, u32::MAX).map(|p| p.len()).sum();
        assert_eq!(len as usize, 16 + PAGE_SIZE);
        Ok(())
    }

    #[test]
    fn missing_pages_are_filled_in() -> Result {
        let len = PAGE_SIZE + 904;
        let mut f = Fixture::new(16, PAGE_SIZE - 96, len, 16)?;
        let kept = f.entries[1];
        f.entries[0] = core::ptr::null_mut();
        f.entries[2] = core::ptr::null_mut();
        f.rcv.flags = raw::XDRBUF_SPARSE_PAGES;
        assert_eq!(f.place(&message(0, len)?, 0).copied, 0);
        f.buf().fill_sparse()?;
        assert!(f.entries.iter().all(|page| !page.is_null()));
        assert_eq!(f.entries[1], kept);
        let added = [f.entries[0], f.entries[2]];
        assert_eq!(f.place(&message(0, len + 16)?, 0).copied, len);
        for page in added {
            // SAFETY: `fill_sparse` allocated the page, and no other code uses it.
            unsafe { k::__free_pages(page, 0) };
        }
        Ok(())
    }

    #[test]
    fn places_inline_replies() -> Result {
        for len in [1, 99, 100, 101, 5000, 10_099, 10_100, 10_151] {
            let mut f = Fixture::new(100, BASE, 10_000, 51)?;
            let bytes = message(0, len)?;
            let placed = f.place(&bytes, 0);
            assert_eq!(placed.len as usize, len);
            assert_eq!(placed.copied, len.saturating_sub(100).min(10_000));
            assert!(f.holds(0, &bytes) && f.untouched(len, f.len()));
            assert!(f.agree());
            assert_eq!(f.rcv.head[0].iov_len, 100);
        }
        Ok(())
    }

    #[test]
    fn drops_what_does_not_fit() -> Result {
        let mut f = Fixture::new(10, 0, 20, 5)?;
        let placed = f.place(&message(0, 100)?, 0);
        assert_eq!(placed.len, 35);
        assert!(f.holds(0, &message(0, 35)?));
        let mut headless = Fixture::new(0, 0, 0, 0)?;
        assert_eq!(headless.place(&message(0, 9)?, 0).len, 0);
        Ok(())
    }

    #[test]
    fn cuts_the_head_before_a_chunk() -> Result {
        let mut f = Fixture::new(100, 0, 8192, 40)?;
        let (bytes, total) = (message(0, 60)?, f.rcv.buflen);
        let placed = f.place(&bytes, 4098);
        assert_eq!(placed.len, 60 + 4100);
        assert_eq!(placed.copied, 0);
        assert_eq!(f.rcv.head[0].iov_len, 60);
        assert_eq!(f.rcv.buflen, total - 40);
        assert!(f.agree());
        assert!(f.holds(0, &bytes) && f.untouched(60, f.len()));
        Ok(())
    }

    #[test]
    fn extends_the_head_before_a_chunk() -> Result {
        // The lengths of the header, without and with the padding of the payload.
        for (header, inline) in [(104, 104), (112, 115), (540, 540)] {
            let mut f = Fixture::new(100, 0, 4097, 40)?;
            let bytes = message(0, inline)?;
            let placed = f.place(&bytes, 4097);
            assert_eq!(placed.len as usize, header + 4100);
            assert_eq!(placed.copied, 0);
            assert_eq!(f.rcv.head[0].iov_len, header);
            let left = (540 - header).min(40);
            assert_eq!(f.rcv.tail[0].iov_len, left);
            assert_eq!(f.rcv.buflen as usize, header + 4097 + left);
            assert!(f.memory[..header] == bytes[..header]);
            assert!(f.memory[header..].iter().all(|byte| *byte == BLANK));
            assert!(f.untouched(100, 100 + 4097) && f.agree());
        }
        Ok(())
    }

    #[test]
    fn places_nothing_behind_the_memory() -> Result {
        // A header that is longer than the memory.
        let mut f = Fixture::new(100, 0, 4096, 40)?;
        assert_eq!(f.place(&message(0, 544)?, 4096), Placed::default());
        assert!(f.untouched(0, f.len()) && f.agree());
        // A tail that ends 4 GiB behind its start.
        for (len, chunk) in [(90, 0), (90, 4096), (540, 4096), (8000, 0), (8000, 4096)] {
            let mut f = Fixture::new(100, 0, 4096, 40)?;
            for buf in [&mut f.rcv, &mut f.private] {
                buf.tail[0].iov_len = u32::MAX as usize - 99;
            }
            f.place(&message(0, len)?, chunk);
            let end = f.memory.len() - UNUSED;
            assert!(f.memory[end..].iter().all(|byte| *byte == BLANK));
            // Without a chunk nothing is placed behind the head.
            let end = if chunk == 0 { 100 } else { end };
            assert!(f.memory[end..].iter().all(|byte| *byte == BLANK));
        }
        // A head that is longer than the memory.
        for (len, chunk) in [(544, 4096), (8000, 0), (8000, 4096)] {
            let mut f = Fixture::new(100, 0, 4096, 40)?;
            for buf in [&mut f.rcv, &mut f.private] {
                buf.head[0].iov_len = 1000;
            }
            assert_eq!(f.place(&message(0, len)?, chunk), Placed::default());
            assert!(f.memory.iter().all(|byte| *byte == BLANK));
        }
        Ok(())
    }

    #[test]
    fn no_chunk_is_larger_than_the_pages() -> Result {
        let mut f = Fixture::new(100, 0, 4096, 40)?;
        let placed = f.place(&message(0, 52)?, u32::MAX);
        assert_eq!(placed.len, 52 + 4096);
        assert!(f.agree());
        Ok(())
    }
}
