// SPDX-License-Identifier: GPL-2.0

//! A block of memory for the peer to read or write: some pages that are not contiguous.

use core::ptr::NonNull;

use kernel::page::{Page, PAGE_SIZE};
use kernel::prelude::*;

use crate::mem::Piece;

const PAGES: usize = 3;
/// Offset of the block's first byte in its first page.
const START: usize = 512;
/// Offset behind the block's last byte in its last page.
const END: usize = 100;

/// Length of a block in bytes.
pub(crate) const LEN: usize = PAGES * PAGE_SIZE - START - (PAGE_SIZE - END);

/// Pages with a block in them that neither starts nor ends at the boundary of a page.
pub(crate) struct Block {
    pages: [Page; PAGES],
}

impl Block {
    /// Allocates a block of zeroes.
    pub(crate) fn new() -> Result<Self> {
        let page = || Page::alloc_page(GFP_KERNEL | __GFP_ZERO);
        Ok(Self {
            pages: [page()?, page()?, page()?],
        })
    }

    /// Returns the block's parts, one in each page: page number, offset, length.
    fn parts() -> [(usize, usize, usize); PAGES] {
        [
            (0, START, PAGE_SIZE - START),
            (1, 0, PAGE_SIZE),
            (2, 0, END),
        ]
    }

    /// Returns the pieces of memory for a region to map. The block outlives the queue pair on which
    /// the region is posted, because [`End`](super::end::End) drops it later.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + Clone + '_ {
        Self::parts()
            .into_iter()
            .zip(&self.pages)
            .filter_map(|((_, offset, len), page)| {
                let page = NonNull::new(page.as_ptr())?;
                // CAST: offset and length are at most the size of a page.
                // SAFETY: The part is inside one page, which is allocated as long as the block.
                Some(unsafe { Piece::new(page, offset as u32, len as u32) })
            })
    }

    /// Copies `bytes` into the block.
    pub(crate) fn fill(&self, bytes: &[u8]) -> Result {
        let mut at = 0;
        for ((_, offset, len), page) in Self::parts().into_iter().zip(&self.pages) {
            let part = bytes.get(at..at + len).ok_or(EINVAL)?;
            // SAFETY: `part` has `len` bytes. Nothing else accesses the page: no region maps it.
            unsafe { page.write_raw(part.as_ptr(), offset, len) }?;
            at += len;
        }
        Ok(())
    }

    /// Copies the block into `bytes`.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result {
        let mut at = 0;
        for ((_, offset, len), page) in Self::parts().into_iter().zip(&self.pages) {
            let part = bytes.get_mut(at..at + len).ok_or(EINVAL)?;
            // SAFETY: `part` has `len` bytes. Nothing writes the page: its region was fenced.
            unsafe { page.read_raw(part.as_mut_ptr(), offset, len) }?;
            at += len;
        }
        Ok(())
    }
}

/// Fills `bytes` with a pseudorandom sequence that depends on `seed`.
pub(crate) fn pattern(seed: u32, bytes: &mut [u8]) {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    for byte in bytes {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = x.to_be_bytes()[0];
    }
}

/// Returns whether `bytes` is the sequence of [`pattern`] for `seed`.
pub(crate) fn is_pattern(seed: u32, bytes: &[u8]) -> bool {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    bytes.iter().all(|byte| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte == x.to_be_bytes()[0]
    })
}
