// SPDX-License-Identifier: GPL-2.0

//! `struct rpc_xprt_ops`: how SUNRPC calls a [`Transport`].
//!
//! Each function here turns C pointers into the types of this room, and an outcome into an errno.
//! Safety, common to all: SUNRPC calls the operations of a transport that `setup` has made for `T`, with
//! tasks and requests that belong to it and are alive for the call. Requests are embedded in
//! `Slot<T>`s, except those of backward calls ([`super::backward`]), which three operations have to
//! tell apart: `prepare_request`, `send_request`, `release_request`. The others never see one: a backward
//! request has no buffers of SUNRPC's, expects no reply, and is freed by `bc_free_rqst`.

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::ffi::{c_int, c_uint, c_ulong, c_ushort};
use kernel::seq_file::SeqFile;

use super::backward::{self, BackwardReply};
use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::stats::StatsWriter;
use super::transport::{SendError, Transport};
use super::{buffer, connect, scratch, setup};
use crate::raw;

/// The operations of `T`.
pub(super) fn table<T: Transport>() -> &'static raw::rpc_xprt_ops {
    &Table::<T>::OPS
}

struct Table<T>(core::marker::PhantomData<T>);

impl<T: Transport> Table<T> {
    const OPS: raw::rpc_xprt_ops = raw::rpc_xprt_ops {
        set_buffer_size: None,
        reserve_xprt: Some(raw::xprt_reserve_xprt_cong),
        release_xprt: Some(raw::xprt_release_xprt_cong),
        alloc_slot: Some(raw::xprt_alloc_slot),
        free_slot: Some(free_slot::<T>),
        rpcbind: Some(raw::rpcb_getport_async),
        set_port: Some(set_port::<T>),
        connect: Some(connect_op::<T>),
        get_srcaddr: None,
        get_srcport: None,
        buf_alloc: Some(buf_alloc::<T>),
        buf_free: Some(buf_free::<T>),
        prepare_request: Some(prepare_request::<T>),
        send_request: Some(send_request::<T>),
        abort_send_request: None,
        wait_for_reply_request: Some(wait_for_reply),
        timer: Some(timer::<T>),
        release_request: Some(release_request::<T>),
        close: Some(close::<T>),
        destroy: Some(destroy::<T>),
        set_connect_timeout: Some(set_connect_timeout::<T>),
        print_stats: Some(print_stats::<T>),
        enable_swap: Some(enable_swap),
        disable_swap: Some(disable_swap),
        inject_disconnect: Some(inject_disconnect::<T>),
        bc_setup: Some(bc_setup::<T>),
        bc_maxpayload: Some(bc_maxpayload::<T>),
        bc_num_slots: Some(bc_num_slots::<T>),
        bc_free_rqst: Some(bc_free_rqst),
        bc_destroy: Some(bc_destroy),
    };
}

/// The transport that a request belongs to, and the request.
///
/// # Safety
///
/// As the module says; the results are used for the duration of the call only.
#[inline]
pub(super) unsafe fn parts<'a, T: Transport>(
    rqst: *mut raw::rpc_rqst,
) -> (&'a Xprt<T>, Rqst<'a, T>) {
    // SAFETY: As the module says.
    unsafe {
        (
            Xprt::from_raw((*rqst).rq_xprt),
            Rqst::from_raw(NonNull::new_unchecked(rqst)),
        )
    }
}

/// Gives a slot back. Process context.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn free_slot<T: Transport>(xprt: *mut raw::rpc_xprt, rqst: *mut raw::rpc_rqst) {
    // SAFETY: As the module says.
    let (xprt, slot) = unsafe {
        (
            Xprt::<T>::from_raw(xprt),
            Slot::<T>::from_rqst(NonNull::new_unchecked(rqst)),
        )
    };
    slot.free(xprt);
}

/// rpcbind has told the port (host order). Process context.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn set_port<T: Transport>(xprt: *mut raw::rpc_xprt, port: c_ushort) {
    // SAFETY: As the module says.
    unsafe { Xprt::<T>::from_raw(xprt) }.set_port(port);
}

/// A task wants a connection, and holds the send lock.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn connect_op<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: As the module says; `xprt_connect()` has taken the send lock for the task.
    unsafe { connect::begin(Xprt::<T>::from_raw(xprt), NonNull::new_unchecked(task)) };
}

/// Memory for call and reply. May sleep.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn buf_alloc<T: Transport>(task: *mut raw::rpc_task) -> c_int {
    // SAFETY: As the module says; SUNRPC calls this from the task itself.
    match unsafe { buffer::allocate::<T>(NonNull::new_unchecked(task)) } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The end of an RPC whose buffers were allocated. The request has left all queues. May sleep.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn buf_free<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: As the module says.
    let (xprt, rqst) = unsafe { parts::<T>((*task).tk_rqstp) };
    let slot = rqst.slot();
    xprt.transport().release(xprt, rqst);
    // SAFETY: SUNRPC passes a live task; its request has left all queues before it is freed. The task
    // that owns the request is the one that runs.
    unsafe {
        xprt.return_late_credit(NonNull::new_unchecked(task));
        scratch::unguard::<T>(NonNull::new_unchecked((*task).tk_rqstp));
    }
    // SAFETY: Called from the task that owns the request; `release` has fenced everything.
    unsafe { slot.buffers.give_back() };
}

/// A call is encoded. SUNRPC calls this twice for an RPC with a reply: with the reply's buffer, just
/// before a reply can be found; and then with the call's. The first is the time to prepare both, as
/// nobody else can get at the request then. Without a reply there is only the second.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn prepare_request<T: Transport>(
    rqst: *mut raw::rpc_rqst,
    buf: *mut raw::xdr_buf,
) -> c_int {
    // SAFETY: As the module says. A backward reply needs no preparation.
    if unsafe { backward::is_backward(rqst) } {
        return 0;
    }
    // SAFETY: As the module says.
    let (xprt, rqst) = unsafe { parts::<T>(rqst) };
    // SAFETY: The address alone.
    let for_call = core::ptr::eq(buf, unsafe { &raw const (*rqst.as_raw()).rq_snd_buf });
    if for_call && rqst.reply_expected() {
        return 0;
    }
    // SAFETY: As the module says; SUNRPC encodes a call in its own task.
    unsafe { scratch::guard::<T>(NonNull::new_unchecked(rqst.as_raw())) };
    match xprt.transport().prepare(xprt, rqst) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A call, or the reply to a backward call, is to be sent. The send lock is held, the request pinned.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn send_request<T: Transport>(rqst: *mut raw::rpc_rqst) -> c_int {
    // SAFETY: As the module says.
    let xprt = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    if !xprt.is_connected() {
        return SendError::NotConnected.to_errno();
    }
    // SAFETY: As the module says: the request is either of the two, and pinned meanwhile.
    let sent = unsafe {
        let live = NonNull::new_unchecked(rqst);
        if backward::is_backward(rqst) {
            let reply = BackwardReply::from_raw(live);
            xprt.transport().send_backward(xprt, reply)
        } else {
            let rqst = Rqst::from_raw(live);
            rqst.mark_start();
            xprt.transport().send(xprt, rqst)
        }
    };
    match sent {
        Ok(()) => 0,
        Err(error) => {
            if error == SendError::Dropped {
                xprt.force_disconnect();
            }
            error.to_errno()
        }
    }
}

/// A task is about to wait for its reply.
///
/// SUNRPC counts a call's major timeout from its first transmission, and moves it by one span each
/// time that it finds it passed. With a small `timeo` and after a long time without a connection it
/// lies in the past for many calls to come: each would time out as it is sent, and cost the new
/// connection. So what is sent too late gets the time of one transmission; not so a task that is to
/// end some time.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn wait_for_reply(task: *mut raw::rpc_task) {
    // SAFETY: As the module says. The deadline belongs to the task, which is the one that runs.
    unsafe {
        let rqst = (*task).tk_rqstp;
        let now = connect::now();
        let ends = raw::RPC_TASK_SOFT | raw::RPC_TASK_SOFTCONN | raw::RPC_TASK_TIMEOUT;
        if u32::from((*task).tk_flags) & ends == 0 && connect::is_before((*rqst).rq_majortimeo, now)
        {
            (*rqst).rq_majortimeo = now.wrapping_add((*rqst).rq_timeout);
        }
        raw::xprt_wait_for_reply_request_def(task);
    }
}

/// An RPC has waited long enough for its reply. Process context, from the task itself.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn timer<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: As the module says. The task runs this itself, and has a request.
    let (xprt, flags, deadline) = unsafe {
        let flags = u32::from((*task).tk_flags);
        (
            Xprt::<T>::from_raw(xprt),
            flags,
            (*(*task).tk_rqstp).rq_majortimeo,
        )
    };
    // As `rpc_check_timeout()` decides a moment later: NFSv4 waits on while there is a connection.
    let soft = flags & (raw::RPC_TASK_SOFT | raw::RPC_TASK_TIMEOUT) != 0;
    let waits_on = flags & raw::RPC_TASK_NO_RETRANS_TIMEOUT != 0;
    let fails = soft && !waits_on && !connect::is_before(connect::now(), deadline);
    xprt.transport().timer(xprt, fails);
}

/// An RPC ends. `transport_lock` is held.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn release_request<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: As the module says; the lock is held. A backward reply has taken no credit.
    unsafe {
        if backward::is_backward((*task).tk_rqstp) {
            return;
        }
        let (xprt, _) = parts::<T>((*task).tk_rqstp);
        xprt.return_credit(NonNull::new_unchecked(task));
    }
}

/// The connection is to be closed. The send lock is held, by SUNRPC's autoclose worker, in
/// `memalloc_nofs` scope. May sleep.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn close<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: As the module says.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().close(xprt);
    xprt.disconnect_done();
}

/// The transport is to be destroyed; nobody uses it any more.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn destroy<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: As the module says.
    setup::begin_destroy(unsafe { Xprt::<T>::from_raw(xprt) });
}

/// How long to wait, in jiffies. Process context.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn set_connect_timeout<T: Transport>(
    xprt: *mut raw::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: As the module says.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().timeouts_set(xprt, connect, reconnect);
    xprt.set_connect_timeout(connect, reconnect);
}

/// A line of mountstats. May sleep.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn print_stats<T: Transport>(xprt: *mut raw::rpc_xprt, out: *mut k::seq_file) {
    // SAFETY: As the module says; the file is ours for the call.
    let (xprt, out) = unsafe { (Xprt::<T>::from_raw(xprt), SeqFile::from_raw(out)) };
    xprt.transport().stats(xprt, &mut StatsWriter(out));
}

/// Somebody will swap over this transport: nothing to prepare, see `connect::Scope`.
extern "C" fn enable_swap(_xprt: *mut raw::rpc_xprt) -> c_int {
    0
}

/// The opposite.
extern "C" fn disable_swap(_xprt: *mut raw::rpc_xprt) {}

/// Fault injection. Called with the send lock held.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn inject_disconnect<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: As the module says.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().inject_disconnect(xprt);
}

/// NFSv4.1 wants callbacks, `min_reqs` at a time. (It refuses a transport without this operation.)
/// Process context, may sleep.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn bc_setup<T: Transport>(xprt: *mut raw::rpc_xprt, min_reqs: c_uint) -> c_int {
    // SAFETY: As the module says.
    match unsafe { Xprt::<T>::from_raw(xprt) }.set_up_backward(min_reqs) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Longest backward message. Called under RCU.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn bc_maxpayload<T: Transport>(xprt: *mut raw::rpc_xprt) -> usize {
    // SAFETY: As the module says.
    unsafe { Xprt::<T>::from_raw(xprt) }
        .transport()
        .backward_max_message()
}

/// Backward calls at a time. Called under RCU.
extern "C" fn bc_num_slots<T: Transport>(_xprt: *mut raw::rpc_xprt) -> c_uint {
    T::BACKWARD_SLOTS
}

/// A backward call is done with. Process context.
///
/// # Safety
///
/// To be called by SUNRPC, as the module says.
unsafe extern "C" fn bc_free_rqst(rqst: *mut raw::rpc_rqst) {
    // SAFETY: As the module says.
    unsafe { backward::free(NonNull::new_unchecked(rqst)) };
}

/// A session ends, or the transport. The pool stays for the next session, and goes with the
/// transport; nothing arrives in between, as SUNRPC has taken the service away first.
extern "C" fn bc_destroy(_xprt: *mut raw::rpc_xprt, _max_reqs: c_uint) {}
