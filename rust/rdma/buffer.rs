// SPDX-License-Identifier: GPL-2.0

//! Memory that is mapped for one device as long as it lives.

use core::ptr::NonNull;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::gate::Gate;
use super::local;
use super::pd::Pd;
use super::stack::Linked;
use crate::raw as bindings;

/// Which way a device moves the bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The device reads them.
    Out,
    /// The device writes them.
    In,
}

impl Way {
    pub(super) fn dma(self) -> bindings::dma_data_direction {
        match self {
            Self::Out => bindings::dma_data_direction::DMA_TO_DEVICE,
            Self::In => bindings::dma_data_direction::DMA_FROM_DEVICE,
        }
    }
}

/// Kernel memory with its DMA mapping.
///
/// # Invariants
///
/// - `memory` is `len` initialised bytes of one kmalloc allocation (they belong to `_owner`, which
///   is never touched otherwise), mapped at `addr` for the device of `pd` in direction `way`.
/// - If `gate` is set, the device may use the memory until work request number `position` has
///   completed, or the gate's queue pair has been drained.
pub(super) struct Buffer {
    memory: NonNull<u8>,
    len: usize,
    addr: u64,
    way: Way,
    position: u64,
    gate: Option<Arc<Gate>>,
    next: Option<KBox<Buffer>>,
    _owner: KVec<u8>,
    pd: Arc<Pd>,
}

// SAFETY: A buffer owns its memory and its mapping; both may be used and freed by any task.
unsafe impl Send for Buffer {}
// SAFETY: A shared reference only reads fields, and the bytes of the memory.
unsafe impl Sync for Buffer {}

impl Linked for Buffer {
    fn link(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }
}

impl Buffer {
    /// Allocates `len` zeroed bytes, near the device, and maps them.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length of 0 or beyond what a work request can carry, `ENOMEM`, `EIO` if the
    /// device cannot map them.
    pub(super) fn new(pd: &Arc<Pd>, len: usize, way: Way, gfp: Flags) -> Result<KBox<Self>> {
        if len == 0 || u32::try_from(len).is_err() {
            return Err(EINVAL);
        }
        let node = local::node(&pd.as_device());
        let mut owner: KVec<u8> = local::zeroed(len, gfp, node)?;
        let memory = NonNull::new(owner.as_mut_ptr()).ok_or(ENOMEM)?;
        let buffer = local::boxed(gfp, node)?;
        let dev = pd.device();
        // SAFETY: By `Pd`'s invariant the device is there. The memory is `len` bytes of kmalloc
        // memory, which is what may be mapped this way.
        let addr =
            unsafe { bindings::rr_ib_dma_map_single(dev, memory.as_ptr().cast(), len, way.dma()) };
        // SAFETY: As above; `addr` is what mapping returned.
        if unsafe { bindings::rr_ib_dma_mapping_error(dev, addr) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: just allocated and mapped; not posted yet.
        Ok(buffer.write(Self {
            memory,
            len,
            addr,
            way,
            position: 0,
            gate: None,
            next: None,
            _owner: owner,
            pd: pd.clone(),
        }))
    }

    /// Length in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where the device finds it.
    #[inline]
    pub(super) fn addr(&self) -> u64 {
        self.addr
    }

    /// The protection domain it was made for.
    #[inline]
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// The bytes.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant; nothing writes while there is a shared reference: the
        // device, if `way` is `In`, has finished (callers see to that).
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }

    /// Hands the first `len` bytes to the device.
    #[inline]
    pub(super) fn give(&self, len: usize) {
        // SAFETY: By the type invariant, `addr` is a mapping for this device of at least so many
        // bytes.
        unsafe {
            bindings::rr_ib_dma_sync_single_for_device(
                self.pd.device(),
                self.addr,
                len.min(self.len),
                self.way.dma(),
            )
        };
    }

    /// Takes the first `len` bytes back from the device.
    #[inline]
    pub(super) fn take(&self, len: usize) {
        // SAFETY: As in `give`.
        unsafe {
            bindings::rr_ib_dma_sync_single_for_cpu(
                self.pd.device(),
                self.addr,
                len.min(self.len),
                self.way.dma(),
            )
        };
    }

    /// Notes that a work request at `position` of `gate`'s queue pair uses the buffer.
    #[inline]
    pub(super) fn posted(&mut self, gate: &Arc<Gate>, position: u64) {
        if !self.gate.as_ref().is_some_and(|g| Arc::ptr_eq(g, gate)) {
            self.gate = Some(gate.clone());
        }
        self.position = position;
    }

    /// Whether the device may still be using it.
    #[inline]
    pub(super) fn in_flight(&self) -> bool {
        self.gate
            .as_ref()
            .is_some_and(|g| g.retired() < self.position && !g.is_drained())
    }

    /// Frees the buffer now or, if the device may be using it, when its queue pair is drained.
    pub(super) fn release(mut this: KBox<Self>) {
        if this.in_flight() {
            // Taken out, or buffer and gate would keep each other.
            if let Some(gate) = this.gate.take() {
                // Drained in the meantime: it is freed here after all.
                drop(gate.keep_buffer(this));
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, this is the mapping of this memory, and the device is
        // there as long as the protection domain. The device has finished: a buffer that was
        // posted gets here by way of `release`.
        unsafe {
            bindings::rr_ib_dma_unmap_single(self.pd.device(), self.addr, self.len, self.way.dma())
        };
    }
}
