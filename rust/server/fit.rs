// SPDX-License-Identifier: GPL-2.0

//! The queue pair of a connection, in a size that the device takes.
//!
//! Some devices limit the bytes of a send queue, and not only its work requests (`calc_sq_size()`
//! of mlx5, `irdma_get_sqdepth()`). No attribute of a device says so, and the driver refuses the
//! queue pair.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::chosen::Chosen;
use super::failure::{Failure, Step};
use super::owner::Owner;
use super::responder::{Conn, QueuePair, Responder};
use super::service::Service;
use super::sizes::Sizes;
use super::{flights, log};
use crate::conn::connection;
use crate::conn::lifecycle::Lifecycle;
use crate::rdma::cm::CmId;
use crate::rdma::device::Name;
use crate::rdma::mr::{Kind, MrPool};
use crate::rdma::pd::Pd;

/// The most pages of a region.
pub(super) const REGION_PAGES: u32 = 256;
/// The number of every connection: a responder's transport has only one.
const EPOCH: u32 = 1;

/// What a queue pair is made for, and of.
pub(super) struct Base<'b> {
    pub(super) service: &'b Service,
    pub(super) chosen: &'b Chosen,
    pub(super) owner: &'b Owner,
    pub(super) lifecycle: &'b Arc<Lifecycle<Owner>>,
    pub(super) cm: &'b CmId<Lifecycle<Owner>>,
    pub(super) pd: &'b Arc<Pd>,
    pub(super) device: Name,
    /// The RDMA Reads that may be outstanding.
    pub(super) reads: u8,
}

impl Base<'_> {
    /// Makes a queue pair and the state that its completions reach. As long as the driver refuses
    /// the queue pair, the grant is halved. Returns the number of Receives, too. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub(super) fn queue_pair(
        &self,
        mut sizes: Sizes,
    ) -> Result<(Arc<Conn>, Pin<KBox<QueuePair>>, u32), Failure> {
        let regions = self.regions().map_err(Step::Regions.failed())?;
        loop {
            let failure = match self.make(&sizes, regions.clone()) {
                Ok((shared, qp)) => {
                    self.tell(&sizes);
                    return Ok((shared, qp, sizes.queues.receives));
                }
                Err(failure) => failure,
            };
            let lower = Chosen {
                credits: sizes.queues.credits / 2,
                ..*self.chosen
            };
            sizes = match (&failure, Sizes::new(&lower, &self.pd.limits())) {
                (Failure::Step(Step::QueuePair, ENOMEM | EINVAL), Some(sizes)) => sizes,
                _ => return Err(failure),
            };
        }
    }

    /// Makes memory regions for the RDMA Reads, where the device needs them. May sleep.
    fn regions(&self) -> Result<Option<Arc<MrPool>>> {
        let limits = self.pd.limits();
        let depth = limits.max_frmr_depth.min(REGION_PAGES);
        let make = || MrPool::new(self.pd.clone(), depth, Kind::Plain, self.reads.into());
        limits.reads_need_regions.then(make).transpose()
    }

    fn make(
        &self,
        sizes: &Sizes,
        regions: Option<Arc<MrPool>>,
    ) -> Result<(Arc<Conn>, Pin<KBox<QueuePair>>), Failure> {
        let lifecycle = self.lifecycle.clone();
        let shared = Responder::new(sizes, self.service, lifecycle, self.device, regions)
            .and_then(|role| Conn::new(EPOCH, self.owner.clone(), role))
            .map_err(Step::State.failed())?;
        // CAST: `usize` has at least 32 bits.
        let receive_size = self.chosen.inline as usize;
        let tags = (flights::tags(sizes.operations), receive_size);
        let qp = connection::queue_pair(self.cm, self.pd, &sizes.queues, tags, shared.clone())
            .map_err(Step::QueuePair.failed())?;
        Ok((shared, qp))
    }

    /// Logs a grant that is lower than chosen.
    fn tell(&self, sizes: &Sizes) {
        let (credits, wanted) = (sizes.queues.credits, self.chosen.credits);
        if credits < wanted {
            log::grant_lowered(&self.device, credits, wanted);
        }
    }
}
