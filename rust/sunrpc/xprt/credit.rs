// SPDX-License-Identifier: GPL-2.0

//! Credits, kept in SUNRPC's congestion window.
//!
//! The window `cwnd` is the peer's grant, `cong` what is in use of it, both in units of
//! `RPC_CWNDSCALE`. A request that holds a credit has `rq_cong` set. SUNRPC gives the credit back
//! when the RPC ends, and wakes the next sender.
//!
//! A new connection starts with one credit and none in use, but requests sent over an old one still
//! have `rq_cong` set. So each credit is marked with the *epoch* it was taken in: a number that
//! changes with each connection. What was taken in an earlier epoch is worth nothing, and must not
//! be subtracted from `cong` when it comes back.

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::sync::atomic::Relaxed;

use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

/// Converts credits to units of the congestion window.
#[inline]
fn scaled(credits: u32) -> usize {
    // CAST: `usize` has at least 32 bits; the number of credits is far below 2^24.
    (credits as usize) << raw::RPC_CWNDSHIFT
}

/// Runs `f` with `transport_lock` held.
#[inline]
fn with_transport_lock<R>(xprt: *mut raw::rpc_xprt, f: impl FnOnce() -> R) -> R {
    // SAFETY: Callers pass a live transport; all users of the lock are in process context, and ours
    // do not hold it already.
    unsafe { k::spin_lock(&raw mut (*xprt).transport_lock) };
    let result = f();
    // SAFETY: Locked above.
    unsafe { k::spin_unlock(&raw mut (*xprt).transport_lock) };
    result
}

impl<T: Transport> Xprt<T> {
    /// A new connection: one credit, none in use, and all credits that anybody still holds are void.
    ///
    /// Send lock held, before the connection counts as connected. Takes `transport_lock`.
    pub(crate) fn reset_congestion(&self) {
        let xprt = self.as_raw();
        with_transport_lock(xprt, || {
            // The epoch changes only here, one connection at a time.
            let epoch = self.state().epoch.load(Relaxed);
            self.state().epoch.store(epoch.wrapping_add(1), Relaxed);
            // SAFETY: The transport is alive; both fields are protected by the lock we hold.
            unsafe {
                (*xprt).cong = 0;
                (*xprt).cwnd = scaled(1);
            }
            // Whoever waits for a credit is woken when the send lock is released.
            self.clear_credit_wait();
        });
    }

    /// The peer grants `credits`, at least 1. Those that wait for one are woken if there are more
    /// than before.
    ///
    /// Process context; does not sleep. Takes `transport_lock` if the number has changed.
    #[inline]
    pub(crate) fn set_credits(&self, credits: u32) {
        let cwnd = scaled(credits.max(1));
        // SAFETY: The transport is alive. A stale value does no harm: either it differs and is looked
        // at again under the lock, or somebody else has just set what we want.
        if unsafe { (&raw const (*self.as_raw()).cwnd).read_volatile() } != cwnd {
            self.change_credits(cwnd);
        }
    }

    /// [`Self::set_credits`] when the number has changed.
    fn change_credits(&self, cwnd: usize) {
        let xprt = self.as_raw();
        let wake = with_transport_lock(xprt, || {
            // SAFETY: The transport is alive; the fields are protected by the lock we hold.
            let open = unsafe {
                (*xprt).cwnd = cwnd;
                (*xprt).cong < cwnd
            };
            open && self.clear_credit_wait()
        });
        if wake {
            self.wake_sender();
        }
    }

    /// Takes a credit for `rqst`, unless it has one. `false`: there is none left; the task will be
    /// woken when there is, see [`SendError::NoCredit`](super::transport::SendError::NoCredit).
    ///
    /// Send lock held. Takes `transport_lock` if there is a credit to take.
    #[inline]
    pub(crate) fn take_credit(&self, rqst: &Rqst<'_, T>) -> bool {
        let (slot, raw_rqst) = (rqst.slot(), rqst.as_raw());
        let epoch = self.state().epoch.load(Relaxed);
        // SAFETY: The request is live. Its `rq_cong` changes under the send lock, which we hold, or
        // when the RPC ends, which it does not while it is being sent.
        unsafe {
            if (*raw_rqst).rq_cong != 0 {
                if slot.credit_epoch.load(Relaxed) == epoch {
                    return true;
                }
                // Of an earlier connection: not part of `cong` any more.
                (*raw_rqst).rq_cong = 0;
            }
            // INVARIANT: Set before `rq_cong` is.
            slot.credit_epoch.store(epoch, Relaxed);
            raw::xprt_request_get_cong(self.as_raw(), raw_rqst)
        }
    }

    /// Gives back the credit of a request that ends, unless the peer has not answered it: then the
    /// transport is to be told first, see [`Self::return_late_credit`]. `transport_lock` held by
    /// SUNRPC.
    ///
    /// # Safety
    ///
    /// `task` is a live task with a request in a `Slot<T>`, and `transport_lock` of its transport
    /// is held.
    pub(super) unsafe fn return_credit(&self, task: NonNull<raw::rpc_task>) {
        // SAFETY: By the safety requirements.
        let Some(rqst) = NonNull::new(unsafe { (*task.as_ptr()).tk_rqstp }) else {
            return;
        };
        // SAFETY: By the safety requirements.
        let slot = unsafe { Slot::<T>::from_rqst(rqst) };
        if slot.credit_epoch.load(Relaxed) != self.state().epoch.load(Relaxed) {
            // SAFETY: The request has left all queues, so it is its task's alone.
            unsafe { (*rqst.as_ptr()).rq_cong = 0 };
            return;
        }
        // SAFETY: By the safety requirements. Without a buffer, `buf_free` is not called.
        let unanswered = unsafe {
            (*rqst.as_ptr()).rq_reply_bytes_recvd == 0 && !(*rqst.as_ptr()).rq_buffer.is_null()
        };
        if unanswered {
            return;
        }
        // SAFETY: By the safety requirements. Does nothing if no credit is held; otherwise it is
        // part of `cong`, for it was taken in this epoch.
        unsafe { raw::xprt_release_rqst_cong(task.as_ptr()) };
    }

    /// Gives back the credit of a request that ends without an answer, once the transport knows. It
    /// may have shrunk the window, and nobody is let in before that. Takes `transport_lock` if a
    /// credit is held.
    ///
    /// # Safety
    ///
    /// `task` is a live task with a request in a `Slot<T>` of this transport, which has left all
    /// queues.
    #[inline]
    pub(super) unsafe fn return_late_credit(&self, task: NonNull<raw::rpc_task>) {
        // SAFETY: By the safety requirements; the request is its task's alone.
        let rqst = unsafe { (*task.as_ptr()).tk_rqstp };
        // SAFETY: As above.
        if unsafe { (*rqst).rq_cong } == 0 {
            return;
        }
        with_transport_lock(self.as_raw(), || {
            // SAFETY: By the safety requirements; requests are not null.
            let slot = unsafe { Slot::<T>::from_rqst(NonNull::new_unchecked(rqst)) };
            if slot.credit_epoch.load(Relaxed) == self.state().epoch.load(Relaxed) {
                // SAFETY: By the safety requirements; the credit is part of `cong`, for it was taken
                // in this epoch.
                unsafe { raw::xprt_release_rqst_cong(task.as_ptr()) };
            } else {
                // SAFETY: As above.
                unsafe { (*rqst).rq_cong = 0 };
            }
        });
    }

    /// Clears `XPRT_CWND_WAIT`; was it set? `transport_lock` held.
    fn clear_credit_wait(&self) -> bool {
        self.test_and_clear(raw::XPRT_CWND_WAIT)
    }

    /// Wakes the first task that waits to send, unless somebody is sending, who will do so when done.
    ///
    /// SUNRPC exports no function that does just this. Waiting for "write space", and announcing it
    /// at once, comes to the same: whoever goes to sleep in between does so under
    /// `transport_lock`, which the announcement takes before it looks for sleepers.
    fn wake_sender(&self) {
        self.wait_for_buffer_space();
        self.wake_write_space();
    }
}
