// SPDX-License-Identifier: GPL-2.0

//! The periodic check of a connection for the loss of a peer that no event reports.

use core::mem::offset_of;

use kernel::bindings as k;

use super::super::time::HZ;
use super::connect::ConnectState;
use super::handle::{State, Xprt};
use super::transport::Reconnect;

/// Checks the connection, and queues itself again as long as there is one. Connecting queues it the
/// first time. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `work` of `ConnectState::liveness_work` of a live transport of `T`.
pub(super) unsafe extern "C" fn worker<T: Reconnect>(work: *mut k::work_struct) {
    let offset = offset_of!(State<T>, reconnect)
        + offset_of!(ConnectState, liveness_work)
        + offset_of!(k::delayed_work, work);
    // SAFETY: By the safety requirements `work` is at this offset in the state of a live transport.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };
    if xprt.is_connected() {
        xprt.transport().check_liveness(xprt);
        xprt.queue_liveness();
    }
}

impl<T: Reconnect> Xprt<T> {
    /// Queues the worker to run after the transport's interval, unless it is queued already.
    pub(super) fn queue_liveness(&self) {
        if T::LIVENESS_INTERVAL == 0 {
            return;
        }
        // CAST: `usize` has at least 32 bits.
        let interval = T::LIVENESS_INTERVAL as usize * HZ;
        // SAFETY: By the type invariants of `ConnectState` the work is initialised. Teardown
        // cancels it before it frees the transport; the queue outlives all transports of the class.
        // Rounding to a full second lets the processor wake up once for all timers that are not
        // urgent.
        unsafe {
            k::queue_delayed_work_on(
                k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                self.state().class.connect_queue(),
                self.connect_state().liveness_work.get(),
                k::round_jiffies_relative(interval),
            )
        };
    }

    /// Waits for the worker, and prevents it from running again. Called by the teardown after the
    /// connect work was cancelled. Sleeps.
    pub(super) fn cancel_liveness(&self) {
        // SAFETY: By the type invariants of `ConnectState` the work is initialised.
        unsafe { k::cancel_delayed_work_sync(self.connect_state().liveness_work.get()) };
    }
}
