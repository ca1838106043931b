// SPDX-License-Identifier: GPL-2.0

//! The operations of a transport that implements [`Backchannel`].

use core::ptr::NonNull;

use kernel::ffi::{c_int, c_uint};

use super::super::backchannel;
use super::super::handle::Xprt;
use super::super::transport::Backchannel;
use super::NO_OPS;
use crate::raw;

/// Returns the operations of the backchannel.
pub(in super::super) const fn table<T: Backchannel>() -> raw::rpc_xprt_ops {
    raw::rpc_xprt_ops {
        bc_setup: Some(setup::<T>),
        bc_maxpayload: Some(max_payload::<T>),
        bc_num_slots: Some(num_slots::<T>),
        bc_free_rqst: Some(free_rqst),
        bc_destroy: Some(destroy),
        ..NO_OPS
    }
}

/// Prepares the transport for `min_reqs` concurrent callbacks. Process context, may sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn setup<T: Backchannel>(xprt: *mut raw::rpc_xprt, min_reqs: c_uint) -> c_int {
    // SAFETY: By the safety requirements.
    match unsafe { Xprt::<T>::from_raw(xprt) }.set_up_backchannel(min_reqs) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Returns the maximum length of a backchannel message. Called under RCU.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn max_payload<T: Backchannel>(xprt: *mut raw::rpc_xprt) -> usize {
    // SAFETY: By the safety requirements.
    unsafe { Xprt::<T>::from_raw(xprt) }
        .transport()
        .backchannel_max_message()
}

/// Returns the number of concurrent backchannel calls. Called under RCU.
extern "C" fn num_slots<T: Backchannel>(_xprt: *mut raw::rpc_xprt) -> c_uint {
    T::BACKCHANNEL_SLOTS
}

/// Frees the request of a backchannel call. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a request that `Xprt::deliver` passed to it, and does not use it any
/// more.
unsafe extern "C" fn free_rqst(rqst: *mut raw::rpc_rqst) {
    // SAFETY: By the safety requirements.
    unsafe { backchannel::free(NonNull::new_unchecked(rqst)) };
}

/// Ends a session, or the backchannel of a transport that goes away. The preallocated requests stay
/// for the next session, and are freed with the transport. No call is accepted in between, because
/// SUNRPC has cleared `bc_serv` first.
extern "C" fn destroy(_xprt: *mut raw::rpc_xprt, _max_reqs: c_uint) {}
