// SPDX-License-Identifier: GPL-2.0

//! A server transport: an `svc_xprt`, followed by this module's own part.
//!
//! # Creation
//!
//! `svc_xprt_init()` makes a transport that is busy, with one reference. While the transport is
//! busy SUNRPC calls no operation for it, so the implementation is created after that and may
//! already hold a [`Handle`]. If the implementation cannot be created, the reference is put. SUNRPC
//! then frees the transport and puts its module reference, and puts a second module reference
//! because `xpo_create` or `xpo_accept` failed. [`New`] therefore takes a module reference before
//! it puts the transport.
//!
//! # Teardown
//!
//! SUNRPC calls `xpo_detach` once, on a thread of the service, or on the task that shuts the
//! service down. `xpo_free` is called when the last reference is put, in process context. It waits
//! until the last [`Handle`] is dropped, and drops the implementation after that. It cannot leave
//! that to a worker: SUNRPC frees the service when all its transports are freed, and a context with
//! a handle may still be waking one of its threads.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use core::any::TypeId;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::{offset_of, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::Completion;
use kernel::types::Opaque;

use crate::compat::{barrier::smp_mb, raw_init, raw_try_init};
use crate::mem::{Net, SockAddr};
use crate::raw;

/// Marks a listener.
pub(crate) enum Listening {}

/// Marks a connection.
pub(crate) enum Connected {}

/// The common interface of listeners and connections. `K` is [`Listening`] or [`Connected`].
pub(crate) trait Implementation<K>: Send + Sync + Sized + 'static {
    /// The operations of the kind.
    const OPS: raw::svc_xprt_ops;

    /// Closes the connection or the port.
    fn detach(&self, xprt: &SvcXprt<K>);
}

/// A transport without its implementation.
///
/// # Invariants
///
/// - `base` comes first and is initialised.
/// - `implementation` is the type `T` of the [`Xprt`] that this is the first field of.
/// - `handles` is the number of [`Handle`]s, plus one until `xpo_free` waits for them.
#[pin_data]
#[repr(C)]
pub(crate) struct SvcXprt<K> {
    #[pin]
    base: Opaque<raw::svc_xprt>,
    implementation: TypeId,
    handles: Atomic<i32>,
    /// Completed when `handles` drops to zero while `xpo_free` waits.
    #[pin]
    unused: Completion,
    /// Whether the implementation exists.
    complete: Atomic<bool>,
    /// Whether the implementation was detached.
    detached: Atomic<bool>,
    /// SUNRPC puts its own reference before `xpo_free`, and events of transports read the namespace
    /// later.
    _net: Option<ARef<Net>>,
    kind: PhantomData<K>,
}

// SAFETY: SUNRPC uses an `svc_xprt` from any thread. The other members are atomics, a completion,
// and a reference to a namespace, which any task may put.
unsafe impl<K> Send for SvcXprt<K> {}
// SAFETY: Shared references reach `base` only through raw pointers, by functions that lock what
// they change. The other members are atomics, a completion, and a reference to a namespace, which
// nothing reads.
unsafe impl<K> Sync for SvcXprt<K> {}

/// The namespace, class and service of a new transport.
///
/// # Invariants
///
/// The pointers are valid, and the module of `class` is referenced, until the operation that
/// creates the transport returns.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    net: *mut k::net,
    class: *mut raw::svc_xprt_class,
    serv: *mut raw::svc_serv,
}

impl Origin {
    /// Wraps the arguments of `svc_xprt_init()`.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariants.
    pub(super) unsafe fn new(
        net: *mut k::net,
        class: *mut raw::svc_xprt_class,
        serv: *mut raw::svc_serv,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self { net, class, serv }
    }

    /// Takes a reference to the namespace.
    fn net(&self) -> ARef<Net> {
        // SAFETY: By the type invariants the pointer is valid.
        unsafe { Net::from_raw(self.net) }.into()
    }
}

impl<K> SvcXprt<K> {
    /// Initialises a transport with an implementation of that type. It is then busy and has one
    /// reference.
    fn new(origin: Origin, implementation: TypeId) -> impl PinInit<Self> {
        pin_init!(Self {
            base <- Opaque::ffi_init(|base| {
                // SAFETY: By the type invariants of `Origin` its pointers are valid. `base` is
                // pinned memory of the right size, to which no other thread has access.
                unsafe { raw::svc_xprt_init(origin.net, origin.class, base, origin.serv) }
            }),
            implementation,
            handles: Atomic::new(1),
            unused <- Completion::new(),
            complete: Atomic::new(false),
            detached: Atomic::new(false),
            _net: Some(origin.net()),
            kind: PhantomData,
        })
    }

    /// Creates a transport that is all zeroes, without an implementation and without a service.
    #[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
    pub(super) fn blank() -> impl PinInit<Self> {
        pin_init!(Self {
            base <- Opaque::zeroed(),
            implementation: TypeId::of::<()>(),
            handles: Atomic::new(1),
            unused <- Completion::new(),
            complete: Atomic::new(false),
            detached: Atomic::new(false),
            _net: None,
            kind: PhantomData,
        })
    }

    pub(super) fn as_raw(&self) -> *mut raw::svc_xprt {
        self.base.get()
    }

    /// Sets a bit of `xpt_flags`.
    pub(super) fn set(&self, bit: u32) {
        // SAFETY: The transport is alive, and the flags are changed by atomic operations.
        unsafe { k::set_bit(bit as usize, &raw mut (*self.as_raw()).xpt_flags) };
    }

    /// Clears a bit of `xpt_flags`.
    pub(super) fn clear(&self, bit: u32) {
        // SAFETY: The transport is alive, and the flags are changed by atomic operations.
        unsafe { k::clear_bit(bit as usize, &raw mut (*self.as_raw()).xpt_flags) };
    }

    /// Wakes a thread of the service for the transport, if it has work.
    fn enqueue(&self) {
        // SAFETY: The transport is alive. A transport that SUNRPC has closed stays busy, which ends
        // the call before it uses the service. If the call has begun earlier, its context has a
        // handle, and `xpo_free` waits for that, so the service exists until the call returns.
        unsafe { raw::svc_xprt_enqueue(self.as_raw()) };
    }

    /// Returns whether SUNRPC closes the transport or has closed it. Any context.
    pub(crate) fn is_closing(&self) -> bool {
        // SAFETY: The transport is alive.
        unsafe { raw::rr_svc_xprt_is_dead(self.as_raw()) }
    }

    /// Makes a thread of the service detach the transport. Does not sleep; process or softirq
    /// context.
    pub(crate) fn close(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::svc_xprt_deferred_close(self.as_raw()) };
    }

    /// Returns the transport with its implementation, if that is a complete `T`.
    pub(super) fn implemented_by<T: Implementation<K>>(&self) -> Option<&Xprt<K, T>> {
        // ORDERING: pairs with the store in `New::init`, after which the implementation is
        // initialised.
        if self.implementation != TypeId::of::<T>() || !self.complete.load(Acquire) {
            return None;
        }
        // SAFETY: By the type invariants this is the first field of an `Xprt<T>`, and `New` has
        // completed it. It is alive while it is borrowed.
        Some(unsafe { Xprt::from_raw(self.as_raw()) })
    }

    /// Returns the network namespace.
    pub(crate) fn net(&self) -> &Net {
        // SAFETY: The transport is alive, and has a reference to its namespace (`_net`).
        unsafe { Net::from_raw((*self.as_raw()).xpt_net) }
    }

    /// Returns the number of payload bytes that the service allows in one RPC.
    pub(super) fn max_payload(&self) -> u32 {
        // SAFETY: The transport is alive; only operations that the service calls use this function,
        // so the service is alive as well. The number does not change while transports exist.
        unsafe { (*(*self.as_raw()).xpt_server).sv_max_payload }
    }

    /// Returns a handle. Any context.
    pub(crate) fn handle(&self) -> Handle<K> {
        self.handles.fetch_add(1, Relaxed);
        // INVARIANT: The handle was counted above. `self` is alive, so `xpo_free` does not wait yet
        // or waits for another handle.
        Handle(NonNull::from(self))
    }

    /// Sets the address at which the transport listens or was reached.
    pub(super) fn set_local(&self, addr: &SockAddr) {
        // SAFETY: The transport is alive and busy, so no other code accesses its address. A
        // `SockAddr` is not longer than the address of a transport.
        unsafe { raw::rr_svc_xprt_set_local(self.as_raw(), addr.as_ptr(), addr.bytes().len()) };
    }

    /// Sets the address of the peer.
    pub(super) fn set_remote(&self, addr: &SockAddr) {
        // SAFETY: The transport is alive and busy, so no other code accesses its address. A
        // `SockAddr` is not longer than the address of a transport.
        unsafe { raw::rr_svc_xprt_set_remote(self.as_raw(), addr.as_ptr(), addr.bytes().len()) };
    }

    /// Waits until all handles are dropped. Sleeps.
    fn wait_unused(&self) {
        if self.handles.fetch_sub(1, Full) != 1 {
            self.unused.wait_for_completion();
        }
    }
}

impl SvcXprt<Listening> {
    /// Announces that [`Listener::next`](super::transport::Listener::next) will return a request.
    /// Does not sleep; process or softirq context.
    pub(crate) fn connection_arrived(&self) {
        self.set(raw::XPT_CONN);
        self.enqueue();
    }
}

impl SvcXprt<Connected> {
    /// Announces that [`Connection::receive`](super::transport::Connection::receive) will find a
    /// call. Does not sleep; process or softirq context.
    pub(crate) fn data_arrived(&self) {
        self.set(raw::XPT_DATA);
        self.enqueue();
    }

    /// Announces that [`Connection::has_room`](super::transport::Connection::has_room) returns true
    /// again. Does not sleep; process or softirq context.
    pub(crate) fn room_regained(&self) {
        // ORDERING: pairs with the barrier in `finds_room`. The caller has stored what `has_room`
        // reads; either a context that finds no room sees that, or this sees the flags that it has
        // changed.
        smp_mb(Full);
        self.enqueue();
    }
}

/// Returns whether a connection has room. SUNRPC calls this after it has set `XPT_DATA` or cleared
/// `XPT_BUSY`, without a barrier that orders that before the check.
#[inline(always)]
pub(super) fn finds_room(has_room: impl Fn() -> bool) -> bool {
    has_room() || finds_room_now(has_room)
}

/// Implements [`finds_room`] for a connection that seems to have no room.
#[cold]
#[inline(never)]
fn finds_room_now(has_room: impl Fn() -> bool) -> bool {
    // ORDERING: pairs with the barrier in `room_regained`. Either this check succeeds, or that
    // context finds the flags changed and enqueues the transport.
    smp_mb(Full);
    has_room()
}

/// A counted pointer to a transport, for completions and for events of the connection manager.
///
/// A handle holds no reference to the `svc_xprt`: SUNRPC never closes an idle connection that has
/// more than one reference. Instead `xpo_free` waits until the last handle is dropped. `detach`
/// must therefore cause all handles to be dropped soon, including those in the implementation
/// itself.
///
/// # Invariants
///
/// The transport is alive, and `handles` counts this handle.
///
/// # Examples
///
/// ```ignore
/// fn detach(&self, _xprt: &SvcXprt<Connected>) {
///     let handle = self.handle.lock().take();
///     drop(handle);
///     // ...
/// }
/// ```
pub(crate) struct Handle<K>(NonNull<SvcXprt<K>>);

// SAFETY: A handle is a shared reference that keeps its target alive, and `SvcXprt` is `Sync`.
unsafe impl<K> Send for Handle<K> {}
// SAFETY: A shared handle gives access to a shared `SvcXprt`, which is `Sync`.
unsafe impl<K> Sync for Handle<K> {}

impl<K> Deref for Handle<K> {
    type Target = SvcXprt<K>;

    fn deref(&self) -> &SvcXprt<K> {
        // SAFETY: By the type invariants the transport is alive.
        unsafe { self.0.as_ref() }
    }
}

impl<K> Drop for Handle<K> {
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, Full) == 1 {
            // `xpo_free` has subtracted its own count and waits: the transport stays until this
            // call has completed.
            self.unused.complete_all();
        }
    }
}

/// A transport with its implementation.
///
/// # Invariants
///
/// - `base` comes first: a pointer to the `svc_xprt` is a pointer to the whole. The memory is that
///   of a box.
/// - `data` is initialised, and does not move, from when `complete` is set until `xpo_free` drops
///   it.
#[repr(C)]
pub(super) struct Xprt<K, T: Implementation<K>> {
    base: SvcXprt<K>,
    data: UnsafeCell<MaybeUninit<T>>,
}

impl<K, T: Implementation<K>> Xprt<K, T> {
    /// Converts a pointer of SUNRPC.
    ///
    /// # Safety
    ///
    /// `xprt` is a transport that [`New`] has completed for `T`, and it is alive during `'a`.
    pub(super) unsafe fn from_raw<'a>(xprt: *mut raw::svc_xprt) -> &'a Self {
        const { assert!(offset_of!(Self, base) == 0 && offset_of!(SvcXprt<K>, base) == 0) };
        // SAFETY: By the safety requirements the transport is alive, and by the type invariants it
        // starts at its `svc_xprt`.
        unsafe { &*xprt.cast() }
    }

    pub(super) fn base(&self) -> &SvcXprt<K> {
        &self.base
    }

    /// Returns the implementation.
    ///
    /// # Safety
    ///
    /// The transport is complete.
    pub(super) unsafe fn data(&self) -> &T {
        // SAFETY: By the safety requirements and the type invariants the implementation exists; it
        // is only shared until it is dropped.
        unsafe { (*self.data.get()).assume_init_ref() }
    }

    /// Detaches the implementation, unless that was done.
    ///
    /// # Safety
    ///
    /// The transport is complete.
    pub(super) unsafe fn detach(&self) {
        if !self.base.detached.xchg(true, Full) {
            // SAFETY: By the safety requirements the transport is complete.
            unsafe { self.data() }.detach(&self.base);
        }
    }

    /// Frees a transport. Sleeps until the last handle is dropped.
    ///
    /// # Safety
    ///
    /// [`New`] has made the transport, and only holders of handles have access to it.
    pub(super) unsafe fn free(xprt: *mut raw::svc_xprt) {
        // SAFETY: By the safety requirements the transport is alive and was made for `T`. The
        // reference is not used after the implementation is dropped.
        let this = unsafe { Self::from_raw(xprt) };
        let complete = this.base.complete.load(Relaxed);
        if complete {
            // SAFETY: The transport is complete.
            unsafe { this.detach() };
        }
        this.base.wait_unused();
        // SAFETY: No handle is left, so no other thread has access. `New` has initialised `base`,
        // and has taken the memory from a box of this type.
        unsafe {
            if complete {
                (*this.data.get()).assume_init_drop();
            }
            core::ptr::drop_in_place(&raw mut (*xprt.cast::<Self>()).base);
            drop(KBox::from_raw(xprt.cast::<MaybeUninit<Self>>()));
        }
    }
}

/// A new transport. It is freed when it is dropped, which waits until all handles are dropped: the
/// code that drops it must hold none.
///
/// # Invariants
///
/// No other code but the holders of handles has access to the transport.
pub(super) struct New<K, T: Implementation<K>> {
    xprt: NonNull<Xprt<K, T>>,
    class: *mut raw::svc_xprt_class,
}

impl<K, T: Implementation<K>> New<K, T> {
    /// Allocates and initialises a transport. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(origin: Origin) -> Result<Self> {
        let memory = KBox::<Xprt<K, T>>::new_uninit(GFP_KERNEL)?;
        let xprt = KBox::into_raw(memory).cast::<Xprt<K, T>>();
        // SAFETY: The memory is large enough, aligned, stays in place, and no other thread knows of
        // it.
        unsafe {
            raw_init(
                &raw mut (*xprt).base,
                SvcXprt::new(origin, TypeId::of::<T>()),
            )
        };
        // SAFETY: A box is not null; `base` was initialised above, and no other thread knows of the
        // transport, so that its operations may be replaced.
        let xprt = unsafe {
            (*(*xprt).base.as_raw()).xpt_ops = &T::OPS;
            NonNull::new_unchecked(xprt)
        };
        // INVARIANT: No pointer was given to other code.
        let this = Self {
            xprt,
            class: origin.class,
        };
        // NFSv4 is served over transports with congestion control only (RFC 7530, section 3.1).
        this.base().set(raw::XPT_CONG_CTRL);
        Ok(this)
    }

    pub(super) fn base(&self) -> &SvcXprt<K> {
        // SAFETY: By the type invariants the transport is alive.
        unsafe { &self.xprt.as_ref().base }
    }

    /// Creates the implementation. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `init`.
    ///
    /// # Safety
    ///
    /// The function was not called before.
    pub(super) unsafe fn init(&self, init: impl PinInit<T, Error>) -> Result<&T> {
        // SAFETY: The memory has the size and alignment of `T`, it does not move, and by the safety
        // requirements it is not initialised. No other code accesses it before the transport is
        // complete.
        unsafe {
            let data = (*self.xprt.as_ref().data.get()).as_mut_ptr();
            raw_try_init(data, init)?;
        }
        // INVARIANT: `data` was initialised above.
        self.base().complete.store(true, Release);
        // SAFETY: By the type invariants the transport is alive, and it is complete.
        Ok(unsafe { self.xprt.as_ref().data() })
    }

    /// Passes the transport to SUNRPC.
    ///
    /// # Safety
    ///
    /// [`Self::init`] has succeeded.
    pub(super) unsafe fn into_raw(self) -> *mut raw::svc_xprt {
        core::mem::ManuallyDrop::new(self).base().as_raw()
    }
}

impl<K, T: Implementation<K>> Drop for New<K, T> {
    fn drop(&mut self) {
        // SAFETY: The class is alive, and its module referenced, while the transport is created.
        // SUNRPC frees the transport because this is its only reference, and puts the module
        // reference that is taken here.
        unsafe {
            k::__module_get((*self.class).xcl_owner);
            raw::svc_xprt_put(self.base().as_raw());
        }
    }
}
