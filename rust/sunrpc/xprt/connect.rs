// SPDX-License-Identifier: GPL-2.0

//! The connect protocol: how SUNRPC's wish for a connection becomes a call of
//! [`Transport::connect`] in a worker.
//!
//! ```text
//! xprt_connect(task)                               connect_work
//!   task sleeps on xprt->pending
//!   sets XPRT_CONNECTING
//!   begin(): send lock passes from task to worker ──► (back-off)
//!                                                     Transport::connect
//!                                                     set connected, or Transport::close
//!                                                     clear XPRT_CONNECTING
//!                                                     give up the send lock
//!                                                     wake xprt->pending
//! ```
//!
//! # Pauses
//!
//! The first attempt after a reply is made at once. When the next ones are made is up to the
//! transport ([`Transport::next_attempt`]), but they are at most `max_reconnect_timeout` apart, counted
//! from start to start, so that time spent waiting for a dead peer is not waited for again.
//!
//! When an attempt fails, SUNRPC lets each RPC wait for three seconds before it asks again, whatever
//! happens meanwhile. So the transport may rather try again than tell them ([`Transport::try_again`]).
//!
//! The worker holds the send lock all the time, as SUNRPC demands; while it waits it looks every second
//! whether anybody still wants the connection, for an umount waits for the lock without being able to
//! interrupt.

use core::mem::offset_of;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

use super::handle::{State, Xprt};
use super::transport::{ConnectError, Outage, Transport};
use crate::raw;

/// Jiffies in a second. Not `bindings::HZ`: of the macro's two definitions bindgen takes the one
/// for user space, which is 100 whatever the kernel's is.
// CAST: `usize` has at least 32 bits.
pub(super) const HZ: usize = k::CONFIG_HZ as usize;

/// The time, in jiffies.
#[inline]
pub(super) fn now() -> usize {
    // SAFETY: Always readable; changes under us, hence volatile.
    unsafe { (&raw const k::jiffies).read_volatile() }
}

/// Whether the time `a`, in jiffies, comes before `b`. Half the range is the past.
#[inline]
pub(super) fn is_before(a: usize, b: usize) -> bool {
    a.wrapping_sub(b) > usize::MAX / 2
}

/// Jiffies from now until `then`; 0 if that has passed.
fn until(then: usize) -> usize {
    let now = now();
    if is_before(then, now) {
        0
    } else {
        then.wrapping_sub(now)
    }
}

/// 60 seconds, no retries: when RPCs of a new client time out. As the stock transport has it.
pub(super) fn default_timeout() -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: 60 * HZ,
        to_maxval: 60 * HZ,
        ..Default::default()
    }
}

/// The `connect` operation: passes the send lock to the worker and starts it. Does not sleep.
///
/// # Safety
///
/// `task` holds the send lock of `xprt`.
pub(super) unsafe fn begin<T: Transport>(xprt: &Xprt<T>, task: NonNull<raw::rpc_task>) {
    let raw_xprt = xprt.as_raw();
    // SAFETY: By the safety requirements. The transport's address is a cookie no task has.
    if !unsafe { raw::xprt_lock_connect(raw_xprt, task.as_ptr(), raw_xprt.cast()) } {
        kernel::pr_warn_once!("connect without the send lock\n");
        // SAFETY: The transport is alive; nobody else connects while this bit is set.
        unsafe { raw::rr_xprt_clear_connecting(raw_xprt) };
        return;
    }
    let state = xprt.state();
    let asked = now();
    state.asked.store(asked, Relaxed);
    if xprt.begin_outage() {
        state.lost.store(asked, Relaxed);
        state.due.store(asked, Relaxed);
    } else {
        let due = xprt.transport().next_attempt(&xprt.outage(), random());
        xprt.set_due(due);
    }
    let delay = until(state.due.load(Relaxed));
    xprt.transport().connect_ordered(xprt, delay);
    schedule(xprt);
}

/// A number for chance to decide with.
fn random() -> u32 {
    // SAFETY: May be called in any context.
    unsafe { k::get_random_u32() }
}

/// Milliseconds from `since` to `then`, both in jiffies.
fn millis(since: usize, then: usize) -> u32 {
    let jiffies = then.wrapping_sub(since);
    u32::try_from(jiffies.saturating_mul(1000) / HZ).unwrap_or(u32::MAX)
}

/// Jiffies of so many milliseconds, at least one unless it is none.
fn jiffies(millis: u32) -> usize {
    // CAST: `usize` has at least 32 bits.
    (millis as usize).saturating_mul(HZ).div_ceil(1000)
}

/// Has the worker run when the attempt is due, or in a second if that is earlier.
fn schedule<T: Transport>(xprt: &Xprt<T>) {
    let state = xprt.state();
    let delay = until(state.due.load(Relaxed)).min(HZ);
    // SAFETY: The work is initialised, and cancelled before the transport or the queue goes.
    unsafe {
        k::queue_delayed_work_on(
            k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
            state.class.connect_queue(),
            state.connect_work.get(),
            delay,
        )
    };
}

/// The worker. Process context, may sleep; the send lock is held in the worker's name.
///
/// # Safety
///
/// `work` is the `work` of `State<T>::connect_work` of a transport that is alive.
pub(super) unsafe extern "C" fn worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(State<T>, connect_work) + offset_of!(k::delayed_work, work);
    // SAFETY: By the safety requirements `work` lies there in a transport's state.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };

    if xprt.is_abandoned() {
        return finish(xprt, Err(ConnectError::Abandoned));
    }
    if until(xprt.state().due.load(Relaxed)) != 0 {
        return schedule(xprt);
    }
    // There is no connection. Whoever has asked for a close since the last one went (tasks that learn
    // late of an attempt that failed, a device's removal) must not get the new one closed. A
    // request that comes between looking and forgetting means no newer connection, either.
    xprt.test_and_clear(raw::XPRT_CLOSE_WAIT);
    let scope = Scope::new(xprt);
    xprt.state().attempt.store(now(), Relaxed);
    xprt.show_addr();
    let result = xprt.transport().connect(xprt);
    if let Err(error) = result {
        xprt.transport().close(xprt);
        if repeat(xprt, error) {
            return;
        }
    }
    finish(xprt, result);
    drop(scope);
}

/// Whether an attempt that has failed is made again before anybody is told.
fn repeat<T: Transport>(xprt: &Xprt<T>, error: ConnectError) -> bool {
    if xprt.is_abandoned() {
        return false;
    }
    let transport = xprt.transport();
    let Some(due) = transport.try_again(xprt, error, &xprt.outage(), random()) else {
        return false;
    };
    xprt.set_due(due);
    schedule(xprt);
    true
}

/// Ends an attempt: SUNRPC learns of the result, and gets the send lock back.
///
/// In this order: as soon as the lock is free, calls are sent over the new connection, or the next
/// attempt begins, and what waits on the pending queue from then on waits for a reply or for that. A
/// call of NFSv3 that is woken there is encoded anew, and has to be sent over a connection of its own.
fn finish<T: Transport>(xprt: &Xprt<T>, result: Result<(), ConnectError>) {
    let raw_xprt = xprt.as_raw();
    account(xprt, result.is_ok());
    let status = match result {
        // Those that wait look at the state again, find it connected, and send.
        Ok(()) => {
            xprt.set(raw::XPRT_CONNECTED);
            xprt.begin_watch();
            -(k::EAGAIN as i32)
        }
        Err(error) => error.to_errno(),
    };
    // SAFETY: The transport is alive: teardown takes the send lock first and then cancels this work,
    // waiting for it to end. We hold the lock under the cookie we got it with.
    unsafe {
        raw::rr_xprt_clear_connecting(raw_xprt);
        raw::xprt_wake_pending_tasks(raw_xprt, status);
        raw::xprt_unlock_connect(raw_xprt, raw_xprt.cast());
    }
}

/// Counts an attempt, and a new connection. After an attempt that failed, tasks ask for a close by the
/// number that they have been waiting with: they are not to mean the next connection.
fn account<T: Transport>(xprt: &Xprt<T>, connected: bool) {
    let raw_xprt = xprt.as_raw();
    // SAFETY: The transport is alive, and we hold the send lock, under which these change.
    unsafe {
        (*raw_xprt).connect_cookie = (*raw_xprt).connect_cookie.wrapping_add(1);
        if connected {
            let stat = &mut (*raw_xprt).stat;
            stat.connect_count += 1;
            stat.connect_time += now().wrapping_sub(stat.connect_start);
        }
    }
}

/// Allocation scope of the worker: no recursion into a file system, and the reserves for a transport
/// that somebody swaps over.
struct Scope {
    nofs: u32,
    noreclaim: Option<u32>,
}

impl Scope {
    fn new<T: Transport>(xprt: &Xprt<T>) -> Self {
        // SAFETY: The transport is alive. What is saved is restored in reverse order by `drop`, in the
        // same thread: a `Scope` stays local.
        unsafe {
            let swapping = (&raw const (*xprt.as_raw()).swapper.counter).read_volatile() != 0;
            Self {
                nofs: raw::rr_nofs_save(),
                noreclaim: swapping.then(|| raw::rr_noreclaim_save()),
            }
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: Undoes what `new` has done, in reverse order.
        unsafe {
            if let Some(flags) = self.noreclaim {
                raw::rr_noreclaim_restore(flags);
            }
            raw::rr_nofs_restore(self.nofs);
        }
    }
}

impl<T: Transport> Xprt<T> {
    /// Notes that there is no connection; was there one until now, that had brought a reply? Send lock
    /// held.
    fn begin_outage(&self) -> bool {
        // SAFETY: The transport is alive. We hold the send lock, under which this is set; a reply
        // clears it, see `forget_backoff`.
        unsafe {
            let timeout = &raw mut (*self.as_raw()).reestablish_timeout;
            let before = timeout.read_volatile();
            timeout.write_volatile(HZ);
            before == 0
        }
    }

    /// What the transport is told of the outage. Send lock held.
    fn outage(&self) -> Outage {
        let state = self.state();
        let lost = state.lost.load(Relaxed);
        Outage {
            now: millis(lost, now()),
            attempt: millis(lost, state.attempt.load(Relaxed)),
            asked: millis(lost, state.asked.load(Relaxed)),
        }
    }

    /// Sets when the next attempt is to begin, in milliseconds of the outage. Send lock held.
    fn set_due(&self, millis: u32) {
        let (state, raw_xprt) = (self.state(), self.as_raw());
        let wanted = state.lost.load(Relaxed).wrapping_add(jiffies(millis));
        // SAFETY: The transport is alive. Written under `transport_lock`; an old value does no harm.
        let longest = unsafe { (&raw const (*raw_xprt).max_reconnect_timeout).read_volatile() };
        let latest = state.attempt.load(Relaxed).wrapping_add(longest);
        let due = if is_before(latest, wanted) {
            latest
        } else {
            wanted
        };
        state.due.store(due, Relaxed);
    }

    /// A reply has come: the outage is over, and the next attempt to connect need not wait.
    #[inline]
    pub(super) fn forget_backoff(&self) {
        // SAFETY: The transport is alive. Written without a lock, as socket transports do: a race
        // with the doubling can only make a wait longer or shorter.
        unsafe {
            let timeout = &raw mut (*self.as_raw()).reestablish_timeout;
            if timeout.read_volatile() != 0 {
                timeout.write_volatile(0);
            }
        }
    }

    /// Waits for a connect worker that may be running or queued, and keeps it from running again.
    /// Send lock held by the teardown. Sleeps.
    pub(super) fn cancel_connect(&self) {
        // SAFETY: The work is initialised.
        unsafe { k::cancel_delayed_work_sync(self.state().connect_work.get()) };
    }

    /// The `set_connect_timeout` operation: NFSv4 wants to know of a dead server within its lease.
    /// Both in jiffies; they can only become shorter. Takes `transport_lock`.
    pub(super) fn set_connect_timeout(&self, connect: usize, reconnect: usize) {
        let raw_xprt = self.as_raw();
        // SAFETY: The transport is alive; the lock protects the fields, and `timeout` as well.
        unsafe {
            k::spin_lock(&raw mut (*raw_xprt).transport_lock);
            if connect < (*raw_xprt).connect_timeout {
                let initval = connect.max(T::TIMEOUT_MIN as usize * HZ);
                let timeout = self.state().timeout.get();
                (*timeout).to_initval = initval;
                (*timeout).to_maxval = initval;
                (*raw_xprt).connect_timeout = connect;
            }
            if reconnect < (*raw_xprt).max_reconnect_timeout {
                (*raw_xprt).max_reconnect_timeout = reconnect;
            }
            k::spin_unlock(&raw mut (*raw_xprt).transport_lock);
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_connect)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_the_kernels() {
        assert_eq!(kernel::time::msecs_to_jiffies(1000), HZ);
        assert_eq!(
            default_timeout().to_initval,
            kernel::time::msecs_to_jiffies(60_000)
        );
    }

    #[test]
    fn time_goes_round() {
        for (a, b) in [(1, 2), (usize::MAX, 0), (usize::MAX - 5, 5)] {
            assert!(is_before(a, b));
            assert!(!is_before(b, a));
        }
        assert!(!is_before(7, 7));
    }

    #[test]
    fn milliseconds_are_jiffies_and_back() {
        for ms in [0, 1, 999, 1000, 15_000, 86_400_000] {
            assert!(millis(7, 7 + jiffies(ms)) >= ms);
            assert!(millis(7, 7 + jiffies(ms)) < ms + 1000 / HZ as u32 + 1);
        }
        assert_eq!(millis(usize::MAX, jiffies(500).wrapping_sub(1)), 500);
        assert_eq!(millis(0, usize::MAX), u32::MAX);
    }

    #[test]
    fn what_has_passed_is_not_waited_for() {
        assert_eq!(until(now().wrapping_sub(1)), 0);
        assert!(until(now().wrapping_add(10 * HZ)) > 5 * HZ);
    }
}
