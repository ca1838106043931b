// SPDX-License-Identifier: GPL-2.0

//! The rooms `wire` and `proto` of `rpcrdma.ko`, compiled for the host from the same sources.
#![no_std]

extern crate std;

#[path = "../../../rust"]
mod tree {
    pub mod proto;
    pub mod wire;
}

pub use tree::{proto, wire};

pub mod crowd;
#[cfg(any(test, fuzzing))]
pub mod model;
#[cfg(test)]
mod tests;
