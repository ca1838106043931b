// SPDX-License-Identifier: GPL-2.0

//! KUnit suite: an `svc_rqst` without a service, and what becomes of its pages and context.

use core::cell::Cell;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::receive::{Incoming, Layout, Payload};
use super::reply::Reply;
use super::xprt::finds_room;
use crate::mem::{Page, PageRef};
use crate::raw;

/// Number of slots of each array.
const SLOTS: usize = 4;

/// A thread of a service, with all slots full.
struct Thread {
    rqst: KBox<raw::svc_rqst>,
    xprt: KBox<raw::svc_xprt>,
    calls: KVec<*mut k::page>,
    replies: KVec<*mut k::page>,
}

/// Allocates the pages of an array.
fn slots() -> Result<KVec<*mut k::page>> {
    let mut slots = KVec::with_capacity(SLOTS, GFP_KERNEL)?;
    for _ in 0..SLOTS {
        slots.push(Page::allocate(GFP_KERNEL)?.into_raw().as_ptr(), GFP_KERNEL)?;
    }
    Ok(slots)
}

impl Thread {
    fn new() -> Result<Self> {
        let mut this = Self {
            rqst: KBox::new(Default::default(), GFP_KERNEL)?,
            xprt: KBox::new(Default::default(), GFP_KERNEL)?,
            calls: slots()?,
            replies: slots()?,
        };
        // `svc_xprt_received()` finds nothing to do, and puts one of two references.
        this.xprt.xpt_flags = 1 << raw::XPT_BUSY;
        this.xprt.xpt_ref.refcount.refs.counter = 2;
        this.rqst.rq_xprt = &raw mut *this.xprt;
        this.rqst.rq_maxpages = SLOTS;
        this.rqst.rq_pages = this.calls.as_mut_ptr();
        this.rqst.rq_respages = this.replies.as_mut_ptr();
        this.rqst.rq_next_page = this.rqst.rq_respages;
        // SAFETY: The array has this many slots.
        this.rqst.rq_page_end = unsafe { this.rqst.rq_respages.add(SLOTS) };
        Ok(this)
    }

    fn incoming(&mut self) -> Incoming<'_, u32> {
        // SAFETY: The arrays are full, and the transport is alive and busy.
        unsafe { Incoming::new(&raw mut *self.rqst) }
    }

    /// Returns a reply that uses `count` pages, to the call with the context `call`.
    fn reply<'a>(&'a mut self, count: usize, call: &'a mut u32) -> Option<Reply<'a, u32>> {
        self.rqst.rq_xprt_ctxt = core::ptr::from_mut(call).cast();
        // SAFETY: `count` is at most the number of slots.
        self.rqst.rq_next_page = unsafe { self.rqst.rq_respages.add(count) };
        // SAFETY: The reply is empty; its context is a `u32`.
        unsafe { Reply::new(&raw mut *self.rqst) }
    }

    /// Adds a reference to the page in a slot of the reply, as the page cache has one to its pages.
    fn share(&self, slot: usize) -> Result<PageRef> {
        let page = NonNull::new(*self.replies.get(slot).ok_or(EINVAL)?).ok_or(EINVAL)?;
        // SAFETY: The slot has a reference, so that the count is not zero. No other code accesses
        // the page.
        unsafe { (*page.as_ptr())._refcount.counter += 1 };
        // SAFETY: The reference that was taken is the value's.
        Ok(unsafe { PageRef::from_raw(page) })
    }

    /// Returns the number of slots of the reply that SUNRPC would free and refill.
    fn refilled(&self) -> usize {
        // SAFETY: Both pointers are in the same array.
        let count = unsafe { self.rqst.rq_next_page.offset_from(self.rqst.rq_respages) };
        usize::try_from(count).unwrap_or_default()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        for array in [&self.calls, &self.replies] {
            for page in array.iter().copied().filter_map(NonNull::new) {
                // SAFETY: The array owns the pages that are left in it.
                drop(unsafe { PageRef::from_raw(page) });
            }
        }
    }
}

/// Returns how many slots are empty.
fn empty(slots: &[*mut k::page]) -> usize {
    slots.iter().filter(|page| page.is_null()).count()
}

#[kernel::prelude::kunit_tests(rpcrdma_svc)]
mod suite {
    use super::*;

    #[test]
    fn received_ends_busy_once() -> Result {
        let mut thread = Thread::new()?;
        let _ = thread.incoming().received().nothing();
        assert_eq!(thread.xprt.xpt_flags & (1 << raw::XPT_BUSY), 0);
        assert_eq!(thread.xprt.xpt_ref.refcount.refs.counter, 2);
        assert!(thread.rqst.rq_xprt_ctxt.is_null());
        Ok(())
    }

    #[test]
    fn taken_pages_are_refilled() -> Result {
        let mut thread = Thread::new()?;
        let mut pages = KVec::with_capacity(2, GFP_KERNEL)?;
        let arriving = thread.incoming().received();
        let Err(arriving) = arriving.take(3, &mut pages) else {
            return Err(EINVAL);
        };
        assert_eq!(pages.len(), 0);
        let receipt = arriving.take(2, &mut pages).map_err(|_| EINVAL)?;
        assert_eq!(receipt.len(), 0);
        assert_eq!((pages.len(), empty(&thread.calls)), (2, 2));
        assert_eq!(thread.rqst.rq_pages_nfree, 2);
        Ok(())
    }

    #[test]
    fn exchange_leaves_no_slot_empty() -> Result {
        let mut thread = Thread::new()?;
        let before = *thread.calls.get(1).ok_or(EINVAL)?;
        let mut page = Page::allocate(GFP_KERNEL)?;
        let mut arriving = thread.incoming().received();
        arriving.exchange(1, core::slice::from_mut(&mut page))?;
        assert!(arriving
            .exchange(SLOTS, core::slice::from_mut(&mut page))
            .is_err());
        let _ = arriving.nothing();
        assert!(*thread.calls.get(1).ok_or(EINVAL)? != before);
        assert_eq!(empty(&thread.calls), 0);
        assert!(page.into_raw().as_ptr() == before);
        // The array no longer owns the page. SAFETY: The reference was taken from `page`.
        drop(unsafe { PageRef::from_raw(NonNull::new(before).ok_or(EINVAL)?) });
        Ok(())
    }

    #[test]
    fn lengths_of_a_call_add_up() -> Result {
        let mut thread = Thread::new()?;
        let mut arriving = thread.incoming().received();
        arriving.write_inline(&[7; 44])?;
        let payload = Payload { at: 40, len: 8192 };
        let context = KBox::new(9, GFP_KERNEL)?;
        let receipt = arriving.call(Some(payload), context).map_err(|(.., e)| e)?;
        assert_eq!(receipt.len(), 44 + 8192);
        let arg = &thread.rqst.rq_arg;
        let ([head], [tail]) = (&arg.head, &arg.tail);
        assert_eq!((head.iov_len, arg.page_len, tail.iov_len), (40, 8192, 4));
        assert_eq!(arg.len, 44 + 8192);
        // SAFETY: The context is the box of this call.
        let context = unsafe { KBox::from_raw(thread.rqst.rq_xprt_ctxt.cast::<u32>()) };
        assert_eq!(*context, 9);
        Ok(())
    }

    #[test]
    fn thread_from_elsewhere_leaves_pages_that_are_not_its_own() -> Result {
        let mut thread = Thread::new()?;
        let shared = thread.share(2)?;
        assert!(!thread.incoming().owns_reply_pages());
        // SUNRPC frees the pages up to the shared one, and refills the slots.
        assert_eq!(thread.refilled(), 3);
        drop(shared);
        assert!(thread.incoming().owns_reply_pages());
        thread.rqst.rq_prot = raw::IPPROTO_TCP;
        assert!(thread.incoming().owns_reply_pages());
        assert_eq!(thread.refilled(), 0);
        Ok(())
    }

    #[test]
    fn all_pages_of_the_message_are_taken() -> Result {
        let mut call = 9;
        // CAST: the size of a page.
        let page = PAGE_SIZE as u32;
        // The pages of a message begin in the second slot, but for links of NFSv2.
        let cases = [
            (1, 0, 1, 1),
            (1, 2 * page - 4, 2, 3),
            (1, 2 * page - 4, 4, 4),
            (1 << 20, page, 2, 2),
            (-(1 << 20), page, 2, 2),
        ];
        for (at, len, counted, taken) in cases {
            let mut thread = Thread::new()?;
            let mut pages = KVec::new();
            thread.rqst.rq_res.pages = thread.rqst.rq_respages.wrapping_offset(at);
            (thread.rqst.rq_res.page_base, thread.rqst.rq_res.page_len) = (4, len);
            let reply = thread.reply(counted, &mut call).ok_or(EINVAL)?;
            reply.take(&mut pages)?;
            assert_eq!((pages.len(), empty(&thread.replies)), (taken, taken));
            assert_eq!(thread.refilled(), taken);
        }
        Ok(())
    }

    #[test]
    fn pages_behind_a_reply_are_disowned_if_shared() -> Result {
        let (mut thread, mut call) = (Thread::new()?, 9);
        assert!(thread.reply(1, &mut call).is_some());
        assert_eq!(thread.refilled(), 1);
        let shared = [thread.share(1)?, thread.share(2)?];
        // In that case a reply of one page is not kept.
        assert!(!thread.reply(1, &mut call).ok_or(EINVAL)?.keep());
        assert_eq!(thread.refilled(), 3);
        // Those of the reply itself go with it.
        assert!(thread.reply(3, &mut call).is_some());
        assert_eq!(thread.refilled(), 3);
        drop(shared);
        // Behind a page of its own only if the service has truncated the reply.
        let shared = thread.share(3)?;
        let mut reply = thread.reply(1, &mut call).ok_or(EINVAL)?;
        assert_eq!(reply.page_count(), 1);
        reply.disown_behind();
        assert_eq!(reply.page_count(), SLOTS);
        drop(shared);
        Ok(())
    }

    #[test]
    fn all_pages_behind_the_reply_to_a_deferred_call_are_the_threads_own() -> Result {
        let (mut thread, mut call) = (Thread::new()?, 9);
        thread.rqst.rq_deferred = NonNull::dangling().as_ptr();
        assert!(thread.reply(1, &mut call).is_some());
        assert_eq!(thread.refilled(), 1);
        let shared = thread.share(2)?;
        assert!(thread.reply(1, &mut call).is_some());
        assert_eq!(thread.refilled(), 3);
        drop(shared);
        Ok(())
    }

    #[test]
    fn a_call_that_does_not_fit_returns_its_context() -> Result {
        let mut thread = Thread::new()?;
        let mut arriving = thread.incoming().received();
        arriving.write_inline(&[7; 40])?;
        let len = SLOTS * PAGE_SIZE;
        let context = KBox::new(9, GFP_KERNEL)?;
        let Err((arriving, context, error)) = arriving.call(Some(Payload { at: 40, len }), context)
        else {
            return Err(EINVAL);
        };
        let _ = arriving.nothing();
        assert_eq!((*context, error), (9, EMSGSIZE));
        assert!(thread.rqst.rq_xprt_ctxt.is_null());
        Ok(())
    }

    #[test]
    fn layouts() {
        let of = |inline, payload| Layout::new(inline, payload, SLOTS);
        let parts = |l: Layout| (l.head, l.pages, l.tail);
        let at = |at, len| Some(Payload { at, len });
        let page = PAGE_SIZE;
        assert_eq!(of(40, None).map(parts), Ok((40, 0, 0)));
        assert_eq!(of(page + 8, None).map(parts), Ok((page, 8, 0)));
        assert_eq!(of(48, at(40, 4)).map(parts), Ok((40, 4, 8)));
        assert_eq!(of(40, at(44, 4)), Err(EINVAL));
        assert_eq!(of(42, None), Err(EINVAL));
        assert_eq!(of(40, at(40, 5)), Err(EINVAL));
        assert_eq!(of(page + 4, at(40, 4)), Err(EMSGSIZE));
        assert_eq!(
            of(40, at(40, (SLOTS - 1) * page)).map(parts),
            Ok((40, (SLOTS - 1) * page, 0))
        );
        assert_eq!(of(40, at(40, (SLOTS - 1) * page + 4)), Err(EMSGSIZE));
    }

    #[test]
    fn room_is_looked_for_again_behind_a_barrier() {
        let looks = Cell::new(0);
        let found_at = |look| {
            looks.set(0);
            finds_room(|| looks.replace(looks.get() + 1) == look)
        };
        assert_eq!((found_at(0), looks.get()), (true, 1));
        assert_eq!((found_at(1), looks.get()), (true, 2));
        assert_eq!((found_at(2), looks.get()), (false, 2));
    }

    #[test]
    fn only_a_single_page_is_kept() -> Result {
        let (mut thread, mut call) = (Thread::new()?, 9);
        assert!(thread.reply(1, &mut call).ok_or(EINVAL)?.keep());
        assert_eq!((thread.refilled(), empty(&thread.replies)), (0, 0));
        assert!(!thread.reply(2, &mut call).ok_or(EINVAL)?.keep());
        assert_eq!(thread.refilled(), 2);
        Ok(())
    }
}
