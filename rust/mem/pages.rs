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
use kernel::page::{self, PAGE_SIZE};
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
        let len = pages.len();
        if len == 0 {
            return;
        }
        // CAST: a vector of pointers is far shorter than 2^31.
        // SAFETY: A `PageRef` is a pointer to a page. By the type invariants a reference is owned
        // for each of the `len` entries. It is put here, and not a second time, because the vector
        // forgets it.
        unsafe {
            forget_behind(pages, 0);
            raw::rr_release_pages(pages.as_mut_ptr().cast(), len as i32);
        }
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

/// Forgets all values but the first `len`, without dropping them.
fn forget_behind<T, A: Allocator>(values: &mut Vec<T, A>, len: usize) {
    let len = len.min(values.len());
    // SAFETY: The vector is read once and overwritten, so that it is not freed. The parts are its
    // own, with a length that is not longer.
    unsafe {
        let (first, _, capacity) = core::ptr::read(values).into_raw_parts();
        core::ptr::write(values, Vec::from_raw_parts(first, len, capacity));
    }
}

/// Moves the last `n` pages of `from` to the end of `to`: fewer if there are fewer, or if `to`
/// lacks space. Their order is kept.
pub(super) fn move_last<A: Allocator, B: Allocator>(
    from: &mut Vec<Page, A>,
    to: &mut Vec<Page, B>,
    n: usize,
) {
    let room = to.spare_capacity_mut();
    let n = n.min(from.len()).min(room.len());
    let left = from.len().wrapping_sub(n);
    // SAFETY: `n` is at most the length of `from` and the room of `to`. Each page that is moved is
    // owned by `to` alone, because `from` forgets it.
    unsafe {
        core::ptr::copy_nonoverlapping(from.as_ptr().add(left), room.as_mut_ptr().cast(), n);
        to.inc_len(n);
        forget_behind(from, left);
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
    /// Allocates a page. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn allocate(gfp: Flags) -> Result<Self> {
        let page = ManuallyDrop::new(page::Page::alloc_page(gfp)?);
        let page = NonNull::new(page.as_ptr()).ok_or(ENOMEM)?;
        // SAFETY: The reference to the new page is owned here: the value that owned it is not
        // dropped.
        // INVARIANT: The page is new, and none of the flags that this module uses gives highmem.
        Ok(Self(unsafe { PageRef::from_raw(page) }))
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
