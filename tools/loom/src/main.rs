// SPDX-License-Identifier: GPL-2.0

//! Runs the lock-free parts of `rpcrdma.ko` under all orders that a weak memory allows.
//!
//! Each model compiles its parts from the module's own source (`build.rs`), with the crate `kernel`
//! of this folder. A model must be correct as it is. Then each place that orders accesses is left
//! out once, and loom must find the fault. Otherwise that order is not needed, or the model does
//! not cover it.

#![allow(
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    private_bounds,
    private_interfaces,
    reason = "parts are taken out of their rooms, with the types and fields that they name"
)]

mod models;
mod run;
mod sunrpc;
mod workqueue;

use std::process::ExitCode;

/// A run of a model: a name and the function that loom executes.
pub(crate) type Run = (&'static str, fn());

/// The models of one part.
pub(crate) struct Model {
    /// The file of the model.
    name: &'static str,
    /// The runs. An order is needed if one of them fails without it.
    runs: &'static [Run],
    /// Places that may be left out, by a part of their line, and why they are there.
    spare: &'static [(&'static str, &'static str)],
}

fn main() -> ExitCode {
    run::silence_panics();
    let only: Vec<String> = std::env::args().skip(1).collect();
    let (mut passed, mut failed, mut executions) = (0, 0, 0);
    for model in models::ALL {
        if !only.is_empty() && !only.iter().any(|name| name == model.name) {
            continue;
        }
        match run::check(model) {
            Ok(n) => (passed, executions) = (passed + 1, executions + n),
            Err(fault) => {
                println!("{}: {fault}", model.name);
                failed += 1;
            }
        }
    }
    println!("loom: {passed} passed, {failed} failed; {executions} executions");
    ExitCode::from(u8::from(failed != 0 || passed == 0))
}
