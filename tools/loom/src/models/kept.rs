// SPDX-License-Identifier: GPL-2.0

//! The pages that connections keep for their next calls: none are kept from a connection that
//! waits.

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{Arc, SpinLock};
use kernel::work::{read_once, write_once};

use super::{parts, spawn, Shared};
use crate::Model;

//< server/call/budget.rs
//<   impl Budget { change wait }
//<   impl Permit { is_scarce give_back }
//< server/call/context.rs
//<   impl Calls { keep keep_empty drop_stores free_kept }
parts!("kept");

pub(crate) const MODEL: Model = Model {
    name: "kept",
    runs: &[
        ("a connection keeps pages as another one waits", keeps),
        ("two connections keep pages as another one waits", both_keep),
    ],
    spare: &[],
};

/// The pages of the budget, and those of a call.
const TOTAL: usize = 8;
const PAGES: usize = 2;

struct Budget {
    state: SpinLock<BudgetState>,
    scarce: Atomic<bool>,
    total: usize,
    half: usize,
}

/// The state, with one connection that waits.
struct BudgetState {
    left: usize,
    any_waits: bool,
    wanted: usize,
}

struct ReadyQueue;

impl BudgetState {
    fn add(&mut self, _queue: &Arc<ReadyQueue>, pages: usize) -> Option<(usize, bool)> {
        self.wanted = pages;
        let waited = core::mem::replace(&mut self.any_waits, true);
        Some((0, !waited))
    }

    fn count(&mut self, _queue: &Arc<ReadyQueue>, _used: usize, _returned: usize) {
        self.any_waits = self.any_waits && self.left < self.wanted;
    }

    fn hand_on(&mut self, _address: usize, _pages: usize) {
        self.any_waits = self.left < self.wanted;
    }
}

impl Budget {
    /// Is never called: `add` has room.
    fn enlarge(&self) -> Result {
        unreachable!()
    }
}

struct Permit {
    budget: Shared<Budget>,
    pages: usize,
    queue: usize,
}

struct Store {
    permit: Permit,
    recent: bool,
}

impl Store {
    fn empty(&mut self) {
        self.permit.give_back();
    }
}

type KBox<T> = Box<T>;

struct Calls {
    state: SpinLock<CallsState>,
}

struct CallsState {
    stores: Stores,
}

/// A vector with room for two lists.
struct Stores(Vec<KBox<Store>>);

impl Stores {
    fn iter(&self) -> impl Iterator<Item = &KBox<Store>> {
        self.0.iter()
    }

    fn push_within_capacity(&mut self, store: KBox<Store>) -> Result<(), KBox<Store>> {
        self.0.push(store);
        Ok(())
    }

    fn remove(&mut self, place: usize) -> Result<KBox<Store>> {
        Ok(self.0.remove(place))
    }
}

/// Makes a budget of which `calls` calls use pages.
fn budget(calls: usize) -> Shared<Budget> {
    let state = BudgetState {
        left: TOTAL - calls * PAGES,
        any_waits: false,
        wanted: 0,
    };
    let budget = Shared::new(Budget {
        state: SpinLock::new(state),
        scarce: Atomic::new(false),
        total: TOTAL,
        half: TOTAL / 2,
    });
    budget.scarce.settle();
    budget
}

/// Makes a connection that keeps no pages.
fn connection() -> Shared<Calls> {
    let stores = Stores(Vec::new());
    Shared::new(Calls {
        state: SpinLock::new(CallsState { stores }),
    })
}

/// Makes the page list of a call.
fn store(budget: Shared<Budget>) -> KBox<Store> {
    let permit = Permit {
        budget,
        pages: PAGES,
        queue: 0,
    };
    Box::new(Store {
        permit,
        recent: false,
    })
}

/// Waits for all pages, and checks that none is kept.
fn wait(budget: Shared<Budget>, connections: &[Shared<Calls>]) {
    let reclaim = |must_return: bool| {
        assert!(must_return);
        connections.iter().for_each(|calls| calls.free_kept());
        0
    };
    let waiting = budget.wait(TOTAL, reclaim, &Arc::new(ReadyQueue));
    assert!(waiting.is_ok());
}

fn keeps() {
    let (budget, calls) = (budget(1), connection());
    let kept = spawn(move || calls.keep(store(budget)));
    wait(budget, &[calls]);
    kept.join().unwrap();
    let left = budget.state.inspect().left;
    assert_eq!(left, TOTAL, "pages are kept from a connection that waits");
}

fn both_keep() {
    let (budget, first, second) = (budget(2), connection(), connection());
    let kept = spawn(move || first.keep(store(budget)));
    second.keep(store(budget));
    wait(budget, &[first, second]);
    kept.join().unwrap();
    let left = budget.state.inspect().left;
    assert_eq!(left, TOTAL, "pages are kept from a connection that waits");
}
