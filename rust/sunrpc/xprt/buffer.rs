// SPDX-License-Identifier: GPL-2.0

//! Memory for the headers of a call and of its reply.
//!
//! Follows what `call_allocate()` of `net/sunrpc/clnt.c` asks of `buf_alloc`. Each slot keeps one
//! buffer for good, in which both parts fit for nearly all RPCs; the others borrow a larger one.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;

use super::handle::Xprt;
use super::slot::Slot;
use super::transport::Rpc;
use crate::raw;

/// Alignment of call and reply inside a buffer, in bytes: a cache line of any machine. A peer may write
/// into the one by DMA while the processor works on the other.
const ALIGN: usize = 128;

/// Memory from `kmalloc()`: physically contiguous, in the direct map, so that it can be mapped for
/// DMA page by page. Its contents belong to SUNRPC; nothing here looks at them.
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

impl Memory {
    /// `len` bytes, a multiple of [`ALIGN`], which makes `kmalloc()` align them so. Uninitialised
    /// unless `gfp` has `__GFP_ZERO`. Context according to `gfp`.
    pub(super) fn new(len: usize, gfp: u32) -> Result<Self> {
        // SAFETY: With a null pointer this is an allocation, for which any size is fine.
        let p = unsafe {
            k::krealloc_node_align_noprof(core::ptr::null(), len, ALIGN, gfp, k::NUMA_NO_NODE)
        };
        let start = NonNull::new(p.cast::<u8>()).ok_or(ENOMEM)?;
        Ok(Self { start, len })
    }

    /// Where it begins.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: Allocated in `new`, and owned by us since.
        unsafe { k::kfree(self.start.as_ptr().cast()) };
    }
}

/// The buffers of a slot.
///
/// # Invariants
///
/// `borrowed` is accessed only by the task that owns the slot's request, and when there is none.
pub(super) struct Buffers {
    own: Memory,
    borrowed: UnsafeCell<Option<Memory>>,
}

impl Buffers {
    /// Allocates the persistent buffer of `len` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: usize) -> Result<Self> {
        Ok(Self {
            own: Memory::new(aligned(len).ok_or(ENOMEM)?, k::GFP_KERNEL | k::__GFP_ZERO)?,
            borrowed: UnsafeCell::new(None),
        })
    }

    /// Finds `len` bytes for the current RPC.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request.
    unsafe fn provide(&self, len: usize) -> Result<NonNull<u8>> {
        if len <= self.own.len {
            return Ok(self.own.start);
        }
        // SAFETY: No preconditions. The mask is the one for the current task: no retries and no
        // warnings for a worker of rpciod, whose scope forbids recursion into a file system.
        let memory = Memory::new(len, unsafe { raw::rpc_task_gfp_mask() })?;
        let start = memory.start;
        // SAFETY: By the safety requirements and the type invariants nobody else has access.
        unsafe { *self.borrowed.get() = Some(memory) };
        Ok(start)
    }

    /// Frees what an RPC had borrowed: `buf_free`, second half, after the transport has released the
    /// request.
    ///
    /// # Safety
    ///
    /// The caller runs in the task that owns the slot's request, and neither a device nor anybody
    /// else uses the buffers any more.
    pub(super) unsafe fn free_large(&self) {
        // SAFETY: By the safety requirements and the type invariants nobody else has access.
        unsafe { *self.borrowed.get() = None };
    }
}

/// `len` rounded up to the alignment of a part; `None` if that is out of range.
fn aligned(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(ALIGN)
}

/// `buf_alloc`: sets `rq_buffer` and `rq_rbuffer`. Process context; may sleep.
///
/// # Errors
///
/// `ENOMEM`: SUNRPC tries again after 60 ms.
///
/// # Safety
///
/// `task` is a live task, run by the caller, whose `tk_rqstp` is embedded in a `Slot<T>`.
pub(super) unsafe fn allocate<T: Rpc>(task: NonNull<raw::rpc_task>) -> Result {
    // SAFETY: By the safety requirements the request is the caller's. The slot outlives its use.
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
    // SAFETY: By the safety requirements.
    let start = unsafe { slot.buffers.provide(total) }?;
    if total > T::BUFFER_SIZE {
        xprt.transport().large_buffer_allocated(total);
    }
    // SAFETY: The request is the caller's; `start` has room for `call` bytes and then the reply.
    unsafe {
        (*rqst).rq_buffer = start.as_ptr().cast();
        (*rqst).rq_rbuffer = start.add(call).as_ptr().cast();
    }
    Ok(())
}
