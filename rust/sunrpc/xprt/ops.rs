// SPDX-License-Identifier: GPL-2.0

//! `struct rpc_xprt_ops`: the functions through which SUNRPC calls a transport.
//!
//! Each function converts C pointers to the types of this room, calls a method of [`Transport`] or
//! [`Rpc`], and converts the result to an errno. The operations of the optional capabilities are in
//! [`reconnect`] and [`backchannel`].
//!
//! # Safety
//!
//! SUNRPC calls the operations of a transport only with
//!
//! - an `rpc_xprt` that `setup` created for `T` and that is alive during the call;
//! - live tasks and requests of that transport.
//!
//! A request is embedded in a `Slot<T>` unless it belongs to a backchannel call, which
//! [`is_backchannel`] detects. Only `prepare_request`, `send_request` and
//! `release_request` can see a backchannel request: it has no buffers allocated by `buf_alloc`,
//! expects no reply, and is freed by `bc_free_rqst`.

pub(super) mod backchannel;
pub(super) mod reconnect;

use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::ffi::c_int;
use kernel::seq_file::SeqFile;

use super::super::seq_file::SeqWriter;
use super::super::time;
use super::backchannel::BackchannelReply;
use super::handle::Xprt;
use super::rqst::Rqst;
use super::slot::Slot;
use super::support::{BackchannelSupport, ReconnectSupport};
use super::transport::{Rpc, SendError, Transport};
use super::{buffer, cipher_pages, setup};
use crate::raw;

/// An operations table without any operation.
pub(super) const NO_OPS: raw::rpc_xprt_ops = raw::rpc_xprt_ops {
    set_buffer_size: None,
    reserve_xprt: None,
    release_xprt: None,
    alloc_slot: None,
    free_slot: None,
    rpcbind: None,
    set_port: None,
    connect: None,
    get_srcaddr: None,
    get_srcport: None,
    buf_alloc: None,
    buf_free: None,
    prepare_request: None,
    send_request: None,
    abort_send_request: None,
    wait_for_reply_request: None,
    timer: None,
    release_request: None,
    close: None,
    destroy: None,
    set_connect_timeout: None,
    print_stats: None,
    enable_swap: None,
    disable_swap: None,
    inject_disconnect: None,
    bc_setup: None,
    bc_maxpayload: None,
    bc_num_slots: None,
    bc_free_rqst: None,
    bc_destroy: None,
};

/// Returns the operations of `T`.
pub(super) fn table<T: Rpc>() -> &'static raw::rpc_xprt_ops {
    &Table::<T>::OPS
}

struct Table<T>(core::marker::PhantomData<T>);

impl<T: Rpc> Table<T> {
    const RECONNECT: raw::rpc_xprt_ops = <T::Reconnect as ReconnectSupport<T>>::OPS;
    const BACKCHANNEL: raw::rpc_xprt_ops = <T::Backchannel as BackchannelSupport<T>>::OPS;

    const OPS: raw::rpc_xprt_ops = raw::rpc_xprt_ops {
        reserve_xprt: Some(raw::xprt_reserve_xprt_cong),
        release_xprt: Some(raw::xprt_release_xprt_cong),
        alloc_slot: Some(raw::xprt_alloc_slot),
        free_slot: Some(free_slot::<T>),
        rpcbind: Self::RECONNECT.rpcbind,
        set_port: Self::RECONNECT.set_port,
        connect: Self::RECONNECT.connect,
        buf_alloc: Some(buf_alloc::<T>),
        buf_free: Some(buf_free::<T>),
        prepare_request: Some(prepare_request::<T>),
        send_request: Some(send_request::<T>),
        wait_for_reply_request: Some(wait_for_reply),
        timer: Self::RECONNECT.timer,
        release_request: Some(release_request::<T>),
        close: Some(close::<T>),
        destroy: Some(destroy::<T>),
        set_connect_timeout: Self::RECONNECT.set_connect_timeout,
        print_stats: Some(print_stats::<T>),
        enable_swap: Self::RECONNECT.enable_swap,
        disable_swap: Self::RECONNECT.disable_swap,
        inject_disconnect: Some(inject_disconnect::<T>),
        bc_setup: Self::BACKCHANNEL.bc_setup,
        bc_maxpayload: Self::BACKCHANNEL.bc_maxpayload,
        bc_num_slots: Self::BACKCHANNEL.bc_num_slots,
        bc_free_rqst: Self::BACKCHANNEL.bc_free_rqst,
        bc_destroy: Self::BACKCHANNEL.bc_destroy,
        ..NO_OPS
    };
}

/// Returns whether `rqst` belongs to a backchannel call of a transport `T`.
///
/// # Safety
///
/// `rqst` is a live request of a transport that `setup` created for `T`.
#[inline]
unsafe fn is_backchannel<T: Transport>(rqst: *const raw::rpc_rqst) -> bool {
    <T::Backchannel as BackchannelSupport<T>>::SUPPORTED
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
#[inline]
pub(super) unsafe fn parts<'a, T: Transport>(
    rqst: *mut raw::rpc_rqst,
) -> (&'a Xprt<T>, Rqst<'a, T>) {
    // SAFETY: By the safety requirements the request is embedded in a slot, and `rq_xprt` points to
    // the transport of that slot.
    unsafe {
        (
            Xprt::from_raw((*rqst).rq_xprt),
            Rqst::from_raw(NonNull::new_unchecked(rqst)),
        )
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
    let (xprt, slot) = unsafe {
        (
            Xprt::<T>::from_raw(xprt),
            Slot::<T>::from_rqst(NonNull::new_unchecked(rqst)),
        )
    };
    slot.free(xprt);
}

/// Allocates memory for call and reply. May sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live task of a transport of `T`, from that task.
unsafe extern "C" fn buf_alloc<T: Rpc>(task: *mut raw::rpc_task) -> c_int {
    // SAFETY: By the safety requirements the task is alive and is the caller. A task that allocates
    // buffers has a request that `alloc_slot` took from the transport's slots.
    match unsafe { buffer::allocate::<T>(NonNull::new_unchecked(task)) } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Ends an RPC whose buffers were allocated. SUNRPC has removed the request from all queues. May
/// sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live task of a transport of `T`, from that task.
unsafe extern "C" fn buf_free<T: Rpc>(task: *mut raw::rpc_task) {
    // SAFETY: By the safety requirements the task is alive. Its request has buffers of `buf_alloc`,
    // so it is embedded in a slot.
    let (xprt, rqst) = unsafe { parts::<T>((*task).tk_rqstp) };
    let slot = rqst.slot();
    xprt.transport().release(xprt, rqst);
    // SAFETY: This is the task that owns the request, which is alive.
    let left =
        unsafe { (*slot.as_rqst()).rq_cong != 0 || slot.hook.is_set() || slot.buffers.has_large() };
    if left {
        // SAFETY: The task is alive and owns the request, which has left all queues. After
        // `release` no device or peer accesses its memory.
        unsafe { give_back(xprt, slot, NonNull::new_unchecked(task)) };
    }
}

/// Gives back what few RPCs have at their end: a credit, the pages of a cipher, a large buffer.
///
/// # Safety
///
/// The caller runs in `task`, which owns the request in `slot`, a slot of `xprt`. The request has
/// left all queues, and no device or peer accesses its memory.
#[cold]
unsafe fn give_back<T: Rpc>(xprt: &Xprt<T>, slot: &Slot<T>, task: NonNull<raw::rpc_task>) {
    // SAFETY: The caller promises what each of these functions demands.
    unsafe {
        xprt.return_late_credit(task);
        cipher_pages::unhook::<T>(NonNull::new_unchecked(slot.as_rqst()));
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
unsafe extern "C" fn prepare_request<T: Rpc>(
    rqst: *mut raw::rpc_rqst,
    buf: *mut raw::xdr_buf,
) -> c_int {
    // SAFETY: By the safety requirements. The reply to a backchannel call needs no preparation.
    if unsafe { is_backchannel::<T>(rqst) } {
        return 0;
    }
    // SAFETY: The request is alive and belongs to no backchannel call, so a slot contains it.
    let (xprt, rqst) = unsafe { parts::<T>(rqst) };
    // SAFETY: The request is alive; only the address of the member is computed.
    let for_call = core::ptr::eq(buf, unsafe { &raw const (*rqst.as_raw()).rq_snd_buf });
    if for_call && rqst.reply_expected() {
        return 0;
    }
    // SAFETY: A slot contains the request, and its own task encodes the call.
    unsafe { cipher_pages::hook::<T>(NonNull::new_unchecked(rqst.as_raw())) };
    match xprt.transport().prepare(xprt, rqst) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Sends a call, or the reply to a backchannel call. The send lock is held, the request pinned.
///
/// # Safety
///
/// SUNRPC calls this with a live, pinned request of a transport of `T`.
unsafe extern "C" fn send_request<T: Rpc>(rqst: *mut raw::rpc_rqst) -> c_int {
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
            let reply = BackchannelReply::from_raw(live);
            <T::Backchannel as BackchannelSupport<T>>::send_reply(xprt, reply)
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
    // SAFETY: By the safety requirements.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().close(xprt);
    xprt.disconnect_done();
}

/// Starts to destroy the transport, which has no user left.
///
/// # Safety
///
/// SUNRPC calls this once with a live transport of `T`, after the last reference was given up.
unsafe extern "C" fn destroy<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: By the safety requirements.
    setup::begin_destroy(unsafe { Xprt::<T>::from_raw(xprt) });
}

/// Writes a line of mountstats. May sleep.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T` and a valid `seq_file`, which the caller holds.
unsafe extern "C" fn print_stats<T: Transport>(xprt: *mut raw::rpc_xprt, out: *mut k::seq_file) {
    // SAFETY: By the safety requirements; no other thread uses the file during the call.
    let (xprt, out) = unsafe { (Xprt::<T>::from_raw(xprt), SeqFile::from_raw(out)) };
    xprt.transport().stats(xprt, &mut SeqWriter::new(out));
}

/// Breaks the connection, for fault injection. The send lock is held.
///
/// # Safety
///
/// SUNRPC calls this with a live transport of `T`.
unsafe extern "C" fn inject_disconnect<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: By the safety requirements.
    let xprt = unsafe { Xprt::<T>::from_raw(xprt) };
    xprt.transport().inject_disconnect(xprt);
}
