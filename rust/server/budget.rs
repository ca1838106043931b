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
    /// Handles that there may be pages again. Process context; does not sleep.
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
    waiting: KVec<Arc<dyn Waiter>>,
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
            waiting: KVec::new(),
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

    /// Has `waiter` called once when pages are free; at once if there are `pages`.
    pub(super) fn wait(&self, pages: usize, waiter: Arc<dyn Waiter>) {
        let mut state = self.state.lock();
        let waiting = state.left < pages.min(self.total);
        // Without memory for the list the connection does not wait either, and tries again.
        let queued = waiting && state.waiting.push(waiter.clone(), GFP_ATOMIC).is_ok();
        drop(state);
        if !queued {
            waiter.pages_freed();
        }
    }

    /// Forgets a connection that is being closed.
    pub(super) fn forget(&self, waiter: &dyn Waiter) {
        let mut state = self.state.lock();
        let same = |other: &Arc<dyn Waiter>| core::ptr::addr_eq(&**other, waiter);
        let place = state.waiting.iter().position(same);
        let removed = place.map(|place| state.waiting.remove(place));
        drop(state);
        drop(removed);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.left += self.pages;
        if !state.waiting.is_empty() {
            let waiting = core::mem::take(&mut state.waiting);
            drop(state);
            for waiter in &waiting {
                waiter.pages_freed();
            }
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
