// SPDX-License-Identifier: GPL-2.0

//! The memory regions of a connection, by what they can map.
//!
//! A payload in pages has no gaps: it may begin and end inside a page, and the pages between are
//! whole. A region for such a payload costs the device less than a region that may have gaps (mlx5:
//! a translation table in place of a list of keys). Only a chunk that also takes in head or tail of
//! a message needs gaps, and most connections see few of these.
//!
//! A call takes all its regions or none, and a call that is prepared while it waits for its turn
//! holds its regions. So the idle regions do not always suffice for the call whose turn it is. That
//! call then gets the regions of the calls behind it (`call/send.rs`), which have to be prepared
//! again. With more regions, this is rare: [`Endpoint::order_regions`] has a worker make more.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

use super::super::config::MAX_SEGMENTS;
use super::{Endpoint, REPLENISH};
use crate::conn::traced;
use crate::observe::trace;
use crate::rdma::mr::{Kind, Mr, MrPool, PoolCounts};
use crate::rdma::pd::Pd;

/// The number of regions of each kind that a connection starts with.
const FIRST_PLAIN: u32 = 28;
const FIRST_GAPPED: u32 = 4;
/// The number of regions that are made at a time: those of the largest call, for its own payload
/// and for the reply.
const BATCH: u32 = 2 * MAX_SEGMENTS;

/// Regions for payloads, and regions for any chunk. On a device with one kind of region, both pools
/// are the same.
pub(in crate::client) struct Regions {
    plain: Arc<MrPool>,
    gapped: Arc<MrPool>,
    /// Mapping a region may take long, or sleep.
    slow: bool,
}

impl Regions {
    /// Makes regions of `depth` pages each for a new connection. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::new`].
    pub(in crate::client) fn new(pd: &Arc<Pd>, depth: u32) -> Result<Self> {
        if !pd.limits().sg_gaps {
            let all = MrPool::new(pd.clone(), depth, Kind::Plain, FIRST_PLAIN + FIRST_GAPPED)?;
            return Ok(Self {
                plain: all.clone(),
                gapped: all,
                slow: pd.limits().slow_mapping,
            });
        }
        Ok(Self {
            plain: MrPool::new(pd.clone(), depth, Kind::Plain, FIRST_PLAIN)?,
            gapped: MrPool::new(pd.clone(), depth, Kind::Gapped, FIRST_GAPPED)?,
            slow: pd.limits().slow_mapping,
        })
    }

    /// Returns whether mapping a region may take long, or sleep.
    pub(in crate::client) fn are_slow(&self) -> bool {
        self.slow
    }

    /// Returns the kind of region that maps the most: with gaps, if the device has such regions.
    pub(in crate::client) fn widest(&self) -> Kind {
        if Arc::ptr_eq(&self.plain, &self.gapped) {
            Kind::Plain
        } else {
            Kind::Gapped
        }
    }

    /// Takes an idle region of this kind, or a gapped one in place of a plain one; `None` if there
    /// is none. Allocates no memory.
    pub(in crate::client) fn get(&self, kind: Kind) -> Option<Mr> {
        if kind == Kind::Plain {
            if let Some(region) = self.plain.get() {
                return Some(region);
            }
        }
        self.gapped.get()
    }

    /// Returns the number of all regions.
    pub(in crate::client) fn total(&self) -> u32 {
        self.each().map(|pool| pool.total()).sum()
    }

    /// Returns the numbers of regions by state.
    pub(in crate::client) fn counts(&self) -> PoolCounts {
        self.each().fold(PoolCounts::default(), |sum, pool| {
            let census = pool.counts();
            PoolCounts {
                total: sum.total + census.total,
                idle: sum.idle + census.idle,
                unusable: sum.unusable + census.unusable,
            }
        })
    }

    /// Makes [`BATCH`] more regions of each kind that has run out since the last call and of which
    /// fewer than that are idle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::grow`]. Regions that were made before the failure remain.
    fn refill(&self) -> Result {
        for pool in self.each() {
            if pool.take_starved() && pool.available() < BATCH {
                pool.grow(BATCH)?;
            }
        }
        Ok(())
    }

    /// Returns each pool once.
    fn each(&self) -> impl Iterator<Item = &MrPool> {
        let other = (!Arc::ptr_eq(&self.plain, &self.gapped)).then_some(&*self.gapped);
        [Some(&*self.plain), other].into_iter().flatten()
    }
}

impl Endpoint {
    /// Has a worker make more regions. The worker wakes the RPCs that wait for regions, after a
    /// failure as well: the regions in use come back in time. Any context.
    pub(in crate::client) fn order_regions(self: &Arc<Self>) {
        let owner = self.shared().owner();
        // The queue refuses an item that is queued already, and that one suffices.
        let _ = owner.queue().enqueue::<_, REPLENISH>(self.clone());
    }

    /// Makes more regions if few are idle.
    fn replenish(&self) {
        let xprt = self.shared().owner();
        let before = self.regions.total();
        let filled = self.regions.refill();
        // No other context makes regions, so the difference is the number that was made here.
        let made = self.regions.total() - before;
        if made == 0 && filled.is_ok() {
            return;
        }
        self.set_no_more_regions(filled.is_err());
        xprt.data().stats().mrs_allocated(made);
        trace::createmrs(traced::peer(xprt), made);
    }
}

impl WorkItem<REPLENISH> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            this.replenish();
        }
        this.shared().owner().wake_write_space();
    }
}

/// Idle memory regions that a slot keeps for its next call, so that these need not go through the
/// pools, whose locks all slots share. At most one of each kind.
pub(in crate::client) struct Spare {
    plain: Option<Mr>,
    gapped: Option<Mr>,
}

impl Spare {
    /// No region.
    pub(in crate::client) const NONE: Self = Self {
        plain: None,
        gapped: None,
    };

    /// Takes the region of this kind, if there is one.
    #[inline(always)]
    pub(in crate::client) fn take(&mut self, kind: Kind) -> Option<Mr> {
        self.of(kind).take()
    }

    /// Returns the place for a region of this kind, if there is none.
    #[inline(always)]
    pub(in crate::client) fn vacant(&mut self, kind: Kind) -> Option<&mut Option<Mr>> {
        Some(self.of(kind)).filter(|place| place.is_none())
    }

    #[inline(always)]
    fn of(&mut self, kind: Kind) -> &mut Option<Mr> {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Gapped => &mut self.gapped,
        }
    }
}
