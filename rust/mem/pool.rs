// SPDX-License-Identifier: GPL-2.0

//! A bounded cache of free pages.

use kernel::alloc::{Allocator, Flags, Vec};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::pages::move_last;
use super::Page;

/// A cache of free pages. Pages that the cache lacks are allocated, and pages that exceed its bound
/// are freed.
///
/// # Context
///
/// Process context. Methods that allocate may sleep, the other methods do not.
#[pin_data]
pub(crate) struct PagePool {
    /// The free pages. The capacity is the bound, so that adding one never allocates.
    #[pin]
    free: SpinLock<KVVec<Page>>,
}

impl PagePool {
    /// Creates an empty cache of at most `max_free` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_free: usize) -> Result<Arc<Self>> {
        let free = KVVec::with_capacity(max_free, GFP_KERNEL)?;
        let pool = pin_init!(Self {
            free <- new_spinlock!(free, "mem::PagePool::free"),
        });
        Arc::pin_init(pool, GFP_KERNEL)
    }

    /// Adds `n` pages to `pages`. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: no page was added.
    pub(crate) fn get_many<A: Allocator>(
        &self,
        n: usize,
        pages: &mut Vec<Page, A>,
        gfp: Flags,
    ) -> Result {
        if n == 0 {
            return Ok(());
        }
        let before = pages.len();
        pages.reserve(n, gfp)?;
        move_last(&mut self.free.lock(), pages, n);
        while pages.len() < before + n {
            match Page::allocate(gfp) {
                // The room was reserved above.
                Ok(page) => drop(pages.push_within_capacity(page)),
                Err(error) => {
                    let surplus = pages.len() - before;
                    move_last(pages, &mut self.free.lock(), surplus);
                    pages.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns all pages of a vector but the first `kept` to the pool. The capacity of the vector
    /// stays. Pages that exceed the bound are freed.
    pub(crate) fn put_behind<A: Allocator>(&self, kept: usize, pages: &mut Vec<Page, A>) {
        if let Some(more @ 1..) = pages.len().checked_sub(kept) {
            self.put_last(more, pages);
        }
    }

    /// Returns the last `n` pages of a vector to the pool.
    #[inline(never)]
    fn put_last<A: Allocator>(&self, n: usize, pages: &mut Vec<Page, A>) {
        let kept = pages.len().saturating_sub(n);
        move_last(pages, &mut self.free.lock(), n);
        // Freeing needs no lock.
        pages.truncate(kept);
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem_pool)]
mod tests {
    use super::*;
    use crate::mem::PageRef;

    impl PagePool {
        /// Returns the number of free pages.
        fn free(&self) -> usize {
            self.free.lock().len()
        }

        /// Returns a page: a free one, or a new one.
        fn get(&self) -> Result<Page> {
            let mut pages: KVec<Page> = KVec::new();
            self.get_many(1, &mut pages, GFP_KERNEL)?;
            pages.pop().ok_or(ENOMEM)
        }

        /// Puts a page back.
        fn put(&self, page: Page) -> Result {
            let mut pages: KVec<Page> = KVec::new();
            pages.push(page, GFP_KERNEL)?;
            self.put_behind(0, &mut pages);
            Ok(())
        }
    }

    #[test]
    fn page_that_was_put_is_got_again() -> Result {
        let pool = PagePool::new(2)?;
        let mut page = pool.get()?;
        page.bytes().fill(0x5a);
        assert_eq!(pool.free(), 0);
        pool.put(page)?;
        assert_eq!(pool.free(), 1);
        let mut page = pool.get()?;
        assert!(page.bytes().iter().all(|byte| *byte == 0x5a));
        assert_eq!(pool.free(), 0);
        Ok(())
    }

    #[test]
    fn no_more_than_the_bound_is_kept() -> Result {
        let pool = PagePool::new(3)?;
        let mut pages: KVVec<Page> = KVVec::new();
        pool.get_many(5, &mut pages, GFP_KERNEL)?;
        assert_eq!((pages.len(), pool.free()), (5, 0));
        pool.put_behind(0, &mut pages);
        assert_eq!((pages.len(), pool.free()), (0, 3));
        pool.put(Page::allocate(GFP_KERNEL)?)?;
        assert_eq!(pool.free(), 3);
        Ok(())
    }

    #[test]
    fn free_pages_are_got_before_new_ones() -> Result {
        let pool = PagePool::new(4)?;
        let mut pages: KVec<Page> = KVec::new();
        pool.get_many(2, &mut pages, GFP_KERNEL)?;
        for page in pages.iter_mut() {
            page.bytes().fill(0x77);
        }
        pool.put_behind(0, &mut pages);
        pool.get_many(3, &mut pages, GFP_KERNEL)?;
        let old = pages
            .iter_mut()
            .filter_map(|page| page.bytes().first().copied())
            .filter(|byte| *byte == 0x77)
            .count();
        assert!(old >= 2 && pages.len() == 3);
        assert_eq!(pool.free(), 0);
        Ok(())
    }

    #[test]
    fn bound_of_zero_keeps_nothing() -> Result {
        let pool = PagePool::new(0)?;
        pool.put(pool.get()?)?;
        assert_eq!(pool.free(), 0);
        Ok(())
    }

    #[test]
    fn first_pages_are_kept() -> Result {
        let pool = PagePool::new(2)?;
        let mut pages: KVec<Page> = KVec::new();
        pool.get_many(4, &mut pages, GFP_KERNEL)?;
        for (page, mark) in pages.iter_mut().zip(1..) {
            page.bytes().fill(mark);
        }
        pool.put_behind(1, &mut pages);
        assert_eq!((pages.len(), pool.free()), (1, 2));
        assert_eq!(pages.first_mut().map(|page| page.bytes()[0]), Some(1));
        // The vector has no more pages than it keeps.
        pool.put_behind(2, &mut pages);
        assert_eq!((pages.len(), pool.free()), (1, 2));
        Ok(())
    }

    #[test]
    fn references_are_put_once() -> Result {
        let mut refs = KVec::with_capacity(3, GFP_KERNEL)?;
        for _ in 0..3 {
            refs.push(PageRef::from(Page::allocate(GFP_KERNEL)?), GFP_KERNEL)?;
        }
        PageRef::put_all(&mut refs);
        assert_eq!((refs.len(), refs.capacity()), (0, 3));
        // An empty vector is no error.
        PageRef::put_all(&mut refs);
        Ok(())
    }
}
