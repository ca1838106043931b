// SPDX-License-Identifier: GPL-2.0

//! The budget: the pages that calls may use while RDMA Reads fetch them, over all connections.
//!
//! A requester decides how long its calls are, and how many it sends at once. A connection whose
//! call finds no pages keeps the call in its Receive, and takes no further calls until pages are
//! free. The other connections continue with inline calls.
//!
//! A connection leaves at least as many pages as it uses, so a single connection can use half of
//! the budget. While less than half is in use, no connection can break that rule, so the pages of
//! each connection are counted only when more are requested.
//!
//! Returned pages wake, in turn, the connections whose calls may take them, and no others.
//!
//! A connection keeps the pages of a call, and their part of the budget, for its next call. While
//! the budget is scarce it keeps nothing: while more than half of the pages is in use or kept, or a
//! connection waits. The first connection that waits makes all connections return what they have
//! kept, so no connection waits for pages that no call uses.

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::queue::ReadyQueue;
use crate::work::{read_once, write_once};

/// The pages that calls may use.
#[pin_data]
pub(crate) struct Budget {
    #[pin]
    state: SpinLock<BudgetState>,
    /// Whether connections keep no pages; changes under the lock.
    scarce: Atomic<bool>,
    /// The number of pages of the whole budget.
    pub(crate) total: usize,
    /// Half of `total`, and at least one.
    half: usize,
}

struct BudgetState {
    left: usize,
    /// The queues that have waited. Each is in the list once, and stays until its connection is
    /// closed, so that returning pages never drops the last reference to a queue.
    waiters: KVVec<Waiting>,
    /// Whether any of them waits.
    any_waits: bool,
    /// The index of the queue whose turn it is.
    turn: usize,
}

struct Waiting {
    queue: Arc<ReadyQueue>,
    /// The queue waits, and has not been resumed.
    waits: bool,
    /// The pages that the oldest call needs.
    pages: usize,
    /// The pages that the connection uses, or fewer; [`usize::MAX`] until they are counted. The
    /// connection takes no pages while it waits, except for calls that were received before.
    used: usize,
    /// The pages that the connection has returned while queues waited for pages.
    returned: usize,
}

impl Waiting {
    /// Returns a queue that does not wait.
    fn new(queue: &Arc<ReadyQueue>) -> Self {
        Self {
            queue: queue.clone(),
            waits: false,
            pages: 0,
            used: 0,
            returned: 0,
        }
    }

    /// Records that the oldest call needs `pages` pages. Two threads may each have received a call.
    fn wait(&mut self, pages: usize) {
        if !self.waits {
            (self.waits, self.pages, self.used) = (true, pages, usize::MAX);
        }
        self.pages = self.pages.min(pages);
    }

    /// Resumes the queue if the call may take its pages from the `left` ones. Returns how many are
    /// left afterwards.
    fn resume(&mut self, left: usize) -> Option<usize> {
        let rest = without(left, self.pages, self.used)?;
        self.waits = false;
        // Returned memory regions may have resumed the queue before.
        if !self.queue.is_stalled() {
            return Some(left);
        }
        self.queue.resume();
        Some(rest)
    }
}

/// Returns how many of `left` pages are left if a connection that uses `used` takes `pages` more;
/// `None` if it may not.
fn without(left: usize, pages: usize, used: usize) -> Option<usize> {
    let left = left.checked_sub(pages)?;
    (used == 0 || used.saturating_add(pages) <= left).then_some(left)
}

impl BudgetState {
    /// Returns the entry of `queue`, if it has waited.
    fn known(&mut self, queue: &Arc<ReadyQueue>) -> Option<&mut Waiting> {
        let same = |other: &&mut Waiting| Arc::ptr_eq(&other.queue, queue);
        self.waiters.iter_mut().find(same)
    }

    /// Records that `queue` waits for `pages` pages. Returns how many pages its connection has
    /// returned so far, and whether no queue waited before; `None` if the list is full.
    fn add(&mut self, queue: &Arc<ReadyQueue>, pages: usize) -> Option<(usize, bool)> {
        if self.known(queue).is_none() {
            self.waiters
                .push_within_capacity(Waiting::new(queue))
                .ok()?;
        }
        let known = self.known(queue)?;
        known.wait(pages);
        let returned = known.returned;
        Some((returned, !core::mem::replace(&mut self.any_waits, true)))
    }

    /// Records that the connection of `queue` used `used` pages, and had returned `returned`
    /// before. Pages for which the queue was resumed and which it has not taken go to other queues.
    fn count(&mut self, queue: &Arc<ReadyQueue>, used: usize, returned: usize) {
        if let Some(known) = self.known(queue).filter(|known| known.waits) {
            let since = known.returned.wrapping_sub(returned);
            known.used = known.used.min(used.saturating_sub(since));
        }
        self.resume();
    }

    /// Records that the connection of the queue at `address` has returned pages, and resumes the
    /// queues for which the pages suffice.
    #[cold]
    fn hand_on(&mut self, address: usize, pages: usize) {
        let same = |other: &&mut Waiting| Arc::as_ptr(&other.queue).addr() == address;
        if let Some(known) = self.waiters.iter_mut().find(same) {
            known.used = known.used.saturating_sub(pages);
            known.returned = known.returned.wrapping_add(pages);
        }
        self.resume();
    }

    /// Resumes, in turn, the queues whose calls may take the pages that are left. The other queues
    /// keep waiting: the cost of waking them would grow with the number of waiting connections.
    #[cold]
    fn resume(&mut self) {
        let (mut left, end) = (self.left, self.waiters.len());
        let first = self.turn.min(end);
        self.any_waits = false;
        for place in Iterator::chain(first..end, 0..first) {
            let Some(waiting) = self.waiters.get_mut(place).filter(|other| other.waits) else {
                continue;
            };
            match waiting.resume(left) {
                Some(rest) => (left, self.turn) = (rest, place + 1),
                None => self.any_waits = true,
            }
        }
    }
}

/// Pages that a call uses. Dropping the value frees them; process context.
pub(crate) struct Permit {
    budget: Arc<Budget>,
    pub(crate) pages: usize,
    /// The address of the connection's queue.
    queue: usize,
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
            waiters: KVVec::new(),
            any_waits: false,
            turn: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(state, "rpcrdma::Budget::state"),
                scarce: Atomic::new(false),
                total,
                half: total.div_ceil(2).max(1),
            }),
            GFP_KERNEL,
        )
    }

    /// Changes the state.
    fn change<T>(&self, change: impl FnOnce(&mut BudgetState) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let scarce = state.any_waits || state.left < self.half;
        write_once(&self.scarce, scarce);
        result
    }

    /// Makes the list of queues longer. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[cold]
    fn enlarge(&self) -> Result {
        let places = 2 * self.state.lock().waiters.len() + 8;
        let mut waiters = KVVec::with_capacity(places, GFP_KERNEL)?;
        // The lock is released before the other list is freed, which may sleep.
        let mut state = self.state.lock();
        // Another thread may have been faster.
        if state.waiters.capacity() < places {
            core::mem::swap(&mut waiters, &mut state.waiters);
            for waiting in waiters.drain_all() {
                drop(state.waiters.push_within_capacity(waiting));
            }
        }
        Ok(())
    }

    /// Resumes `queue` when pages are free; at once if `pages` may be taken and it is not another
    /// queue's turn. `used` returns how many the connection uses; its argument says whether the
    /// connections must return the pages that they have kept. A caller whose connection may be
    /// closing checks that afterwards, and calls [`Self::forget`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the queue is not resumed.
    pub(crate) fn wait(
        &self,
        pages: usize,
        used: impl FnOnce(bool) -> usize,
        queue: &Arc<ReadyQueue>,
    ) -> Result {
        let pages = pages.min(self.total);
        let (returned, first) = loop {
            if let Some(added) = self.change(|state| state.add(queue, pages)) {
                break added;
            }
            self.enlarge()?;
        };
        // Pages that become free from now on resume the queue. Pages that became free before are
        // found here.
        let used = used(first);
        self.change(|state| state.count(queue, used, returned));
        Ok(())
    }

    /// Returns whether the queue of another connection than that of `queue` waits for pages.
    pub(crate) fn is_short_beside(&self, queue: &Arc<ReadyQueue>) -> bool {
        let other = |w: &Waiting| w.waits && !Arc::ptr_eq(&w.queue, queue);
        self.state.lock().waiters.iter().any(other)
    }

    /// Offers all free pages to the queues that wait. Pages that were offered to a queue have not
    /// been taken if its connection takes no calls, and no event then offers them to another queue.
    pub(crate) fn offer_again(&self) {
        self.change(BudgetState::resume);
    }

    /// Removes the queue of a connection that is being closed. The pages for which the queue was
    /// resumed go to other queues.
    pub(crate) fn forget(&self, queue: &Arc<ReadyQueue>) {
        let _removed = self.change(|state| {
            let same = |other: &Waiting| Arc::ptr_eq(&other.queue, queue);
            let place = state.waiters.iter().position(same);
            let removed = place.map(|place| state.waiters.remove(place));
            if state.any_waits {
                state.resume();
            }
            removed
        });
    }
}

impl Permit {
    /// Makes a permit without pages for a call of the connection of `queue`.
    pub(crate) fn new(budget: &Arc<Budget>, queue: &Arc<ReadyQueue>) -> Self {
        Self {
            budget: budget.clone(),
            pages: 0,
            queue: Arc::as_ptr(queue).addr(),
        }
    }

    /// Takes more pages, until these are `pages` or the whole budget. Returns false, and takes
    /// none, if they are in use, or if the connection would use more than it leaves. `used` returns
    /// how many the connection uses beside these.
    #[inline(always)]
    pub(crate) fn grow(&mut self, pages: usize, used: impl FnOnce() -> usize) -> bool {
        pages <= self.pages || self.take(pages, None) || self.take(pages, Some(used()))
    }

    /// Implements [`Self::grow`]: if at least half of the budget is left, or if the connection uses
    /// this number of pages beside these.
    #[inline(never)]
    fn take(&mut self, pages: usize, used: Option<usize>) -> bool {
        let (budget, had) = (&self.budget, self.pages);
        let enough = |left: &usize| *left >= budget.half;
        let pages = pages.min(budget.total).max(had);
        let taken = budget.change(|state| {
            let more = pages - had;
            state.left = match used {
                None => state.left.checked_sub(more).filter(enough),
                Some(used) => without(state.left, more, used.saturating_add(had)),
            }?;
            Some(pages)
        });
        self.pages = taken.unwrap_or(had);
        taken.is_some()
    }

    /// Returns whether the pages are to be returned as soon as no call uses them.
    pub(crate) fn is_scarce(&self) -> bool {
        self.pages != 0 && read_once(&self.budget.scarce)
    }

    /// Returns all pages.
    pub(crate) fn give_back(&mut self) {
        let pages = core::mem::take(&mut self.pages);
        if pages == 0 {
            return;
        }
        self.budget.change(|state| {
            state.left += pages;
            if state.any_waits {
                state.hand_on(self.queue, pages);
            }
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_budget)]
mod tests {
    use super::*;

    /// Takes pages for a call of the connection of `queue`, which uses `used` pages.
    fn take_of(
        budget: &Arc<Budget>,
        queue: &Arc<ReadyQueue>,
        pages: usize,
        used: usize,
    ) -> Option<Permit> {
        let mut permit = Permit::new(budget, queue);
        permit.grow(pages, || used).then_some(permit)
    }

    #[test]
    fn call_waits_until_pages_are_free() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let take = |pages| take_of(&budget, &queue, pages, 0);
        let first = take(5);
        assert!(first.is_some() && take(4).is_none());
        budget.wait(4, |_| 0, &queue)?;
        assert!(queue.is_stalled());
        drop(first);
        assert!(!queue.is_stalled());
        // The queue was resumed, and waits again.
        queue.stall_again();
        let second = take(4);
        assert!(second.is_some());
        drop(second);
        assert!(queue.is_stalled());
        budget.wait(4, |_| 0, &queue)?;
        assert!(!queue.is_stalled());
        Ok(())
    }

    #[test]
    fn pages_are_kept_while_half_is_left_and_none_waits() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let mut kept = take_of(&budget, &first, 4, 0).ok_or(EINVAL)?;
        assert!(!kept.is_scarce() && kept.grow(2, || 0) && kept.pages == 4);
        let mut other = take_of(&budget, &second, 1, 0).ok_or(EINVAL)?;
        assert!(kept.is_scarce() && !other.grow(8, || 0) && other.pages == 1);
        other.give_back();
        assert!(!kept.is_scarce());
        // Only the first connection that waits makes all others return what they keep.
        let mut used = |must_return: bool| {
            assert!(must_return && kept.is_scarce());
            budget.wait(6, |again| usize::from(again) * 8, &second)?;
            kept.give_back();
            Ok::<usize, Error>(0)
        };
        budget.wait(6, |must_return| used(must_return).unwrap_or(8), &first)?;
        // None of them has taken the pages, so that both may.
        assert!(!first.is_stalled() && !second.is_stalled());
        Ok(())
    }

    #[test]
    fn queue_that_waits_twice_is_forgotten_once() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let all = take_of(&budget, &queue, 8, 0);
        budget.wait(1, |_| 0, &queue)?;
        budget.wait(1, |_| 0, &queue)?;
        drop(all);
        assert!(!queue.is_stalled());
        queue.stall_again();
        let all = take_of(&budget, &queue, 8, 0);
        budget.wait(1, |_| 0, &queue)?;
        budget.wait(1, |_| 0, &queue)?;
        budget.forget(&queue);
        drop(all);
        assert!(queue.is_stalled());
        Ok(())
    }

    #[test]
    fn budget_is_short_while_another_connection_waits() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let all = take_of(&budget, &first, 8, 0);
        assert!(!budget.is_short_beside(&first));
        budget.wait(1, |_| 0, &second)?;
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
        let all = take_of(&budget, &queue, 100, 0);
        assert!(all.is_some() && take_of(&budget, &queue, 1, 0).is_none());
        budget.wait(1, |_| 0, &queue)?;
        budget.forget(&queue);
        drop(all);
        assert!(queue.is_stalled());
        assert!(take_of(&budget, &queue, 8, 0).is_some());
        Ok(())
    }

    #[test]
    fn connection_leaves_as_much_as_it_uses() -> Result {
        let budget = Budget::new(12)?;
        let (queue, another) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let take = |queue, pages, used| take_of(&budget, queue, pages, used);
        let (first, second) = (take(&queue, 5, 0), take(&queue, 1, 5));
        assert!(first.is_some() && second.is_some() && take(&queue, 1, 6).is_none());
        budget.wait(1, |_| 6, &queue)?;
        // Another connection takes from what is left.
        let other = take(&another, 3, 0);
        assert!(other.is_some() && take(&another, 1, 3).is_none());
        drop(second);
        assert!(queue.is_stalled());
        // The first call of a connection may be as long as what is left.
        assert!(take(&another, 4, 0).is_some());
        drop(first);
        assert!(!queue.is_stalled());
        drop(other);
        assert!(take(&queue, 12, 0).is_some());
        Ok(())
    }

    #[test]
    fn free_pages_resume_the_queues_that_they_suffice_for_in_turn() -> Result {
        let budget = Budget::new(8)?;
        let user = ReadyQueue::stalled()?;
        let take = |queue, pages| take_of(&budget, queue, pages, 0);
        let (rest, mut last) = (take(&user, 6), take(&user, 2));
        let mut queues = KVec::new();
        for _ in 0..4 {
            let queue = ReadyQueue::stalled()?;
            budget.wait(2, |_| 0, &queue)?;
            queues.push(queue, GFP_KERNEL)?;
        }
        for n in 0..8 {
            drop(last);
            for (place, queue) in queues.iter().enumerate() {
                assert_eq!(queue.is_stalled(), place != n % 4);
            }
            let queue = queues.get(n % 4).ok_or(EINVAL)?;
            last = take(queue, 2);
            assert!(last.is_some());
            queue.stall_again();
            budget.wait(2, |_| 2, queue)?;
        }
        drop((rest, last));
        assert!(!queues.iter().any(|queue| queue.is_stalled()));
        Ok(())
    }

    #[test]
    fn free_pages_go_past_a_connection_that_uses_too_many() -> Result {
        let budget = Budget::new(8)?;
        let (large, small) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let take = |queue, pages| take_of(&budget, queue, pages, 0);
        let (used, rest, last) = (take(&large, 4), take(&small, 2), take(&small, 2));
        budget.wait(2, |_| 4, &large)?;
        budget.wait(2, |_| 0, &small)?;
        drop(last);
        assert!(large.is_stalled() && !small.is_stalled());
        // The pages of the connection itself are free.
        drop(used);
        assert!(!large.is_stalled());
        drop(rest);
        Ok(())
    }

    #[test]
    fn pages_that_a_queue_has_not_taken_are_for_the_next() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let take = |pages| take_of(&budget, &first, pages, 0);
        let (rest, last) = (take(4), take(4));
        budget.wait(4, |_| 0, &first)?;
        budget.wait(4, |_| 0, &second)?;
        drop(last);
        assert!(!first.is_stalled() && second.is_stalled());
        // The oldest call needs more than the queue was resumed for.
        first.stall_again();
        budget.wait(6, |_| 0, &first)?;
        assert!(first.is_stalled() && !second.is_stalled());
        drop(rest);
        Ok(())
    }

    #[test]
    fn pages_that_no_queue_takes_are_offered_again() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let all = take_of(&budget, &first, 8, 0);
        budget.wait(8, |_| 0, &first)?;
        budget.wait(8, |_| 0, &second)?;
        budget.offer_again();
        assert!(first.is_stalled() && second.is_stalled());
        drop(all);
        // The connection of the first queue takes no calls.
        assert!(!first.is_stalled() && second.is_stalled());
        budget.offer_again();
        assert!(!second.is_stalled());
        Ok(())
    }

    #[test]
    fn queue_that_is_closed_passes_on_its_turn() -> Result {
        let budget = Budget::new(8)?;
        let (first, second) = (ReadyQueue::stalled()?, ReadyQueue::stalled()?);
        let all = take_of(&budget, &first, 8, 0);
        budget.wait(8, |_| 0, &first)?;
        budget.wait(8, |_| 0, &second)?;
        drop(all);
        assert!(!first.is_stalled() && second.is_stalled());
        budget.forget(&first);
        assert!(!second.is_stalled());
        Ok(())
    }

    #[test]
    fn pages_that_became_free_before_waiting_are_found() -> Result {
        let budget = Budget::new(8)?;
        let queue = ReadyQueue::stalled()?;
        let mut first = take_of(&budget, &queue, 4, 0);
        // The connection's call was fetched between its refusal and its waiting.
        let used = |_| {
            drop(first.take());
            0
        };
        budget.wait(5, used, &queue)?;
        assert!(!queue.is_stalled());
        Ok(())
    }
}
