// SPDX-License-Identifier: GPL-2.0

//! Credits, kept in SUNRPC's congestion window.
//!
//! `cwnd` is the credit grant of the peer, `cong` the number of credits in use, both in units of
//! `RPC_CWNDSCALE`. A request that holds a credit has `rq_cong` set. SUNRPC returns the credit when
//! the RPC ends, and wakes the next sender.
//!
//! A new connection starts with one credit and none in use, but requests that were sent over an
//! earlier connection still have `rq_cong` set. Each credit is therefore marked with the *epoch* in
//! which it was taken: a number that changes with each connection. A credit of an earlier epoch is
//! void, and must not be subtracted from `cong` when it is returned.

use core::ptr::NonNull;

use kernel::bindings as k;

use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::transport::Transport;
use crate::compat::casts::u32_as_usize;
use crate::raw;

/// Converts credits to units of the congestion window.
fn scaled(credits: u32) -> usize {
    // The number of credits is far below 2^24.
    u32_as_usize(credits) << raw::RPC_CWNDSHIFT
}

impl<T: Transport> Xprt<T> {
    /// Runs `f` with `transport_lock` held.
    pub(super) fn with_transport_lock<R>(&self, f: impl FnOnce(*mut raw::rpc_xprt) -> R) -> R {
        let xprt = self.as_raw();
        // SAFETY: The transport is alive. All users of the lock run in process context, and no
        // caller in this module holds it already.
        unsafe { k::spin_lock(&raw mut (*xprt).transport_lock) };
        let result = f(xprt);
        // SAFETY: The lock was taken above.
        unsafe { k::spin_unlock(&raw mut (*xprt).transport_lock) };
        result
    }

    /// Starts the credit accounting of a new connection: one credit, none in use. Credits that
    /// requests still hold become void.
    ///
    /// Send lock held, before the peer of the new connection can grant credits. Takes
    /// `transport_lock`.
    pub(crate) fn reset_congestion(&self) {
        self.with_transport_lock(|xprt| {
            // The epoch changes only here, and connections are made one at a time.
            let epoch = self.state.epoch.get();
            self.state.epoch.set(epoch.wrapping_add(1));
            // SAFETY: The transport is alive; `transport_lock` protects both members and is held.
            unsafe {
                (*xprt).cong = 0;
                (*xprt).cwnd = scaled(1);
            }
            // SUNRPC wakes the tasks that wait for a credit when the send lock is released.
            self.test_and_clear(raw::XPRT_CWND_WAIT);
        });
    }

    /// Sets the peer's grant to `credits`. Wakes a task that waits for a credit if the grant has
    /// grown.
    ///
    /// Process context; does not sleep. Takes `transport_lock` if the number has changed.
    pub(crate) fn set_credits(&self, credits: u32) {
        let cwnd = scaled(credits);
        // SAFETY: The transport is alive. A stale value is harmless: either it differs and is
        // compared again under the lock, or another thread has just set the same value.
        if unsafe { (&raw const (*self.as_raw()).cwnd).read_volatile() } != cwnd {
            self.change_credits(cwnd);
        }
    }

    /// Implements [`Self::set_credits`] for a number that has changed.
    fn change_credits(&self, cwnd: usize) {
        let wake = self.with_transport_lock(|xprt| {
            // SAFETY: The transport is alive; `transport_lock` protects both members and is held.
            let open = unsafe {
                (*xprt).cwnd = cwnd;
                (*xprt).cong < cwnd
            };
            open && self.test_and_clear(raw::XPRT_CWND_WAIT)
        });
        if wake {
            self.wake_sender();
        }
    }

    /// Takes a credit for `rqst`, unless it has one. Returns `false` if no credit is left; SUNRPC
    /// wakes the task when a credit is returned, see
    /// [`SendError::NoCredit`](super::transport::SendError::NoCredit).
    ///
    /// Send lock held. Takes `transport_lock` if there is a credit to take.
    //= 5666-3.3-3 unanswered calls do not exceed granted
    //= 8166-3.3.1-2 calls do not exceed latest grant
    pub(crate) fn take_credit(&self, rqst: &Rqst<'_, T>) -> bool {
        let (slot, raw_rqst) = (rqst.slot(), rqst.as_raw());
        let epoch = self.state.epoch.get();
        // SAFETY: The request is live. Its `rq_cong` changes under the send lock, which the caller
        // holds, or when the RPC ends, which cannot happen while it is being sent.
        unsafe {
            if (*raw_rqst).rq_cong != 0 {
                if slot.credit_epoch.get() == epoch {
                    return true;
                }
                // The credit is of an earlier connection, and not part of `cong`.
                (*raw_rqst).rq_cong = 0;
            }
            // INVARIANT: Set before `rq_cong` is.
            slot.credit_epoch.set(epoch);
            raw::xprt_request_get_cong(self.as_raw(), raw_rqst)
        }
    }

    /// Returns the credit of a request that ends. If the peer has not replied,
    /// [`Self::return_late_credit`] does so instead, after the transport has released the request.
    ///
    /// # Safety
    ///
    /// `task` is a live task with a request in a `Slot<T>` of this transport, which has left all
    /// queues, and the caller holds `transport_lock`.
    pub(super) unsafe fn return_credit(&self, task: NonNull<raw::rpc_task>) {
        // SAFETY: By the safety requirements the task is alive and has a request in a slot.
        let (rqst, slot) = unsafe {
            let rqst = (*task.as_ptr()).tk_rqstp;
            (rqst, Slot::<T>::from_rqst(NonNull::new_unchecked(rqst)))
        };
        if slot.credit_epoch.get() != self.state.epoch.get() {
            // SAFETY: The request has left all queues, so only its task accesses it.
            unsafe { (*rqst).rq_cong = 0 };
            return;
        }
        // SAFETY: The request is alive. SUNRPC calls `buf_free`, and with it `return_late_credit`,
        // only for a request that has a buffer.
        let unanswered =
            unsafe { (*rqst).rq_reply_bytes_recvd == 0 && !(*rqst).rq_buffer.is_null() };
        if unanswered {
            return;
        }
        // SAFETY: By the safety requirements the task is alive and the lock is held. The call does
        // nothing if the request holds no credit; otherwise the credit is part of `cong`, because
        // it was taken in the current epoch.
        unsafe { raw::xprt_release_rqst_cong(task.as_ptr()) };
    }

    /// Returns the credit of a request that ends without a reply, after the transport has released
    /// the request. The transport may have shrunk the window meanwhile, and no task may use the
    /// credit before that. Takes `transport_lock` if the request holds a credit.
    ///
    /// # Safety
    ///
    /// `task` is a live task with a request in a `Slot<T>` of this transport, which has left all
    /// queues.
    pub(super) unsafe fn return_late_credit(&self, task: NonNull<raw::rpc_task>) {
        // SAFETY: By the safety requirements the task is alive, and only it accesses the request.
        let (rqst, cong) = unsafe {
            let rqst = (*task.as_ptr()).tk_rqstp;
            (rqst, (*rqst).rq_cong)
        };
        if cong == 0 {
            return;
        }
        self.with_transport_lock(|_| {
            // SAFETY: By the safety requirements the request is embedded in a slot, and only its
            // task accesses it. A credit of the current epoch is part of `cong`.
            unsafe {
                let slot = Slot::<T>::from_rqst(NonNull::new_unchecked(rqst));
                if slot.credit_epoch.get() == self.state.epoch.get() {
                    raw::xprt_release_rqst_cong(task.as_ptr());
                } else {
                    (*rqst).rq_cong = 0;
                }
            }
        });
    }

    /// Wakes the first task that waits to send. If a task is sending, it wakes the next one itself.
    ///
    /// SUNRPC exports no function for this alone. Setting `XPRT_WRITE_SPACE` and announcing write
    /// space at once has the same effect: a task that goes to sleep in between does so under
    /// `transport_lock`, which the announcement takes before it searches for sleeping tasks.
    fn wake_sender(&self) {
        self.wait_for_buffer_space();
        self.wake_write_space();
    }
}
