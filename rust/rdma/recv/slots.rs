// SPDX-License-Identifier: GPL-2.0

//! Receives: their completion entries, work requests and buffers.

use core::ops::Range;

use kernel::alloc::allocator::KVmalloc;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::mem::{Cached, CachedBox, CachedVec, MemCache};
use crate::raw as bindings;
use crate::rdma::buffer::Buffer;
use crate::rdma::cq::Done;
use crate::rdma::pd::Pd;
use crate::rdma::stack::Linked;

/// A Receive: its completion entry, work request and buffer.
///
/// # Invariants
///
/// - `cqe` is the first field, so that a pointer to it is a pointer to the slot.
/// - After `link`, `wr` points to `cqe` and `sge`, and `sge` describes the buffer; the slot does
///   not move any more.
#[repr(C)]
pub(super) struct Slot {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_recv_wr,
    sge: bindings::ib_sge,
    pub(super) buffer: CachedBox<Buffer>,
    pub(super) index: u32,
}

/// Slots that are allocated together.
///
/// # Invariants
///
/// `slots` is complete and linked: its members do not move any more.
pub(super) struct SlotGroup {
    slots: CachedVec<Slot, KVmalloc>,
    next: Option<CachedBox<SlotGroup>>,
}

impl Linked for SlotGroup {
    type Boxed = CachedBox<Self>;

    fn link(&mut self) -> &mut Option<CachedBox<Self>> {
        &mut self.next
    }
}

impl Cached for SlotGroup {
    fn cache(&self) -> Option<&Arc<MemCache>> {
        self.slots.cache()
    }
}

impl SlotGroup {
    /// Creates the slots with these numbers, and maps a buffer of `size` bytes for each. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a size that is 0 or does not fit a work request; `ENOMEM`.
    pub(super) fn new(
        pd: &Arc<Pd>,
        indices: Range<u32>,
        size: usize,
        done: Done,
    ) -> Result<CachedBox<Self>> {
        let mut slots: CachedVec<_, KVmalloc> =
            pd.allocator().with_capacity(indices.len(), GFP_KERNEL)?;
        for index in indices {
            let buffer = Buffer::new(pd, size, DataDirection::FromDevice, GFP_KERNEL)?;
            slots.push(Slot::new(index, buffer, pd.lkey(), done), GFP_KERNEL)?;
        }
        // INVARIANT: `slots` is complete, so its members do not move any more.
        slots.iter_mut().for_each(Slot::link);
        let group = pd.allocator().boxed(GFP_KERNEL)?;
        Ok(group.write(Self { slots, next: None }).into())
    }

    /// Returns the slots.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut()
    }
}

impl Slot {
    /// Creates a slot, whose pointers are not set yet.
    fn new(index: u32, buffer: CachedBox<Buffer>, lkey: u32, done: Done) -> Self {
        Self {
            cqe: bindings::ib_cqe { done: Some(done) },
            wr: pin_init::zeroed(),
            sge: bindings::ib_sge {
                addr: buffer.addr(),
                // CAST: `Buffer::new` refuses lengths that do not fit.
                length: buffer.len() as u32,
                lkey,
            },
            buffer,
            index,
        }
    }

    /// Sets the pointers of the work request. The slot must not move after this.
    fn link(&mut self) {
        self.wr.__bindgen_anon_1.wr_cqe = &raw mut self.cqe;
        self.wr.sg_list = &raw mut self.sge;
        self.wr.num_sge = 1;
    }

    /// Takes another buffer, and returns the one that the slot had. Nothing else uses the slot.
    pub(super) fn exchange(&mut self, buffer: CachedBox<Buffer>) -> CachedBox<Buffer> {
        self.sge.addr = buffer.addr();
        // CAST: `Buffer::new` refuses lengths that do not fit.
        self.sge.length = buffer.len() as u32;
        core::mem::replace(&mut self.buffer, buffer)
    }

    /// Puts the work request before `next`, and returns it as the head of the chain.
    pub(super) fn chain(&mut self, next: *mut bindings::ib_recv_wr) -> *mut bindings::ib_recv_wr {
        self.wr.next = next;
        &raw mut self.wr
    }
}
