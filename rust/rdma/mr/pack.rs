// SPDX-License-Identifier: GPL-2.0

//! Packing runs of bytes into a memory region.
//!
//! A region maps a number of pages, which the peer addresses as one contiguous range. A device that
//! cannot map gaps maps whole pages, except that the first may start and the last may end within a
//! page. On such a device, a run that starts within a page may only continue the run before it, and
//! after a run that ends within a page only its continuation may follow.

use kernel::page::PAGE_SIZE;

use crate::compat::casts::u32_as_usize;

// CAST: a page is far smaller than 4 GiB.
pub(in super::super) const PAGE: u32 = PAGE_SIZE as u32;

/// The state of a region that is being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packer {
    /// Number of pages that are left.
    pages: u32,
    /// Whether the device can map gaps.
    gaps: bool,
    /// Length in bytes of the longest run that the device can map; at least a page.
    longest: u32,
    /// The end of the last run: the number of its last page, and the offset behind its last byte,
    /// which is `PAGE` if the run fills the page.
    end: Option<(usize, u32)>,
}

impl Packer {
    /// Starts an empty region of `pages` pages. Runs longer than `longest` bytes are cut.
    pub(super) fn new(pages: u32, gaps: bool, longest: u32) -> Self {
        Self {
            pages,
            gaps,
            longest: longest.max(PAGE),
            end: None,
        }
    }

    /// Adds as much as fits of a run of `len` bytes, which starts at `offset` (less than a page) of
    /// page number `page`. Returns the number of bytes added: 0 if the region is full, or if there
    /// would be a gap.
    ///
    /// Physically contiguous pages have consecutive numbers. The rest of a run has to be added
    /// before the next run.
    // `Mr::map` is compiled once for each role. Without the attribute, the compiler inlines this
    // function only if it has a single caller.
    #[inline(always)]
    pub(super) fn add(&mut self, page: usize, offset: u32, len: u32) -> u32 {
        let continues = self.end == Some((page, offset));
        if !(continues || self.fits_behind(offset)) {
            return 0;
        }
        // The page that a run continues in is counted already.
        let pages = self.pages.saturating_add(continues.into());
        let room = pages.saturating_mul(PAGE).saturating_sub(offset);
        let mut n = len.min(room);
        if n > self.longest {
            // The run is cut at the end of a page.
            let surplus = (offset + self.longest) % PAGE;
            n = self.longest - surplus;
        }
        if n > 0 {
            let end = offset + n;
            self.pages = pages - end.div_ceil(PAGE);
            let last = page + u32_as_usize((end - 1) / PAGE);
            self.end = Some((last, (end - 1) % PAGE + 1));
        }
        n
    }

    /// Returns whether a run at this offset of another page may follow.
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

    #[test]
    fn first_and_last_may_be_partial() {
        let mut packer = Packer::new(4, false, u32::MAX);
        assert_eq!(packer.add(10, 100, PAGE - 100), PAGE - 100);
        assert_eq!(packer.add(20, 0, PAGE), PAGE);
        assert_eq!(packer.add(30, 0, 7), 7);
        // The last run ended within its page.
        assert_eq!(packer.add(40, 0, 1), 0);
    }

    #[test]
    fn no_gap_in_the_middle() {
        let mut packer = Packer::new(4, false, u32::MAX);
        assert_eq!(packer.add(10, 0, PAGE), PAGE);
        assert_eq!(packer.add(20, 4, 8), 0);
    }

    #[test]
    fn continued_run_is_no_gap_and_needs_no_page() {
        let mut packer = Packer::new(1, false, u32::MAX);
        assert_eq!(packer.add(10, 8, 100), 100);
        assert_eq!(packer.add(10, 108, 50), 50);
        assert_eq!(packer.add(10, 158, PAGE), PAGE - 158);
        assert_eq!(packer.add(11, 0, 1), 0);
    }

    #[test]
    fn device_that_maps_gaps_takes_any_run() {
        let mut packer = Packer::new(3, true, u32::MAX);
        assert_eq!(packer.add(10, 1, 2), 2);
        assert_eq!(packer.add(20, 3, 4), 4);
        assert_eq!(packer.add(30, 5, 6), 6);
        assert_eq!(packer.add(40, 7, 8), 0);
    }

    #[test]
    fn stops_at_the_last_page() {
        let mut packer = Packer::new(2, false, u32::MAX);
        assert_eq!(packer.add(10, 96, 3 * PAGE), 2 * PAGE - 96);
        assert_eq!(packer.add(12, 0, PAGE), 0);
    }

    #[test]
    fn long_runs_are_cut_at_the_end_of_a_page() {
        let mut packer = Packer::new(100, false, 3 * PAGE + 17);
        let n = packer.add(10, 5, 50 * PAGE);
        assert_eq!(n, 3 * PAGE - 5);
        // The rest of the run continues without a gap.
        assert_eq!(packer.add(13, 0, PAGE), PAGE);
    }

    #[test]
    fn never_more_pages_than_the_region_has() {
        // Every combination of a few page counts, offsets and lengths.
        for pages in 1..5_u32 {
            for offset in [0, 1, PAGE / 2, PAGE - 1] {
                for len in [1, 2, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 9 * PAGE] {
                    let n = Packer::new(pages, false, u32::MAX).add(7, offset, len);
                    assert!(n > 0 && n <= len);
                    assert!((offset + n).div_ceil(PAGE) <= pages);
                    assert!(n == len || (offset + n) == pages * PAGE);
                }
            }
        }
    }

    #[test]
    fn empty_region_takes_nothing() {
        assert_eq!(Packer::new(0, true, u32::MAX).add(1, 0, PAGE), 0);
    }
}
