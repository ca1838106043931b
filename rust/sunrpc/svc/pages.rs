// SPDX-License-Identifier: GPL-2.0

//! Pages of calls and replies, as values that own them.
//!
//! An `svc_rqst` has two arrays of pages. `rq_pages` holds the call; its pages survive the call,
//! and `svc_alloc_arg()` refills the first `rq_pages_nfree` slots. `rq_respages` holds the reply;
//! after the reply SUNRPC frees the pages that are left in the slots up to `rq_next_page`, and
//! refills those slots. A page of a reply may belong to the page cache.

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use crate::raw;

/// A reference to a page of a reply. Others may have references to it, so that its contents are not
/// accessible here. Dropping it puts the reference; any context.
///
/// # Invariants
///
/// The value owns one reference to the page.
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
    pub(super) unsafe fn from_raw(page: NonNull<k::page>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(page)
    }

    /// Returns the page and its reference.
    pub(super) fn into_raw(self) -> NonNull<k::page> {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for PageRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the value owns a reference.
        unsafe { raw::rr_put_page(self.0.as_ptr()) };
    }
}

/// A page that holds a part of a call, or will hold one.
///
/// # Invariants
///
/// The page is lowmem, and no other code accesses its contents.
pub(crate) struct Page(PageRef);

impl Page {
    /// Allocates a page. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The function has no preconditions but a context that may sleep.
        let page = unsafe { k::alloc_pages(k::GFP_KERNEL, 0) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        // SAFETY: The reference to the new page is owned here.
        // INVARIANT: The page is new, and `GFP_KERNEL` gives lowmem.
        Ok(Self(unsafe { PageRef::from_raw(page) }))
    }

    /// Wraps a page of a call.
    ///
    /// # Safety
    ///
    /// As for [`PageRef::from_raw`], and the caller upholds the type invariants.
    pub(super) unsafe fn from_raw(page: NonNull<k::page>) -> Self {
        // SAFETY: By the safety requirements.
        // INVARIANT: By the safety requirements.
        Self(unsafe { PageRef::from_raw(page) })
    }

    /// Returns the page and its reference.
    pub(super) fn into_raw(self) -> NonNull<k::page> {
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
}
