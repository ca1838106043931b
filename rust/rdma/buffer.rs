// SPDX-License-Identifier: GPL-2.0

//! Buffers: kernel memory that stays mapped for a device while it exists, and those of them from
//! which messages are sent.
//!
//! The memory may outlive the buffer, in the [`MemCache`] of its protection domain. The mapping
//! does not: the destructor of the buffer ends it before the memory goes back.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::pd::Pd;
use super::progress::{release, LastUse};
use super::stack::Linked;
use crate::mem::{Cached, CachedBox, CachedVec, MemCache};
use crate::raw as bindings;

/// Kernel memory with its DMA mapping.
///
/// # Invariants
///
/// - `memory` points to `len` initialised bytes of one kmalloc allocation, which `owner` owns and
///   nothing else accesses. They are mapped at `addr` for the device of `pd`, in `direction`.
/// - The device uses the memory until `last_use` has ended, or for a Receive, which its receive
///   queue accounts for.
pub(super) struct Buffer {
    memory: NonNull<u8>,
    len: usize,
    addr: u64,
    direction: DataDirection,
    pub(super) last_use: LastUse,
    next: Option<CachedBox<Buffer>>,
    owner: CachedVec<u8, Kmalloc>,
    pd: Arc<Pd>,
}

// SAFETY: A buffer owns its memory and its DMA mapping; any task may use and free both.
unsafe impl Send for Buffer {}
// SAFETY: Through a shared reference, fields and bytes are only read, and synchronising a mapping
// for device or CPU may be done by any task.
unsafe impl Sync for Buffer {}

impl Linked for Buffer {
    type Boxed = CachedBox<Self>;

    fn link(&mut self) -> &mut Option<CachedBox<Self>> {
        &mut self.next
    }
}

impl Cached for Buffer {
    fn cache(&self) -> Option<&Arc<MemCache>> {
        self.owner.cache()
    }
}

impl Buffer {
    /// Allocates `len` zeroed bytes near the device ([`Pd::allocator`]), and maps them for the
    /// device. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length that is 0 or does not fit a work request; `ENOMEM`, also if the DMA
    /// layer is temporarily out of space.
    pub(super) fn new(
        pd: &Arc<Pd>,
        len: usize,
        direction: DataDirection,
        gfp: Flags,
    ) -> Result<CachedBox<Self>> {
        if len == 0 || u32::try_from(len).is_err() {
            return Err(EINVAL);
        }
        let mut owner: CachedVec<u8, _> = pd.allocator().zeroed(len, gfp)?;
        let memory = NonNull::new(owner.as_mut_ptr()).ok_or(ENOMEM)?;
        let buffer = pd.allocator().boxed(gfp)?;
        let (dev, dir) = (pd.device(), direction.into());
        // SAFETY: By the invariant of `Pd`, the device exists. `memory` points to `len` bytes of
        // kmalloc memory, which is physically contiguous as this way of mapping demands.
        let addr = unsafe { bindings::rr_ib_dma_map_single(dev, memory.as_ptr().cast(), len, dir) };
        // SAFETY: By the invariant of `Pd`, the device exists. `addr` is the result of mapping.
        if unsafe { bindings::rr_ib_dma_mapping_error(dev, addr) } != 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: The memory was allocated and mapped above, and has not been posted.
        let buffer = buffer.write(Self {
            memory,
            len,
            addr,
            direction,
            last_use: LastUse::default(),
            next: None,
            owner,
            pd: pd.clone(),
        });
        Ok(buffer.into())
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address by which the device accesses the buffer.
    pub(super) fn addr(&self) -> u64 {
        self.addr
    }

    /// Returns the protection domain whose device the buffer is mapped for.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the bytes.
    ///
    /// # Safety
    ///
    /// The device does not write the buffer while the bytes are borrowed.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant, `memory` points to `len` initialised bytes. Nothing writes
        // them while `self` is borrowed: the CPU needs an exclusive borrow for it, and the caller
        // promises that the device does not.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    /// Returns the bytes for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant, `memory` points to `len` initialised bytes, and `self` is
        // borrowed exclusively. Only buffers that the device reads, at most, are written by the
        // CPU.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }

    /// Makes the CPU's writes to the first `len` bytes visible to the device. `len` is not 0, since
    /// DMA debugging may take a sync of no bytes for a sync of other memory.
    #[inline]
    pub(super) fn sync_for_device(&self, len: usize) {
        let (device, way) = (self.pd.device(), self.direction.into());
        let len = len.min(self.len);
        // SAFETY: By the type invariant, `addr` is a mapping of `self.len` bytes for this device,
        // in this direction.
        unsafe { bindings::rr_ib_dma_sync_single_for_device(device, self.addr, len, way) };
    }

    /// Makes the device's writes to the first `len` bytes visible to the CPU, and returns `len`,
    /// limited to the buffer. Of an empty message one byte is synchronised, for the same reason.
    pub(super) fn sync_for_cpu(&self, len: usize) -> usize {
        let (device, way) = (self.pd.device(), self.direction.into());
        let len = len.min(self.len);
        // SAFETY: By the type invariant, `addr` is a mapping of `self.len` bytes for this device,
        // in this direction. A buffer is not empty.
        unsafe { bindings::rr_ib_dma_sync_single_for_cpu(device, self.addr, len.max(1), way) };
        len
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (dev, dir) = (self.pd.device(), self.direction.into());
        // SAFETY: By the type invariant, `addr` is the mapping of this memory, and the device
        // exists while the protection domain does. The device does not use the buffer any more:
        // `SendBuf` defers the drop of a buffer in flight until its queue pair has been drained,
        // and a receive queue is dropped after its queue pair has been destroyed.
        unsafe { bindings::rr_ib_dma_unmap_single(dev, self.addr, self.len, dir) };
    }
}

/// Memory from which messages are sent: kmalloc memory that stays mapped for one device.
///
/// It may be dropped at any time. If the device may still be reading it, it is freed when the queue
/// pair has been drained.
///
/// # Context
///
/// Dropping the last object of a [`Pd`] sleeps. A caller that drops buffers in atomic context must
/// therefore keep the `Pd` alive meanwhile, as queue pairs and region pools do.
pub(crate) struct SendBuf(ManuallyDrop<CachedBox<Buffer>>);

impl SendBuf {
    /// Allocates `len` zeroed bytes, and maps them for the device of `pd`. May sleep if `gfp`
    /// permits.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is 0 or does not fit a `u32`; `ENOMEM`.
    pub(crate) fn new(pd: &Arc<Pd>, len: usize, gfp: Flags) -> Result<Self> {
        let buffer = Buffer::new(pd, len, DataDirection::ToDevice, gfp)?;
        Ok(Self(ManuallyDrop::new(buffer)))
    }

    /// Returns whether a work request that uses the buffer may still be outstanding.
    pub(crate) fn in_flight(&self) -> bool {
        self.0.last_use.in_flight()
    }

    pub(super) fn buffer(&mut self) -> &mut Buffer {
        &mut self.0
    }

    /// Returns the length of the buffer in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory, in which the caller assembles a message.
    ///
    /// Until the Send has completed ([`Self::in_flight`]) the device may read the memory again, to
    /// retransmit a packet. The caller should therefore write only if the Send has completed, or if
    /// the peer has answered the message and so has all of it. Writing earlier is no memory error,
    /// but may corrupt the message.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for SendBuf {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        release(
            buffer,
            |buffer: &mut Buffer| &mut buffer.last_use,
            |deferred| &mut deferred.buffers,
        );
    }
}
