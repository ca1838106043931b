// SPDX-License-Identifier: GPL-2.0

//! The rate limit of a line of the log: one value has the period and its lines.

use kernel::sync::atomic::{Atomic, Relaxed};

use super::{parts, spawn, Shared};
use crate::Model;

//< server/log.rs
//<   const COUNT_BITS
//<   const BURST
//<   const PERIOD
//<   struct Limit
//<   impl Limit { new allow }
//<   const MOST
parts!("log");

pub(crate) const MODEL: Model = Model {
    name: "log",
    runs: &[("three contexts ask in one period", asked)],
    spare: &[],
};

/// Three contexts ask for the last line that may be logged; the next period counts the rest.
fn asked() {
    let limit = Shared::new(Limit::new());
    assert!((1..BURST).all(|_| limit.allow(PERIOD).is_some()));
    limit.value.settle();
    let ask = move || limit.allow(PERIOD).is_some();
    let others = [spawn(ask), spawn(ask)];
    let here = ask();
    let logged = others.map(|other| other.join().unwrap());
    assert_eq!(
        logged.iter().filter(|logged| **logged).count() + usize::from(here),
        1
    );
    assert_eq!(limit.allow(2 * PERIOD), Some(2));
}
