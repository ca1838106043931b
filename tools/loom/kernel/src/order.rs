// SPDX-License-Identifier: GPL-2.0

//! The places of the source that protect accesses, each of which a run can leave out.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A protection of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// An order that is not `Relaxed`, a barrier, or a lock.
    Order,
    /// That an operation loads and stores at once, and not in two steps.
    AtOnce,
}

/// A place that protects accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file that was compiled.
    pub file: &'static str,
    /// The line in the file.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
    /// The protection.
    pub what: What,
}

/// The run of a thread: a model under all orders.
#[derive(Default)]
struct Run {
    executions: u64,
    number: u64,
    seen: BTreeSet<Place>,
    left_out: Option<Place>,
}

/// The number of the latest execution of any run.
static LATEST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
}

/// Begins a run, which leaves out `left_out`.
pub fn begin(left_out: Option<Place>) {
    RUN.set(Run {
        left_out,
        ..Run::default()
    });
}

/// Begins an execution of the run.
pub fn execute() {
    let number = LATEST.fetch_add(1, Relaxed) + 1;
    RUN.with_borrow_mut(|run| {
        run.executions += 1;
        run.number = number;
    });
}

/// Returns how many executions of the run have begun.
pub fn executions() -> u64 {
    RUN.with_borrow(|run| run.executions)
}

/// Returns a number that no other execution has, of any run.
pub(crate) fn execution() -> u64 {
    RUN.with_borrow(|run| run.number)
}

/// Returns the places at which the run arrived.
pub fn seen() -> BTreeSet<Place> {
    RUN.with_borrow(|run| run.seen.clone())
}

/// Records the caller's place. Returns whether the place orders accesses in this run.
#[track_caller]
pub fn holds(what: What) -> bool {
    let caller = Location::caller();
    let place = Place {
        file: caller.file(),
        line: caller.line(),
        column: caller.column(),
        what,
    };
    RUN.with_borrow_mut(|run| {
        run.seen.insert(place);
        run.left_out != Some(place)
    })
}
