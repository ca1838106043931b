// SPDX-License-Identifier: GPL-2.0

//! Creation and destruction of a transport.
//!
//! # Attaching
//!
//! A service calls its client over the connection that the client made. `rpc_create()` passes that
//! connection to the `setup` hook. [`svc::callback`] describes whose references keep both
//! transports.
//!
//! SUNRPC's sysfs can add a transport to those of a client, and then passes the connection of an
//! existing transport, which may have been freed. A connection has one callback transport at most,
//! so [`setup`] refuses this before it accesses the connection: sysfs passes no source address.
//!
//! [`svc::callback`]: super::super::svc::callback
//!
//! # Teardown
//!
//! SUNRPC's last `xprt_put()` takes the send lock permanently (it waits for a sender, a connect
//! worker or a close to release it) and calls the `destroy` operation from a worker of a system
//! queue. That operation only queues [`destroy_worker`] on this module's own queue. The worker
//!
//! 1. waits until SUNRPC's worker has returned;
//! 2. cancels the connect worker, which may still be running, and then the liveness worker, which
//!    the connect worker may have queued;
//! 3. makes the transport close its connection ([`Transport::destroy`]);
//! 4. waits until the last [`XprtHandle`](super::XprtHandle) is dropped, then drops the transport;
//! 5. frees slots, strings and `rpc_xprt`;
//! 6. puts the module reference.
//!
//! The module may be unloaded at any time after step 6, while two pieces of its code may still be
//! running. [`ClassRegistration`](super::class::ClassRegistration) waits for both when it is
//! dropped:
//!
//! - The end of that worker: destroying the queue waits until its workers have returned. Without
//!   step 1 this would not hold for the `destroy` operation.
//! - The end of [`backchannel::free`](super::backchannel), if a backchannel call held the last
//!   reference. That function runs in a thread of NFS's callback service, which other transports
//!   may share, so no other code waits for it. Since it does not block after teardown has begun,
//!   `synchronize_rcu_tasks()` waits until it has returned. A preemptible kernel without
//!   `CONFIG_TASKS_RCU` (one without BPF, kprobes and tracing) has no such wait: there
//!   `synchronize_rcu()` takes its place, and would miss a thread that is preempted on its last
//!   instructions.

use core::mem::offset_of;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::types::ScopeGuard;

use super::super::svc::xprt::SvcXprt;
use super::class::Class;
use super::handle::{Xprt, XprtState};
use super::transport::Transport;
use super::{backchannel, connect, ops};
use crate::compat::{code::EAFNOSUPPORT, raw_try_init};
use crate::mem::SockAddr;
use crate::raw;

/// Side protocols that use the transport's address run over TCP. CAST: a small constant.
const SIDE_PROTOCOL: i32 = raw::IPPROTO_TCP as i32;

/// Implements the `setup` hook of a class. Process context, may sleep.
///
/// # Safety
///
/// SUNRPC calls this with valid arguments, and holds a reference to the class's module meanwhile.
pub(super) unsafe extern "C" fn setup<T: Transport>(
    args: *mut raw::xprt_create,
) -> *mut raw::rpc_xprt {
    // SAFETY: By the safety requirements the arguments are valid.
    unsafe { create::<T>(&*args) }.unwrap_or_else(|error| error.to_ptr())
}

/// Creates a transport.
///
/// # Errors
///
/// `EBADF`: the address is too long; `EAFNOSUPPORT`: it is neither IPv4 nor IPv6; `EIO`: the module
/// is being unloaded; `EACCES`: the caller wants TLS, which no connection of this class has;
/// `ENOMEM`; `EBUSY`: the connection has such a transport; `EINVAL`: there is no connection of this
/// module in the arguments; and those of the transport.
///
/// # Safety
///
/// SUNRPC supplied `args`, and holds a reference to the module of the class of `T`.
unsafe fn create<T: Transport>(args: &raw::xprt_create) -> Result<*mut raw::rpc_xprt> {
    // SAFETY: By the safety requirements `args` describes an address.
    let dst = unsafe { destination(args) }?;
    // A referral tries RDMA first, also below a mount that is encrypted.
    if args.xprtsec.policy != raw::xprtsec_policies_RPC_XPRTSEC_NONE {
        return Err(EACCES);
    }
    let class = Class::find(T::IDENT).ok_or(EIO)?;
    // Called once, because the result may change.
    let slots = T::slots();
    // SAFETY: The pointer is that of this module.
    if !unsafe { k::try_module_get(class.module()) } {
        return Err(EIO);
    }
    // SAFETY: The reference was taken above.
    let module = ScopeGuard::new(|| unsafe { k::module_put(class.module()) });
    // SAFETY: By the safety requirements the namespace is valid; the transport takes a reference.
    let raw_xprt = unsafe { raw::xprt_alloc(args.net, size_of::<Xprt<T>>(), 0, slots) };
    let xprt = NonNull::new(raw_xprt.cast::<Xprt<T>>()).ok_or(ENOMEM)?;
    let offset = offset_of!(Xprt<T>, state);
    // SAFETY: The memory is large enough for an `Xprt<T>`, zeroed, aligned (`register` checks that)
    // and stays in place. No other thread knows of it.
    let done = unsafe {
        let state = xprt.byte_add(offset).cast::<XprtState<T>>().as_ptr();
        raw_try_init(state, XprtState::<T>::new(class, slots))
    };
    if let Err(error) = done {
        // SAFETY: `xprt_alloc` returned the transport, and it has no slots.
        unsafe { raw::xprt_free(raw_xprt) };
        return Err(error);
    }
    // INVARIANT: `state` is initialised. From here on `dismantle` reverts all steps.
    // SAFETY: `state` is initialised, and no other thread knows of the transport.
    let undo = ScopeGuard::new(|| unsafe { dismantle(xprt) });
    // SAFETY: No other thread has access to the transport yet.
    unsafe {
        init_raw(xprt.as_ref(), &dst, class, slots)?;
        install(xprt.as_ref(), slots)?;
    }
    if T::HAS_ATTACH {
        // SAFETY: `xprt` is complete, and SUNRPC supplied `args` in order to create it.
        unsafe { attach(xprt.as_ref(), args) }?;
    }
    undo.dismiss();
    module.dismiss();
    Ok(raw_xprt)
}

/// Returns the address in the arguments.
///
/// # Safety
///
/// `dstaddr` points to `addrlen` bytes.
unsafe fn destination(args: &raw::xprt_create) -> Result<SockAddr> {
    // SAFETY: By the safety requirements `dstaddr` points to `addrlen` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(args.dstaddr.cast::<u8>(), args.addrlen) };
    let dst = SockAddr::from_bytes(bytes).map_err(|_| EBADF)?;
    // Sizes of `sockaddr_in` and `sockaddr_in6`.
    match (u32::from(dst.family()), bytes.len()) {
        (raw::AF_INET, 16..) | (raw::AF_INET6, 28..) => Ok(dst),
        _ => Err(EAFNOSUPPORT),
    }
}

/// Initialises the members that SUNRPC reads, and the address strings. May sleep.
///
/// # Safety
///
/// The transport is new; no other thread has access to it.
unsafe fn init_raw<T: Transport>(
    xprt: &Xprt<T>,
    dst: &SockAddr,
    class: &'static Class,
    slots: u32,
) -> Result {
    // SAFETY: By the safety requirements this is the only access.
    let raw_xprt = unsafe { &mut *xprt.as_raw() };
    raw_xprt.ops = ops::table::<T>();
    raw_xprt.xprt_class = class.as_raw();
    raw_xprt.prot = SIDE_PROTOCOL;
    raw_xprt.max_payload = T::max_payload();
    raw_xprt.timeout = xprt.state.timeout.get();
    connect::init_raw::<T>(raw_xprt);
    raw_xprt.addrlen = dst.bytes().len();
    // SAFETY: A `SockAddr` is at most as long as the C structure's storage for an address.
    unsafe {
        core::ptr::copy_nonoverlapping(
            dst.bytes().as_ptr(),
            (&raw mut raw_xprt.addr).cast(),
            dst.bytes().len(),
        );
    }
    // All slots exist already: SUNRPC neither allocates nor frees one.
    raw_xprt.max_reqs = slots;
    raw_xprt.min_reqs = slots;
    raw_xprt.num_reqs = slots;
    for slot in xprt.slots() {
        slot.free(xprt);
    }
    if dst.port() != 0 {
        xprt.set(raw::XPRT_BOUND);
    }
    xprt.init_strings()
}

/// Creates the transport's implementation. May sleep.
///
/// # Safety
///
/// `init_raw` has initialised the transport; no other thread has access to it.
unsafe fn install<T: Transport>(xprt: &Xprt<T>, slots: u32) -> Result {
    // SAFETY: The class was found by the ident of `T`, so it was registered for `T`.
    let context = unsafe { xprt.state.class.context::<T>() };
    let data = KBox::try_pin_init(T::new(slots, context), GFP_KERNEL)?;
    // SAFETY: By the safety requirements this is the only access.
    unsafe { *xprt.state.data.get() = Some(data) };
    Ok(())
}

/// Makes `xprt` the callback transport of the connection in `args` ([`Transport::attach`]). Only
/// SUNRPC may have access to the transport from now on. May sleep.
///
/// # Errors
///
/// Those of [`Transport::attach`]; `EBUSY`, `EINVAL`. The transport has no connection and no
/// handles then.
///
/// # Safety
///
/// SUNRPC supplied `args` in order to create the transport.
unsafe fn attach<T: Transport>(xprt: &Xprt<T>, args: &raw::xprt_create) -> Result {
    if args.srcaddr.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: By the safety requirements SUNRPC supplied the arguments. With a source address they
    // are those of a service, which has a reference to the connection.
    let server = unsafe { SvcXprt::of_service(args.bc_xprt) }?;
    xprt.data().attach(xprt, server)?;
    let detach = ScopeGuard::new(|| xprt.data().destroy(xprt));
    let raw_xprt = xprt.as_raw();
    // SAFETY: The transport is alive and new, and this thread alone has access to it. The second
    // reference is taken for `xpt_bc_xprt`. If `offer` fails, the transport is freed whatever its
    // reference count is.
    unsafe {
        (*raw_xprt).bc_xprt = args.bc_xprt;
        raw::xprt_get(raw_xprt);
        server.offer(NonNull::new_unchecked(raw_xprt))?;
    }
    detach.dismiss();
    if server.is_closing() {
        // SUNRPC may have closed the connection just before, and has not closed this transport
        // then. Another close does no harm.
        xprt.data().close(xprt);
        xprt.disconnect_done();
    }
    Ok(())
}

/// Implements the `destroy` operation. Runs on a system queue; does not sleep.
pub(super) fn begin_destroy<T: Transport>(xprt: &Xprt<T>) {
    let state = &xprt.state;
    // SAFETY: By the type invariants of `XprtState` the work is initialised. The queue outlives
    // every transport of the class.
    unsafe {
        k::queue_work_on(
            k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
            state.class.destroy_queue(),
            state.destroy_work.get(),
        )
    };
}

/// Destroys a transport. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `XprtState<T>::destroy_work` of a transport to which no reference is left.
pub(super) unsafe extern "C" fn destroy_worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(Xprt<T>, state) + offset_of!(XprtState<T>, destroy_work);
    // SAFETY: By the safety requirements `work` lies at this offset in a transport. The reference
    // is not used after `dismantle`.
    let (xprt, this) = unsafe {
        let xprt = NonNull::new_unchecked(work.byte_sub(offset).cast::<Xprt<T>>());
        (xprt, xprt.as_ref())
    };
    let module = this.state.class.module();
    // SAFETY: SUNRPC initialised this work and has queued it. It is running or has run.
    unsafe { k::flush_work(&raw mut (*this.as_raw()).task_cleanup) };
    connect::cancel(this);
    this.data().destroy(this);
    // SAFETY: SUNRPC has no reference left, and all workers of the transport are cancelled.
    // `create` took the reference to the module.
    unsafe {
        dismantle(xprt);
        k::module_put(module);
    }
}

/// Frees a transport. Sleeps until the last handle is dropped.
///
/// # Safety
///
/// `state` is initialised, and only holders of handles have access to the transport.
unsafe fn dismantle<T: Transport>(xprt: NonNull<Xprt<T>>) {
    // SAFETY: By the safety requirements `state` is initialised, and only holders of handles access
    // the transport. The reference ends before `state` is dropped.
    let this = unsafe { xprt.as_ref() };
    let raw_xprt = this.as_raw();
    this.wait_unused();
    backchannel::cancel(this);
    // SAFETY: No handle is left, so no other thread has access. While the implementation is dropped
    // it may use `this`, but not `data`.
    drop(unsafe { (*this.state.data.get()).take() });
    this.free_strings();
    // SAFETY: No other thread has access. The slots are freed with `state`, so they are removed
    // from SUNRPC's list first, by making its head an empty list. `state` is not used after it is
    // dropped.
    unsafe {
        let free = &raw mut (*raw_xprt).free;
        (*free).next = free;
        (*free).prev = free;
        core::ptr::drop_in_place(
            xprt.byte_add(offset_of!(Xprt<T>, state))
                .cast::<XprtState<T>>()
                .as_ptr(),
        );
        raw::xprt_free(raw_xprt);
    }
}
