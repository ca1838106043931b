// SPDX-License-Identifier: GPL-2.0

//! A reply that SUNRPC sends, and the fate of its pages.
//!
//! The service encodes a reply in the pages of `rq_respages`, so each page has to be the thread's
//! own. A READ by splice puts pages of the page cache there instead, which are freed with the reply
//! if they lie before `rq_next_page`. If the service removes data from a reply again, such pages
//! may remain behind `rq_next_page`. No reply to a call that a thread has received here is encoded
//! in them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::super::xdr_buf::XdrBuf;
use crate::compat::casts::u32_as_usize;
use crate::mem::{self, PageRef};
use crate::raw;

/// An encoded reply. Its pages are those in the slots of `rq_respages` up to `rq_next_page`, and
/// those of its message behind them. SUNRPC frees the former when the reply is dropped, unless they
/// were taken or kept, and leaves the latter to the thread.
///
/// # Invariants
///
/// For `'a`: the reply of the `svc_rqst` is encoded; `call` is its context. Only the calling thread
/// accesses them.
///
/// # Examples
///
/// ```ignore
/// let (sent, call) = reply.parts();
/// sent.copy_to(0, &mut message)?;
/// ```
pub(crate) struct Reply<'a, X> {
    slots: ReplySlots<'a>,
    call: NonNull<X>,
    _lifetime: PhantomData<&'a mut X>,
}

impl<X> Reply<'_, X> {
    /// Wraps the request of a thread. Returns `None` if it has no context.
    ///
    /// # Safety
    ///
    /// `rqst` is the calling thread's `svc_rqst`, whose reply is encoded and which no other code
    /// accesses for `'a`. Its context is null or that of a call of the type `X`.
    pub(super) unsafe fn new(rqst: *mut raw::svc_rqst) -> Option<Self> {
        // SAFETY: By the safety requirements `rqst` is the calling thread's request, whose pages
        // `svc_alloc_arg()` has allocated.
        let (mut slots, call, deferred) = unsafe {
            let slots = ReplySlots::behind_reply(rqst);
            (slots, (*rqst).rq_xprt_ctxt, (*rqst).rq_deferred)
        };
        // The thread may have served another transport before a deferred call, which SUNRPC takes
        // without `xpo_recvfrom`.
        if slots.first_is_shared() || !deferred.is_null() {
            slots.disown();
        }
        // INVARIANT: By the safety requirements.
        Some(Self {
            slots,
            call: NonNull::new(call.cast())?,
            _lifetime: PhantomData,
        })
    }

    /// Leaves all pages behind the reply that are not the thread's own to SUNRPC, which frees them
    /// with those of the reply and refills their slots. Call this when the service truncated the
    /// reply after it had put pages of the page cache there.
    pub(crate) fn disown_behind(&mut self) {
        self.slots.disown();
    }

    /// Returns the message and the context of the call.
    pub(crate) fn parts(&mut self) -> (XdrBuf<'_>, &mut X) {
        // SAFETY: The reply is encoded and does not change. SUNRPC encodes replies in pages of the
        // direct map, and its pages stay while `self` is borrowed. By the type invariants only this
        // thread accesses the context, which is no part of the message.
        unsafe {
            let message = XdrBuf::from_raw(&raw mut (*self.slots.0).rq_res);
            (message, self.call.as_mut())
        }
    }

    /// Returns the number of slots that the reply uses.
    pub(crate) fn page_count(&self) -> usize {
        // SAFETY: By the type invariants only this thread accesses the request.
        let (first, next) = unsafe { ((*self.slots.0).rq_respages, (*self.slots.0).rq_next_page) };
        next.addr().wrapping_sub(first.addr()) / size_of::<usize>()
    }

    /// Appends all pages of the reply and of its message to `pages`. SUNRPC refills the slots
    /// before the thread receives again. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the pages stay with SUNRPC.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// reply.take(&mut pages)?;
    /// ```
    #[inline(always)]
    pub(crate) fn take(mut self, pages: &mut KVec<PageRef>) -> Result {
        self.slots.pass_message();
        let count = self.page_count();
        pages.reserve(count, GFP_KERNEL)?;
        // SAFETY: By the type invariants the slots exist, in this order, and only this thread
        // accesses them.
        let slots: &mut [*mut k::page] =
            unsafe { core::slice::from_raw_parts_mut((*self.slots.0).rq_respages, count) };
        for slot in slots {
            // SUNRPC skips an empty slot when it frees the pages of the reply.
            let page = core::mem::replace(slot, core::ptr::null_mut());
            if let Some(page) = NonNull::new(page) {
                // SAFETY: The slot's reference is taken over, because the slot is empty now. There
                // is room for all pages.
                let _ = pages.push_within_capacity(unsafe { PageRef::from_raw(page) });
            }
        }
        Ok(())
    }

    /// Keeps the page of a single-page reply for the thread's next reply, which saves freeing and
    /// allocating a page. Returns false if the reply has more pages; SUNRPC then frees them all.
    ///
    /// The first page is never a page of the page cache, since it holds the reply's head.
    pub(crate) fn keep(self) -> bool {
        let keep = self.page_count() <= 1;
        if keep {
            // SAFETY: By the type invariants only this thread accesses the request.
            unsafe { (*self.slots.0).rq_next_page = (*self.slots.0).rq_respages };
        }
        keep
    }
}

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
    pub(super) unsafe fn behind_reply(rqst: *mut raw::svc_rqst) -> Self {
        // INVARIANT: By the safety requirements.
        Self(rqst, PhantomData)
    }

    /// Moves `rq_next_page` behind the pages of the encoded reply. The functions that encode XDR do
    /// not move it, and services do that only for part of their results: NFSv4 for the results of
    /// operations, but not for a checksum behind them. SUNRPC would leave the other pages to the
    /// thread for its next reply.
    #[inline]
    fn pass_message(&mut self) {
        // SAFETY: By the type invariants only this thread accesses the request. The pages of its
        // message follow each other in `rq_respages`, so that the new `rq_next_page` is not behind
        // the end. NFSv2 has the pointer to the page of a link elsewhere, not between the two: then
        // `counted` has no meaning, and may wrap.
        unsafe {
            let (rqst, message) = (self.0, &raw const (*self.0).rq_res);
            let (pages, next) = ((*message).pages, (*rqst).rq_next_page);
            let len = u32_as_usize((*message).page_base) + u32_as_usize((*message).page_len);
            let counted = next.addr().wrapping_sub(pages.addr()) / size_of::<usize>();
            let end = pages.wrapping_add(len.div_ceil(PAGE_SIZE));
            let beyond = next < end && end <= (*rqst).rq_page_end;
            if len > counted.wrapping_mul(PAGE_SIZE) && beyond && (*message).page_len != 0 {
                (*rqst).rq_next_page = end;
            }
        }
    }

    /// Returns whether the page behind the reply is not the thread's own. A service that removes
    /// data from a reply leaves its pages from there on.
    #[inline]
    pub(super) fn first_is_shared(&self) -> bool {
        // SAFETY: By the type invariants only this thread accesses the request, and each slot
        // before `rq_page_end` holds a reference to a page or is empty.
        unsafe {
            let next = (*self.0).rq_next_page;
            next < (*self.0).rq_page_end && is_shared(*next)
        }
    }

    /// Moves `rq_next_page` behind the last page that is not the thread's own, so that SUNRPC frees
    /// it and all pages before it, and refills their slots before the thread receives again.
    /// Returns whether there was one.
    #[cold]
    pub(super) fn disown(&mut self) -> bool {
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
unsafe fn is_shared(page: *mut k::page) -> bool {
    // SAFETY: By the safety requirements the page is not freed.
    NonNull::new(page).is_some_and(|page| unsafe { mem::is_shared(page) })
}
