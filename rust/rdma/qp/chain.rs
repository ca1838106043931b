// SPDX-License-Identifier: GPL-2.0

//! Chains of work requests, and handing them to the driver.

use core::marker::PhantomData;

use kernel::prelude::*;

use super::sq::QueueFull;
use super::{Completions, PostError, Qp, Tag};
use crate::compat::code::ENOTCONN;
use crate::raw as bindings;
use crate::rdma::mr::region::{MrState, Region};

const SIGNALED: i32 = bindings::ib_send_flags_IB_SEND_SIGNALED;

/// Work requests that are posted together, in the order in which they were added.
///
/// # Invariants
///
/// `count` work requests are chained by `next`, from `first` to `last`. All of them are borrowed
/// exclusively while the chain is used.
pub(in super::super) struct Chain {
    first: *mut bindings::ib_send_wr,
    last: *mut bindings::ib_send_wr,
    count: u32,
}

impl Chain {
    /// Creates an empty chain.
    pub(super) const fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
            count: 0,
        }
    }

    /// Adds a work request. The caller has borrowed it exclusively while the chain is used.
    pub(in super::super) fn add(&mut self, wr: *mut bindings::ib_send_wr) {
        if self.first.is_null() {
            self.first = wr;
        } else {
            // SAFETY: The chain is not empty, so by the type invariant `last` is valid and borrowed
            // exclusively.
            unsafe { (*self.last).next = wr };
        }
        self.last = wr;
        self.count = self.count.wrapping_add(1);
    }
}

/// The work requests of regions, in the order in which they were added.
///
/// # Invariants
///
/// All work requests of `chain` belong to regions that are borrowed exclusively during `'a`.
pub(super) struct RegionChain<'a> {
    chain: Chain,
    regions: PhantomData<&'a mut Region>,
}

impl<'a> RegionChain<'a> {
    /// Creates an empty chain.
    pub(super) const fn new() -> Self {
        Self {
            chain: Chain::new(),
            regions: PhantomData,
        }
    }

    /// Adds the work request of a region, after setting its completion entry.
    pub(super) fn add(&mut self, region: &'a mut Region, cqe: *mut bindings::ib_cqe) {
        region.wr.wr.__bindgen_anon_1.wr_cqe = cqe;
        region.wr.wr.send_flags = 0;
        // INVARIANT: The region is borrowed exclusively during `'a`.
        self.chain.add(&raw mut region.wr.wr);
    }

    /// Returns whether no region was added.
    pub(super) fn is_empty(&self) -> bool {
        self.chain.count == 0
    }

    /// Returns the work requests, to be posted alone or with more work requests behind them. The
    /// chain is valid while `self` is borrowed.
    pub(super) fn as_chain(&mut self) -> Chain {
        Chain { ..self.chain }
    }

    /// Sets the state of all regions.
    pub(super) fn set_state(self, state: MrState) {
        let mut wr = self.chain.first;
        for _ in 0..self.chain.count {
            // SAFETY: By the type invariant `wr` is the work request of a region that is borrowed
            // exclusively.
            let region = unsafe { &mut *kernel::container_of!(wr, Region, wr.wr) };
            wr = region.wr.wr.next;
            region.state = state;
        }
    }
}

impl<C: Completions> Qp<C> {
    /// Posts a chain of `tag`, and returns the position of its last work request, which is
    /// signalled if `wanted`.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] and [`PostError::Broken`].
    ///
    /// # Safety
    ///
    /// All work requests of the chain are valid, carry the completion entry of `tag`, and are
    /// borrowed exclusively during the call. Memory that they refer to stays valid until they have
    /// completed or the queue pair has been drained.
    // All callers are generic, so each has the function once for each role.
    #[inline(always)]
    pub(super) unsafe fn submit(
        &self,
        chain: &Chain,
        tag: Tag,
        wanted: bool,
    ) -> Result<u64, PostError> {
        // The lock is held while posting. Positions are therefore in the order of the queue, and
        // nothing is posted after `drain` has closed the queue.
        let mut sending = self.sending.lock();
        if !sending.open || self.progress.is_broken() {
            return Err(PostError::Broken(ENOTCONN));
        }
        let reservation = match sending.queue.reserve(chain.count, tag.get(), wanted) {
            Ok(reservation) => reservation,
            Err(QueueFull) => return Err(PostError::Full),
        };
        if reservation.signalled {
            // SAFETY: The caller promises that the work request is valid and borrowed exclusively.
            unsafe { (*chain.last).send_flags |= SIGNALED };
        }
        // SAFETY: The caller promises that the work request is valid and borrowed exclusively.
        unsafe { (*chain.last).next = core::ptr::null_mut() };
        let mut bad = core::ptr::null();
        // SAFETY: By the invariant of `Qp` the queue pair exists while `sending` is open. The
        // caller promises valid work requests, which the driver copies.
        let posted = unsafe { bindings::rr_ib_post_send(self.qp, chain.first, &raw mut bad) };
        if posted != 0 {
            // A part of the chain may have been posted. It ends when the queue pair is drained.
            self.progress.set_broken();
            return Err(PostError::Broken(Error::from_errno(posted)));
        }
        Ok(reservation.position)
    }
}
