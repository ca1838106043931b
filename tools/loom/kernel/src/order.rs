// SPDX-License-Identifier: GPL-2.0

//! The places of the source that order accesses, each of which a run can leave out.
//!
//! A place is an order that is not `Relaxed`, a barrier, or taking a lock.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;

/// A place that orders accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file that was compiled.
    pub file: &'static str,
    /// The line in the file.
    pub line: u32,
    /// The column in the line.
    pub column: u32,
}

/// The run of a thread: a model under all orders.
#[derive(Default)]
struct Run {
    executions: u64,
    seen: BTreeSet<Place>,
    left_out: Option<Place>,
}

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
    RUN.with_borrow_mut(|run| run.executions += 1);
}

/// Returns the number of the execution.
pub fn execution() -> u64 {
    RUN.with_borrow(|run| run.executions)
}

/// Returns the places at which the run arrived.
pub fn seen() -> BTreeSet<Place> {
    RUN.with_borrow(|run| run.seen.clone())
}

/// Records the caller's place. Returns whether the place orders accesses in this run.
#[track_caller]
pub fn holds() -> bool {
    let caller = Location::caller();
    let place = Place {
        file: caller.file(),
        line: caller.line(),
        column: caller.column(),
    };
    RUN.with_borrow_mut(|run| {
        run.seen.insert(place);
        run.left_out != Some(place)
    })
}
