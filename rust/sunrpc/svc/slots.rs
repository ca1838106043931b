// SPDX-License-Identifier: GPL-2.0

//! The slots of `rq_respages` that a reply does not use, and whose pages they hold.
//!
//! The service encodes a reply in the pages of these slots, so each page has to be the thread's
//! own. A READ by splice puts pages of the page cache there instead, which are freed with the reply
//! if they lie before `rq_next_page`. Where the service takes data out of a reply again, they may
//! be left behind it. No reply is encoded in such a page.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;

use crate::{mem, raw};

/// The slots of `rq_respages` from `rq_next_page` to `rq_page_end`.
///
/// # Invariants
///
/// For `'a`: the pointer is that of the calling thread's `svc_rqst`, which only this thread
/// accesses. Each slot holds a reference to a page, or is empty.
pub(super) struct ReplySlots<'a>(*mut raw::svc_rqst, PhantomData<&'a mut raw::svc_rqst>);

impl ReplySlots<'_> {
    /// Returns the slots behind the reply of a thread.
    ///
    /// # Safety
    ///
    /// `rqst` is the calling thread's `svc_rqst`, whose slots `svc_alloc_arg()` has filled, and no
    /// other code accesses it while the value exists.
    #[inline]
    pub(super) unsafe fn behind_reply(rqst: *mut raw::svc_rqst) -> Self {
        // INVARIANT: By the safety requirements.
        Self(rqst, PhantomData)
    }

    /// Returns whether the page behind the reply is not the thread's own. A service that takes data
    /// out of a reply leaves its pages from there on.
    #[inline]
    pub(super) fn first_is_shared(&self) -> bool {
        // SAFETY: By the type invariants, and there is a slot before `rq_page_end`.
        unsafe {
            let next = (*self.0).rq_next_page;
            next < (*self.0).rq_page_end && is_shared(*next)
        }
    }

    /// Moves `rq_next_page` behind the last page that is not the thread's own, so that SUNRPC frees
    /// it and all pages before it, and refills their slots before the thread receives again.
    /// Returns whether there was one.
    #[cold]
    pub(super) fn disown(self) -> bool {
        // SAFETY: By the type invariants all pointers are those of one array, each slot from
        // `rq_next_page` up to `rq_page_end` can be read, and the new `rq_next_page` is not behind
        // the end.
        unsafe {
            let rqst = self.0;
            let first = (*rqst).rq_next_page;
            let mut end = (*rqst).rq_page_end;
            while first < end && !is_shared(*end.sub(1)) {
                end = end.sub(1);
            }
            let any = first < end;
            if any {
                (*rqst).rq_next_page = end;
            }
            any
        }
    }
}

/// Returns whether a slot has a page that is not the thread's own.
///
/// # Safety
///
/// `page` is null, or the slot's reference to a page.
#[inline]
unsafe fn is_shared(page: *mut k::page) -> bool {
    // SAFETY: By the safety requirements the page is not freed.
    NonNull::new(page).is_some_and(|page| unsafe { mem::is_shared(page) })
}
