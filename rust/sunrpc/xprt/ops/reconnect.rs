// SPDX-License-Identifier: GPL-2.0

//! The operations of a transport that implements [`Reconnect`].

use core::ptr::NonNull;

use kernel::ffi::{c_int, c_ulong, c_ushort};

use super::super::super::time;
use super::super::connect;
use super::super::handle::Xprt;
use super::super::rqst::Rqst;
use super::super::transport::Reconnect;
use super::NO_OPS;
use crate::raw;

/// Returns the operations that connect a transport.
pub(in super::super) const fn table<T: Reconnect>() -> raw::rpc_xprt_ops {
    raw::rpc_xprt_ops {
        rpcbind: Some(raw::rpcb_getport_async),
        set_port: Some(set_port::<T>),
        connect: Some(connect::<T>),
        timer: Some(timer::<T>),
        set_connect_timeout: Some(set_connect_timeout::<T>),
        enable_swap: Some(enable_swap),
        disable_swap: Some(disable_swap),
        ..NO_OPS
    }
}

/// Stores the port (host order) that rpcbind returned. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn set_port<T: Reconnect>(xprt: *mut raw::rpc_xprt, port: c_ushort) {
    // SAFETY: By the safety requirements.
    unsafe { Xprt::<T>::from_raw(xprt) }.set_port(port);
}

/// Starts to connect for a task that holds the send lock.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a live task.
unsafe extern "C" fn connect<T: Reconnect>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements both are alive; `xprt_connect()` has taken the send lock
    // for the task.
    unsafe { connect::begin(Xprt::<T>::from_raw(xprt), NonNull::new_unchecked(task)) };
}

/// Handles the time-out of an RPC that waits for its reply. Process context, from the task itself.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a live task that has a request on it.
unsafe extern "C" fn timer<T: Reconnect>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements. A slot contains the request, because no other request
    // waits for a reply. Only the task itself, which is the caller, changes its flags and its
    // deadline.
    let (xprt, rqst, flags, deadline) = unsafe {
        let rqst = NonNull::new_unchecked((*task).tk_rqstp);
        (
            Xprt::<T>::from_raw(xprt),
            Rqst::from_raw(rqst),
            u32::from((*task).tk_flags),
            (*rqst.as_ptr()).rq_majortimeo,
        )
    };
    // The condition of `rpc_check_timeout()`, which runs next: NFSv4 continues to wait while there
    // is a connection.
    let soft = flags & (raw::RPC_TASK_SOFT | raw::RPC_TASK_TIMEOUT) != 0;
    let waits_on = flags & raw::RPC_TASK_NO_RETRANS_TIMEOUT != 0;
    let fails = soft && !waits_on && !time::is_before(time::now(), deadline);
    xprt.transport().timer(xprt, rqst, fails);
}

/// Sets the time-outs for connecting and reconnecting, in jiffies. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn set_connect_timeout<T: Reconnect>(
    xprt: *mut raw::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: By the safety requirements.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().timeouts_changed(xprt, connect, reconnect);
    xprt.set_connect_timeout(connect, reconnect);
}

/// Allows swap over the transport. There is nothing to prepare: `connect::Scope` reads SUNRPC's
/// counter of swap users for each attempt.
extern "C" fn enable_swap(_xprt: *mut raw::rpc_xprt) -> c_int {
    0
}

/// Reverts [`enable_swap`], which has prepared nothing.
extern "C" fn disable_swap(_xprt: *mut raw::rpc_xprt) {}
