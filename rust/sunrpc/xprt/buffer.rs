// SPDX-License-Identifier: GPL-2.0

//! Memory for the headers of a call and of its reply.
//!
//! `call_allocate()` of `net/sunrpc/clnt.c` defines what the operation `buf_alloc` has to do. Each
//! slot has one persistent buffer, which is large enough for both parts of nearly all RPCs. Other
//! RPCs get a larger buffer until they end.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;

use super::handle::Xprt;
use super::slot::Slot;
use super::transport::Rpc;
use crate::raw;

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
/// `large` is accessed only by the task that owns the slot's request, or while no task does.
pub(super) struct Buffers {
    persistent: Memory,
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
            persistent: Memory::new(aligned(len).ok_or(ENOMEM)?, k::GFP_KERNEL | k::__GFP_ZERO)?,
            large: UnsafeCell::new(None),
        })
    }

    /// Returns `len` bytes for the current RPC, which it allocates if the persistent buffer is too
    /// small.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request.
    unsafe fn provide(&self, len: usize) -> Result<NonNull<u8>> {
        if len <= self.persistent.len {
            return Ok(self.persistent.start);
        }
        // SAFETY: The function has no preconditions. It returns the mask for the current task: no
        // retries and no warnings for a worker of rpciod, whose scope forbids recursion into a file
        // system.
        let memory = Memory::new(len, unsafe { raw::rpc_task_gfp_mask() })?;
        let start = memory.start;
        // SAFETY: By the safety requirements and the type invariants no other task has access.
        unsafe { *self.large.get() = Some(memory) };
        Ok(start)
    }

    /// Frees the large buffer of an RPC, if it had one.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request, and neither a device nor another
    /// thread uses the buffers any more.
    pub(super) unsafe fn free_large(&self) {
        // SAFETY: By the safety requirements and the type invariants no other task has access.
        unsafe { *self.large.get() = None };
    }
}

/// Rounds `len` up to the alignment of a part. Returns `None` on overflow.
fn aligned(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(ALIGN)
}

/// Implements `buf_alloc`: sets `rq_buffer` and `rq_rbuffer`. Process context; may sleep.
///
/// # Errors
///
/// `ENOMEM`: SUNRPC tries again after 60 ms.
///
/// # Safety
///
/// The caller runs in `task`, a live task whose `tk_rqstp` is null or embedded in a `Slot<T>`.
pub(super) unsafe fn allocate<T: Rpc>(task: NonNull<raw::rpc_task>) -> Result {
    // SAFETY: By the safety requirements the task owns the request, and a slot contains it. Slots
    // live as long as their transport.
    let (xprt, rqst, slot, call, reply) = unsafe {
        let rqst = NonNull::new((*task.as_ptr()).tk_rqstp).ok_or(EIO)?;
        let slot = Slot::<T>::from_rqst(rqst);
        let rqst = rqst.as_ptr();
        let xprt = Xprt::<T>::from_raw((*rqst).rq_xprt);
        (xprt, rqst, slot, (*rqst).rq_callsize, (*rqst).rq_rcvsize)
    };
    let call = aligned(call).ok_or(ENOMEM)?;
    let total = aligned(reply)
        .and_then(|r| r.checked_add(call))
        .ok_or(ENOMEM)?;
    // SAFETY: By the safety requirements the caller is the task that owns the request.
    let start = unsafe { slot.buffers.provide(total) }?;
    if total > T::BUFFER_SIZE {
        xprt.transport().large_buffer_allocated(total);
    }
    // SAFETY: The task owns the request. `start` has room for `call` bytes and then the reply.
    unsafe {
        (*rqst).rq_buffer = start.as_ptr().cast();
        (*rqst).rq_rbuffer = start.add(call).as_ptr().cast();
    }
    Ok(())
}
