// SPDX-License-Identifier: GPL-2.0

//! Request slots, and the memory for the headers of a call and of its reply. A slot serves one RPC
//! at a time, and lives as long as its transport.
//!
//! SUNRPC sees a slot as its `rpc_rqst`, and keeps free slots on `xprt->free` and waiting RPCs in a
//! backlog (`xprt_alloc_slot`, `xprt_free_slot`). Because the number of slots equals `min_reqs` and
//! `max_reqs`, SUNRPC neither allocates nor frees a slot.
//!
//! `call_allocate()` of `net/sunrpc/clnt.c` shows what `buf_alloc` has to do. Each slot has a
//! persistent buffer, which is large enough for call and reply of nearly all RPCs. Other RPCs get a
//! larger buffer until they end.

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::handle::Xprt;
use super::rqst::Hook;
use super::transport::Transport;
use crate::raw;

/// A request slot.
///
/// # Invariants
///
/// - `rqst` is the first field: a pointer to it is a pointer to the slot.
/// - `claimed` is accessed under the transport's `queue_lock` only, and set while a
///   [`Pinned`](super::reply::Pinned) or [`Parked`](super::reply::Parked) of this slot exists.
/// - `credit_epoch` is meaningful while `rqst.rq_cong` is set. While the request is being sent, the
///   task that holds the send lock accesses it; after that the task that owns the request.
/// - Only the task that owns the request accesses `buffers` and `hook`.
#[repr(C)]
#[pin_data]
pub(crate) struct Slot<T: Transport> {
    rqst: Opaque<raw::rpc_rqst>,
    index: u32,
    pub(super) claimed: Cell<bool>,
    pub(super) credit_epoch: Cell<u32>,
    pub(super) buffers: Buffers,
    pub(super) hook: Hook,
    #[pin]
    data: T::Slot,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread; the other fields are `Send` or, by the type
// invariants, accessed by one task at a time.
unsafe impl<T: Transport> Send for Slot<T> {}
// SAFETY: Shared references reach `rqst` only through raw pointers, under SUNRPC's rules. By the
// type invariants one thread at a time accesses `claimed`, `credit_epoch`, `buffers` and `hook`.
// The other fields are `Sync`.
unsafe impl<T: Transport> Sync for Slot<T> {}

impl<T: Transport> Slot<T> {
    /// Creates slot number `index`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of [`Transport::new_slot`].
    // The parts of a slot are on the stack until it is complete: not on that of `setup`.
    #[inline(never)]
    pub(super) fn new(index: u32) -> Result<Pin<KBox<Self>>> {
        let data = T::new_slot(index);
        KBox::try_pin_init(
            try_pin_init!(Self {
                rqst: Opaque::zeroed(),
                index,
                claimed: Cell::new(false),
                credit_epoch: Cell::new(0),
                buffers: Buffers::new(T::BUFFER_SIZE)?,
                hook: Hook::new(),
                data <- data,
                _pin: PhantomPinned,
            }? Error),
            GFP_KERNEL,
        )
    }
}

impl<T: Transport> Slot<T> {
    /// Returns the number of the slot: below [`Transport::slots`], unique in the transport.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the transport's part of the slot.
    pub(crate) fn data(&self) -> &T::Slot {
        &self.data
    }

    /// Returns the C structure.
    pub(super) fn as_rqst(&self) -> *mut raw::rpc_rqst {
        self.rqst.get()
    }

    /// Returns the slot whose first field is `rqst`.
    ///
    /// # Safety
    ///
    /// - `rqst` is embedded in a `Slot<T>`.
    /// - That slot outlives `'a`.
    pub(super) unsafe fn from_rqst<'a>(rqst: NonNull<raw::rpc_rqst>) -> &'a Self {
        // SAFETY: By the safety requirements there is a slot, and by the type invariants it starts
        // at its `rqst`.
        unsafe { rqst.cast::<Self>().as_ref() }
    }

    /// Assigns the slot to the next RPC in the backlog, or puts it on the free list. Process
    /// context.
    ///
    /// Called when SUNRPC has finished with the slot, and once for a new slot.
    pub(super) fn free(&self, xprt: &Xprt<T>) {
        // SAFETY: Slot and transport are alive and belong together. No task uses the request; the
        // call clears it or passes it on under `reserve_lock`.
        unsafe { raw::xprt_free_slot(xprt.as_raw(), self.as_rqst()) };
    }
}

/// The number of bytes by which a reply's header may become longer after its buffer was allocated.
/// SUNRPC computes the size of the buffer from the verifier of one reply, and the lengths of its
/// description from that of a later reply, which may be of any server (`unx_validate()`). At least
/// `RPC_MAX_AUTH_SIZE`, and a multiple of [`ALIGN`].
pub(super) const GROWTH: usize = 512;

/// Alignment of call and reply inside a buffer, in bytes: the cache line of any machine. A peer may
/// write to one of them by DMA while the processor accesses the other.
const ALIGN: usize = 128;

/// Memory from `kmalloc()`: physically contiguous and in the direct map, so that it can be mapped
/// for DMA page by page. SUNRPC owns its contents; no Rust code accesses them.
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

impl Memory {
    /// Allocates `len` bytes, a multiple of [`ALIGN`], to which `kmalloc()` then aligns them. They
    /// are uninitialised unless `gfp` has `__GFP_ZERO`. Context according to `gfp`.
    pub(super) fn new(len: usize, gfp: u32) -> Result<Self> {
        // SAFETY: With a null pointer this is an allocation, which accepts any size.
        let p = unsafe {
            k::krealloc_node_align_noprof(core::ptr::null(), len, ALIGN, gfp, k::NUMA_NO_NODE)
        };
        let start = NonNull::new(p.cast::<u8>()).ok_or(ENOMEM)?;
        Ok(Self { start, len })
    }

    /// Returns the address of the first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory, and this value has owned it since.
        unsafe { k::kfree(self.start.as_ptr().cast()) };
    }
}

/// The buffers of a slot.
///
/// # Invariants
///
/// - `large` is accessed only by the task that owns the slot's request, or while no task does.
/// - `room` changes only when the task allocates the buffers, and is at most their part for the
///   reply.
pub(super) struct Buffers {
    persistent: Memory,
    /// The bytes that the head and the tail of the reply may use.
    pub(super) room: Cell<usize>,
    large: UnsafeCell<Option<Memory>>,
}

impl Buffers {
    /// Allocates the persistent buffer of `len` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: usize) -> Result<Self> {
        Ok(Self {
            persistent: Memory::new(aligned(len), k::GFP_KERNEL | k::__GFP_ZERO)?,
            room: Cell::new(0),
            large: UnsafeCell::new(None),
        })
    }

    /// Allocates `len` bytes for the current RPC.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request.
    unsafe fn allocate_large(&self, len: usize) -> Result<NonNull<u8>> {
        // SAFETY: The function has no preconditions. It returns the mask for the current task: no
        // retries and no warnings for a worker of rpciod, whose scope forbids recursion into a file
        // system.
        let memory = Memory::new(len, unsafe { raw::rpc_task_gfp_mask() })?;
        let start = memory.start;
        // SAFETY: By the safety requirements and the type invariants no other task has access.
        unsafe { *self.large.get() = Some(memory) };
        Ok(start)
    }

    /// Returns whether the current RPC has a large buffer.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request.
    pub(super) unsafe fn has_large(&self) -> bool {
        // SAFETY: By the safety requirements and the type invariants no other task has access.
        unsafe { (*self.large.get()).is_some() }
    }

    /// Frees the large buffer of an RPC, if it had one.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request, and neither a device nor another
    /// thread uses the buffers.
    pub(super) unsafe fn free_large(&self) {
        // SAFETY: By the safety requirements and the type invariants no other task has access.
        unsafe { *self.large.get() = None };
    }
}

/// Rounds `len` up to the alignment of a part. `len` is far below the limit of its type: SUNRPC
/// computes four times a sum of 32 bits.
fn aligned(len: usize) -> usize {
    // The alignment is a power of two.
    len.wrapping_add(ALIGN - 1) & !(ALIGN - 1)
}

/// Implements `buf_alloc`: sets `rq_buffer` and `rq_rbuffer`. Process context; may sleep.
///
/// # Errors
///
/// `ENOMEM`: SUNRPC tries again after 60 ms. `EIO`: the call writes to a swap file.
///
/// # Safety
///
/// The caller runs in `task`, a live task whose `tk_rqstp` is null or embedded in a `Slot<T>`.
pub(super) unsafe fn allocate<T: Transport>(task: NonNull<raw::rpc_task>) -> Result {
    // SAFETY: By the safety requirements the task owns the request, and a slot contains it. Slots
    // live as long as their transport.
    let (xprt, slot, call, reply) = unsafe {
        // SUNRPC does not ask about a swap file after another one of the server was refused.
        if u32::from((*task.as_ptr()).tk_flags) & raw::RPC_TASK_SWAPPER != 0 {
            return Err(EIO);
        }
        let rqst = NonNull::new((*task.as_ptr()).tk_rqstp).ok_or(EIO)?;
        let (slot, rqst) = (Slot::<T>::from_rqst(rqst), rqst.as_ptr());
        let xprt = Xprt::<T>::from_raw((*rqst).rq_xprt);
        (xprt, slot, (*rqst).rq_callsize, (*rqst).rq_rcvsize)
    };
    let call = aligned(call);
    let total = call.wrapping_add(aligned(reply));
    let persistent = &slot.buffers.persistent;
    if total > persistent.len {
        // SAFETY: The caller makes the same promise, and the slot contains the request.
        return unsafe { allocate_large(xprt, slot, (call, total)) };
    }
    // SAFETY: The task owns the request. `persistent` has room for the call and then the reply.
    unsafe { set_buffers(slot, persistent.start, [call, persistent.len]) };
    Ok(())
}

/// Implements [`allocate`] for an RPC that needs `total` bytes, `call` of them for the call, which
/// the persistent buffer does not have.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// The caller runs in the task that owns the request in `slot`, a slot of `xprt`.
#[cold]
unsafe fn allocate_large<T: Transport>(
    xprt: &Xprt<T>,
    slot: &Slot<T>,
    (call, total): (usize, usize),
) -> Result {
    let total = total.saturating_add(GROWTH);
    // SAFETY: The caller makes the same promise.
    let start = unsafe { slot.buffers.allocate_large(total) }?;
    xprt.data().large_buffer_allocated(total);
    // SAFETY: The task owns the request. `start` has room for `call` bytes and then the reply.
    unsafe { set_buffers(slot, start, [call, total]) };
    Ok(())
}

/// Sets the buffers of a request: of `all` bytes `call` for the call, and the rest for the reply.
///
/// # Safety
///
/// - The caller runs in the task that owns the request in `slot`.
/// - `start` points to `all` bytes, which are more than `call`.
unsafe fn set_buffers<T: Transport>(slot: &Slot<T>, start: NonNull<u8>, [call, all]: [usize; 2]) {
    // SAFETY: By the safety requirements the task owns the request, and `start` points to more than
    // `call` bytes.
    unsafe {
        // INVARIANT: The reply's buffer begins `call` bytes behind `start`.
        slot.buffers.room.set(all.wrapping_sub(call));
        (*slot.as_rqst()).rq_buffer = start.as_ptr().cast();
        (*slot.as_rqst()).rq_rbuffer = start.add(call).as_ptr().cast();
    }
}
