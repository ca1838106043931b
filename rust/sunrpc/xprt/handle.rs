// SPDX-License-Identifier: GPL-2.0

//! A client transport: an `rpc_xprt`, followed by this module's own state.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::cell::{Cell, UnsafeCell};
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

use super::super::time::secs;
use super::address_strings::AddressStrings;
use super::backchannel::BackchannelState;
use super::class::Class;
use super::connect::ConnectState;
use super::slot::Slot;
use super::transport::Transport;
use crate::compat::casts::u32_as_usize;
use crate::mem::{Net, SockAddr, Storage};
use crate::raw;

/// A client transport.
///
/// # Invariants
///
/// - `base` comes first: a pointer to it is a pointer to the whole. `xprt_alloc()` allocated the
///   memory.
/// - From the end of `setup` until the last step of teardown, `state` is initialised, `state.data`
///   is `Some`, and every `rpc_rqst` of the transport is embedded in one of `state.slots`, or
///   belongs to a backchannel call.
///
/// # Examples
///
/// ```ignore
/// fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
///     if self.refuse {
///         return Err(ConnectError::Refused);
///     }
///     xprt.reset_congestion();
///     Ok(())
/// }
/// ```
#[repr(C)]
pub(crate) struct Xprt<T: Transport> {
    base: Opaque<raw::rpc_xprt>,
    pub(super) state: XprtState<T>,
}

/// This module's part of a transport.
///
/// # Invariants
///
/// - `destroy_work` is initialised.
/// - `epoch` is written under `transport_lock`, with the send lock held, and read under one of
///   them.
/// - `timeout` is written under `transport_lock`.
/// - `data` is written only while no other thread has access to the transport.
#[pin_data]
pub(super) struct XprtState<T: Transport> {
    pub(super) class: &'static Class,
    /// Runs `setup::destroy_worker`.
    #[pin]
    pub(super) destroy_work: Opaque<k::work_struct>,
    /// Unused by a transport that does not connect.
    #[pin]
    pub(super) connect: ConnectState,
    /// Unused by a transport without a backchannel.
    #[pin]
    pub(super) backchannel: BackchannelState,
    /// Number of the connection, for credits.
    pub(super) epoch: Cell<u32>,
    /// The target of `rpc_xprt.timeout`.
    pub(super) timeout: UnsafeCell<raw::rpc_timeout>,
    #[pin]
    pub(super) address_strings: SpinLock<AddressStrings>,
    /// Number of [`XprtHandle`]s, plus one until teardown waits for them.
    handles: Atomic<i32>,
    /// Completed when `handles` drops to zero while teardown waits.
    #[pin]
    unused: Completion,
    /// With 16,384 slots the pointers alone need more memory than `kmalloc()` should be asked for.
    pub(super) slots: KVVec<Pin<KBox<Slot<T>>>>,
    /// The transport's implementation; `None` until it is created.
    pub(super) data: UnsafeCell<Option<Pin<KBox<T>>>>,
}

// SAFETY: SUNRPC uses an `rpc_xprt` from any thread. The members of `XprtState` are atomics, work
// items, `Send` values, or written only as the type invariants say.
unsafe impl<T: Transport> Send for Xprt<T> {}
// SAFETY: Shared references reach `base` only through raw pointers, under SUNRPC's rules. The
// members of `XprtState` are atomics, work items, `Sync` values, or accessed only as the type
// invariants say.
unsafe impl<T: Transport> Sync for Xprt<T> {}

impl<T: Transport> XprtState<T> {
    /// Creates the state of a new transport. May sleep.
    pub(super) fn new(class: &'static Class, slots: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            class,
            destroy_work <- Opaque::ffi_init(|work| {
                // SAFETY: `work` is part of the pinned memory that is being initialised.
                unsafe { raw::rr_init_destroy_work(work, Some(super::setup::destroy_worker::<T>)) }
            }),
            connect <- ConnectState::new::<T>(),
            backchannel <- BackchannelState::new::<T>(),
            epoch: Cell::new(1),
            timeout: UnsafeCell::new(default_timeout()),
            address_strings <- AddressStrings::new(),
            handles: Atomic::new(1),
            unused <- Completion::new(),
            slots: make_slots(slots)?,
            data: UnsafeCell::new(None),
        }? Error)
    }
}

/// Returns the RPC timeout of a new client: 60 seconds without retries, as in the stock transport.
pub(super) fn default_timeout() -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: secs(60),
        to_maxval: secs(60),
        ..Default::default()
    }
}

/// Creates the `count` slots of a transport. May sleep.
fn make_slots<T: Transport>(count: u32) -> Result<KVVec<Pin<KBox<Slot<T>>>>> {
    let mut slots = KVVec::with_capacity(u32_as_usize(count), GFP_KERNEL)?;
    for index in 0..count {
        slots.push(Slot::new(index)?, GFP_KERNEL)?;
    }
    Ok(slots)
}

impl<T: Transport> Xprt<T> {
    /// Returns the queue for the transport's own work. The queue has a rescuer. Unloading the
    /// module waits until all work that was queued there has returned.
    pub(crate) fn queue(&self) -> &Queue {
        const { assert!(T::HAS_CONNECT) };
        // SAFETY: The class of a transport that connects has this queue, which lives as long as the
        // class, and the class outlives its transports.
        unsafe { Queue::from_raw(self.state.class.connect_queue()) }
    }

    /// Returns the transport whose first field is `xprt`.
    ///
    /// # Safety
    ///
    /// - `setup` created `xprt` for `T`, and the type invariants hold.
    /// - It outlives `'a`.
    pub(super) unsafe fn from_raw<'a>(xprt: *mut raw::rpc_xprt) -> &'a Self {
        // SAFETY: By the safety requirements there is a transport, and by the type invariants it
        // starts at its `rpc_xprt`.
        unsafe { &*xprt.cast() }
    }

    /// Returns the transport that contains `work`.
    ///
    /// # Safety
    ///
    /// - `work` lies `offset` bytes into the `XprtState<T>` of a transport that `setup` created for
    ///   `T`, and the type invariants hold.
    /// - The transport outlives `'a`.
    pub(super) unsafe fn from_work<'a>(work: *mut k::work_struct, offset: usize) -> &'a Self {
        let start = offset_of!(Self, state) + offset;
        // SAFETY: By the safety requirements the transport starts that many bytes before `work`.
        unsafe { Self::from_raw(work.byte_sub(start).cast()) }
    }

    /// Returns the C structure.
    pub(super) fn as_raw(&self) -> *mut raw::rpc_xprt {
        self.base.get()
    }

    /// Returns the transport's implementation.
    pub(crate) fn data(&self) -> &T {
        // SAFETY: By the type invariants `data` changes only while there is no other reference.
        match unsafe { &*self.state.data.get() } {
            Some(data) => data,
            // PANIC: Excluded by the type invariants: `setup` passes no reference on before it has
            // set `data`, and teardown waits for all of them before it clears it.
            None => panic!("rpcrdma: transport used outside its lifetime"),
        }
    }

    /// Returns a counted pointer, for objects that outlive a call.
    pub(crate) fn handle(&self) -> XprtHandle<T> {
        self.state.handles.fetch_add(1, Relaxed);
        XprtHandle(NonNull::from(self))
    }

    /// Returns the server's address, which changes under the send lock only (through sysfs).
    pub(crate) fn addr(&self) -> SockAddr {
        let xprt = self.as_raw();
        // The length is not taken from `addrlen`: SUNRPC's sysfs cannot parse an IPv6 address, and
        // when one is written it sets the length to 0 and leaves the address unchanged.
        // SAFETY: The transport is alive, and all bytes of its address storage are initialised.
        // Without the send lock the copy may mix two addresses, each byte of which is valid. The
        // read is volatile.
        let addr = unsafe { (&raw const (*xprt).addr).cast::<Storage>().read_volatile() };
        SockAddr::from_storage(addr)
    }

    /// Returns the network namespace of the mount. The transport holds a reference to it.
    pub(crate) fn net(&self) -> &Net {
        // SAFETY: The transport holds a reference to its namespace, which is never null.
        unsafe { Net::from_raw((*self.as_raw()).xprt_net) }
    }

    /// Limits the payload of one RPC to `bytes`, unless the limit is `fixed`. Returns whether the
    /// limit is at most `bytes`.
    ///
    /// NFS reads the limit when the first RPCs of a mount have succeeded. Only the connect worker
    /// calls this.
    pub(crate) fn limit_payload(&self, bytes: usize, fixed: bool) -> bool {
        // SAFETY: The transport is alive. After setup nothing else writes the member, and a reader
        // gets either value.
        unsafe {
            let limit = &raw mut (*self.as_raw()).max_payload;
            if !fixed {
                limit.write_volatile(bytes);
            }
            limit.read_volatile() <= bytes
        }
    }

    /// Returns whether this is the first transport of a mount. SUNRPC may add more (`nconnect=`,
    /// sysfs), or put one in place of it (migration of NFSv4).
    pub(crate) fn is_main(&self) -> bool {
        // SAFETY: The transport is alive. Only `rpc_new_client()` writes this, before any call can
        // use the transport.
        unsafe { (*self.as_raw()).main }
    }

    /// Returns whether SUNRPC has added the transport to a mount. It tests some transports before
    /// (`trunkdiscovery`, pNFS).
    pub(crate) fn is_added(&self) -> bool {
        // SAFETY: The transport is alive.
        unsafe { raw::rr_xprt_added(self.as_raw()) }
    }

    fn state_bits(&self) -> usize {
        // SAFETY: The transport is alive. As `test_bit()` of C does, this reads the member once.
        unsafe { (&raw const (*self.as_raw()).state).read_volatile() }
    }

    fn test(&self, bit: u32) -> bool {
        self.state_bits() & (1 << bit) != 0
    }

    /// Clears a bit of the state. Returns whether it was set. This is not atomic: if another thread
    /// sets the bit between the test and the clearing, that is lost. The caller shows that no
    /// thread does, or that the loss is harmless.
    pub(super) fn test_and_clear(&self, bit: u32) -> bool {
        let was = self.test(bit);
        if was {
            // SAFETY: The transport is alive.
            unsafe { k::clear_bit(bit as usize, &raw mut (*self.as_raw()).state) };
        }
        was
    }

    /// Sets a bit of the state.
    pub(super) fn set(&self, bit: u32) {
        // SAFETY: The transport is alive.
        unsafe { k::set_bit(bit as usize, &raw mut (*self.as_raw()).state) };
    }

    /// Returns whether SUNRPC regards the transport as connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.test(raw::XPRT_CONNECTED)
    }

    /// Returns whether there is a connection that SUNRPC is not about to close.
    pub(super) fn is_usable(&self) -> bool {
        let (connected, closing) = (1 << raw::XPRT_CONNECTED, 1 << raw::XPRT_CLOSE_WAIT);
        self.state_bits() & (connected | closing) == connected
    }

    /// Returns whether the last reference was put. Teardown then waits for the send lock.
    pub(crate) fn is_abandoned(&self) -> bool {
        // SAFETY: The transport is alive.
        unsafe { raw::rr_xprt_abandoned(self.as_raw()) }
    }

    /// Returns whether SUNRPC waits for the reply to a call, sent or unsent. A call may be added or
    /// removed at any time.
    pub(crate) fn has_calls(&self) -> bool {
        // SAFETY: The transport is alive. Other threads change the root of the tree, so it is read
        // once, as SUNRPC reads it before it closes an idle transport.
        let root = unsafe { (&raw const (*self.as_raw()).recv_queue.rb_node).read_volatile() };
        !root.is_null()
    }

    /// Makes SUNRPC call [`Transport::close`] as soon as the send lock is free, and send pending
    /// RPCs again. Does not sleep. Takes `transport_lock`.
    pub(crate) fn force_disconnect(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_force_disconnect(self.as_raw()) };
    }

    /// Stops sending until [`Self::wake_write_space`] is called. The caller must check once more
    /// whether the resource is still exhausted, because a wake-up may have preceded this call. Does
    /// not sleep.
    pub(crate) fn wait_for_buffer_space(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_wait_for_buffer_space(self.as_raw()) };
    }

    /// Announces that the resource for which [`Self::wait_for_buffer_space`] was called is
    /// available. Does not sleep. Takes `transport_lock` if a task waits.
    pub(crate) fn wake_write_space(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_write_space(self.as_raw()) };
    }

    /// Calls `post`, which fails with `full` if a resource is exhausted whose return
    /// [`Self::wake_write_space`] announces. In that case, calls `noted`, makes SUNRPC wait, and
    /// calls `post` once more, so that a resource that is returned in between wakes the waiters.
    /// Send lock held.
    ///
    /// # Errors
    ///
    /// Those of `post`.
    pub(crate) fn post_or_wait<R, E: PartialEq>(
        &self,
        full: &E,
        noted: impl FnOnce(),
        mut post: impl FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        let mut noted = Some(noted);
        // A single call of `post` serves both attempts, so that it is inlined.
        loop {
            let posted = post();
            if posted.as_ref().err() == Some(full) {
                if let Some(noted) = noted.take() {
                    noted();
                    self.wait_for_buffer_space();
                    continue;
                }
            } else if noted.is_none() && posted.is_ok() {
                self.wake_write_space();
            }
            return posted;
        }
    }

    /// Reports that the connection was closed, and wakes all tasks that wait for it. The caller of
    /// [`Transport::close`] calls this; harmless at other times. Takes `transport_lock`.
    pub(crate) fn disconnect_done(&self) {
        // SAFETY: The transport is alive.
        unsafe { raw::xprt_disconnect_done(self.as_raw()) };
    }

    /// Returns all slots, in the order of their numbers.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = &Slot<T>> {
        self.state.slots.iter().map(|slot| &**slot)
    }

    /// Returns slot number `index`.
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let slot = self.state.slots.get(u32_as_usize(index))?;
        Some(slot)
    }

    /// Waits until all handles are dropped. The caller guarantees that no further handle is made.
    /// Sleeps.
    pub(super) fn wait_unused(&self) {
        if self.state.handles.fetch_sub(1, Full) != 1 {
            self.state.unused.wait_for_completion();
        }
    }
}

/// A counted pointer to a transport. After [`Transport::destroy`] the teardown waits until all
/// handles are dropped, and only then drops the transport.
///
/// # Invariants
///
/// The transport is alive; `state.handles` counts this handle.
pub(crate) struct XprtHandle<T: Transport>(NonNull<Xprt<T>>);

// SAFETY: A handle is a shared reference that keeps its target alive, and `Xprt` is `Sync`.
unsafe impl<T: Transport> Send for XprtHandle<T> {}
// SAFETY: A shared handle gives access to a shared `Xprt`, which is `Sync`; the counter is atomic.
unsafe impl<T: Transport> Sync for XprtHandle<T> {}

impl<T: Transport> Deref for XprtHandle<T> {
    type Target = Xprt<T>;

    fn deref(&self) -> &Xprt<T> {
        // SAFETY: By the type invariants the transport is alive.
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
        let state = &self.state;
        if state.handles.fetch_sub(1, Full) == 1 {
            // Teardown has subtracted its own count and waits: the transport stays until this call
            // has completed.
            state.unused.complete_all();
        }
    }
}
