// SPDX-License-Identifier: GPL-2.0

//! Work requests of a page list as parts of a chain, and what becomes of them.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::requests::Requests;
use crate::raw as bindings;
use crate::rdma::mr::region::State;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::qp::{Chain, PostError};

impl Requests {
    /// Adds all work requests to `chain`, with the completion entry `cqe`. Each registration is
    /// before the RDMA Read that needs it. The caller borrows the list exclusively while the chain
    /// is used.
    ///
    /// # Errors
    ///
    /// [`PostError::Invalid`] if the list was posted and not cleared, or is not one of `pd`.
    #[inline(always)]
    pub(in super::super) fn add_to(
        &mut self,
        chain: &mut Chain,
        pd: &Arc<Pd>,
        cqe: *mut bindings::ib_cqe,
        progress: &Arc<Progress>,
    ) -> Result<(), PostError> {
        if self.position != 0 || !Arc::ptr_eq(&self.pd, pd) {
            return Err(PostError::Invalid);
        }
        let (mut sge, flags) = (self.sges.as_mut_ptr(), self.flags);
        let mut regions = self.regions.iter_mut();
        for wr in self.wrs.iter_mut() {
            if let Some(region) = regions.next() {
                let region = region.region();
                region.set_posted(progress);
                region.wr.wr.__bindgen_anon_1.wr_cqe = cqe;
                region.wr.wr.send_flags = 0;
                chain.add(&raw mut region.wr.wr);
            }
            wr.wr.sg_list = sge;
            // By the type invariant the entries of the next work request follow. The last pointer
            // may be behind the last entry; it is not used.
            // CAST: not negative.
            sge = sge.wrapping_add(wr.wr.num_sge as usize);
            wr.wr.__bindgen_anon_1.wr_cqe = cqe;
            wr.wr.send_flags = flags;
            chain.add(&raw mut wr.wr);
        }
        Ok(())
    }

    /// Notes the result of posting a chain on the queue pair of `progress`: the position of a work
    /// request behind which none of these is outstanding.
    #[inline(always)]
    pub(in super::super) fn note(
        &mut self,
        posted: Result<u64, PostError>,
        progress: &Arc<Progress>,
    ) {
        let state = match posted {
            Err(PostError::Full | PostError::Invalid) => State::Mapped,
            // A part may have been posted: only draining ends it.
            Err(PostError::Broken(_)) => self.set_posted(progress, u64::MAX),
            Ok(position) => self.set_posted(progress, position),
        };
        for region in self.regions.iter_mut() {
            region.region().state = state;
        }
    }

    /// Notes that the requests are outstanding up to `position`. Returns the state of their
    /// regions, each of which is invalidated by its RDMA Read.
    #[inline(always)]
    fn set_posted(&mut self, progress: &Arc<Progress>, position: u64) -> State {
        let same = |p: &Arc<Progress>| Arc::ptr_eq(p, progress);
        if !self.progress.as_ref().is_some_and(same) {
            self.progress = Some(progress.clone());
        }
        self.position = position;
        State::Invalidating(position)
    }
}
