// SPDX-License-Identifier: GPL-2.0

//! Runs a model, as it is and with each order left out.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::{env, fs, thread};

use kernel::order::{self, Place, What};

use crate::{Model, Run};

thread_local! {
    static MESSAGE: RefCell<String> = RefCell::default();
}

/// Keeps the message of a panic for [`explore`]: faults are expected.
pub(crate) fn silence_panics() {
    panic::set_hook(Box::new(|info| {
        MESSAGE.set(format!("{info}"));
    }));
}

/// The result of a run.
struct Explored {
    executions: u64,
    seen: BTreeSet<Place>,
    fault: Option<String>,
}

/// Runs a model in all orders, or until the first fault, with a place left out.
fn explore(run: fn(), left_out: Option<Place>) -> Explored {
    let explore = move || {
        order::begin(left_out);
        let check = || {
            loom::model::Builder::new().check(move || {
                order::execute();
                run();
            });
        };
        let fault = panic::catch_unwind(AssertUnwindSafe(check)).err();
        Explored {
            executions: order::executions(),
            seen: order::seen(),
            fault: fault.map(|_| MESSAGE.take()),
        }
    };
    thread::spawn(explore)
        .join()
        .expect("a run reports its faults")
}

/// Runs a model as it is, and with each of its places left out. Returns the number of executions of
/// the first.
///
/// # Errors
///
/// A description of the fault.
pub(crate) fn check(model: &Model) -> Result<u64, String> {
    let (mut executions, mut places) = (0, BTreeSet::new());
    for (name, run) in model.runs {
        let Explored {
            executions: n,
            seen,
            fault,
        } = explore(*run, None);
        if let Some(fault) = fault {
            return Err(format!("{name}, execution {n}: {fault}"));
        }
        executions += n;
        places.extend(seen);
    }
    let source = fs::read_to_string(format!("{}/{}.rs", env!("OUT_DIR"), model.name));
    let source = source.map_err(|error| error.to_string())?;
    // A place is one of the parts, or of their neighbours in the files of the models.
    let ordered = |place: &&Place| place.what == What::Order;
    let own = |place: &&Place| place.file.starts_with(env!("OUT_DIR"));
    let run = places.iter().filter(own).filter(ordered).count();
    let all = count(&source);
    if run != all {
        return Err(format!("{run} of {all} places are run"));
    }
    places.retain(|place| own(&place) || place.what == What::Order);
    let (mut needed, verbose) = (0, env::var_os("VERBOSE").is_some());
    for place in &places {
        let line = line(place);
        let spare = model.spare.iter().any(|(part, _)| line.contains(part));
        match (find(model.runs, *place), spare && place.what == What::Order) {
            (Some(fault), false) => {
                needed += 1;
                if verbose {
                    println!("    without {:?} at `{line}`:\n      {fault}", place.what);
                }
            }
            (None, true) => {}
            (Some(fault), true) => return Err(format!("`{line}` is needed: {fault}")),
            (None, false) => {
                let what = place.what;
                return Err(format!("without {what:?} at `{line}` no fault is found"));
            }
        }
    }
    if needed == 0 {
        return Err("no place is needed".to_owned());
    }
    println!(
        "  LOOM    {}: {executions} executions; {needed} of {} places needed",
        model.name,
        places.len()
    );
    Ok(executions)
}

/// Returns the fault that a run finds with a place left out.
fn find(runs: &[Run], place: Place) -> Option<String> {
    runs.iter()
        .find_map(|(_, run)| explore(*run, Some(place)).fault)
}

/// Returns the number of places that order accesses in a source.
fn count(source: &str) -> usize {
    let code = source.lines().filter(|line| !line.trim().starts_with("//"));
    code.map(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let orders =
            words.filter(|word| matches!(*word, "Acquire" | "Release" | "Full" | "FullOrder"));
        orders.count() + line.matches(".lock()").count()
    })
    .sum()
}

/// Returns the line of a place.
fn line(place: &Place) -> String {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(place.file))
        .unwrap_or_default();
    let line = source.lines().nth(place.line as usize - 1);
    line.unwrap_or_default().trim().to_owned()
}
