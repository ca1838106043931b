// SPDX-License-Identifier: GPL-2.0

//! A block of memory that the peer is to read or write: some pages, scattered.

use core::ptr::NonNull;

use kernel::page::{Page, PAGE_SIZE};
use kernel::prelude::*;

use crate::mem::Piece;

const PAGES: usize = 3;
/// Where the block starts in its first page, and ends in its last.
const START: usize = 512;
const END: usize = 100;

/// Bytes of a block.
pub(crate) const LEN: usize = PAGES * PAGE_SIZE - START - (PAGE_SIZE - END);

/// Pages with a block in them that neither starts nor ends where a page does.
pub(crate) struct Block {
    pages: [Page; PAGES],
}

impl Block {
    /// Allocates one, full of zeroes.
    pub(crate) fn new() -> Result<Self> {
        let page = || Page::alloc_page(GFP_KERNEL | __GFP_ZERO);
        Ok(Self {
            pages: [page()?, page()?, page()?],
        })
    }

    /// The block's parts, one in each page: page number, offset, length.
    fn parts() -> [(usize, usize, usize); PAGES] {
        [
            (0, START, PAGE_SIZE - START),
            (1, 0, PAGE_SIZE),
            (2, 0, END),
        ]
    }

    /// What a memory region is to map. The block outlives the region, or the queue pair that it is
    /// posted on; see [`End`](super::end::End).
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        Self::parts()
            .into_iter()
            .zip(&self.pages)
            .filter_map(|((_, offset, len), page)| {
                let page = NonNull::new(page.as_ptr())?;
                // CAST: less than a page.
                // SAFETY: The part is in one page, which lives as long as the block.
                Some(unsafe { Piece::new(page, offset as u32, len as u32) })
            })
    }

    /// Fills the block.
    pub(crate) fn fill(&self, bytes: &[u8]) -> Result {
        let mut at = 0;
        for ((_, offset, len), page) in Self::parts().into_iter().zip(&self.pages) {
            let part = bytes.get(at..at + len).ok_or(EINVAL)?;
            // SAFETY: `part` is as long; nobody else writes to the page now: no region maps it.
            unsafe { page.write_raw(part.as_ptr(), offset, len) }?;
            at += len;
        }
        Ok(())
    }

    /// Copies the block out.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result {
        let mut at = 0;
        for ((_, offset, len), page) in Self::parts().into_iter().zip(&self.pages) {
            let part = bytes.get_mut(at..at + len).ok_or(EINVAL)?;
            // SAFETY: `part` is as long; nobody writes to the page now: it has been fenced.
            unsafe { page.read_raw(part.as_mut_ptr(), offset, len) }?;
            at += len;
        }
        Ok(())
    }
}

/// Fills `bytes` with something that depends on `seed`, and on the place.
pub(crate) fn pattern(seed: u32, bytes: &mut [u8]) {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    for byte in bytes {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = x.to_be_bytes()[0];
    }
}

/// Whether `bytes` is what [`pattern`] makes of `seed`.
pub(crate) fn is_pattern(seed: u32, bytes: &[u8]) -> bool {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    bytes.iter().all(|byte| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte == x.to_be_bytes()[0]
    })
}
