// SPDX-License-Identifier: GPL-2.0

//! How much of the next run of bytes fits a memory region.
//!
//! A region maps a number of pages and shows them to the peer as one run of addresses. A device
//! that cannot bridge gaps maps whole pages, except that the first may start and the last may end
//! anywhere. So a run that does not start where a page does may follow only what it continues,
//! and nothing else may follow a run that ends within a page.

use kernel::page::PAGE_SIZE;

// CAST: a page is far smaller than 4 GiB.
const PAGE: u32 = PAGE_SIZE as u32;

/// A region being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packer {
    /// Pages that are left.
    pages: u32,
    /// Whether the device bridges gaps.
    gaps: bool,
    /// Longest piece in bytes that the device takes; at least a page.
    longest: u32,
    /// Where the last run ended: its last page, and the offset behind the last byte, which is
    /// `PAGE` if it filled the page.
    end: Option<(usize, u32)>,
}

impl Packer {
    /// A region of so many pages. Pieces longer than `longest` bytes are to be cut.
    pub(super) fn new(pages: u32, gaps: bool, longest: u32) -> Self {
        Self {
            pages,
            gaps,
            longest: longest.max(PAGE),
            end: None,
        }
    }

    /// How many of `len` bytes from `offset` (less than a page) of page number `page` on may be
    /// added; they count as added. 0: the region is full, or there would be a gap.
    ///
    /// Pages are numbered so that numbers of physically contiguous ones follow each other. Call
    /// again with what is left of a run before going on to the next one.
    pub(super) fn take(&mut self, page: usize, offset: u32, len: u32) -> u32 {
        let continues = self.end == Some((page, offset));
        if !(continues || self.fits_behind(offset)) {
            return 0;
        }
        // The page that a run continues in is paid for.
        let pages = self.pages.saturating_add(continues.into());
        let room = pages.saturating_mul(PAGE).saturating_sub(offset);
        let mut n = len.min(room);
        if n > self.longest {
            // Up to where a page ends.
            let surplus = (offset + self.longest) % PAGE;
            n = self.longest - surplus;
        }
        if n > 0 {
            let end = offset + n;
            self.pages = pages - end.div_ceil(PAGE);
            // CAST: `usize` has at least 32 bits.
            let last = page + ((end - 1) / PAGE) as usize;
            self.end = Some((last, (end - 1) % PAGE + 1));
        }
        n
    }

    /// Whether something at this offset of another page may come next.
    fn fits_behind(&self, offset: u32) -> bool {
        match self.end {
            None => true,
            Some((_, end)) => self.gaps || (end == PAGE && offset == 0),
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_pack)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    #[test]
    fn first_and_last_may_be_partial() {
        let mut packer = Packer::new(4, false, u32::MAX);
        assert_eq!(packer.take(10, 100, PAGE - 100), PAGE - 100);
        assert_eq!(packer.take(20, 0, PAGE), PAGE);
        assert_eq!(packer.take(30, 0, 7), 7);
        // The last one ended within its page.
        assert_eq!(packer.take(40, 0, 1), 0);
    }

    #[test]
    fn no_gap_in_the_middle() {
        let mut packer = Packer::new(4, false, u32::MAX);
        assert_eq!(packer.take(10, 0, PAGE), PAGE);
        assert_eq!(packer.take(20, 4, 8), 0);
    }

    #[test]
    fn continuing_run_is_no_gap_and_costs_no_page() {
        let mut packer = Packer::new(1, false, u32::MAX);
        assert_eq!(packer.take(10, 8, 100), 100);
        assert_eq!(packer.take(10, 108, 50), 50);
        assert_eq!(packer.take(10, 158, PAGE), PAGE - 158);
        assert_eq!(packer.take(11, 0, 1), 0);
    }

    #[test]
    fn device_that_bridges_gaps_takes_anything() {
        let mut packer = Packer::new(3, true, u32::MAX);
        assert_eq!(packer.take(10, 1, 2), 2);
        assert_eq!(packer.take(20, 3, 4), 4);
        assert_eq!(packer.take(30, 5, 6), 6);
        assert_eq!(packer.take(40, 7, 8), 0);
    }

    #[test]
    fn stops_at_the_last_page() {
        let mut packer = Packer::new(2, false, u32::MAX);
        assert_eq!(packer.take(10, 96, 3 * PAGE), 2 * PAGE - 96);
        assert_eq!(packer.take(12, 0, PAGE), 0);
    }

    #[test]
    fn long_runs_are_cut_between_pages() {
        let mut packer = Packer::new(100, false, 3 * PAGE + 17);
        let n = packer.take(10, 5, 50 * PAGE);
        assert_eq!(n, 3 * PAGE - 5);
        // What is left continues without a gap.
        assert_eq!(packer.take(13, 0, PAGE), PAGE);
    }

    #[test]
    fn never_more_pages_than_there_are() {
        // Page numbers as a device would count them, for every small start and length.
        for pages in 1..5_u32 {
            for offset in [0, 1, PAGE / 2, PAGE - 1] {
                for len in [1, 2, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 9 * PAGE] {
                    let n = Packer::new(pages, false, u32::MAX).take(7, offset, len);
                    assert!(n > 0 && n <= len);
                    assert!((offset + n).div_ceil(PAGE) <= pages);
                    assert!(n == len || (offset + n) == pages * PAGE);
                }
            }
        }
    }

    #[test]
    fn empty_region_takes_nothing() {
        assert_eq!(Packer::new(0, true, u32::MAX).take(1, 0, PAGE), 0);
    }
}
