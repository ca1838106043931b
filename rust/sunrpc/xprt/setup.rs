// SPDX-License-Identifier: GPL-2.0

//! Beginning and end of a transport.
//!
//! # Teardown
//!
//! SUNRPC's last `xprt_put()` takes the send lock for ever (it waits for a sender, a connect worker or
//! a close to give it up) and calls the `destroy` operation from a worker of a system queue. That
//! operation only queues [`destroy_worker`] on a queue of our own, which
//!
//! 1. waits until SUNRPC's worker has returned;
//! 2. cancels the connect worker, which may still be on its last lines, and then the liveness worker,
//!    which the other one starts;
//! 3. has the transport closed ([`Transport::destroy`]);
//! 4. waits for the last [`XprtHandle`](super::XprtHandle), then drops the transport proper;
//! 5. frees slots, strings and `rpc_xprt`;
//! 6. gives back the module reference.
//!
//! After step 6 the module may be unloaded at any moment, and two pieces of its code may still be
//! running. Unloading waits for both, in [`ClassRegistration`](super::class::ClassRegistration):
//!
//! - The end of that worker: the queue is destroyed, which waits until its workers have left our code.
//!   Without step 1 the same could not be said of the `destroy` operation.
//! - The end of [`backchannel::free`](super::backchannel), if a backchannel call held the last reference. It runs
//!   in a thread of NFS's callback service, which other transports may share, so nothing else waits
//!   for it. As it does not block any more once teardown has begun, `synchronize_rcu_tasks()` waits
//!   until it is done. A preemptible kernel without `CONFIG_TASKS_RCU` (one without BPF, kprobes and
//!   tracing) has no such wait: there `synchronize_rcu()` takes its place and would miss a
//!   thread that is preempted on its last instructions.

use core::mem::offset_of;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::types::ScopeGuard;

use super::class::Class;
use super::handle::{State, Xprt};
use super::ops;
use super::support::{BackchannelSupport, ReconnectSupport};
use super::transport::{CreateArgs, Rpc, Transport};
use crate::mem::SockAddr;
use crate::raw;

/// `IPPROTO_TCP`: protocols beside NFS that look at the address are to use TCP.
const SIDE_PROTOCOL: i32 = 6;

/// The `setup` hook of a class. Process context, may sleep.
///
/// # Safety
///
/// SUNRPC calls this with valid arguments, and holds a reference to the class's module meanwhile.
pub(super) unsafe extern "C" fn setup<T: Rpc>(args: *mut raw::xprt_create) -> *mut raw::rpc_xprt {
    // SAFETY: By the safety requirements.
    match unsafe { create::<T>(&*args) } {
        Ok(xprt) => xprt,
        Err(error) => error.to_ptr(),
    }
}

/// Makes a transport.
///
/// # Errors
///
/// `EBADF`: the address is too long; `EAFNOSUPPORT`: it is neither IPv4 nor IPv6; `EIO`: the module
/// is being unloaded; `ENOMEM`; and those of the transport.
///
/// # Safety
///
/// As for [`setup`].
unsafe fn create<T: Rpc>(args: &raw::xprt_create) -> Result<*mut raw::rpc_xprt> {
    // SAFETY: By the safety requirements.
    let dst = unsafe { destination(args) }?;
    let class = Class::find(T::IDENT).ok_or(EIO)?;
    // Once, as it may be another number the next time.
    let slots = T::slots();
    // SAFETY: The module pointer is that of this module.
    if !unsafe { k::try_module_get(class.module()) } {
        return Err(EIO);
    }
    // SAFETY: Got above.
    let module = ScopeGuard::new(|| unsafe { k::module_put(class.module()) });
    // SAFETY: By the safety requirements the namespace is valid; the transport gets a reference.
    let raw_xprt = unsafe { raw::xprt_alloc(args.net, size_of::<Xprt<T>>(), 0, slots) };
    let xprt = NonNull::new(raw_xprt.cast::<Xprt<T>>()).ok_or(ENOMEM)?;
    let offset = offset_of!(Xprt<T>, state);
    // SAFETY: The memory is large enough for an `Xprt<T>`, zeroed, aligned (checked by `register`) and
    // stays where it is. Nobody else knows of it.
    let done = unsafe {
        let state = xprt.byte_add(offset).cast::<State<T>>().as_ptr();
        pin_init::raw_try_init(state, State::<T>::new(class, slots))
    };
    if let Err(error) = done {
        // SAFETY: Allocated above, without slots.
        unsafe { raw::xprt_free(raw_xprt) };
        return Err(error);
    }
    // INVARIANT: `state` is initialised. From here on `dismantle` is the way to undo everything.
    // SAFETY: As above.
    let undo = ScopeGuard::new(|| unsafe { dismantle(xprt) });
    // SAFETY: As above: nobody else has access to the transport yet.
    unsafe {
        furnish(xprt.as_ref(), &dst, class, slots)?;
        install(xprt.as_ref(), dst, slots)?;
    }
    undo.dismiss();
    module.dismiss();
    Ok(raw_xprt)
}

/// The address a transport is wanted for.
///
/// # Safety
///
/// `args` describes a socket address as it says.
unsafe fn destination(args: &raw::xprt_create) -> Result<SockAddr> {
    // SAFETY: By the safety requirements.
    let bytes = unsafe { core::slice::from_raw_parts(args.dstaddr.cast::<u8>(), args.addrlen) };
    let dst = SockAddr::from_bytes(bytes).map_err(|_| EBADF)?;
    // Sizes of `sockaddr_in` and `sockaddr_in6`.
    match (u32::from(dst.family()), bytes.len()) {
        (raw::AF_INET, 16..) | (raw::AF_INET6, 28..) => Ok(dst),
        _ => Err(EAFNOSUPPORT),
    }
}

/// Fills in what SUNRPC looks at. May sleep.
///
/// # Safety
///
/// The transport is new; nobody else knows of it.
unsafe fn furnish<T: Rpc>(
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
    raw_xprt.timeout = xprt.state().timeout.get();
    <T::Reconnect as ReconnectSupport<T>>::init_raw(raw_xprt);
    raw_xprt.addrlen = dst.bytes().len();
    // SAFETY: A `SockAddr` is no longer than C's storage for one.
    unsafe {
        core::ptr::copy_nonoverlapping(
            dst.bytes().as_ptr(),
            (&raw mut raw_xprt.addr).cast(),
            dst.bytes().len(),
        );
    }
    // As many slots as there will ever be: SUNRPC neither makes nor frees one.
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

/// Makes the transport proper. May sleep.
///
/// # Safety
///
/// The transport is furnished; nobody else has access to it.
unsafe fn install<T: Transport>(xprt: &Xprt<T>, dst: SockAddr, slots: u32) -> Result {
    // SAFETY: The class is that of `T`, whose ident it was found by.
    let context = unsafe { xprt.state().class.context::<T>() };
    let args = CreateArgs { dst, slots };
    let data = KBox::try_pin_init(T::new(&args, context), GFP_KERNEL)?;
    // SAFETY: By the safety requirements this is the only access.
    unsafe { *xprt.state().data.get() = Some(data) };
    Ok(())
}

/// The `destroy` operation. Runs on a system queue; does not sleep.
pub(super) fn begin_destroy<T: Transport>(xprt: &Xprt<T>) {
    let state = xprt.state();
    // SAFETY: The work is initialised, and the queue outlives every transport.
    unsafe {
        k::queue_work_on(
            k::wq_misc_consts_WORK_CPU_UNBOUND as i32,
            state.class.destroy_queue(),
            state.destroy_work.get(),
        )
    };
}

/// Ends a transport. Process context, may sleep.
///
/// # Safety
///
/// `work` is the `State<T>::destroy_work` of a transport of which SUNRPC has let go.
pub(super) unsafe extern "C" fn destroy_worker<T: Transport>(work: *mut k::work_struct) {
    let offset = offset_of!(Xprt<T>, state) + offset_of!(State<T>, destroy_work);
    // SAFETY: By the safety requirements `work` lies at this offset in a transport. The reference is
    // not used after `dismantle`.
    let (xprt, this) = unsafe {
        let xprt = NonNull::new_unchecked(work.byte_sub(offset).cast::<Xprt<T>>());
        (xprt, xprt.as_ref())
    };
    let module = this.state().class.module();
    // SAFETY: SUNRPC has initialised this work, and is running it or has just run it.
    unsafe { k::flush_work(&raw mut (*this.as_raw()).task_cleanup) };
    <T::Reconnect as ReconnectSupport<T>>::cancel(this);
    this.transport().destroy(this);
    // SAFETY: SUNRPC has let go, and no worker of ours is left.
    unsafe { dismantle(xprt) };
    // SAFETY: Got by `create`.
    unsafe { k::module_put(module) };
}

/// Frees a transport. Sleeps until the last handle is gone.
///
/// # Safety
///
/// `state` is initialised, and nobody but holders of handles has access to the transport.
unsafe fn dismantle<T: Transport>(xprt: NonNull<Xprt<T>>) {
    // SAFETY: By the safety requirements; the reference ends before `state` is dropped.
    let this = unsafe { xprt.as_ref() };
    let raw_xprt = this.as_raw();
    this.wait_unused();
    <T::Backchannel as BackchannelSupport<T>>::cancel(this);
    // SAFETY: Nobody else has access any more. The transport may look at `this` while it is dropped,
    // but not at itself.
    drop(unsafe { (*this.state().data.get()).take() });
    this.free_strings();
    // SAFETY: As above. The slots go with `state`, so SUNRPC must not find them on its list; the list
    // head is initialised as an empty one. `state` is not used any more.
    unsafe {
        let free = &raw mut (*raw_xprt).free;
        (*free).next = free;
        (*free).prev = free;
        core::ptr::drop_in_place(
            xprt.byte_add(offset_of!(Xprt<T>, state))
                .cast::<State<T>>()
                .as_ptr(),
        );
        raw::xprt_free(raw_xprt);
    }
}
