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
//! A pinned request stays what and where it is: SUNRPC waits, uninterruptibly, before it ends the
//! RPC or encodes it anew. So nobody may keep a pin for long, and [`Transport::close`] must leave
//! none behind.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};

use super::super::xdr_buf::{Placed, XdrBufMut};
use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

impl<T: Transport> Xprt<T> {
    /// Finds the request that waits for the reply with `xid` (host order), and pins it. `None` if
    /// there is none, or if somebody has pinned it already: a reply comes once.
    ///
    /// Process context; does not sleep. Takes `queue_lock`.
    #[inline]
    pub(crate) fn find(&self, xid: u32) -> Option<Pinned<'_, T>> {
        let xprt = self.as_raw();
        let _guard = QueueLock::new(self);
        // SAFETY: The transport is alive, and we hold its `queue_lock`.
        let rqst = NonNull::new(unsafe { raw::xprt_lookup_rqst(xprt, xid.to_be()) })?;
        // SAFETY: All requests that wait for a reply come from the transport's slots, see `setup`.
        let slot = unsafe { Slot::<T>::from_rqst(rqst) };
        if slot.claimed.load(Relaxed) {
            // A second reply is one too many, like a reply to nothing.
            // SAFETY: The transport is alive; SUNRPC counts these under `queue_lock`.
            unsafe { (*xprt).stat.bad_xids += 1 };
            return None;
        }
        // INVARIANT: Under `queue_lock`, together with the pin that comes into being.
        slot.claimed.store(true, Relaxed);
        // SAFETY: Found under `queue_lock`, which we still hold.
        unsafe { raw::xprt_pin_rqst(rqst.as_ptr()) };
        Some(Pinned {
            xprt: self,
            // SAFETY: On the receive queue, so it is initialised and has a task; pinned, so it stays.
            rqst: unsafe { Rqst::from_raw(rqst) },
        })
    }
}

/// A hold of a transport's `queue_lock`.
struct QueueLock(*mut k::spinlock_t);

impl QueueLock {
    #[inline]
    fn new<T: Transport>(xprt: &Xprt<T>) -> Self {
        // SAFETY: The transport is alive, and its lock initialised. All users are in process context,
        // and none of ours holds it already.
        unsafe {
            let lock = &raw mut (*xprt.as_raw()).queue_lock;
            k::spin_lock(lock);
            Self(lock)
        }
    }
}

impl Drop for QueueLock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Locked in `new`; whoever made this value borrows the transport.
        unsafe { k::spin_unlock(self.0) };
    }
}

/// A request whose reply has come; nobody else works on it. Dropping it lets go of the request
/// without a reply: it stays pending.
///
/// # Invariants
///
/// We own one pin of the request and the slot's claim.
pub(crate) struct Pinned<'a, T: Transport> {
    xprt: &'a Xprt<T>,
    rqst: Rqst<'a, T>,
}

impl<'a, T: Transport> Pinned<'a, T> {
    /// Puts the message of a reply into the request's buffers. `chunk` is the number of bytes that
    /// came through a write chunk for the reply's pages, if one was used.
    /// The result goes to [`Self::complete`]. Does not sleep.
    #[inline]
    pub(crate) fn place_reply(&mut self, inline: &[u8], chunk: Option<u32>) -> Placed {
        let rqst = self.rqst.as_raw();
        // SAFETY: The request is pinned and claimed by us, and its buffers are set up; SUNRPC has made
        // both descriptions equal, and looks at them again when the request is completed.
        let mut buf = unsafe {
            XdrBufMut::from_raw(&raw mut (*rqst).rq_rcv_buf, &raw mut (*rqst).rq_private_buf)
        };
        buf.place(inline, chunk.unwrap_or(0))
    }

    /// The reply, of `len` bytes, is in place: the RPC goes on. Does not sleep. Takes `queue_lock`.
    ///
    /// A length of 0 would look as if nothing had come: it fails the RPC instead.
    #[inline]
    pub(crate) fn complete(self, len: u32) {
        match i32::try_from(len) {
            Ok(copied) if copied > 0 => self.finish(copied),
            _ => self.fail(EIO),
        }
    }

    /// There is no acceptable reply, and there will not be one: the RPC fails with `error`.
    /// Does not sleep. Takes `queue_lock`.
    pub(crate) fn fail(self, error: Error) {
        // SAFETY: The request is pinned, so its task is alive. SUNRPC, too, has any thread set the
        // status of an RPC, if it has none yet (`rpc_task_set_rpc_status()`, not exported): the task
        // ends with it at its next step. `tk_status` would last only if it waits for a reply already.
        let status =
            unsafe { Atomic::from_ptr(&raw mut (*(*self.rqst.as_raw()).rq_task).tk_rpc_status) };
        let _ = status.cmpxchg(0, error.to_errno(), Full);
        self.finish(0);
    }

    /// The message was no reply to the request as it stands, which stays pending. It counts like one
    /// to no request. Does not sleep. Takes `queue_lock`.
    pub(crate) fn disown(self) {
        {
            let _guard = QueueLock::new(self.xprt);
            // SAFETY: The transport is alive; SUNRPC counts these under `queue_lock`.
            unsafe { (*self.xprt.as_raw()).stat.bad_xids += 1 };
        }
        drop(self);
    }

    #[inline]
    fn finish(self, copied: i32) {
        let this = ManuallyDrop::new(self);
        this.xprt.reset_backoff();
        let rqst = this.rqst.as_raw();
        let _guard = QueueLock::new(this.xprt);
        // SAFETY: We hold `queue_lock`; the request is pinned, so its task is alive. The pin is given
        // up after that, and with it goes our right to touch the request.
        unsafe {
            raw::xprt_complete_rqst((*rqst).rq_task, copied);
            this.rqst.slot().claimed.store(false, Relaxed);
            raw::xprt_unpin_rqst(rqst);
        }
    }

    /// Keeps the pin for later, without borrowing the transport.
    #[inline]
    pub(crate) fn park(self) -> Parked<T> {
        let this = ManuallyDrop::new(self);
        // INVARIANT: The pin and the claim move over.
        Parked {
            xprt: NonNull::from(this.xprt),
            // SAFETY: The pointer of a request is not null.
            rqst: unsafe { NonNull::new_unchecked(this.rqst.as_raw()) },
        }
    }
}

impl<'a, T: Transport> Deref for Pinned<'a, T> {
    type Target = Rqst<'a, T>;

    #[inline]
    fn deref(&self) -> &Rqst<'a, T> {
        &self.rqst
    }
}

impl<T: Transport> Drop for Pinned<'_, T> {
    fn drop(&mut self) {
        let _guard = QueueLock::new(self.xprt);
        self.rqst.slot().claimed.store(false, Relaxed);
        // SAFETY: We hold `queue_lock` and own a pin.
        unsafe { raw::xprt_unpin_rqst(self.rqst.as_raw()) };
    }
}

/// A [`Pinned`] put aside. Dropping it lets go of the request.
///
/// # Invariants
///
/// - We own one pin of the request and the slot's claim.
/// - `xprt` is alive: a pinned request has a task, which holds a reference to its transport and
///   cannot end before the pin is gone.
pub(crate) struct Parked<T: Transport> {
    xprt: NonNull<Xprt<T>>,
    rqst: NonNull<raw::rpc_rqst>,
}

// SAFETY: A pin may be given up by any thread.
unsafe impl<T: Transport> Send for Parked<T> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<T: Transport> Sync for Parked<T> {}

impl<T: Transport> Parked<T> {
    /// Takes up the work on the request again. `xprt` is the transport it belongs to: it must outlive
    /// the pin, as its lock is released after the pin is gone.
    #[inline]
    pub(crate) fn resume(self, xprt: &Xprt<T>) -> Pinned<'_, T> {
        // PANIC: Only if a transport mixes up its requests with those of another.
        assert!(core::ptr::eq(self.xprt.as_ptr(), xprt));
        let this = ManuallyDrop::new(self);
        // INVARIANT: The pin and the claim move over.
        Pinned {
            xprt,
            // SAFETY: Pinned by us.
            rqst: unsafe { Rqst::from_raw(this.rqst) },
        }
    }
}

impl<T: Transport> Drop for Parked<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, as long as the pin exists. When it is gone the handle keeps
        // the transport until its lock is released.
        let handle = unsafe { self.xprt.as_ref() }.handle();
        drop(Pinned {
            xprt: &*handle,
            // SAFETY: Pinned by us. The pin moves over, and is given up there.
            rqst: unsafe { Rqst::from_raw(self.rqst) },
        });
    }
}
