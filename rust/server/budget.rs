// SPDX-License-Identifier: GPL-2.0

//! How much memory the calls may use that RDMA Reads are fetching, over all connections.
//!
//! A requester decides how long its calls are, and how many it sends at once. A connection whose
//! call finds no pages keeps the call in its Receive, and takes no further calls until pages are
//! free. The other connections go on with calls that are inline.
//!
//! A connection leaves at least as many pages as it uses, so one alone can use half of the budget.
//! While less than half is in use no connection can break that rule, so what each of them uses is
//! counted only when more is wanted.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A connection that may have to wait for pages.
pub(super) trait Waiter: Send + Sync {
    /// Handles that there may be pages again. Process context; does not sleep. The lock of the
    /// budget may be held.
    fn pages_freed(&self);
}

/// The pages that calls may use.
#[pin_data]
pub(super) struct Budget {
    #[pin]
    state: SpinLock<State>,
    total: usize,
    /// Half of `total`, and at least one.
    half: usize,
}

struct State {
    left: usize,
    /// Connections that have waited. Each is in the list once, and stays until it is closed, so
    /// that nobody who gives pages back drops the last reference to one.
    waiters: KVec<Waiting>,
    /// Whether any of them waits.
    any_waits: bool,
}

struct Waiting {
    waiter: Arc<dyn Waiter>,
    /// It was not called since it waits.
    waits: bool,
}

impl State {
    /// Returns how many pages are left if a connection that uses `used` takes `pages` more; `None`
    /// if it may not.
    fn without(&self, pages: usize, used: usize) -> Option<usize> {
        let left = self.left.checked_sub(pages)?;
        (used == 0 || used.saturating_add(pages) <= left).then_some(left)
    }

    /// Notes that `waiter` waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn add(&mut self, waiter: &Arc<dyn Waiter>) -> Result {
        let same = |other: &&mut Waiting| core::ptr::addr_eq(&*other.waiter, &**waiter);
        match self.waiters.iter_mut().find(same) {
            Some(known) => known.waits = true,
            None => {
                let new = Waiting {
                    waiter: waiter.clone(),
                    waits: true,
                };
                self.waiters.push(new, GFP_ATOMIC)?;
            }
        }
        self.any_waits = true;
        Ok(())
    }

    /// Calls those that wait.
    #[cold]
    fn call_all(&mut self) {
        self.any_waits = false;
        for waiting in &mut self.waiters {
            if core::mem::take(&mut waiting.waits) {
                waiting.waiter.pages_freed();
            }
        }
    }
}

/// Pages that a call uses. They are free again when the value is dropped; process context.
pub(super) struct Permit {
    budget: Arc<Budget>,
    pages: usize,
}

impl Budget {
    /// Makes a budget of so many pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(total: usize) -> Result<Arc<Self>> {
        let state = State {
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

    /// Returns the number of pages of the whole budget.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Takes `pages` pages, or all there are if that is less; `None` if they are in use, or if the
    /// connection would use more than it leaves. `used` returns how many it uses already.
    #[inline]
    pub(super) fn take(
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

    /// Makes the value for pages that have been taken.
    #[inline]
    fn permit(self: &Arc<Self>, pages: usize) -> Permit {
        let budget = self.clone();
        Permit { budget, pages }
    }

    /// Has `waiter` called when pages are free; at once if `pages` may be taken. `used` returns
    /// how many the connection uses. If `waiter` may have been closed meanwhile, the caller looks
    /// afterwards, and calls [`Self::forget`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is not called.
    pub(super) fn wait(
        &self,
        pages: usize,
        used: impl FnOnce() -> usize,
        waiter: Arc<dyn Waiter>,
    ) -> Result {
        self.state.lock().add(&waiter)?;
        // Pages that become free from now on call it. Those that became free before are seen here.
        let may_take = || {
            let pages = pages.min(self.total);
            let used = used();
            self.state.lock().without(pages, used).is_some()
        };
        if may_take() {
            waiter.pages_freed();
        }
        Ok(())
    }

    /// Returns whether a connection other than `waiter` waits for pages.
    pub(super) fn is_short_beside(&self, waiter: &dyn Waiter) -> bool {
        let other = |w: &Waiting| w.waits && !core::ptr::addr_eq(&*w.waiter, waiter);
        self.state.lock().waiters.iter().any(other)
    }

    /// Forgets a connection that is being closed.
    pub(super) fn forget(&self, waiter: &dyn Waiter) {
        let mut state = self.state.lock();
        let same = |other: &Waiting| core::ptr::addr_eq(&*other.waiter, waiter);
        let place = state.waiters.iter().position(same);
        let removed = place.map(|place| state.waiters.remove(place));
        drop(state);
        drop(removed);
    }
}

impl Permit {
    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.left += self.pages;
        if state.any_waits {
            state.call_all();
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_budget)]
mod tests {
    use super::*;
    use kernel::sync::atomic::{Atomic, Relaxed};

    struct Count(Atomic<u32>);

    impl Waiter for Count {
        fn pages_freed(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn call_waits_until_pages_are_free() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let take = |pages| Budget::take(&budget, pages, || 0);
        let first = take(5);
        assert!(first.is_some() && take(4).is_none());
        budget.wait(4, || 0, count.clone())?;
        assert_eq!(count.0.load(Relaxed), 0);
        drop(first);
        assert_eq!(count.0.load(Relaxed), 1);
        // The connection was told, and has to ask again.
        let second = take(4);
        assert!(second.is_some());
        drop(second);
        assert_eq!(count.0.load(Relaxed), 1);
        budget.wait(4, || 0, count.clone())?;
        assert_eq!(count.0.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn connection_that_waits_twice_is_called_and_forgotten_once() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let all = Budget::take(&budget, 8, || 0);
        budget.wait(1, || 0, count.clone())?;
        budget.wait(1, || 0, count.clone())?;
        drop(all);
        assert_eq!(count.0.load(Relaxed), 1);
        let all = Budget::take(&budget, 8, || 0);
        budget.wait(1, || 0, count.clone())?;
        budget.wait(1, || 0, count.clone())?;
        budget.forget(&*count);
        drop(all);
        assert_eq!(count.0.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn budget_is_short_while_another_connection_waits() -> Result {
        let budget = Budget::new(8)?;
        let make = || Arc::new(Count(Atomic::new(0)), GFP_KERNEL);
        let (first, second) = (make()?, make()?);
        let all = Budget::take(&budget, 8, || 0);
        assert!(!budget.is_short_beside(&*first));
        budget.wait(1, || 0, second.clone())?;
        assert!(budget.is_short_beside(&*first) && !budget.is_short_beside(&*second));
        drop(all);
        assert!(!budget.is_short_beside(&*first));
        budget.forget(&*second);
        Ok(())
    }

    #[test]
    fn call_longer_than_the_budget_is_served_alone() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let all = Budget::take(&budget, 100, || 0);
        assert!(all.is_some() && Budget::take(&budget, 1, || 0).is_none());
        budget.wait(1, || 0, count.clone())?;
        budget.forget(&*count);
        drop(all);
        assert_eq!(count.0.load(Relaxed), 0);
        assert!(Budget::take(&budget, 8, || 0).is_some());
        Ok(())
    }

    #[test]
    fn connection_leaves_as_much_as_it_uses() -> Result {
        let budget = Budget::new(12)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let take = |pages, used| Budget::take(&budget, pages, || used);
        let first = take(5, 0);
        let second = take(1, 5);
        assert!(first.is_some() && second.is_some() && take(1, 6).is_none());
        budget.wait(1, || 6, count.clone())?;
        // Another connection takes from what is left.
        let other = take(3, 0);
        assert!(other.is_some() && take(1, 3).is_none());
        assert_eq!(count.0.load(Relaxed), 0);
        drop(second);
        assert_eq!(count.0.load(Relaxed), 1);
        // The first call of a connection may be as long as what is left.
        assert!(take(4, 0).is_some());
        drop((first, other));
        assert!(take(12, 0).is_some());
        Ok(())
    }

    #[test]
    fn pages_that_became_free_before_waiting_are_seen() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let mut first = Budget::take(&budget, 4, || 0);
        // The connection's call was fetched between its refusal and its waiting.
        let used = || {
            drop(first.take());
            0
        };
        budget.wait(5, used, count.clone())?;
        assert!(count.0.load(Relaxed) >= 1);
        Ok(())
    }
}
