// SPDX-License-Identifier: GPL-2.0

//! The memory regions of a connection, by what they can map.
//!
//! A payload in pages has no gaps: its first page may begin and its last may end anywhere, and what
//! lies between is whole pages. A region for that costs the device less than one that may have gaps
//! (mlx5: a translation table in place of a list of keys). Only a chunk that takes in head or tail of
//! a message as well needs gaps, and most connections see few of these.

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::proto::requester::plan::Extents;
use crate::rdma::mr::{Kind, Mr, MrPool};
use crate::rdma::pd::Pd;

/// Regions of each kind that a connection starts with; [`Pools::refill`] adds more.
const FIRST_PLAIN: u32 = 28;
const FIRST_GAPPED: u32 = 4;

/// Regions for payloads, and regions for everything. On a device that has one kind alone they are the
/// same.
pub(super) struct Pools {
    plain: Arc<MrPool>,
    gapped: Arc<MrPool>,
}

impl Pools {
    /// Regions of `depth` pages each, for a new connection. May sleep.
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
            });
        }
        Ok(Self {
            plain: MrPool::new(pd.clone(), depth, Kind::Plain, FIRST_PLAIN)?,
            gapped: MrPool::new(pd.clone(), depth, Kind::Gapped, FIRST_GAPPED)?,
        })
    }

    /// Takes an idle region for `chunk`; `None` if there is none. Never allocates.
    #[inline]
    pub(super) fn get(&self, chunk: &Extents) -> Option<Mr> {
        if chunk.is_payload() {
            if let Some(region) = self.plain.get() {
                return Some(region);
            }
        }
        self.gapped.get()
    }

    /// All regions there are.
    pub(super) fn total(&self) -> u32 {
        self.each().map(|pool| pool.total()).sum()
    }

    /// Makes `batch` more regions of each kind that was lacking and still is, with fewer than that
    /// idle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`MrPool::grow`]; what was made before the failure is there.
    pub(super) fn refill(&self, batch: u32) -> Result {
        for pool in self.each() {
            if pool.take_starved() && pool.available() < batch {
                pool.grow(batch)?;
            }
        }
        Ok(())
    }

    /// Each pool once.
    fn each(&self) -> impl Iterator<Item = &MrPool> {
        let other = (!Arc::ptr_eq(&self.plain, &self.gapped)).then_some(&*self.gapped);
        [Some(&*self.plain), other].into_iter().flatten()
    }
}
