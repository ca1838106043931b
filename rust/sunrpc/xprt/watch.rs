// SPDX-License-Identifier: GPL-2.0

//! A look at each connection every few seconds, for what no event tells of.

use core::mem::offset_of;

use kernel::bindings as k;

use super::connect::HZ;
use super::handle::{State, Xprt};
use super::transport::Transport;

/// The worker. Process context, may sleep. It goes on as long as there is a connection, and connecting
/// starts it again.
///
/// # Safety
///
/// `work` is the `work` of `State<T>::watch_work` of a transport that is alive.
pub(super) unsafe extern "C" fn worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(State<T>, watch_work) + offset_of!(k::delayed_work, work);
    // SAFETY: By the safety requirements `work` lies there in a transport's state.
    let xprt = unsafe { Xprt::<T>::from_work(work, offset) };
    if xprt.is_connected() {
        xprt.transport().watch(xprt);
        xprt.begin_watch();
    }
}

impl<T: Transport> Xprt<T> {
    /// Has the worker run after the transport's interval; nothing new if it is going to.
    pub(super) fn begin_watch(&self) {
        if T::WATCH_INTERVAL == 0 {
            return;
        }
        let state = self.state();
        // CAST: `usize` has at least 32 bits.
        let interval = T::WATCH_INTERVAL as usize * HZ;
        // SAFETY: The work is initialised, and cancelled before the transport or the queue goes. To
        // the full second: the processor wakes up once for all that is not urgent.
        unsafe {
            k::queue_delayed_work_on(
                k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                state.class.connect_queue(),
                state.watch_work.get(),
                k::round_jiffies_relative(interval),
            )
        };
    }

    /// Waits for the worker, and keeps it from running again: to be called by the teardown once nobody
    /// connects any more. Sleeps.
    pub(super) fn cancel_watch(&self) {
        // SAFETY: The work is initialised.
        unsafe { k::cancel_delayed_work_sync(self.state().watch_work.get()) };
    }
}
