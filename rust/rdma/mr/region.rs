// SPDX-License-Identifier: GPL-2.0

//! The objects of a memory region: verbs object, scatterlist, work request. [`Mr`](super::Mr)
//! changes its state.

use core::ptr::NonNull;

use kernel::alloc::allocator::KVmalloc;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::fill::{whole, Memory, MrShape};
use super::{DataDirection, MrPool};
use crate::compat::casts::u32_as_usize;
use crate::mem::{Cached, CachedBox, CachedVec, MemCache, MemallocScope, PAGE};
use crate::raw as bindings;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::stack::Linked;

// CAST: small constants.
const ACCESS_READ: i32 = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ as i32;
const ACCESS_WRITE: i32 = (bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE) as i32;

/// The state of a region; [`mr`](super) has a diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum MrState {
    /// Nothing is mapped.
    Idle,
    /// Memory is mapped for the device, and the registration is prepared.
    Mapped,
    /// The registration was posted.
    Posted,
    /// The local invalidation was posted; it is at this position of the send queue.
    Invalidating(u64),
    /// The queue pair was drained while the region was registered. It can only be destroyed.
    Unusable,
}

/// A memory region with the objects that register, map and invalidate it.
///
/// # Invariants
///
/// - `mr` is a fast-registration region of `pd` for `entries.len()` pages.
/// - In the states Mapped, Posted and Invalidating, the first `mapped` of `entries` are mapped for
///   the device, in `direction`; in the other states `mapped` is 0.
/// - In the states Posted and Invalidating, `progress` is that of the queue pair on which the
///   region was posted.
/// - `wr.mr` is `mr`.
pub(in super::super) struct Region {
    /// The work request that registers or invalidates the region.
    pub(in super::super) wr: bindings::ib_reg_wr,
    pub(super) mr: NonNull<bindings::ib_mr>,
    /// The scatterlist. Only the CPU reads it, so it need not be physically contiguous; for a
    /// payload of 1 MiB in pages of 4 KiB it is longer than two pages.
    entries: CachedVec<bindings::scatterlist, KVmalloc>,
    pub(super) shape: MrShape,
    pub(super) mapped: i32,
    pub(super) direction: DataDirection,
    pub(in super::super) state: MrState,
    pub(super) progress: Option<Arc<Progress>>,
    /// The pool, while the region is in use.
    pub(super) pool: Option<Arc<MrPool>>,
    next: Option<CachedBox<Region>>,
    pub(super) pd: Arc<Pd>,
}

// SAFETY: Any task may call verbs for a region, and map or unmap its memory; the region owns all of
// its objects.
unsafe impl Send for Region {}
// SAFETY: Through a shared reference, fields are only read.
unsafe impl Sync for Region {}

impl Linked for Region {
    type Boxed = CachedBox<Self>;

    fn link(&mut self) -> &mut Option<CachedBox<Self>> {
        &mut self.next
    }
}

impl Cached for Region {
    fn cache(&self) -> Option<&Arc<MemCache>> {
        self.entries.cache()
    }
}

impl Region {
    /// Allocates a region. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or another error of the driver.
    pub(super) fn new(pd: &Arc<Pd>, shape: MrShape) -> Result<CachedBox<Self>> {
        let region = pd.allocator().boxed(GFP_KERNEL)?;
        let mut entries = pd
            .allocator()
            .zeroed(u32_as_usize(shape.depth), GFP_KERNEL)?;
        // SAFETY: The vector has `shape.depth` entries, all of which may be written.
        unsafe { bindings::sg_init_table(entries.as_mut_ptr(), shape.depth) };
        let kind = if shape.gaps {
            bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS
        } else {
            bindings::ib_mr_type_IB_MR_TYPE_MEM_REG
        };
        // SAFETY: By the invariant of `Pd` the protection domain exists.
        let mr = unsafe { bindings::ib_alloc_mr(pd.as_ptr(), kind, shape.depth) };
        let mr = NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)?;
        // INVARIANT: The region was allocated above, and nothing is mapped.
        let region = region.write(Self {
            wr: bindings::ib_reg_wr {
                mr: mr.as_ptr(),
                ..pin_init::zeroed()
            },
            mr,
            entries,
            shape,
            mapped: 0,
            direction: DataDirection::None,
            state: MrState::Idle,
            progress: None,
            pool: None,
            next: None,
            pd: pd.clone(),
        });
        Ok(region.into())
    }

    /// Returns the R_key.
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: By the type invariant `mr` is valid. Only `renew`, which borrows the region
        // exclusively, changes the field.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// Maps the first part of `memory`, and prepares the registration. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is nothing to map, or if `direction` is neither `ToDevice` nor
    /// `FromDevice`; `ENOMEM` if the DMA layer is temporarily out of space; `EIO` if the device
    /// cannot map these pages. After an error the region is as before, but a part may have been
    /// removed from `memory`.
    pub(super) fn map(
        &mut self,
        memory: &mut impl Memory,
        direction: DataDirection,
        iova_high: u32,
    ) -> Result<u32> {
        let all = memory.clone();
        let (mut used, mut bytes) = memory.fill(&mut self.entries, self.shape);
        if used == 0 {
            return Err(EINVAL);
        }
        let access = match direction {
            DataDirection::ToDevice => ACCESS_READ,
            DataDirection::FromDevice => ACCESS_WRITE,
            DataDirection::Bidirectional | DataDirection::None => return Err(EINVAL),
        };
        let mut taken = self.map_entries((used, bytes), direction);
        if taken == Err(ENOMEM) {
            // There may be bounce buffers for pages, but not for long pieces.
            *memory = all.clone();
            (used, bytes) = memory.fill(&mut self.entries, self.shape.of_pages());
            taken = self.map_entries((used, bytes), direction);
        }
        if let Some(length) = taken? {
            *memory = all;
            bytes = self.map_fewer(used, length, direction)?;
            memory.skip(bytes);
        }
        self.renew(access, iova_high);
        self.state = MrState::Mapped;
        Ok(bytes)
    }

    /// Maps the first `used` entries, which have `bytes` bytes, for the device, and sets the pages
    /// of the verbs object. If the verbs object does not take all bytes, returns how many it takes.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the DMA layer is temporarily out of space; `EIO` if the device cannot map these
    /// pages.
    fn map_entries(
        &mut self,
        (used, bytes): (i32, u32),
        direction: DataDirection,
    ) -> Result<Option<u64>> {
        let (dev, entries) = (self.pd.device(), self.entries.as_mut_ptr());
        // SAFETY: By the contract of `Memory`, `fill` has set the first `used` entries to memory
        // that stays valid while it is mapped.
        let n = unsafe { bindings::rr_ib_dma_map_sg(dev, entries, used, direction.into()) };
        if n <= 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: The first `used` entries were mapped above.
        self.mapped = used;
        self.direction = direction;
        // SAFETY: By the type invariant `mr` is valid; `n` entries are mapped.
        let done = unsafe {
            bindings::ib_map_mr_sg(self.mr.as_ptr(), entries, n, core::ptr::null_mut(), PAGE)
        };
        // SAFETY: By the type invariant `mr` is valid.
        let length = unsafe { (*self.mr.as_ptr()).length };
        if done <= 0 || length > bytes.into() {
            self.unmap();
            return Err(EIO);
        }
        Ok((done != n || length != u64::from(bytes)).then_some(length))
    }

    /// Maps fewer than `used` entries, which are mapped, but of which the verbs object takes only
    /// the first `length` bytes. Returns the number of bytes.
    ///
    /// At that point the device addresses have a gap that the memory does not have: a bounce buffer
    /// does not begin at the same offset in a page as its memory. Memory that is mapped again may
    /// get other addresses, with a gap elsewhere.
    ///
    /// # Errors
    ///
    /// Those of [`Self::map_entries`].
    #[cold]
    fn map_fewer(
        &mut self,
        mut used: i32,
        mut length: u64,
        direction: DataDirection,
    ) -> Result<u32> {
        loop {
            self.unmap();
            // CAST: not negative.
            let fewer = self.entries.get(..used as usize - 1).unwrap_or_default();
            let part = whole(fewer, length);
            if part.0 == 0 {
                return Err(EIO);
            }
            match self.map_entries(part, direction)? {
                None => return Ok(part.1),
                Some(shorter) => (used, length) = (part.0, shorter),
            }
        }
    }

    /// Sets an R_key and an address that the peer has not used before, and prepares the
    /// registration for them. The uppermost bit of the address is 0, so that the region ends below
    /// 2^64.
    fn renew(&mut self, access: i32, iova_high: u32) {
        let (mr, high) = (self.mr.as_ptr(), iova_high & u32::MAX >> 1);
        // SAFETY: By the type invariant `mr` is valid. `self` is borrowed exclusively, and the
        // region is not posted, so the driver does not use it.
        unsafe {
            bindings::rr_ib_renew_key(mr);
            (*mr).iova = (*mr).iova & u64::from(u32::MAX) | u64::from(high) << 32;
        }
        self.wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        self.wr.key = self.rkey();
        self.wr.access = access;
    }

    /// Records that the registration is being posted on the queue pair of `progress`.
    pub(in super::super) fn set_posted(&mut self, progress: &Arc<Progress>) {
        let same = |p: &Arc<Progress>| Arc::ptr_eq(p, progress);
        if !self.progress.as_ref().is_some_and(same) {
            self.progress = Some(progress.clone());
        }
        self.state = MrState::Posted;
    }

    /// Changes the work request into a local invalidation.
    pub(in super::super) fn prepare_invalidation(&mut self) {
        self.wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        self.wr.wr.ex.invalidate_rkey = self.rkey();
    }

    /// Unmaps the memory, if any is mapped, so that its owner may use it.
    pub(super) fn unmap(&mut self) {
        if self.mapped != 0 {
            let (entries, way) = (self.entries.as_mut_ptr(), self.direction.into());
            // SAFETY: By the type invariant, the first `mapped` entries are mapped in this
            // direction. `mapped` is the number that was passed for mapping, as unmapping demands.
            unsafe {
                bindings::rr_ib_dma_unmap_sg(self.pd.device(), entries, self.mapped, way);
            }
            self.mapped = 0;
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _scope = MemallocScope::noio();
        let mr = self.mr.as_ptr();
        // SAFETY: By the type invariant `mr` is valid. No work request refers to it: a region that
        // was posted is dropped after its queue pair has been drained. When this returns, the peer
        // cannot access the memory.
        let error = unsafe { bindings::ib_dereg_mr_user(mr, core::ptr::null_mut()) };
        if error != 0 {
            pr_warn!("a memory region could not be freed: {}\n", error);
        }
        self.unmap();
    }
}
