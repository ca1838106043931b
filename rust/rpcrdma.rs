// SPDX-License-Identifier: GPL-2.0

//! `rpcrdma.ko`: NFS over RDMA, in Rust.
//!
//! Wiring only: the rooms of the crate, and what is registered in which order.
//! Documentation/architecture.rst says what each room is for and what it may use.

use kernel::prelude::*;

mod raw;

struct Module;

module! {
    type: Module,
    name: "rpcrdma",
    authors: ["The rpcrdma-rust developers"],
    description: "RPC-over-RDMA transport for NFS, in Rust",
    license: "GPL",
    alias: ["xprtrdma", "svcrdma", "rpcrdma6"],
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Module)
    }
}
