// SPDX-License-Identifier: GPL-2.0

//! The rate limit of a line of the log: one value has the period and its lines.

use kernel::sync::atomic::{Atomic, Relaxed};

use super::{parts, spawn, Shared};
use crate::Model;

//< server/log.rs
//<   const COUNT_BITS
//<   struct Limit
//<   impl Limit { of allow }
//<   const MOST
parts!("log");

pub(crate) const MODEL: Model = Model {
    name: "log",
    runs: &[("three contexts ask in one period", asked)],
    spare: &[],
};

/// Three contexts ask for a line, of which one may be logged; the next period counts the rest.
fn asked() {
    let limit = Shared::new(Limit::of(1, 60));
    limit.value.settle();
    let ask = move || limit.allow(60).is_some();
    let others = [spawn(ask), spawn(ask)];
    let here = ask();
    let logged = others.map(|other| other.join().unwrap());
    assert_eq!(
        logged.iter().filter(|logged| **logged).count() + usize::from(here),
        1
    );
    assert_eq!(limit.allow(120), Some(2));
}
