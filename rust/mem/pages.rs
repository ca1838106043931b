// SPDX-License-Identifier: GPL-2.0

//! Pages of calls and replies, as values that own them.
//!
//! An `svc_rqst` has two arrays of pages. `rq_pages` holds the call; its pages survive the call,
//! and `svc_alloc_arg()` refills the first `rq_pages_nfree` slots. `rq_respages` holds the reply;
//! after the reply SUNRPC frees the pages that are left in the slots up to `rq_next_page`, and
//! refills those slots. A page of a reply may belong to the page cache.
//!
//! `sunrpc` takes pages out of these arrays and puts pages in; `rdma` keeps them while a device
//! uses them.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::alloc::{Allocator, Flags, Vec};
use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::{Piece, PAGE};
use crate::raw;

/// A reference to a page of a reply. The page cache may have references to it as well, so that its
/// contents are not accessible here. Dropping it puts the reference; any context.
///
/// # Invariants
///
/// The value owns one reference to the page.
#[repr(transparent)]
pub(crate) struct PageRef(NonNull<k::page>);

// SAFETY: A page may be used and freed from any thread.
unsafe impl Send for PageRef {}
// SAFETY: A shared `PageRef` gives no access to the page.
unsafe impl Sync for PageRef {}

impl PageRef {
    /// Wraps a page.
    ///
    /// # Safety
    ///
    /// The caller owns a reference to the page, which the value takes over.
    pub(crate) unsafe fn from_raw(page: NonNull<k::page>) -> Self {
        // INVARIANT: The caller passes on the reference that it owns.
        Self(page)
    }

    /// Returns the page and its reference.
    pub(crate) fn into_raw(self) -> NonNull<k::page> {
        ManuallyDrop::new(self).0
    }

    /// Returns whether others hold references to the page, as the page cache does.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        // SAFETY: By the type invariant the value owns a reference.
        unsafe { is_shared(self.0) }
    }

    /// Puts all references of a vector, whose capacity stays. This costs less than dropping them
    /// one by one. Process context.
    pub(crate) fn put_all<A: Allocator>(pages: &mut Vec<Self, A>) {
        release(pages);
    }
}

impl From<Page> for PageRef {
    /// Keeps only the reference. The contents are no longer accessible.
    fn from(page: Page) -> Self {
        page.0
    }
}

impl Drop for PageRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the value owns a reference.
        unsafe { raw::rr_put_page(self.0.as_ptr()) };
    }
}

/// Returns whether others may hold references to a page. A page within a larger folio has no count
/// of its own, and counts as shared: it belongs to the page cache.
///
/// # Safety
///
/// The caller has a reference to the page.
pub(crate) unsafe fn is_shared(page: NonNull<k::page>) -> bool {
    // SAFETY: The caller has a reference, so the page is not freed. Its count is an atomic, which
    // is read once.
    unsafe { (&raw const (*page.as_ptr())._refcount.counter).read_volatile() != 1 }
}

/// A [`PageRef`], or a transparent wrapper of it. No other type may be one.
trait Owner {}

impl Owner for PageRef {}

impl Owner for Page {}

/// Puts the references of a vector, and empties the vector.
fn release<T: Owner, A: Allocator>(pages: &mut Vec<T, A>) {
    let len = pages.len();
    if len == 0 {
        return;
    }
    // CAST: a vector of pointers is far shorter than 2^31.
    // SAFETY: An `Owner` is a pointer to a page. By the type invariants a reference is owned for
    // each of the `len` entries. It is put here, and not a second time, because the vector forgets
    // it: the vector is read once and overwritten, so that it is not freed, and the parts are its
    // own.
    unsafe {
        let (first, _, capacity) = core::ptr::read(pages).into_raw_parts();
        core::ptr::write(pages, Vec::from_raw_parts(first, 0, capacity));
        raw::rr_release_pages(first.cast(), len as i32);
    }
}

/// A page that holds a part of a call, or will hold one. Dropping it frees the page; any context.
///
/// # Invariants
///
/// The page is lowmem, and no other code accesses its contents.
#[repr(transparent)]
pub(crate) struct Page(PageRef);

impl Page {
    /// Appends new pages to a vector until it has `n`. Sleeps if `gfp` is `GFP_KERNEL`; any other
    /// value counts as `GFP_NOWAIT`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the vector keeps the pages that were appended.
    pub(crate) fn fill<A: Allocator>(pages: &mut Vec<Self, A>, n: usize, gfp: Flags) -> Result {
        pages.reserve(n.saturating_sub(pages.len()), gfp)?;
        let sleeps = gfp.contains(GFP_KERNEL);
        let flags = if sleeps { k::GFP_KERNEL } else { k::GFP_NOWAIT };
        while let Some(left @ 1..) = n.checked_sub(pages.len()) {
            let room = pages.spare_capacity_mut().as_mut_ptr();
            // CAST: a vector of pointers is far shorter than 2^31.
            // SAFETY: There is room for `left` pages, each of which is a pointer. The allocator
            // fills the empty entries from the first one on, and returns their number. Each new
            // page is referenced once.
            // INVARIANT: The pages are new, and neither of the flags gives highmem.
            let added = unsafe {
                core::ptr::write_bytes(room, 0, left);
                let added = raw::rr_alloc_pages_bulk(flags, left as i32, room.cast());
                pages.inc_len(left.min(added as usize));
                added
            };
            if added == 0 {
                return Err(ENOMEM);
            }
        }
        Ok(())
    }

    /// Frees all pages of a vector, whose capacity stays. This costs less than dropping them one by
    /// one. Process context.
    pub(crate) fn free_all<A: Allocator>(pages: &mut Vec<Self, A>) {
        release(pages);
    }

    /// Allocates a page. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn allocate(gfp: Flags) -> Result<Self> {
        let mut pages = KVec::new();
        Self::fill(&mut pages, 1, gfp)?;
        pages.pop().ok_or(ENOMEM)
    }

    /// Wraps a page of a call.
    ///
    /// # Safety
    ///
    /// The caller owns a reference to the page, which the value takes over. The page is lowmem, and
    /// no other code accesses its contents.
    pub(crate) unsafe fn from_raw(page: NonNull<k::page>) -> Self {
        // SAFETY: The caller passes on the reference that it owns.
        // INVARIANT: The caller promises that the page is lowmem, and that no other code accesses
        // its contents.
        Self(unsafe { PageRef::from_raw(page) })
    }

    /// Returns the page and its reference.
    pub(crate) fn into_raw(self) -> NonNull<k::page> {
        self.0.into_raw()
    }

    /// Returns the contents.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant no other code accesses the contents, which are borrowed
        // with `self`. Every byte of a page has some value.
        unsafe {
            let start = raw::rr_page_to_virt(self.0 .0.as_ptr());
            core::slice::from_raw_parts_mut(start.cast(), PAGE_SIZE)
        }
    }

    /// Describes up to `len` bytes from `offset` on, but none beyond the end of the page.
    ///
    /// # Safety
    ///
    /// The user of the piece promises that the device uses it only while `self` exists, and that
    /// [`Self::bytes`] is not called meanwhile.
    #[inline]
    pub(crate) unsafe fn piece(&self, offset: u32, len: u32) -> Piece {
        let offset = offset.min(PAGE);
        // SAFETY: The bytes are inside one page, which by the type invariants is lowmem. The caller
        // promises the rest.
        unsafe { Piece::new(self.0 .0, offset, len.min(PAGE - offset)) }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_mem_pages)]
mod tests {
    use super::*;

    #[test]
    fn vector_is_filled_and_emptied() -> Result {
        let mut pages: KVec<Page> = KVec::new();
        Page::fill(&mut pages, 3, GFP_KERNEL)?;
        // More pages are appended, and none if there are enough.
        Page::fill(&mut pages, 300, GFP_NOWAIT)?;
        Page::fill(&mut pages, 2, GFP_KERNEL)?;
        assert_eq!(pages.len(), 300);
        pages.iter_mut().for_each(|page| page.bytes().fill(1));
        let capacity = pages.capacity();
        Page::free_all(&mut pages);
        assert_eq!((pages.len(), pages.capacity()), (0, capacity));
        // An empty vector is no error.
        Page::free_all(&mut pages);
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
        Ok(())
    }
}
