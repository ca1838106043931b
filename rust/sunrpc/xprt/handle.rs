// SPDX-License-Identifier: GPL-2.0

//! A transport as SUNRPC sees it: an `rpc_xprt`, with what we need beside it.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{Completion, SpinLock};
use kernel::types::Opaque;
use kernel::workqueue::Queue;

use super::address::Texts;
use super::class::Class;
use super::slot::Slot;
use super::support::{BackchannelSupport, ReconnectSupport};
use super::time::HZ;
use super::transport::{Rpc, Transport};
use crate::mem::{NetRef, SockAddr, Storage};
use crate::raw;

/// One transport.
///
/// # Invariants
///
/// - `base` comes first: a pointer to it is a pointer to the whole. The memory is `xprt_alloc()`'s.
/// - From the end of `setup` until the last step of teardown `state` is initialised, `state.data`
///   too, and all `rpc_rqst` of the transport are those of `state.slots`, or of the backchannel.
#[repr(C)]
pub(crate) struct Xprt<T: Transport> {
    base: Opaque<raw::rpc_xprt>,
    pub(super) state: State<T>,
}

/// What is ours of a transport.
///
/// # Invariants
///
/// - `epoch` is written under `transport_lock`, with the send lock held.
/// - `timeout` is written under `transport_lock`.
#[pin_data]
pub(super) struct State<T: Transport> {
    pub(super) class: &'static Class,
    /// Runs `setup::destroy_worker`.
    #[pin]
    pub(super) destroy_work: Opaque<k::work_struct>,
    /// State of the connect protocol; of size 0 for a transport that does not connect.
    #[pin]
    pub(super) reconnect: <T::Reconnect as ReconnectSupport<T>>::State,
    /// State of the backchannel; of size 0 for a transport without one.
    #[pin]
    pub(super) backchannel: <T::Backchannel as BackchannelSupport<T>>::State,
    /// Number of the connection, for credits.
    pub(super) epoch: Atomic<u32>,
    /// What `rpc_xprt.timeout` points to.
    pub(super) timeout: UnsafeCell<raw::rpc_timeout>,
    #[pin]
    pub(super) texts: SpinLock<Texts>,
    /// Number of [`XprtHandle`]s, and one until teardown waits for them.
    handles: Atomic<i32>,
    /// Completed by whoever takes `handles` to zero, if that is not the teardown.
    #[pin]
    unused: Completion,
    /// One pointer each; with 16,384 of them more than a kmalloc allocation should have.
    pub(super) slots: KVVec<Pin<KBox<Slot<T>>>>,
    /// The transport proper; none before it has been made.
    pub(super) data: UnsafeCell<Option<Pin<KBox<T>>>>,
}

// SAFETY: SUNRPC uses an `rpc_xprt` from any thread. The members of `State` are atomics, works, locked,
// or protected as its invariants say; `data` is written only while no other thread has access.
unsafe impl<T: Transport> Send for Xprt<T> {}
// SAFETY: Shared references reach `base` only through raw pointers, under SUNRPC's rules. The members
// of `State` are atomics, works, locked, or protected as its invariants say.
unsafe impl<T: Transport> Sync for Xprt<T> {}

impl<T: Rpc> State<T> {
    /// What a new transport starts with. May sleep.
    pub(super) fn new(class: &'static Class, slots: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            class,
            destroy_work <- Opaque::ffi_init(|work| {
                // SAFETY: The memory is ours, and pinned.
                unsafe { raw::rr_init_destroy_work(work, Some(super::setup::destroy_worker::<T>)) }
            }),
            reconnect <- <T::Reconnect as ReconnectSupport<T>>::new_state(),
            backchannel <- <T::Backchannel as BackchannelSupport<T>>::new_state(),
            epoch: Atomic::new(1),
            timeout: UnsafeCell::new(default_timeout()),
            texts <- Texts::new(),
            handles: Atomic::new(1),
            unused <- Completion::new(),
            slots: make_slots(slots)?,
            data: UnsafeCell::new(None),
        }? Error)
    }
}

/// Returns the RPC time-out of a new client: 60 seconds without retries, as the stock transport has it.
pub(super) fn default_timeout() -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: 60 * HZ,
        to_maxval: 60 * HZ,
        ..Default::default()
    }
}

/// Makes the `count` slots of a transport. May sleep.
fn make_slots<T: Rpc>(count: u32) -> Result<KVVec<Pin<KBox<Slot<T>>>>> {
    // CAST: `usize` has at least 32 bits.
    let mut slots = KVVec::with_capacity(count as usize, GFP_KERNEL)?;
    for index in 0..count {
        slots.push(Slot::new(index)?, GFP_KERNEL)?;
    }
    Ok(slots)
}

impl<T: Transport> Xprt<T> {
    /// The transport that `xprt` is the first part of.
    ///
    /// # Safety
    ///
    /// - `xprt` was made by `setup` for `T`, and the type invariants hold.
    /// - It outlives `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(xprt: *mut raw::rpc_xprt) -> &'a Self {
        // SAFETY: By the safety requirements and the type invariants.
        unsafe { &*xprt.cast() }
    }

    /// The transport that `work` belongs to.
    ///
    /// # Safety
    ///
    /// - `work` lies `offset` bytes into the `State<T>` of a transport that was made by `setup` for `T`,
    ///   and the type invariants hold.
    /// - The transport outlives `'a`.
    pub(super) unsafe fn from_work<'a>(work: *mut k::work_struct, offset: usize) -> &'a Self {
        let start = offset_of!(Self, state) + offset;
        // SAFETY: By the safety requirements the transport begins that many bytes before `work`.
        unsafe { Self::from_raw(work.byte_sub(start).cast()) }
    }

    /// The C structure.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut raw::rpc_xprt {
        self.base.get()
    }

    #[inline]
    pub(super) fn state(&self) -> &State<T> {
        &self.state
    }

    /// The transport proper.
    #[inline]
    pub(crate) fn data(&self) -> &T {
        self.transport()
    }

    #[inline]
    pub(super) fn transport(&self) -> &T {
        // SAFETY: By the type invariants `data` is initialised while anybody has a reference, and
        // changes only when nobody has.
        match unsafe { &*self.state.data.get() } {
            Some(data) => data,
            // PANIC: Ruled out by the type invariants: `setup` creates no reference for others
            // before it has set `data`, and teardown waits for all of them before it clears it.
            None => panic!("rpcrdma: transport used outside its lifetime"),
        }
    }

    /// A queue for the transport's own work. It has a rescuer, and unloading the module waits for all
    /// that was queued until the functions have returned.
    pub(crate) fn queue(&self) -> &Queue {
        // SAFETY: The queue lives as long as the class, which outlives its transports.
        unsafe { Queue::from_raw(self.state.class.connect_queue()) }
    }

    /// A counted pointer, for objects that outlive a call.
    pub(crate) fn handle(&self) -> XprtHandle<T> {
        self.state.handles.fetch_add(1, Relaxed);
        XprtHandle(NonNull::from(self))
    }

    /// The server's address. Changes under the send lock only (through sysfs).
    pub(crate) fn addr(&self) -> SockAddr {
        let xprt = self.as_raw();
        // Not as long as `addrlen` says: SUNRPC's sysfs cannot take an IPv6 address; when one is
        // written it makes the length 0 and leaves the address as it was.
        // SAFETY: The transport is alive; the address is copied as bytes, of which all of the storage
        // is initialised. Without the send lock the copy may be torn, but never wild.
        SockAddr::from_storage(unsafe { (&raw const (*xprt).addr).cast::<Storage>().read() })
    }

    /// The network namespace of the mount; the transport holds a reference to it.
    pub(crate) fn net(&self) -> NetRef<'_> {
        // SAFETY: The transport holds a reference to its namespace, which is never null.
        unsafe { NetRef::new(NonNull::new_unchecked((*self.as_raw()).xprt_net)) }
    }

    /// Is it a mount's own transport? Those that SUNRPC adds to one (`nconnect=`, sysfs) are not.
    pub(crate) fn is_main(&self) -> bool {
        // SAFETY: The transport is alive. `rpc_new_client()` alone writes this, before any call can
        // use the transport.
        unsafe { (*self.as_raw()).main }
    }

    #[inline]
    fn flags(&self) -> &Atomic<usize> {
        // SAFETY: The transport is alive; `state` is aligned, and only accessed atomically.
        unsafe { Atomic::from_ptr((&raw mut (*self.as_raw()).state).cast()) }
    }

    #[inline]
    fn test(&self, bit: u32) -> bool {
        self.flags().load(Relaxed) & (1 << bit) != 0
    }

    /// Clears a bit of the state; was it set? The caller makes sure that nobody sets it meanwhile.
    #[inline]
    pub(super) fn test_and_clear(&self, bit: u32) -> bool {
        let was = self.test(bit);
        if was {
            // SAFETY: The transport is alive.
            unsafe { k::clear_bit(bit as usize, &raw mut (*self.as_raw()).state) };
        }
        was
    }

    /// Sets a bit of the state.
    #[inline]
    pub(super) fn set(&self, bit: u32) {
        // SAFETY: The transport is alive.
        unsafe { k::set_bit(bit as usize, &raw mut (*self.as_raw()).state) };
    }

    /// Does the connection count as connected?
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.test(raw::XPRT_CONNECTED)
    }

    /// Is a close under way or about to begin? Nothing should be sent any more then.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.test(raw::XPRT_CLOSE_WAIT)
    }

    /// Is the last reference gone? Then somebody waits for the send lock in order to tear down.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        // SAFETY: The transport is alive.
        unsafe { raw::rr_xprt_abandoned(self.as_raw()) }
    }

    /// Number of the connection as SUNRPC counts; changes with each attempt to connect and each close.
    #[inline]
    pub(crate) fn connect_cookie(&self) -> u32 {
        // SAFETY: The transport is alive; SUNRPC, too, reads this without a lock.
        unsafe { (&raw const (*self.as_raw()).connect_cookie).read_volatile() }
    }

    /// Has the connection closed as soon as the send lock is free: [`Transport::close`] is called, and
    /// pending RPCs are sent again. Does not sleep. Takes `transport_lock`.
    pub(crate) fn force_disconnect(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_force_disconnect(self.as_raw()) };
    }

    /// Nobody may send until [`Self::wake_write_space`] is called. To be followed by another look at
    /// whatever was lacking, lest a wake-up be lost. Does not sleep.
    #[inline]
    pub(crate) fn wait_for_buffer_space(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_wait_for_buffer_space(self.as_raw()) };
    }

    /// What [`Self::wait_for_buffer_space`] was called for is there now. Does not sleep. Takes
    /// `transport_lock` if anybody waits.
    #[inline]
    pub(crate) fn wake_write_space(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_write_space(self.as_raw()) };
    }

    /// The connection is gone: wakes everybody that waits for anything of it. Done by the caller of
    /// [`Transport::close`]; harmless at other times. Takes `transport_lock`.
    pub(crate) fn disconnect_done(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_disconnect_done(self.as_raw()) };
    }

    /// All slots, by their number.
    #[inline]
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = &Slot<T>> {
        self.state.slots.iter().map(|slot| &**slot)
    }

    /// Slot number `index`.
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot<T>> {
        // CAST: `usize` has at least 32 bits.
        self.state.slots.get(index as usize).map(|slot| &**slot)
    }

    /// Waits until all handles are gone; there must be no way left to get another. Sleeps.
    pub(super) fn wait_unused(&self) {
        if self.state.handles.fetch_sub(1, Full) != 1 {
            self.state.unused.wait_for_completion();
        }
    }
}

/// A counted pointer to a transport. Teardown waits, after [`Transport::destroy`], until all of them
/// have been dropped; the transport proper is dropped only then.
///
/// # Invariants
///
/// The transport is alive; `state.handles` counts this handle.
pub(crate) struct XprtHandle<T: Transport>(NonNull<Xprt<T>>);

// SAFETY: A handle is a shared reference that keeps what it refers to alive, and `Xprt` is `Sync`.
unsafe impl<T: Transport> Send for XprtHandle<T> {}
// SAFETY: As above.
unsafe impl<T: Transport> Sync for XprtHandle<T> {}

impl<T: Transport> Deref for XprtHandle<T> {
    type Target = Xprt<T>;

    #[inline]
    fn deref(&self) -> &Xprt<T> {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Transport> Clone for XprtHandle<T> {
    fn clone(&self) -> Self {
        self.handle()
    }
}

impl<T: Transport> Drop for XprtHandle<T> {
    fn drop(&mut self) {
        let state = self.state();
        if state.handles.fetch_sub(1, Full) == 1 {
            // Teardown has given up its share and waits: the transport stays until we have
            // completed.
            state.unused.complete_all();
        }
    }
}
