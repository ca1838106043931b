// SPDX-License-Identifier: GPL-2.0

//! How much memory the calls may use that RDMA Reads are fetching, over all connections.
//!
//! A requester decides how long its calls are, and how many it sends at once. A connection whose
//! call finds the budget used up keeps the call in its Receive, and takes no further calls until
//! pages are free. The other connections go on with calls that are inline.

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
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of pages of the whole budget.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Takes `pages` pages, or all there are if that is less; `None` if they are in use.
    pub(super) fn take(this: &Arc<Self>, pages: usize) -> Option<Permit> {
        let pages = pages.min(this.total);
        let mut state = this.state.lock();
        state.left = state.left.checked_sub(pages)?;
        drop(state);
        Some(Permit {
            budget: this.clone(),
            pages,
        })
    }

    /// Has `waiter` called once when pages are free; at once if there are `pages`. If `waiter` may
    /// have been closed meanwhile, the caller looks afterwards, and calls [`Self::forget`].
    pub(super) fn wait(&self, pages: usize, waiter: Arc<dyn Waiter>) {
        let mut state = self.state.lock();
        let waiting = state.left < pages.min(self.total);
        // Without memory for the list the connection does not wait either, and tries again.
        let queued = waiting && state.add(&waiter).is_ok();
        drop(state);
        if !queued {
            waiter.pages_freed();
        }
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
        let take = |pages| Budget::take(&budget, pages);
        let first = take(5);
        assert!(first.is_some() && take(4).is_none());
        budget.wait(4, count.clone());
        assert_eq!(count.0.load(Relaxed), 0);
        drop(first);
        assert_eq!(count.0.load(Relaxed), 1);
        // The connection was told, and has to ask again.
        let second = take(4);
        assert!(second.is_some());
        drop(second);
        assert_eq!(count.0.load(Relaxed), 1);
        budget.wait(4, count.clone());
        assert_eq!(count.0.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn connection_that_waits_twice_is_called_and_forgotten_once() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let all = Budget::take(&budget, 8);
        budget.wait(1, count.clone());
        budget.wait(1, count.clone());
        drop(all);
        assert_eq!(count.0.load(Relaxed), 1);
        let all = Budget::take(&budget, 8);
        budget.wait(1, count.clone());
        budget.wait(1, count.clone());
        budget.forget(&*count);
        drop(all);
        assert_eq!(count.0.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn call_longer_than_the_budget_is_served_alone() -> Result {
        let budget = Budget::new(8)?;
        let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
        let all = Budget::take(&budget, 100);
        assert!(all.is_some() && Budget::take(&budget, 1).is_none());
        budget.wait(1, count.clone());
        budget.forget(&*count);
        drop(all);
        assert_eq!(count.0.load(Relaxed), 0);
        Ok(())
    }
}
