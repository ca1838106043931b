// SPDX-License-Identifier: GPL-2.0

//! Memory for calls and replies: a budget of pages, and spare page lists and memory regions.
//!
//! The budget has the pages that calls may use while RDMA Reads fetch them, over all connections.
//!
//! A requester decides how long its calls are, and how many it sends at once. A connection whose
//! call finds no pages keeps the call in its Receive, and takes no further calls until pages are
//! free. The other connections go on with calls that are inline.
//!
//! A connection leaves at least as many pages as it uses, so a single connection can use half of
//! the budget. While less than half is in use no connection can break that rule, so the pages of
//! each connection are counted only when more is wanted.
//!
//! A spare list keeps its allocations, so that an operation of the same size allocates nothing.

use kernel::alloc::Flags;
use kernel::error::code::ENOBUFS;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::Delta;

use super::context::Call;
use super::queue::ReadyQueue;
use crate::rdma::mr::MrPool;
use crate::rdma::pd::Pd;
use crate::rdma::scatter::{Sink, Source};
use crate::sunrpc::svc::reply::Reply;

/// The pages that calls may use.
#[pin_data]
pub(crate) struct Budget {
    #[pin]
    state: SpinLock<BudgetState>,
    /// The number of pages of the whole budget.
    pub(crate) total: usize,
    /// Half of `total`, and at least one.
    half: usize,
}

struct BudgetState {
    left: usize,
    /// The queues that have waited. Each is in the list once, and stays until its connection is
    /// closed, so that nobody who gives pages back drops the last reference to a queue.
    waiters: KVec<Waiting>,
    /// Whether any of them waits.
    any_waits: bool,
}

struct Waiting {
    queue: Arc<ReadyQueue>,
    /// The queue was not resumed since it waits.
    waits: bool,
}

impl BudgetState {
    /// Returns how many pages are left if a connection that uses `used` takes `pages` more; `None`
    /// if it may not.
    fn without(&self, pages: usize, used: usize) -> Option<usize> {
        let left = self.left.checked_sub(pages)?;
        (used == 0 || used.saturating_add(pages) <= left).then_some(left)
    }

    /// Notes that `queue` waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn add(&mut self, queue: &Arc<ReadyQueue>) -> Result {
        let same = |other: &&mut Waiting| Arc::ptr_eq(&other.queue, queue);
        match self.waiters.iter_mut().find(same) {
            Some(known) => known.waits = true,
            None => {
                let new = Waiting {
                    queue: queue.clone(),
                    waits: true,
                };
                self.waiters.push(new, GFP_ATOMIC)?;
            }
        }
        self.any_waits = true;
        Ok(())
    }

    /// Resumes the queues that wait.
    #[cold]
    fn resume_all(&mut self) {
        self.any_waits = false;
        for waiting in &mut self.waiters {
            if core::mem::take(&mut waiting.waits) {
                waiting.queue.resume();
            }
        }
    }
}

/// Pages that a call uses. Dropping the value frees them; process context.
pub(crate) struct Permit {
    budget: Arc<Budget>,
    pub(crate) pages: usize,
}

impl Budget {
    /// Makes a budget of `total` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(total: usize) -> Result<Arc<Self>> {
        let state = BudgetState {
            left: total,
            waiters: KVec::new(),
            any_waits: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(state, "rpcrdma::Budget::state"),
                total,
                half: total.div_ceil(2).max(1),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes `pages` pages, or the whole budget if that is less; `None` if they are in use, or if
    /// the connection would use more than it leaves. `used` returns how many the connection uses
    /// already.
    pub(crate) fn take(
        this: &Arc<Self>,
        pages: usize,
        used: impl FnOnce() -> usize,
    ) -> Option<Permit> {
        let mut state = this.state.lock();
        let left = state.left.saturating_sub(pages);
        if left < this.half {
            drop(state);
            return Self::take_scarce(this, pages, used());
        }
        state.left = left;
        drop(state);
        Some(this.permit(pages))
    }

    /// Implements [`Self::take`] if more than half of the budget is wanted.
    #[cold]
    fn take_scarce(this: &Arc<Self>, pages: usize, used: usize) -> Option<Permit> {
        let pages = pages.min(this.total);
        let mut state = this.state.lock();
        state.left = state.without(pages, used)?;
        drop(state);
        Some(this.permit(pages))
    }

    /// Makes the permit for pages that were taken.
    #[inline(always)]
    fn permit(self: &Arc<Self>, pages: usize) -> Permit {
        let budget = self.clone();
        Permit { budget, pages }
    }

    /// Resumes `queue` when pages are free; at once if `pages` may be taken. `used` returns how
    /// many the connection uses. A caller whose connection may be closing checks that afterwards,
    /// and calls [`Self::forget`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the queue is not resumed.
    pub(crate) fn wait(
        &self,
        pages: usize,
        used: impl FnOnce() -> usize,
        queue: &Arc<ReadyQueue>,
    ) -> Result {
        self.state.lock().add(queue)?;
        // Pages that become free from now on resume the queue. Those that became free before are
        // found here.
        let may_take = || {
            let pages = pages.min(self.total);
            let used = used();
            self.state.lock().without(pages, used).is_some()
        };
        if may_take() {
            queue.resume();
        }
        Ok(())
    }

    /// Returns whether the queue of another connection than that of `queue` waits for pages.
    pub(crate) fn is_short_beside(&self, queue: &Arc<ReadyQueue>) -> bool {
        let other = |w: &Waiting| w.waits && !Arc::ptr_eq(&w.queue, queue);
        self.state.lock().waiters.iter().any(other)
    }

    /// Forgets the queue of a connection that is being closed.
    pub(crate) fn forget(&self, queue: &Arc<ReadyQueue>) {
        let mut state = self.state.lock();
        let same = |other: &Waiting| Arc::ptr_eq(&other.queue, queue);
        let place = state.waiters.iter().position(same);
        let removed = place.map(|place| state.waiters.remove(place));
        drop(state);
        drop(removed);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.left += self.pages;
        if state.any_waits {
            state.resume_all();
        }
    }
}

/// The most page lists that a connection keeps.
const MOST: usize = 8;
/// The most pages of a spare list for a call: what a small payload needs.
pub(crate) const KEPT_PAGES: usize = 1;
/// The most memory regions for RDMA Reads of one connection, unless a single call needs more.
const MOST_REGIONS: u32 = 256;
/// How often a thread of the service tries again to map memory for which the DMA layer has no room,
/// as bounce buffers are few, and the pauses before.
pub(crate) const MAPPING_PAUSES: u32 = 50;
pub(crate) const MAPPING_PAUSE: Delta = Delta::from_millis(20);
/// Regions that are added when there are too few.
const MORE_REGIONS: u32 = 8;

/// The spare page lists and memory regions of one connection. They belong to its protection domain.
#[pin_data]
pub(crate) struct Spare {
    #[pin]
    sinks: SpinLock<KVec<Sink>>,
    /// RDMA Reads need memory regions.
    needs_regions: bool,
    #[pin]
    regions: SpinLock<Option<Arc<MrPool>>>,
    /// The most regions.
    most_regions: u32,
    /// How often a call has given back its regions. A call that could not be prepared does not
    /// count, or such a call would wait for itself.
    returned: Atomic<u32>,
}

impl Spare {
    /// Makes a set without lists. `regions` are for RDMA Reads, where the device needs them; a call
    /// needs `most` at most. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(regions: Option<Arc<MrPool>>, most: u32) -> Result<impl PinInit<Self>> {
        let sinks = KVec::with_capacity(MOST, GFP_KERNEL)?;
        Ok(pin_init!(Self {
            sinks <- new_spinlock!(sinks, "rpcrdma::Spare::sinks"),
            needs_regions: regions.is_some(),
            regions <- new_spinlock!(regions, "rpcrdma::Spare::regions"),
            most_regions: most.max(MOST_REGIONS),
            returned: Atomic::new(0),
        }))
    }

    /// Returns a list for the pages of a call, with at most [`KEPT_PAGES`] pages. May sleep if
    /// `gfp` allows it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn sink(&self, pd: &Arc<Pd>, gfp: Flags) -> Result<Sink> {
        let spare = self.sinks.lock().pop();
        spare.map_or_else(|| Sink::new(pd, gfp), Ok)
    }

    /// Returns the memory regions for RDMA Reads, if the device needs them.
    pub(crate) fn regions(&self) -> Option<Arc<MrPool>> {
        if self.needs_regions {
            self.regions.lock().clone()
        } else {
            None
        }
    }

    /// Makes more memory regions. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are as many as allowed; `ENOMEM`, or another error of the device.
    #[cold]
    pub(crate) fn grow_regions(&self) -> Result {
        let pool = self.regions().ok_or(ENOBUFS)?;
        let room = self.most_regions.saturating_sub(pool.total());
        if room == 0 {
            return Err(ENOBUFS);
        }
        pool.grow(MORE_REGIONS.min(room))
    }

    /// Returns whether calls use memory regions, so that some will be free again.
    #[cold]
    pub(crate) fn uses_regions(&self) -> bool {
        self.regions().is_some_and(|pool| {
            let census = pool.counts();
            census.idle + census.unusable < census.total
        })
    }

    /// Returns whether a call that has found too few regions may find enough later: calls use some,
    /// or there are as many as any call needs, and another call that was being prepared had some.
    #[cold]
    pub(crate) fn may_have_regions(&self) -> bool {
        let enough = self.regions().is_some_and(|pool| {
            let census = pool.counts();
            census.total - census.unusable >= self.most_regions
        });
        enough || self.uses_regions()
    }

    /// Returns how often a call has given back its regions.
    pub(crate) fn returned(&self) -> u32 {
        self.returned.load(Relaxed)
    }

    /// Notes that a call has given back its list, and with it its regions. Returns whether it may
    /// have had some.
    pub(crate) fn note_returned(&self) -> bool {
        if self.needs_regions {
            self.returned.add(1, Relaxed);
        }
        self.needs_regions
    }

    /// Keeps a list that is not in flight, with at most [`KEPT_PAGES`] pages, unless there are
    /// enough. Does not sleep.
    pub(crate) fn put_sink(&self, sink: Sink) {
        // The vector has its capacity from the start. A list too many is dropped after the lock.
        let refused = self.sinks.lock().push_within_capacity(sink);
        drop(refused);
    }

    /// Drops all lists, and the regions. May sleep.
    pub(crate) fn clear(&self) {
        let sinks = core::mem::take(&mut *self.sinks.lock());
        let regions = self.regions.lock().take();
        drop((sinks, regions));
    }
}

/// Moves the pages of a reply to `source`.
///
/// # Errors
///
/// `EBUSY` if the list is in flight; `ENOMEM`; `ENOSPC` if the reply has more pages than expected.
#[inline(always)]
pub(crate) fn take_pages(reply: Reply<'_, Call>, source: &mut Source) -> Result {
    let pages = source.pages().ok_or(EBUSY)?;
    pages.reserve(reply.page_count(), GFP_KERNEL)?;
    reply.take(pages).map_err(|_| ENOSPC)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_budget)]
mod tests {
    use super::*;

    #[test]
    fn call_waits_until_pages_are_free() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let take = |pages| Budget::take(&budget, pages, || 0);
        let first = take(5);
        assert!(first.is_some() && take(4).is_none());
        budget.wait(4, || 0, &queue)?;
        assert!(queue.is_stalled());
        drop(first);
        assert!(!queue.is_stalled());
        // The queue was resumed, and has to wait again.
        queue.stall_again();
        let second = take(4);
        assert!(second.is_some());
        drop(second);
        assert!(queue.is_stalled());
        budget.wait(4, || 0, &queue)?;
        assert!(!queue.is_stalled());
        Ok(())
    }

    #[test]
    fn queue_that_waits_twice_is_forgotten_once() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let all = Budget::take(&budget, 8, || 0);
        budget.wait(1, || 0, &queue)?;
        budget.wait(1, || 0, &queue)?;
        drop(all);
        assert!(!queue.is_stalled());
        queue.stall_again();
        let all = Budget::take(&budget, 8, || 0);
        budget.wait(1, || 0, &queue)?;
        budget.wait(1, || 0, &queue)?;
        budget.forget(&queue);
        drop(all);
        assert!(queue.is_stalled());
        Ok(())
    }

    #[test]
    fn budget_is_short_while_another_connection_waits() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let all = Budget::take(&budget, 8, || 0);
        assert!(!budget.is_short_beside(&first));
        budget.wait(1, || 0, &second)?;
        assert!(budget.is_short_beside(&first) && !budget.is_short_beside(&second));
        drop(all);
        assert!(!budget.is_short_beside(&first));
        budget.forget(&second);
        Ok(())
    }

    #[test]
    fn call_longer_than_the_budget_is_served_alone() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let all = Budget::take(&budget, 100, || 0);
        assert!(all.is_some() && Budget::take(&budget, 1, || 0).is_none());
        budget.wait(1, || 0, &queue)?;
        budget.forget(&queue);
        drop(all);
        assert!(queue.is_stalled());
        assert!(Budget::take(&budget, 8, || 0).is_some());
        Ok(())
    }

    #[test]
    fn connection_leaves_as_much_as_it_uses() -> Result {
        let budget = Budget::new(12)?;
        let queue = ReadyQueue::stalled()?;
        let take = |pages, used| Budget::take(&budget, pages, || used);
        let first = take(5, 0);
        let second = take(1, 5);
        assert!(first.is_some() && second.is_some() && take(1, 6).is_none());
        budget.wait(1, || 6, &queue)?;
        // Another connection takes from what is left.
        let other = take(3, 0);
        assert!(other.is_some() && take(1, 3).is_none());
        assert!(queue.is_stalled());
        drop(second);
        assert!(!queue.is_stalled());
        // The first call of a connection may be as long as what is left.
        assert!(take(4, 0).is_some());
        drop((first, other));
        assert!(take(12, 0).is_some());
        Ok(())
    }

    #[test]
    fn pages_that_became_free_before_waiting_are_found() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let mut first = Budget::take(&budget, 4, || 0);
        // The connection's call was fetched between its refusal and its waiting.
        let used = || {
            drop(first.take());
            0
        };
        budget.wait(5, used, &queue)?;
        assert!(!queue.is_stalled());
        Ok(())
    }
}
