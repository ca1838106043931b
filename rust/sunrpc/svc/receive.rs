// SPDX-License-Identifier: GPL-2.0

//! Receiving a call: the states of an `svc_rqst` in `xpo_recvfrom`.
//!
//! ```text
//! Incoming  --received-->  Arriving  --call, nothing, take-->  Receipt
//! (busy)                   (not busy)
//! ```
//!
//! The lifetime of the three is that of one call of `xpo_recvfrom`, so that the receipt of one call
//! cannot be returned for another call.
//!
//! The inline part of a call fills `rq_pages` from the first page on. A payload lies in the second
//! page and those after it. SUNRPC's decoder reads head, pages and tail in this order, and requires
//! that their lengths add up to the length of the message.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::ffi::c_int;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::types::ForeignOwnable;

use super::reply::ReplySlots;
use crate::mem::Page;
use crate::raw;

/// The protocol of all calls. The duplicate reply cache distinguishes transports by it.
const PROTOCOL: u32 = raw::IPPROTO_MAX;

/// A payload that lies outside the inline part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    /// Bytes of the inline part that come before the payload in the message.
    pub(crate) at: usize,
    /// Length with its XDR padding.
    pub(crate) len: usize,
}

/// The lengths of the parts of a call. The tail follows the head in the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) head: usize,
    pub(super) pages: usize,
    pub(super) tail: usize,
}

impl Layout {
    /// Computes the layout of a call with `inline` bytes in the pages from the first one on, and
    /// with `payload`, in `slots` pages.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the call does not fit, or the inline part is longer than a page and there is a
    /// payload. `EINVAL` if a length is no multiple of four bytes, or the payload lies behind the
    /// end of the inline part.
    pub(super) fn new(inline: usize, payload: Option<Payload>, slots: usize) -> Result<Self> {
        let Payload { at, len } = payload.unwrap_or(Payload {
            at: inline.min(PAGE_SIZE),
            len: inline.saturating_sub(PAGE_SIZE),
        });
        if payload.is_some() && inline > PAGE_SIZE {
            return Err(EMSGSIZE);
        }
        let tail = if payload.is_some() {
            inline.checked_sub(at).ok_or(EINVAL)?
        } else {
            0
        };
        if [at, len, tail].iter().any(|part| part % 4 != 0) {
            return Err(EINVAL);
        }
        if len.div_ceil(PAGE_SIZE) >= slots {
            return Err(EMSGSIZE);
        }
        Ok(Self {
            head: at,
            pages: len,
            tail,
        })
    }

    /// Returns the length of the message.
    pub(super) fn len(&self) -> usize {
        let before = self.head.saturating_add(self.pages);
        before.saturating_add(self.tail)
    }
}

/// Makes a lifetime invariant, so that it stands for one call of `xpo_recvfrom` alone. `X` is the
/// type of the context.
type Brand<'a, X = ()> = PhantomData<(Cell<&'a ()>, X)>;

/// A thread that is about to receive a call over a busy connection.
///
/// # Invariants
///
/// For `'a`: the pointer is that of the calling thread's `svc_rqst`, whose transport is referenced
/// and busy. The first `rq_maxpages` slots of `rq_pages` have a page each, which only this thread
/// accesses.
///
/// # Examples
///
/// ```ignore
/// let Some(step) = self.pop(&incoming) else {
///     return incoming.received().nothing();
/// };
/// ```
pub(crate) struct Incoming<'a, X> {
    rqst: NonNull<raw::svc_rqst>,
    _brand: Brand<'a, X>,
}

impl<'a, X> Incoming<'a, X> {
    /// Wraps the request of a thread.
    ///
    /// # Safety
    ///
    /// `rqst` is not null, no other value of this type exists for it, and the caller upholds the
    /// type invariants.
    pub(super) unsafe fn new(rqst: *mut raw::svc_rqst) -> Self {
        // SAFETY: By the safety requirements the pointer is valid, and no other code accesses the
        // request. Without a call, nothing of an earlier one is to be released.
        let rqst = unsafe {
            (*rqst).rq_next_page = (*rqst).rq_respages;
            (*rqst).rq_xprt_ctxt = core::ptr::null_mut();
            NonNull::new_unchecked(rqst)
        };
        // INVARIANT: By the safety requirements.
        Self {
            rqst,
            _brand: PhantomData,
        }
    }

    /// Returns whether the pages for the reply are the thread's own. If not, the thread receives
    /// nothing, and SUNRPC replaces the pages before the thread receives again.
    ///
    /// The replies of this transport leave no foreign pages ([`Reply::new`]), so this checks only
    /// if the thread last served another transport. SUNRPC itself receives a deferred call: the
    /// pages for its reply are checked only when the reply is sent, which a dropped call lacks.
    ///
    /// [`Reply::new`]: super::reply::Reply::new
    pub(super) fn owns_reply_pages(&self) -> bool {
        // SAFETY: By the type invariants no other code accesses the request.
        let before = unsafe { core::mem::replace(&mut (*self.rqst.as_ptr()).rq_prot, PROTOCOL) };
        before == PROTOCOL || !self.disown()
    }

    /// Leaves pages that are not the thread's own to SUNRPC. Returns whether there are such pages.
    #[cold]
    fn disown(&self) -> bool {
        // SAFETY: By the type invariants the request is that of this thread, and its slots are
        // full.
        unsafe { ReplySlots::behind_reply(self.rqst.as_ptr()) }.disown()
    }

    /// Clears `XPT_DATA`: no call is left. The caller holds the lock of its queue of calls, under
    /// which it has found the queue empty or has removed the last entry. Does not sleep.
    pub(crate) fn mark_empty(&self) {
        // SAFETY: By the type invariants the transport is alive.
        unsafe {
            let xprt = (*self.rqst.as_ptr()).rq_xprt;
            k::clear_bit(raw::XPT_DATA as usize, &raw mut (*xprt).xpt_flags);
        }
    }

    /// Ends the busy state: from now on another thread may receive. Call this as soon as the call
    /// is out of its queue. Does not sleep.
    pub(crate) fn received(self) -> Arriving<'a, X> {
        // SAFETY: By the type invariants the transport is busy, and referenced by the request.
        unsafe { raw::svc_xprt_received((*self.rqst.as_ptr()).rq_xprt) };
        // INVARIANT: By those of `self`; only the busy state has ended.
        Arriving {
            rqst: self.rqst,
            inline: 0,
            _brand: PhantomData,
        }
    }
}

/// A thread that assembles a call in its pages.
///
/// # Invariants
///
/// Those of [`Incoming`], but the transport may be used by other threads.
///
/// # Examples
///
/// ```ignore
/// arriving.write_inline(&call)?;
/// ```
pub(crate) struct Arriving<'a, X> {
    rqst: NonNull<raw::svc_rqst>,
    /// Length of the inline part.
    inline: usize,
    _brand: Brand<'a, X>,
}

impl<'a, X> Arriving<'a, X> {
    /// Returns the slots of `rq_pages`.
    fn slots(&self) -> &[Cell<*mut k::page>] {
        // SAFETY: By the type invariants `rq_pages` has `rq_maxpages` slots, which only this thread
        // accesses.
        unsafe {
            let rqst = self.rqst.as_ptr();
            core::slice::from_raw_parts((*rqst).rq_pages.cast(), (*rqst).rq_maxpages)
        }
    }

    /// Returns the number of pages that a call may fill.
    pub(crate) fn capacity(&self) -> usize {
        self.slots().len()
    }

    /// Writes the inline part of the call to the pages from the first one on.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is longer than all pages.
    pub(crate) fn write_inline(&mut self, bytes: &[u8]) -> Result {
        self.set_inline(bytes.len())?;
        for (slot, part) in self.slots().iter().zip(bytes.chunks(PAGE_SIZE)) {
            // SAFETY: By the type invariants the slot has a page that only this thread accesses,
            // and `part` is not longer than a page.
            unsafe {
                let to = raw::rr_page_to_virt(slot.get()).cast::<u8>();
                core::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
        }
        Ok(())
    }

    /// Exchanges the pages in the slots from `first` on for `pages`, which then belong to the call.
    /// A payload lies in the pages from slot 1 on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are fewer slots; nothing was exchanged.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// arriving.exchange(1, core::slice::from_mut(&mut page))?;
    /// ```
    pub(crate) fn exchange(&mut self, first: usize, pages: &mut [Page]) -> Result {
        let end = first.checked_add(pages.len()).ok_or(EINVAL)?;
        let slots = self.slots().get(first..end).ok_or(EINVAL)?;
        for (slot, page) in slots.iter().zip(pages) {
            let old = NonNull::new(slot.get()).ok_or(EINVAL)?;
            // SAFETY: The slot's reference is taken over, because the slot gets another page below.
            // By the type invariants only this thread accesses the page.
            let old = unsafe { Page::from_raw(old) };
            let new = core::mem::replace(page, old);
            // INVARIANT: The slot has a page of its own again.
            slot.set(new.into_raw().as_ptr());
        }
        Ok(())
    }

    /// Makes the first `len` bytes of the pages, from the first page on, the inline part of the
    /// call: the caller exchanged them for pages that contain it.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is longer than all pages.
    pub(crate) fn set_inline(&mut self, len: usize) -> Result {
        if len.div_ceil(PAGE_SIZE) > self.capacity() {
            return Err(EMSGSIZE);
        }
        self.inline = len;
        Ok(())
    }

    /// Takes the first `count` pages for a call that is not complete, and ends the receive without
    /// a call. SUNRPC refills the slots before the thread receives again.
    ///
    /// # Errors
    ///
    /// Returns `self` if `pages` has no room for them, or there are fewer pages.
    #[allow(dead_code, reason = "for the sample svc_null")]
    pub(crate) fn take(self, count: usize, pages: &mut KVec<Page>) -> Result<Receipt<'a>, Self> {
        let room = pages.capacity().saturating_sub(pages.len());
        if count > room || count > self.capacity() {
            return Err(self);
        }
        for slot in self.slots().iter().take(count) {
            if let Some(page) = NonNull::new(slot.replace(core::ptr::null_mut())) {
                // SAFETY: The slot's reference is taken over, because the slot is empty now. By the
                // type invariants only this thread accesses the page.
                let page = unsafe { Page::from_raw(page) };
                // The room was checked above.
                let _ = pages.push_within_capacity(page);
            }
        }
        // SAFETY: By the type invariants no other code accesses the request.
        unsafe { (*self.rqst.as_ptr()).rq_pages_nfree = count };
        Ok(self.nothing())
    }

    /// Ends the receive without a call.
    pub(crate) fn nothing(self) -> Receipt<'a> {
        Receipt {
            len: 0,
            _brand: PhantomData,
        }
    }

    /// Ends the receive with a call: the inline part, and `payload` in the pages from slot 1 on.
    /// SUNRPC returns `context` to [`Connection::release`] once.
    ///
    /// SUNRPC may defer the call if it has no payload and its inline part fits in a page.
    ///
    /// # Errors
    ///
    /// Those of the layout: `EMSGSIZE` if the call does not fit in the pages, or has a payload and
    /// an inline part of more than a page. `EINVAL` if the length of a part is no multiple of four,
    /// or the payload lies behind the inline part. After an error the thread has no call, and
    /// `self` and the context are returned.
    ///
    /// [`Connection::release`]: super::transport::Connection::release
    #[inline(always)]
    pub(crate) fn call(
        self,
        payload: Option<Payload>,
        context: KBox<X>,
    ) -> Result<Receipt<'a>, (Self, KBox<X>, Error)>
    where
        X: 'static,
    {
        let layout = Layout::new(self.inline, payload, self.capacity());
        let checked = layout.and_then(|l| Ok((l, c_int::try_from(l.len()).map_err(|_| EMSGSIZE)?)));
        let (layout, len) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err((self, context, error)),
        };
        self.describe(&layout);
        // SAFETY: By the type invariants no other code accesses the request, and its transport is
        // alive. Its addresses do not change after it was created.
        unsafe {
            let rqst = self.rqst.as_ptr();
            raw::svc_xprt_copy_addrs(rqst, (*rqst).rq_xprt);
            (*rqst).rq_xprt_ctxt = context.into_foreign();
            // SUNRPC keeps the flags of the thread's last call, perhaps over another transport.
            k::set_bit(raw::RQ_SECURE as usize, &raw mut (*rqst).rq_flags);
            k::clear_bit(raw::RQ_LOCAL as usize, &raw mut (*rqst).rq_flags);
        }
        Ok(Receipt {
            len,
            _brand: PhantomData,
        })
    }

    /// Describes the call in `rq_arg`.
    fn describe(&self, layout: &Layout) {
        // SAFETY: By the type invariants no other code accesses the request, and its first slot has
        // a page. `Layout::new` has checked that head and tail fit in that page, and that the slots
        // behind it have room for the pages.
        unsafe {
            let rqst = self.rqst.as_ptr();
            let arg = &mut (*rqst).rq_arg;
            let base = raw::rr_page_to_virt(*(*rqst).rq_pages);
            let ([head], [tail]) = (&mut arg.head, &mut arg.tail);
            head.iov_base = base;
            head.iov_len = layout.head;
            tail.iov_base = base.byte_add(layout.head);
            tail.iov_len = layout.tail;
            arg.pages = (*rqst).rq_pages.add(1);
            arg.page_base = 0;
            // CAST: `call` has checked that the sum of the lengths fits an `int`.
            arg.page_len = layout.pages as u32;
            arg.len = layout.len() as u32;
            arg.buflen = arg.len;
        }
    }
}

/// The proof that a thread has finished receiving, with or without a call, and that the connection
/// is not busy.
#[must_use]
pub(crate) struct Receipt<'a> {
    len: c_int,
    _brand: Brand<'a>,
}

impl Receipt<'_> {
    /// Returns the length of the call, or 0.
    pub(super) fn len(&self) -> c_int {
        self.len
    }
}
