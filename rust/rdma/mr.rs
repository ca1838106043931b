// SPDX-License-Identifier: GPL-2.0

//! Memory regions (FRWR): memory that a peer may read or write, and how its access ends.
//!
//! ```text
//!              map           post_send
//!   Idle ───────────► Mapped ───────────► Posted ◄── live: the peer can access the memory
//!    ▲                  │                  │  │
//!    │ drop             │   Send With      │  │ post_invalidate
//!    │                  │   Invalidate     │  │
//!    ├──────────────────┘◄─────────────────┘  ▼
//!    └───────────────────────────────── Invalidating ◄── live until completed
//! ```
//!
//! In any state, an [`Mr`] that is dropped returns to its pool. An idle one can be taken out again.
//! A live one stays mapped, and is destroyed once its queue pair has been drained and the pool is
//! gone: **dropping a live region does not fence it**. A region is *fenced*, so that the peer
//! cannot access its memory, by the peer's Send With Invalidate, by a local invalidation that has
//! completed, or by draining the queue pair. [`Mr::remotely_invalidated`] and [`Mr::invalidated`]
//! check whether that has happened.

use core::mem::ManuallyDrop;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::pd::Pd;
use super::progress::Progress;
use super::qp::Completions;
use super::recv::Received;
use crate::mem::CachedBox;

mod fill;
mod pack;
mod pool;
pub(super) mod region;

pub(crate) use fill::Memory;
pub(crate) use kernel::dma::DataDirection;
pub(crate) use pool::PoolCounts;
pub(crate) use pool::{Kind, MrPool};

use region::{MrState, Region};

/// A memory region, in one of the states of the module's diagram. The value has the size of a
/// pointer.
///
/// # Examples
///
/// A requester takes a region from the pool and maps memory, which the peer may then read or write:
///
/// ```
/// let mut region = client.pool.get().ok_or(ENOSPC)?;
/// let len = region.map(&mut block.pieces().peekable(), direction, n)?;
/// ```
///
/// The registration is posted with the Send that gives R_key and address to the peer. When the peer
/// has answered without invalidating the region, the requester fences it:
///
/// ```
/// client.qp.post_invalidate(TAG, [&mut read])?;
/// client.outcome.sent()?;
/// if !read.invalidated() || read.is_live() {
///     return Err(EPROTO);
/// }
/// ```
///
/// # Invariants
///
/// `region.pool` is the pool that the region belongs to.
pub(crate) struct Mr {
    region: ManuallyDrop<CachedBox<Region>>,
}

impl Mr {
    /// Maps the first part of `memory` for the peer to read (`ToDevice`) or to write
    /// (`FromDevice`), and removes that part from `memory`. The part ends where the pages exceed
    /// the pool's depth, or before a gap that the device cannot map. A piece may be split. Returns
    /// the number of bytes.
    ///
    /// The R_key changes with each mapping, so that a peer cannot use an earlier R_key. The
    /// addresses that the peer uses start at [`Self::iova`], whose upper half is `iova_high`
    /// without its uppermost bit.
    ///
    /// Process context, also with spinlocks held; nothing is allocated, except by the DMA layer. If
    /// [`Limits::slow_mapping`](super::device::Limits) is set for the device, it may sleep,
    /// and no spinlock may be held.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the region is not idle; `EINVAL` if there is nothing to map, or if `direction` is
    /// neither; `ENOMEM` if the DMA layer is temporarily out of space; `EIO` if the device cannot
    /// map these pages.
    pub(crate) fn map(
        &mut self,
        memory: &mut impl Memory,
        direction: DataDirection,
        iova_high: u32,
    ) -> Result<u32> {
        let region = &mut **self.region;
        if region.state != MrState::Idle {
            return Err(EBUSY);
        }
        region.map(memory, direction, iova_high)
    }

    /// Returns the R_key, which is the handle of the segment that describes the region.
    pub(crate) fn rkey(&self) -> u32 {
        self.region.rkey()
    }

    /// Returns the L_key.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the invariant of `Region` its verbs object is valid. Only `renew`, which
        // borrows the region exclusively, changes the field.
        unsafe { (*self.region.mr.as_ptr()).lkey }
    }

    /// Returns the address of the first byte, as the peer uses it.
    pub(crate) fn iova(&self) -> u64 {
        // SAFETY: By the invariant of `Region` its verbs object is valid. Only mapping, which
        // borrows the region exclusively, changes the field.
        unsafe { (*self.region.mr.as_ptr()).iova }
    }

    /// Returns the length in bytes of the last mapping.
    pub(crate) fn len(&self) -> u32 {
        // SAFETY: By the invariant of `Region` its verbs object is valid. Only mapping, which
        // borrows the region exclusively, changes the field.
        // CAST: mapping has compared it with a `u32`.
        unsafe { (*self.region.mr.as_ptr()).length as u32 }
    }

    /// Returns the number of scatterlist entries that are mapped.
    pub(crate) fn nents(&self) -> u32 {
        self.region.mapped.unsigned_abs()
    }

    /// Returns the direction of the last mapping.
    pub(crate) fn direction(&self) -> DataDirection {
        self.region.direction
    }

    /// Returns the number of the region in resource tracking (`rdma resource show mr`).
    pub(crate) fn id(&self) -> u32 {
        // SAFETY: By the invariant of `Region` its verbs object is valid. The number is constant.
        unsafe { (*self.region.mr.as_ptr()).res.id }
    }

    /// Returns whether nothing is mapped, and memory can be.
    pub(crate) fn is_idle(&self) -> bool {
        self.region.state == MrState::Idle
    }

    /// Returns the memory that the region can map.
    pub(crate) fn kind(&self) -> Kind {
        if self.region.shape.gaps {
            Kind::Gapped
        } else {
            Kind::Plain
        }
    }

    /// Returns whether a peer may be able to access the memory: the region was posted, and is not
    /// known to be fenced.
    pub(crate) fn is_live(&self) -> bool {
        match self.region.state {
            MrState::Idle | MrState::Mapped | MrState::Unusable => false,
            MrState::Posted | MrState::Invalidating(_) => !self.is_fenced(),
        }
    }

    /// Returns whether the region's local invalidation was posted, and [`Self::invalidated`] has
    /// not found its completion yet.
    pub(crate) fn is_being_invalidated(&self) -> bool {
        matches!(self.region.state, MrState::Invalidating(_))
    }

    /// Checks whether `msg` has invalidated the region. If so, unmaps the memory and makes the
    /// region idle. Returns the result of the check.
    // This is called for each reply. Without the attribute, the compiler does not inline it.
    #[inline(always)]
    pub(crate) fn remotely_invalidated<C: Completions>(&mut self, msg: &Received<'_, C>) -> bool {
        let region = &mut **self.region;
        let progress = region.progress.as_ref();
        let invalidated = region.state == MrState::Posted
            && msg.invalidated() == Some(region.rkey())
            && progress.is_some_and(|p| Arc::ptr_eq(p, msg.progress()));
        if invalidated {
            region.unmap();
            region.state = MrState::Idle;
        }
        invalidated
    }

    /// Checks whether the peer cannot access the memory: the local invalidation has completed, the
    /// queue pair has been drained, or the region was never posted. If so, unmaps the memory.
    /// Returns the result of the check.
    ///
    /// After an invalidation the region is idle. After draining it cannot be used again.
    pub(crate) fn invalidated(&mut self) -> bool {
        let completed = self.has_completed();
        if !completed && self.is_live() {
            return false;
        }
        let region = &mut **self.region;
        region.unmap();
        region.state = match region.state {
            MrState::Idle | MrState::Mapped => MrState::Idle,
            _ if completed => MrState::Idle,
            _ => MrState::Unusable,
        };
        true
    }

    /// Returns whether a local invalidation of the region has completed.
    fn has_completed(&self) -> bool {
        match (self.region.state, &self.region.progress) {
            (MrState::Invalidating(position), Some(progress)) => progress.retired() >= position,
            _ => false,
        }
    }

    /// Returns whether a posted region has been fenced.
    fn is_fenced(&self) -> bool {
        let progress = self.region.progress.as_ref();
        self.has_completed() || progress.is_some_and(|p| p.is_drained())
    }

    /// Returns whether the region belongs to `pd`.
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.region.pd, pd)
    }

    /// Returns whether the region was posted on the queue pair of `progress`, and its local
    /// invalidation was not.
    pub(super) fn is_posted_on(&self, progress: &Arc<Progress>) -> bool {
        let posted_on = self.region.progress.as_ref();
        self.region.state == MrState::Posted && posted_on.is_some_and(|p| Arc::ptr_eq(p, progress))
    }

    pub(super) fn state(&self) -> MrState {
        self.region.state
    }

    pub(super) fn region(&mut self) -> &mut Region {
        &mut self.region
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // This does not fence the region, but if it has been fenced, unmaps it and makes it idle.
        let _ = self.invalidated();
        // SAFETY: This is the destructor, so `self.region` is not used after this.
        let mut region = unsafe { ManuallyDrop::take(&mut self.region) };
        if let Some(pool) = region.pool.take() {
            pool.put(region);
        }
    }
}
