// SPDX-License-Identifier: GPL-2.0

//! `struct rpc_xprt_ops`: the functions through which SUNRPC calls a transport.
//!
//! Each function converts C pointers to the types of this room, calls a method of [`Transport`],
//! and converts the result to an errno.
//!
//! # Safety
//!
//! SUNRPC calls the operations of a transport only with
//!
//! - an `rpc_xprt` that `setup` created for `T` and that is alive during the call;
//! - live tasks and requests of that transport.
//!
//! A request is embedded in a `Slot<T>` unless it belongs to a backchannel call, which
//! [`is_backchannel`] detects. Only `prepare_request`, `send_request` and `release_request` can see
//! a backchannel request: it has no buffers allocated by `buf_alloc`, expects no reply, and is
//! freed by `bc_free_rqst`.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::error::from_result;
use kernel::ffi::{c_int, c_uint, c_ulong, c_ushort};
use kernel::prelude::*;
use kernel::seq_file::SeqFile;

use super::super::time;
use super::backchannel::{self, BackchannelReply};
use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::transport::{SendError, Transport};
use super::{connect as connecting, rqst as requests, setup, slot as slots};
use crate::compat::code::EOPNOTSUPP;
use crate::raw;

/// Returns the operations of `T`.
pub(crate) fn table<T: Transport>() -> &'static raw::rpc_xprt_ops {
    &Table::<T>::OPS
}

struct Table<T>(PhantomData<T>);

impl<T: Transport> Table<T> {
    const CALLS: raw::rpc_xprt_ops = raw::rpc_xprt_ops {
        reserve_xprt: Some(raw::xprt_reserve_xprt_cong),
        release_xprt: Some(raw::xprt_release_xprt_cong),
        alloc_slot: Some(raw::xprt_alloc_slot),
        free_slot: Some(free_slot::<T>),
        buf_alloc: Some(buf_alloc::<T>),
        buf_free: Some(buf_free::<T>),
        prepare_request: Some(prepare_request::<T>),
        send_request: Some(send_request::<T>),
        wait_for_reply_request: Some(wait_for_reply),
        release_request: Some(release_request::<T>),
        close: Some(close::<T>),
        destroy: Some(destroy::<T>),
        print_stats: Some(print_stats::<T>),
        inject_disconnect: Some(inject_disconnect::<T>),
        ..pin_init::zeroed()
    };

    const CONNECTING: raw::rpc_xprt_ops = if T::HAS_CONNECT {
        raw::rpc_xprt_ops {
            rpcbind: Some(raw::rpcb_getport_async),
            set_port: Some(set_port::<T>),
            connect: Some(connect::<T>),
            timer: Some(timer::<T>),
            set_connect_timeout: Some(set_connect_timeout::<T>),
            enable_swap: Some(enable_swap),
            disable_swap: Some(disable_swap),
            ..Self::CALLS
        }
    } else {
        Self::CALLS
    };

    const OPS: raw::rpc_xprt_ops = if T::HAS_SEND_BACKCHANNEL_REPLY {
        raw::rpc_xprt_ops {
            bc_setup: Some(bc_setup::<T>),
            bc_maxpayload: Some(bc_maxpayload::<T>),
            bc_num_slots: Some(bc_num_slots::<T>),
            bc_free_rqst: Some(bc_free_rqst),
            bc_destroy: Some(bc_destroy),
            ..Self::CONNECTING
        }
    } else {
        Self::CONNECTING
    };
}

/// Returns whether `rqst` belongs to a backchannel call of a transport `T`.
///
/// # Safety
///
/// `rqst` is a live request of a transport that `setup` created for `T`.
unsafe fn is_backchannel<T: Transport>(rqst: *const raw::rpc_rqst) -> bool {
    T::HAS_SEND_BACKCHANNEL_REPLY
        // SAFETY: By the safety requirements the request is alive; the bit is constant during its
        // life.
        && unsafe { (*rqst).rq_bc_pa_state & (1 << raw::RPC_BC_PA_IN_USE) != 0 }
}

/// Returns the transport that a request belongs to, and the request.
///
/// # Safety
///
/// - `rqst` is a live request, embedded in a slot of a transport that `setup` created for `T`.
/// - Both stay alive for `'a`.
pub(super) unsafe fn parts<'a, T: Transport>(
    rqst: *mut raw::rpc_rqst,
) -> (&'a Xprt<T>, Rqst<'a, T>) {
    // SAFETY: By the safety requirements the request is embedded in a slot, and `rq_xprt` points to
    // the transport of that slot.
    unsafe {
        let xprt = Xprt::from_raw((*rqst).rq_xprt);
        (xprt, Rqst::from_raw(NonNull::new_unchecked(rqst)))
    }
}

/// Frees a request slot. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and one of its slots, which no task uses.
unsafe extern "C" fn free_slot<T: Transport>(xprt: *mut raw::rpc_xprt, rqst: *mut raw::rpc_rqst) {
    // SAFETY: By the safety requirements the transport is alive, and the request is embedded in one
    // of its slots.
    unsafe {
        let slot = Slot::<T>::from_rqst(NonNull::new_unchecked(rqst));
        slot.free(Xprt::from_raw(xprt));
    }
}

/// Allocates memory for call and reply. May sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live task of a transport of `T`, from that task.
unsafe extern "C" fn buf_alloc<T: Transport>(task: *mut raw::rpc_task) -> c_int {
    // SAFETY: By the safety requirements the task is alive and is the caller. A task that allocates
    // buffers has a request that `alloc_slot` took from the transport's slots.
    from_result(|| unsafe { slots::allocate::<T>(NonNull::new_unchecked(task)) }.map(|()| 0))
}

/// Ends an RPC whose buffers were allocated. SUNRPC has removed the request from all queues. May
/// sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live task of a transport of `T`, from that task.
unsafe extern "C" fn buf_free<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements the task is alive. Its request has buffers of `buf_alloc`,
    // so it is embedded in a slot.
    let (xprt, rqst) = unsafe { parts::<T>((*task).tk_rqstp) };
    let slot = rqst.slot();
    xprt.data().release(xprt, rqst);
    // SAFETY: This is the task that owns the request, which is alive.
    let left =
        unsafe { (*slot.as_rqst()).rq_cong != 0 || slot.hook.is_set() || slot.buffers.has_large() };
    if left {
        // SAFETY: The task is alive and owns the request, which has left all queues. After
        // `release` no device or peer accesses its memory.
        unsafe { give_back(xprt, slot, NonNull::new_unchecked(task)) };
    }
}

/// Returns the resources that only few RPCs still hold at their end: a credit, the pages of a
/// cipher, a large buffer.
///
/// # Safety
///
/// The caller runs in `task`, which owns the request in `slot`, a slot of `xprt`. The request has
/// left all queues, and no device or peer accesses its memory.
#[cold]
unsafe fn give_back<T: Transport>(xprt: &Xprt<T>, slot: &Slot<T>, task: NonNull<raw::rpc_task>) {
    // SAFETY: The caller runs in the task that owns the request, which has left all queues, as each
    // of these functions demands. No device or peer accesses the pages or the buffer.
    unsafe {
        xprt.return_late_credit(task);
        requests::unhook::<T>(NonNull::new_unchecked(slot.as_rqst()));
        slot.buffers.free_large();
    }
}

/// Prepares an encoded call. For an RPC with a reply SUNRPC calls this twice: with the reply's
/// buffer, just before a reply can be matched to the request; and then with the call's buffer. The
/// first call prepares both, because no other thread can access the request at that time. For an
/// RPC without a reply there is only the second call.
///
/// # Safety
///
/// SUNRPC calls this with a live request of a transport of `T`, from the request's task.
unsafe extern "C" fn prepare_request<T: Transport>(
    rqst: *mut raw::rpc_rqst,
    buf: *mut raw::xdr_buf,
) -> c_int {
    // The reply to a backchannel call needs no preparation. Its task keeps a thread of the callback
    // service, and must not wait for the send lock when the connection of the call is gone: the
    // connect worker may hold that lock for a minute. SUNRPC takes a refused reply for sent.
    // SAFETY: SUNRPC passes a live request of a transport of `T`.
    let way = unsafe { is_backchannel::<T>(rqst).then(|| Xprt::<T>::from_raw((*rqst).rq_xprt)) };
    if let Some(xprt) = way {
        let gone = SendError::NotConnected.to_errno();
        return if xprt.is_usable() { 0 } else { gone };
    }
    // SAFETY: The request is alive and belongs to no backchannel call, so a slot contains it. Only
    // the address of its member is computed.
    let ((xprt, rqst), call) = unsafe { (parts::<T>(rqst), &raw const (*rqst).rq_snd_buf) };
    if core::ptr::eq(buf, call) && rqst.reply_expected() {
        return 0;
    }
    // SAFETY: A slot contains the request, and its own task encodes the call.
    unsafe { requests::hook::<T>(NonNull::new_unchecked(rqst.as_raw())) };
    let prepared = rqst.fit_reply();
    let prepared = prepared.and_then(|()| xprt.data().prepare(xprt, rqst));
    prepared.map_or_else(Error::to_errno, |()| 0)
}

/// Sends a call, or the reply to a backchannel call. The send lock is held, the request pinned.
///
/// # Safety
///
/// SUNRPC calls this with a live, pinned request of a transport of `T`.
unsafe extern "C" fn send_request<T: Transport>(rqst: *mut raw::rpc_rqst) -> c_int {
    // SAFETY: By the safety requirements the request is alive, and with it its transport.
    let xprt = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    if !xprt.is_connected() {
        return SendError::NotConnected.to_errno();
    }
    // SAFETY: By the safety requirements the request is alive and pinned. Its reply is encoded if
    // it belongs to a backchannel call; otherwise a slot contains it.
    let sent = unsafe {
        let live = NonNull::new_unchecked(rqst);
        if is_backchannel::<T>(rqst) {
            xprt.data()
                .send_backchannel_reply(xprt, BackchannelReply::from_raw(live))
        } else {
            let rqst = Rqst::from_raw(live);
            rqst.mark_start();
            xprt.data().send(xprt, rqst)
        }
    };
    if sent == Err(SendError::Dropped) {
        xprt.force_disconnect();
    }
    sent.map_or_else(SendError::to_errno, |()| 0)
}

/// Makes a task wait for its reply.
///
/// SUNRPC computes a call's major timeout from its first transmission, and advances it by one
/// period each time it finds that it has passed. With a small `timeo` and after a long time without
/// a connection the deadline of many calls lies in the past: each would time out as soon as it is
/// sent, and would cost the new connection. A call that is sent after its deadline therefore gets
/// the time of one transmission, unless its task must end at the deadline.
///
/// # Safety
///
/// SUNRPC calls this with a live task that has a request, from that task.
unsafe extern "C" fn wait_for_reply(task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements task and request are alive. Only the task itself, which is
    // the caller, accesses the deadline.
    unsafe {
        let rqst = (*task).tk_rqstp;
        let now = time::now();
        let ends = raw::RPC_TASK_SOFT | raw::RPC_TASK_SOFTCONN | raw::RPC_TASK_TIMEOUT;
        if u32::from((*task).tk_flags) & ends == 0 && time::is_before((*rqst).rq_majortimeo, now) {
            (*rqst).rq_majortimeo = now.wrapping_add((*rqst).rq_timeout);
        }
        raw::xprt_wait_for_reply_request_def(task);
    }
}

/// Returns the credit of an RPC that ends. `transport_lock` is held.
///
/// # Safety
///
/// SUNRPC calls this with a live task that has a request on a transport of `T`, whose
/// `transport_lock` is held.
unsafe extern "C" fn release_request<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements task and request are alive and the lock is held. The reply
    // to a backchannel call takes no credit; any other request is embedded in a slot.
    unsafe {
        if is_backchannel::<T>((*task).tk_rqstp) {
            return;
        }
        let (xprt, _) = parts::<T>((*task).tk_rqstp);
        xprt.return_credit(NonNull::new_unchecked(task));
    }
}

/// Closes the connection. SUNRPC's autoclose worker calls this with the send lock held, in
/// `memalloc_nofs` scope. May sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn close<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: SUNRPC passes a live transport of `T`.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    // SUNRPC has cleared XPRT_CLOSE_WAIT. The reply to a backchannel call that is ready from now on
    // is refused at once, and does not wait for the send lock. No other thread connects meanwhile.
    xprt.test_and_clear(raw::XPRT_CONNECTED);
    xprt.data().close(xprt);
    xprt.disconnect_done();
}

/// Starts to destroy the transport, which has no user left.
///
/// # Safety
///
/// SUNRPC calls this once with a live transport of `T`, after the last reference was put.
unsafe extern "C" fn destroy<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: SUNRPC passes a live transport of `T`.
    setup::begin_destroy(unsafe { Xprt::<T>::from_raw(xprt) });
}

/// Writes a line of mountstats. May sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a valid `seq_file`, which the caller holds.
unsafe extern "C" fn print_stats<T: Transport>(xprt: *mut raw::rpc_xprt, out: *mut k::seq_file) {
    // SAFETY: SUNRPC passes a live transport of `T`, and a file that no other thread uses during
    // the call.
    let (xprt, out) = unsafe { (Xprt::<T>::from_raw(xprt), SeqFile::from_raw(out)) };
    xprt.data().stats(xprt, out);
}

/// Breaks the connection, for fault injection. The send lock is held.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn inject_disconnect<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: SUNRPC passes a live transport of `T`.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.data().inject_disconnect(xprt);
}

/// Stores the port (host order) that rpcbind returned. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn set_port<T: Transport>(xprt: *mut raw::rpc_xprt, port: c_ushort) {
    // SAFETY: SUNRPC passes a live transport of `T`.
    unsafe { Xprt::<T>::from_raw(xprt) }.set_port(port);
}

/// Starts to connect for a task that holds the send lock.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a live task.
unsafe extern "C" fn connect<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements both are alive; `xprt_connect()` has taken the send lock
    // for the task.
    unsafe { connecting::begin(Xprt::<T>::from_raw(xprt), NonNull::new_unchecked(task)) };
}

/// Handles the timeout of an RPC that waits for its reply. Process context, from the task itself.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a live task that has a request on it.
unsafe extern "C" fn timer<T: Transport>(_xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: SUNRPC passes a live transport and a live task with a request. A slot contains it,
    // because no other request waits for a reply. Only the task itself, which is the caller,
    // changes its flags and its deadline.
    let ((xprt, rqst), flags, deadline) = unsafe {
        let (rqst, flags) = ((*task).tk_rqstp, u32::from((*task).tk_flags));
        (parts::<T>(rqst), flags, (*rqst).rq_majortimeo)
    };
    // The condition of `rpc_check_timeout()`, which runs next: NFSv4 continues to wait while there
    // is a connection.
    let soft = flags & (raw::RPC_TASK_SOFT | raw::RPC_TASK_TIMEOUT) != 0;
    let waits_on = flags & raw::RPC_TASK_NO_RETRANS_TIMEOUT != 0;
    let fails = soft && !waits_on && !time::is_before(time::now(), deadline);
    xprt.data().timer(xprt, rqst, fails);
}

/// Sets the timeouts for connecting and reconnecting, in jiffies. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn set_connect_timeout<T: Transport>(
    xprt: *mut raw::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: SUNRPC passes a live transport of `T`.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.data().timeouts_changed(xprt, connect, reconnect);
    xprt.set_connect_timeout(connect, reconnect);
}

/// Refuses swap over the transport. Devices and the connection manager allocate memory for packets
/// and connections without access to the memory reserves, so a machine that has run out of memory
/// might wait for the swap that would free some.
extern "C" fn enable_swap(_xprt: *mut raw::rpc_xprt) -> c_int {
    pr_warn!("swapon of a file on a mount over RDMA is refused: {NO_SWAP}\n");
    EOPNOTSUPP.to_errno()
}

/// Why swap is refused, and the next step, as logged.
const NO_SWAP: &str = "sending and reconnecting may need memory that swapping is to free; \
    next: swap to a local device, or to a mount with proto=tcp; \
    if rmmod fails after umount, kill -9 the thread ADDRESS-manager of NFSv4";

/// Reverts [`enable_swap`], which prepares nothing.
extern "C" fn disable_swap(_xprt: *mut raw::rpc_xprt) {}

/// Prepares the transport for `min_reqs` concurrent callbacks. Process context, may sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn bc_setup<T: Transport>(xprt: *mut raw::rpc_xprt, min_reqs: c_uint) -> c_int {
    // SAFETY: SUNRPC passes a live transport of `T`.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    from_result(|| xprt.set_up_backchannel(min_reqs).map(|()| 0))
}

/// Returns the maximum length of a backchannel message. Called under RCU.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn bc_maxpayload<T: Transport>(xprt: *mut raw::rpc_xprt) -> usize {
    // SAFETY: SUNRPC passes a live transport of `T`.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.data().backchannel_max_message()
}

/// Returns the number of concurrent backchannel calls. Called under RCU.
extern "C" fn bc_num_slots<T: Transport>(_xprt: *mut raw::rpc_xprt) -> c_uint {
    T::BACKCHANNEL_SLOTS
}

/// Frees the request of a backchannel call. Process context.
///
/// # Safety
///
/// SUNRPC calls this with a request that `Xprt::deliver` passed to it, and does not use it
/// afterwards.
unsafe extern "C" fn bc_free_rqst(rqst: *mut raw::rpc_rqst) {
    // SAFETY: SUNRPC passes a request of `Xprt::deliver`, and has finished with it.
    unsafe { backchannel::free(NonNull::new_unchecked(rqst)) };
}

/// Ends a session, or the backchannel of a transport that is being destroyed. The preallocated
/// requests stay for the next session, and are freed with the transport. No call is accepted in
/// between, because SUNRPC has cleared `bc_serv` first.
extern "C" fn bc_destroy(_xprt: *mut raw::rpc_xprt, _max_reqs: c_uint) {}
