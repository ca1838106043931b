// SPDX-License-Identifier: GPL-2.0

//! The memory regions of a connection, by what they can map.
//!
//! A payload in pages has no gaps: it may begin and end inside a page, and the pages between are
//! whole. A region for such a payload costs the device less than a region that may have gaps (mlx5:
//! a translation table in place of a list of keys). Only a chunk that also takes in head or tail of
//! a message needs gaps, and most connections see few of these.

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::rdma::mr::{Census, Kind, Mr, MrPool};
use crate::rdma::pd::Pd;

/// The number of regions of each kind that a connection starts with; [`Pools::refill`] adds more.
const FIRST_PLAIN: u32 = 28;
const FIRST_GAPPED: u32 = 4;

/// Regions for payloads, and regions for any chunk. On a device with one kind of region, both pools
/// are the same one.
pub(super) struct Pools {
    plain: Arc<MrPool>,
    gapped: Arc<MrPool>,
    /// Mapping a region may take long, or sleep.
    slow: bool,
}

impl Pools {
    /// Makes regions of `depth` pages each for a new connection. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::new`].
    pub(super) fn new(pd: &Arc<Pd>, depth: u32) -> Result<Self> {
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
    #[inline]
    pub(super) fn are_slow(&self) -> bool {
        self.slow
    }

    /// Returns the kind of region that maps the most: with gaps, if the device has such regions.
    #[inline]
    pub(super) fn widest(&self) -> Kind {
        if Arc::ptr_eq(&self.plain, &self.gapped) {
            Kind::Plain
        } else {
            Kind::Gapped
        }
    }

    /// Takes an idle region of this kind, or a gapped one in place of a plain one; `None` if there
    /// is none. Allocates no memory.
    #[inline]
    pub(super) fn get(&self, kind: Kind) -> Option<Mr> {
        if kind == Kind::Plain {
            if let Some(region) = self.plain.get() {
                return Some(region);
            }
        }
        self.gapped.get()
    }

    /// Returns the number of all regions.
    pub(super) fn total(&self) -> u32 {
        self.each().map(|pool| pool.total()).sum()
    }

    /// Returns the numbers of regions by state.
    pub(super) fn census(&self) -> Census {
        self.each().fold(Census::default(), |sum, pool| {
            let census = pool.census();
            Census {
                total: sum.total + census.total,
                idle: sum.idle + census.idle,
                unusable: sum.unusable + census.unusable,
            }
        })
    }

    /// Makes `batch` more regions of each kind that has run out since the last call and of which
    /// fewer than `batch` are idle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::grow`]. Regions that were made before the failure remain.
    pub(super) fn refill(&self, batch: u32) -> Result {
        for pool in self.each() {
            if pool.take_starved() && pool.available() < batch {
                pool.grow(batch)?;
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
