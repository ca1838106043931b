// SPDX-License-Identifier: GPL-2.0

//! The connect protocol: from SUNRPC's request for a connection to a call of [`Transport::connect`]
//! in a worker.
//!
//! ```text
//! xprt_connect(task)                               connect_work
//!   task sleeps on xprt->pending
//!   sets XPRT_CONNECTING
//!   begin(): send lock passes from task to worker ──► (back-off)
//!                                                     Transport::connect
//!                                                     set connected, or Transport::close
//!                                                     clear XPRT_CONNECTING
//!                                                     wake xprt->pending
//!                                                     release the send lock
//! ```
//!
//! # Back-off
//!
//! The first attempt after a reply is made at once. [`Transport::next_attempt`] chooses the times
//! of the following attempts, which are at most `max_reconnect_timeout` apart. That limit is
//! counted from start to start, so that the time which an attempt spent waiting for a dead peer is
//! included.
//!
//! After a failed attempt SUNRPC delays each RPC for three seconds before the RPC requests a
//! connection again, even if the peer returns earlier. The transport can therefore choose to retry
//! before the RPCs are woken ([`Transport::retry_unreported`]).
//!
//! The worker holds the send lock all the time, as SUNRPC requires. While it waits it checks every
//! second whether the transport has been abandoned, because umount waits for the lock
//! uninterruptibly.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::time::{msecs_to_jiffies, Jiffies};
use kernel::types::Opaque;

use super::super::random;
use super::super::time::{is_before, millis, now, secs, until};
use super::handle::{Xprt, XprtState};
use super::transport::{ConnectError, Outage, Transport};
use crate::mem::MemallocScope;
use crate::raw;

/// Maximum time to wait for rpcbind, in seconds.
const BIND_TIMEOUT: u32 = 60;
/// Minimum of `max_reconnect_timeout`, in seconds.
const RECONNECT_MIN: u32 = 1;

/// State of the connect protocol.
///
/// # Invariants
///
/// - `connect_work` and `liveness_work` are initialised, with a function if the transport connects.
/// - The times are in jiffies, and are written under the send lock.
#[pin_data]
pub(crate) struct ConnectState {
    /// Runs [`worker`].
    #[pin]
    connect_work: Opaque<k::delayed_work>,
    /// Runs [`liveness_worker`].
    #[pin]
    liveness_work: Opaque<k::delayed_work>,
    /// Time at which RPCs requested the first attempt since the last reply.
    outage_start: Atomic<usize>,
    /// Time at which RPCs requested the latest attempt.
    requested: Atomic<usize>,
    /// Start of the latest attempt.
    attempt: Atomic<usize>,
    /// Earliest start of the next attempt.
    next_attempt: Atomic<usize>,
}

impl ConnectState {
    /// Creates the state of a new transport of `T`.
    pub(super) fn new<T: Transport>() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            connect_work <- Opaque::ffi_init(|work| {
                // SAFETY: `work` is part of the pinned memory that is being initialised.
                unsafe { raw::rr_init_connect_work(work, Worker::<T>::CONNECT) }
            }),
            liveness_work <- Opaque::ffi_init(|work| {
                // SAFETY: `work` is part of the pinned memory that is being initialised.
                unsafe { raw::rr_init_liveness_work(work, Worker::<T>::LIVENESS) }
            }),
            outage_start: Atomic::new(0),
            requested: Atomic::new(0),
            attempt: Atomic::new(0),
            next_attempt: Atomic::new(0),
        }? Error)
    }
}

/// The functions of the workers.
struct Worker<T>(PhantomData<T>);

impl<T: Transport> Worker<T> {
    const CONNECT: k::work_func_t = if T::HAS_CONNECT {
        Some(worker::<T>)
    } else {
        None
    };
    const LIVENESS: k::work_func_t = if T::HAS_CONNECT {
        Some(liveness_worker::<T>)
    } else {
        None
    };
}

/// Initialises those members of a new transport that control connecting. If it does not connect,
/// all timeouts stay 0, so that SUNRPC does not close it when it is idle.
pub(super) fn init_raw<T: Transport>(xprt: &mut raw::rpc_xprt) {
    if !T::HAS_CONNECT {
        // The connection exists before the transport does.
        xprt.state |= 1 << raw::XPRT_BOUND | 1 << raw::XPRT_CONNECTED;
        return;
    }
    xprt.connect_timeout = super::handle::default_timeout().to_initval;
    xprt.max_reconnect_timeout = secs(T::RECONNECT_MAX);
    xprt.bind_timeout = secs(BIND_TIMEOUT);
    xprt.idle_timeout = secs(T::IDLE_TIMEOUT);
}

/// Waits for the workers. The teardown, which calls this, holds the send lock, so nothing queues
/// them again. The connect work is first, because it may queue the liveness work. Sleeps.
pub(super) fn cancel<T: Transport>(xprt: &Xprt<T>) {
    if !T::HAS_CONNECT {
        return;
    }
    let state = xprt.connect_state();
    for work in [&state.connect_work, &state.liveness_work] {
        // SAFETY: By the type invariants of `ConnectState` the work is initialised.
        unsafe { k::cancel_delayed_work_sync(work.get()) };
    }
}

/// Implements the `connect` operation: passes the send lock to the worker and starts it. Does not
/// sleep.
///
/// # Safety
///
/// `task` is alive and holds the send lock of `xprt`.
pub(super) unsafe fn begin<T: Transport>(xprt: &Xprt<T>, task: NonNull<raw::rpc_task>) {
    let raw_xprt = xprt.as_raw();
    // SAFETY: The task is alive and holds the send lock. No task has the transport's address as its
    // cookie.
    if !unsafe { raw::xprt_lock_connect(raw_xprt, task.as_ptr(), raw_xprt.cast()) } {
        kernel::pr_warn_once!("connect without the send lock\n");
        // SAFETY: The transport is alive, and no other thread connects while this bit is set.
        unsafe { raw::rr_xprt_clear_connecting(raw_xprt) };
        return;
    }
    let state = xprt.connect_state();
    let requested = now();
    state.requested.store(requested, Relaxed);
    if xprt.begin_outage() {
        state.outage_start.store(requested, Relaxed);
        state.next_attempt.store(requested, Relaxed);
    } else {
        let time = xprt.data().next_attempt(&xprt.outage(), random());
        xprt.set_next_attempt(time);
    }
    let delay = until(state.next_attempt.load(Relaxed));
    xprt.data().connect_scheduled(xprt, delay);
    plan(xprt);
}

/// Announces the next attempt to the transport, and queues the worker.
fn plan<T: Transport>(xprt: &Xprt<T>) {
    let delay = until(xprt.connect_state().next_attempt.load(Relaxed));
    xprt.data().attempt_planned(xprt, millis(0, delay));
    schedule(xprt);
}

/// Queues the worker for the time of the next attempt, or for one second from now if that is
/// earlier.
fn schedule<T: Transport>(xprt: &Xprt<T>) {
    let state = xprt.connect_state();
    let delay = until(state.next_attempt.load(Relaxed)).min(secs(1));
    queue(xprt, &state.connect_work, delay);
}

/// Queues one of the works of the transport's [`ConnectState`], unless it is queued already.
fn queue<T: Transport>(xprt: &Xprt<T>, work: &Opaque<k::delayed_work>, delay: Jiffies) {
    // SAFETY: By the type invariants of `ConnectState` the work is initialised. Teardown cancels it
    // before it frees the transport; the queue outlives all transports of the class.
    unsafe {
        k::queue_delayed_work_on(
            k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
            xprt.state.class.connect_queue(),
            work.get(),
            delay,
        )
    };
}

/// Makes an attempt to connect. Process context, may sleep. The worker owns the send lock.
///
/// # Safety
///
/// `work` is the `work` of `ConnectState::connect_work` of a live transport of `T`.
unsafe extern "C" fn worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(XprtState<T>, connect)
        + offset_of!(ConnectState, connect_work)
        + offset_of!(k::delayed_work, work);
    // SAFETY: By the safety requirements `work` is at this offset in the state of a live transport.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };

    if xprt.is_abandoned() {
        return finish(xprt, Err(ConnectError::Abandoned));
    }
    if until(xprt.connect_state().next_attempt.load(Relaxed)) != 0 {
        return schedule(xprt);
    }
    // There is no connection. A close that was requested since the last connection was closed (by a
    // task that learns late of a failed attempt, or by the removal of a device) must not close the
    // new connection. If a request arrives between this test and the clearing, there is still no
    // newer connection.
    xprt.test_and_clear(raw::XPRT_CLOSE_WAIT);
    let _nofs = MemallocScope::nofs();
    xprt.connect_state().attempt.store(now(), Relaxed);
    xprt.update_shown_addr();
    let result = xprt.data().connect(xprt);
    if let Err(error) = result {
        xprt.data().close(xprt);
        if retry_unreported(xprt, error) {
            return;
        }
    }
    finish(xprt, result);
}

/// Schedules a retry of an attempt that failed with `error` if the transport wants one before the
/// RPCs are woken. Returns whether it did.
fn retry_unreported<T: Transport>(xprt: &Xprt<T>, error: ConnectError) -> bool {
    if xprt.is_abandoned() {
        return false;
    }
    let transport = xprt.data();
    let Some(time) = transport.retry_unreported(xprt, error, &xprt.outage(), random()) else {
        return false;
    };
    xprt.set_next_attempt(time);
    plan(xprt);
    true
}

/// Checks the connection for the loss of a peer that no event reports, and requeues itself while
/// there is a connection. Connecting queues it first. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `work` of `ConnectState::liveness_work` of a live transport of `T`.
unsafe extern "C" fn liveness_worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(XprtState<T>, connect)
        + offset_of!(ConnectState, liveness_work)
        + offset_of!(k::delayed_work, work);
    // SAFETY: By the safety requirements `work` is at this offset in the state of a live transport.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };
    if xprt.is_connected() {
        xprt.data().check_liveness(xprt);
        xprt.queue_liveness();
    }
}

/// Ends an attempt: reports the result to SUNRPC and releases the send lock.
///
/// The order matters. As soon as the lock is free, calls are sent over the new connection, or the
/// next attempt begins; a task that starts to wait on the pending queue after that waits for a
/// reply or for that attempt. A call of NFSv3 that is woken there is encoded again, and has to be
/// sent over another connection.
fn finish<T: Transport>(xprt: &Xprt<T>, result: Result<(), ConnectError>) {
    let raw_xprt = xprt.as_raw();
    account(xprt, result.is_ok());
    let status = match result {
        // The waiting tasks check the state again, find the transport connected, and send.
        Ok(()) => {
            xprt.set(raw::XPRT_CONNECTED);
            xprt.queue_liveness();
            -(k::EAGAIN as i32)
        }
        Err(error) => error.to_errno(),
    };
    // SAFETY: The transport is alive: teardown takes the send lock first, then cancels this work
    // and waits until it has ended. `begin` acquired the lock with the transport's address as the
    // cookie.
    unsafe {
        raw::rr_xprt_clear_connecting(raw_xprt);
        raw::xprt_wake_pending_tasks(raw_xprt, status);
        raw::xprt_unlock_connect(raw_xprt, raw_xprt.cast());
    }
}

/// Counts an attempt, and a new connection. The connect cookie also changes after a failed attempt:
/// tasks that waited for it request a close of the connection with the old cookie, which must not
/// match the next connection.
fn account<T: Transport>(xprt: &Xprt<T>, connected: bool) {
    let raw_xprt = xprt.as_raw();
    // SAFETY: The transport is alive, and the worker owns the send lock, under which these members
    // change.
    unsafe {
        (*raw_xprt).connect_cookie = (*raw_xprt).connect_cookie.wrapping_add(1);
        if connected {
            let stat = &mut (*raw_xprt).stat;
            stat.connect_count += 1;
            stat.connect_time += now().wrapping_sub(stat.connect_start);
        }
    }
}

impl<T: Transport> Xprt<T> {
    /// Returns the state of the connect protocol.
    pub(super) fn connect_state(&self) -> &ConnectState {
        &self.state.connect
    }

    /// Records that there is no connection. Returns whether this is the first attempt since the
    /// last reply. Send lock held.
    fn begin_outage(&self) -> bool {
        // SAFETY: The transport is alive. The caller holds the send lock, under which the member is
        // set; only `reset_backoff` clears it, concurrently.
        unsafe {
            let timeout = &raw mut (*self.as_raw()).reestablish_timeout;
            let before = timeout.read_volatile();
            timeout.write_volatile(secs(1));
            before == 0
        }
    }

    /// Returns the times of the current outage. Send lock held.
    fn outage(&self) -> Outage {
        let state = self.connect_state();
        let start = state.outage_start.load(Relaxed);
        Outage {
            now: millis(start, now()),
            attempt: millis(start, state.attempt.load(Relaxed)),
            asked: millis(start, state.requested.load(Relaxed)),
        }
    }

    /// Sets the start of the next attempt, in milliseconds of the outage. Send lock held.
    fn set_next_attempt(&self, millis: u32) {
        let (state, raw_xprt) = (self.connect_state(), self.as_raw());
        let start = state.outage_start.load(Relaxed);
        let wanted = start.wrapping_add(msecs_to_jiffies(millis));
        // SAFETY: The transport is alive. The member is written under `transport_lock`; a stale
        // value only changes the delay of this attempt.
        let longest = unsafe { (&raw const (*raw_xprt).max_reconnect_timeout).read_volatile() };
        let latest = state.attempt.load(Relaxed).wrapping_add(longest);
        let late = is_before(latest, wanted);
        let time = if late { latest } else { wanted };
        state.next_attempt.store(time, Relaxed);
    }

    /// Implements the `set_connect_timeout` operation: NFSv4 wants to detect a dead server within
    /// its lease time. Both timeouts are in jiffies, and can only become shorter. Pauses between
    /// attempts remain, whatever lease time the server announces. Takes `transport_lock`.
    pub(super) fn set_connect_timeout(&self, connect: usize, reconnect: usize) {
        // SAFETY: The transport is alive. `transport_lock` protects these members and
        // `XprtState::timeout`.
        self.with_transport_lock(|raw_xprt| unsafe {
            if connect < (*raw_xprt).connect_timeout {
                let initval = connect.max(secs(T::TIMEOUT_MIN));
                let timeout = self.state.timeout.get();
                (*timeout).to_initval = initval;
                (*timeout).to_maxval = initval;
                (*raw_xprt).connect_timeout = connect;
            }
            let reconnect = reconnect.max(secs(RECONNECT_MIN));
            if reconnect < (*raw_xprt).max_reconnect_timeout {
                (*raw_xprt).max_reconnect_timeout = reconnect;
            }
        });
    }

    /// Queues the worker to run after the transport's interval, unless it is queued already.
    fn queue_liveness(&self) {
        if T::LIVENESS_INTERVAL == 0 {
            return;
        }
        // Rounding to a full second lets the processor wake up once for all non-urgent timers.
        // SAFETY: The function has no preconditions.
        let delay = unsafe { k::round_jiffies_relative(secs(T::LIVENESS_INTERVAL)) };
        queue(self, &self.connect_state().liveness_work, delay);
    }

    /// Ends the outage because a reply was received: the next attempt to connect need not wait.
    pub(super) fn reset_backoff(&self) {
        // SAFETY: The transport is alive. The member is written without a lock, as socket
        // transports do: a race with `begin_outage` can only make one wait longer or shorter.
        unsafe {
            let timeout = &raw mut (*self.as_raw()).reestablish_timeout;
            if timeout.read_volatile() != 0 {
                timeout.write_volatile(0);
            }
        }
    }
}
