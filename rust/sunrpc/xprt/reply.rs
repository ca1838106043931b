// SPDX-License-Identifier: GPL-2.0

//! From a reply's XID to a completed request.
//!
//! ```text
//!   find ──► Pinned ──► complete / fail / dropped
//!               │ ▲
//!          park │ │ resume
//!               ▼ │
//!             Parked
//! ```
//!
//! SUNRPC waits uninterruptibly for a pinned request before it ends the RPC or encodes it again, so
//! a pinned request neither moves nor changes. A pin must therefore be short-lived, and
//! [`Transport::close`] must leave none behind.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full};

use super::super::xdr_buf::{Placed, XdrBufMut};
use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

impl<T: Transport> Xprt<T> {
    /// Finds the request that waits for the reply with `xid` (host order), and pins it. Returns
    /// `None` if there is none, or if it is pinned already: each call gets one reply.
    ///
    /// Process context; does not sleep. Takes `queue_lock`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// if let Some(mut pending) = xprt.find(rqst.xid()) {
    ///     let placed = pending.place_reply(&answer(&call), None);
    ///     pending.complete(placed.len);
    /// }
    /// ```
    pub(crate) fn find(&self, xid: u32) -> Option<Pinned<'_, T>> {
        let guard = QueueLock::new(self);
        // SAFETY: The transport is alive, and `guard` holds its `queue_lock`.
        let rqst = NonNull::new(unsafe { raw::xprt_lookup_rqst(self.as_raw(), xid.to_be()) })?;
        // SAFETY: By the type invariants of `Xprt` a request that waits for a reply is embedded in
        // one of the transport's slots.
        let slot = unsafe { Slot::<T>::from_rqst(rqst) };
        if slot.claimed.get() {
            // A second reply is counted like a reply that matches no call.
            guard.count_unmatched();
            return None;
        }
        // INVARIANT: Set under `queue_lock`, together with the pin.
        slot.claimed.set(true);
        // SAFETY: The request was found under `queue_lock`, which is still held.
        unsafe { raw::xprt_pin_rqst(rqst.as_ptr()) };
        Some(Pinned {
            xprt: self,
            // SAFETY: A request on the receive queue is initialised and has a task. The pin keeps
            // it there.
            rqst: unsafe { Rqst::from_raw(rqst) },
        })
    }

    /// Returns whether SUNRPC waits for a reply to a call that was sent over the present
    /// connection, and no thread is handling a reply to the call. Only for the task of the call,
    /// while it handles a timeout. Does not sleep. Takes `queue_lock`.
    pub(crate) fn awaits_reply(&self, rqst: &Rqst<'_, T>) -> bool {
        let _guard = QueueLock::new(self);
        let (xprt, claimed) = (self.as_raw(), rqst.slot().claimed.get());
        // SAFETY: Transport, request and task are alive. `RPC_TASK_NEED_RECV` changes under
        // `queue_lock`, which `_guard` holds, and the other bits without a lock. The request's
        // cookie does not change while its task handles a timeout. SUNRPC also reads the cookie of
        // the transport without a lock.
        unsafe {
            let rqst = rqst.as_raw();
            let state = (&raw const (*(*rqst).rq_task).tk_runstate).read_volatile();
            let cookie = (&raw const (*xprt).connect_cookie).read_volatile();
            let waits = state & (1 << raw::RPC_TASK_NEED_RECV) != 0;
            waits && !claimed && (*rqst).rq_connect_cookie == cookie
        }
    }
}

/// Holds the `queue_lock` of a transport.
struct QueueLock<'a, T: Transport>(&'a Xprt<T>);

impl<'a, T: Transport> QueueLock<'a, T> {
    /// Takes the lock.
    fn new(xprt: &'a Xprt<T>) -> Self {
        // SAFETY: The transport is alive, and its lock initialised. All users of the lock run in
        // process context. No function of this module that creates a `QueueLock` holds another.
        unsafe { k::spin_lock(&raw mut (*xprt.as_raw()).queue_lock) };
        Self(xprt)
    }

    /// Counts a message that matches no call.
    fn count_unmatched(&self) {
        // SAFETY: The transport is alive; SUNRPC counts these under `queue_lock`, which is held.
        unsafe { (*self.0.as_raw()).stat.bad_xids += 1 };
    }
}

impl<T: Transport> Drop for QueueLock<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The transport is alive, because the value borrows it. `new` took the lock.
        unsafe { k::spin_unlock(&raw mut (*self.0.as_raw()).queue_lock) };
    }
}

/// A request whose reply was received, and that no other thread uses. If the value is dropped, the
/// request stays pending.
///
/// # Invariants
///
/// The value owns one pin of the request, and the slot's `claimed` flag.
pub(crate) struct Pinned<'a, T: Transport> {
    xprt: &'a Xprt<T>,
    rqst: Rqst<'a, T>,
}

impl<'a, T: Transport> Pinned<'a, T> {
    /// Copies the message of a reply to the request's buffers. `chunk` is the number of bytes that
    /// the peer wrote to a write chunk for the reply's pages, if there was one.
    ///
    /// The caller passes the resulting length to [`Self::complete`]. Does not sleep.
    #[inline(always)]
    pub(crate) fn place_reply(&mut self, inline: &[u8], chunk: Option<u32>) -> Placed {
        let rqst = self.rqst.as_raw();
        // SAFETY: By the type invariants the request is pinned and claimed, and its buffers are set
        // up. SUNRPC has made both descriptions equal, and does not read them before the request is
        // completed. `buf_alloc` has allocated that many bytes, which `fit_reply` has respected.
        let mut buf = unsafe {
            let (rcv, private) = (&raw mut (*rqst).rq_rcv_buf, &raw mut (*rqst).rq_private_buf);
            XdrBufMut::from_raw(rcv, private, self.rqst.slot().buffers.room.get())
        };
        buf.place(inline, chunk.unwrap_or(0))
    }

    /// Completes the RPC with a reply of `len` bytes, which is in place. Does not sleep. Takes
    /// `queue_lock`.
    ///
    /// SUNRPC interprets a length of 0 as a missing reply, so the RPC fails if `len` is 0.
    #[inline(always)]
    pub(crate) fn complete(self, len: u32) {
        match i32::try_from(len) {
            Ok(copied) if copied > 0 => self.finish(copied),
            _ => self.fail(EIO),
        }
    }

    /// Fails the RPC with `error`: its reply is not acceptable, and there will be no other reply.
    /// Does not sleep. Takes `queue_lock`.
    #[cold]
    pub(crate) fn fail(self, error: Error) {
        // SAFETY: The request is pinned, so its task is alive. SUNRPC also sets the status from any
        // thread if it is 0 (`rpc_task_set_rpc_status()`, which is not exported). The task ends
        // with it at its next step. `tk_status` would be overwritten unless the task waits for a
        // reply already.
        let status =
            unsafe { Atomic::from_ptr(&raw mut (*(*self.rqst.as_raw()).rq_task).tk_rpc_status) };
        let _ = status.cmpxchg(0, error.to_errno(), Full);
        self.finish(0);
    }

    /// Leaves the request pending, because the message is not a reply to it, and counts the message
    /// like a message that matches no call. Does not sleep. Takes `queue_lock`.
    pub(crate) fn disown(self) {
        QueueLock::new(self.xprt).count_unmatched();
    }

    #[inline(always)]
    fn finish(self, copied: i32) {
        let this = ManuallyDrop::new(self);
        this.xprt.reset_backoff();
        let rqst = this.rqst.as_raw();
        let _guard = QueueLock::new(this.xprt);
        // SAFETY: `_guard` holds `queue_lock`. The request is pinned, so its task is alive. It is
        // not accessed after it was unpinned.
        unsafe {
            raw::xprt_complete_rqst((*rqst).rq_task, copied);
            this.rqst.slot().claimed.set(false);
            raw::xprt_unpin_rqst(rqst);
        }
    }

    /// Keeps the pin without borrowing the transport.
    pub(crate) fn park(self) -> Parked<T> {
        let this = ManuallyDrop::new(self);
        // INVARIANT: `this` is not dropped, so the pin and the claim pass to the new value.
        Parked {
            xprt: NonNull::from(this.xprt),
            // SAFETY: By its type invariants a `Rqst` holds a pointer to a request.
            rqst: unsafe { NonNull::new_unchecked(this.rqst.as_raw()) },
        }
    }
}

impl<'a, T: Transport> Deref for Pinned<'a, T> {
    type Target = Rqst<'a, T>;

    fn deref(&self) -> &Rqst<'a, T> {
        &self.rqst
    }
}

impl<T: Transport> Drop for Pinned<'_, T> {
    fn drop(&mut self) {
        let _guard = QueueLock::new(self.xprt);
        self.rqst.slot().claimed.set(false);
        // SAFETY: `_guard` holds `queue_lock`. By the type invariants this value owns a pin.
        unsafe { raw::xprt_unpin_rqst(self.rqst.as_raw()) };
    }
}

/// A [`Pinned`] that does not borrow the transport. If the value is dropped, the request stays
/// pending.
///
/// # Invariants
///
/// - The value owns one pin of the request, and the slot's `claimed` flag.
/// - `xprt` is alive: a pinned request has a task, which holds a reference to its transport and
///   cannot end before it is unpinned.
pub(crate) struct Parked<T: Transport> {
    xprt: NonNull<Xprt<T>>,
    rqst: NonNull<raw::rpc_rqst>,
}

// SAFETY: Any thread may unpin a request.
unsafe impl<T: Transport> Send for Parked<T> {}
// SAFETY: No operation takes a shared reference.
unsafe impl<T: Transport> Sync for Parked<T> {}

impl<T: Transport> Parked<T> {
    /// Returns the pinned request. `xprt` is the transport it belongs to; it must outlive the pin,
    /// because its lock is released after the request was unpinned.
    pub(crate) fn resume(self, xprt: &Xprt<T>) -> Pinned<'_, T> {
        // PANIC: Only if a transport confuses its requests with those of another transport.
        assert!(core::ptr::eq(self.xprt.as_ptr(), xprt));
        let this = ManuallyDrop::new(self);
        // INVARIANT: `this` is not dropped, so the pin and the claim pass to the new value.
        Pinned {
            xprt,
            // SAFETY: By the type invariants the request is pinned.
            rqst: unsafe { Rqst::from_raw(this.rqst) },
        }
    }
}

impl<T: Transport> Drop for Parked<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the transport is alive while the request is pinned. After
        // that `handle` keeps it until its lock is released.
        let handle = unsafe { self.xprt.as_ref() }.handle();
        drop(Pinned {
            xprt: &*handle,
            // SAFETY: By the type invariants the request is pinned. The new value takes over the
            // pin.
            rqst: unsafe { Rqst::from_raw(self.rqst) },
        });
    }
}
