// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions.

use core::mem::ManuallyDrop;

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::fill::MrShape;
use super::region::{MrState, Region};
use super::Mr;
use crate::mem::{CachedBox, MemallocScope, PAGE};
use crate::raw as bindings;
use crate::rdma::pd::Pd;
use crate::rdma::stack::LinkedStack;

/// Longest region in pages: 256 MiB, so that lengths fit a `u32`.
const MAX_DEPTH: u32 = (256 << 20) / PAGE;

/// The memory that a region can map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whole pages; only the first may begin, and only the last may end, within a page
    /// (`IB_MR_TYPE_MEM_REG`).
    Plain,
    /// Any parts of pages (`IB_MR_TYPE_SG_GAPS`). The device must have
    /// [`Limits::sg_gaps`](crate::rdma::device::Limits).
    Gapped,
}

/// A pool of memory regions of one protection domain.
///
/// Each region keeps a reference to the pool. Dropping the last reference sleeps, so a caller that
/// drops regions in atomic context must keep the pool alive meanwhile.
#[pin_data]
pub(crate) struct MrPool {
    #[pin]
    regions: SpinLock<Regions>,
    shape: MrShape,
    pd: Arc<Pd>,
}

/// The regions of a pool, by state.
#[derive(Clone, Copy, Default)]
pub(crate) struct PoolCounts {
    /// All regions, including those in use.
    pub(crate) total: u32,
    pub(crate) idle: u32,
    /// Regions that cannot be used again.
    pub(crate) unusable: u32,
}

/// The regions of a pool that are not in use.
struct Regions {
    idle: LinkedStack<Region>,
    /// Regions that cannot be used again, some of which may still be live.
    unusable: LinkedStack<Region>,
    /// Number of all regions, including those in use.
    total: u32,
    /// Whether a caller of [`MrPool::get`] found no idle region.
    starved: bool,
}

impl MrPool {
    /// Creates a pool of `count` regions of `depth` pages each. Process context, may sleep;
    /// allocates without starting I/O.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a depth of 0 or beyond the limit of the device, or for a kind that the device
    /// does not have; `ENOMEM`, or another error of the driver.
    pub(crate) fn new(pd: Arc<Pd>, depth: u32, kind: Kind, count: u32) -> Result<Arc<Self>> {
        let (limits, gaps) = (pd.limits(), kind == Kind::Gapped);
        if depth == 0 || depth > limits.max_frmr_depth.min(MAX_DEPTH) || gaps && !limits.sg_gaps {
            return Err(EINVAL);
        }
        // SAFETY: By the invariant of `Pd` the device exists.
        let longest = unsafe { bindings::rr_ib_dma_longest(pd.device()) };
        let regions = Regions {
            idle: LinkedStack::new(),
            unusable: LinkedStack::new(),
            total: 0,
            starved: false,
        };
        let pool = Arc::pin_init(
            pin_init!(Self {
                regions <- new_spinlock!(regions, "rdma::MrPool::regions"),
                shape: MrShape {
                    depth,
                    gaps,
                    longest,
                    longest_pages: (longest / PAGE).max(1),
                },
                pd,
            }),
            GFP_KERNEL,
        )?;
        pool.grow(count)?;
        Ok(pool)
    }

    /// Creates `count` more regions. Process context, may sleep; allocates without starting I/O.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or another error of the driver. Regions that were created before the error remain.
    pub(crate) fn grow(&self, count: u32) -> Result {
        let _noio = MemallocScope::noio();
        for _ in 0..count {
            let region = Region::new(&self.pd, self.shape)?;
            let mut regions = self.regions.lock();
            regions.idle.push(region);
            regions.total += 1;
        }
        Ok(())
    }

    /// Removes an idle region from the pool. Returns `None` if there is none. Process context, also
    /// with spinlocks held; never allocates.
    pub(crate) fn get(self: &Arc<Self>) -> Option<Mr> {
        let mut regions = self.regions.lock();
        let taken = regions.idle.pop();
        regions.starved |= taken.is_none();
        drop(regions);
        let mut region = taken?;
        region.pool = Some(self.clone());
        // INVARIANT: `pool` was set above.
        Some(Mr {
            region: ManuallyDrop::new(region),
        })
    }

    /// Returns whether [`Self::get`] found no idle region since the last call of this function.
    pub(crate) fn take_starved(&self) -> bool {
        core::mem::take(&mut self.regions.lock().starved)
    }

    /// Returns the number of all regions, including those in use.
    pub(crate) fn total(&self) -> u32 {
        self.regions.lock().total
    }

    /// Returns the number of regions in each state.
    pub(crate) fn counts(&self) -> PoolCounts {
        let regions = self.regions.lock();
        PoolCounts {
            total: regions.total,
            idle: regions.idle.len(),
            unusable: regions.unusable.len(),
        }
    }

    /// Returns a region to the pool.
    pub(super) fn put(&self, region: CachedBox<Region>) {
        let mut regions = self.regions.lock();
        if region.state == MrState::Idle {
            regions.idle.push(region);
        } else {
            regions.unusable.push(region);
        }
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        while let Some(mut region) = self.unusable.pop() {
            // The region drops its reference, or the two would keep each other alive.
            if let Some(progress) = region.progress.take() {
                progress.defer(region, |deferred| &mut deferred.regions);
            }
        }
    }
}
