// SPDX-License-Identifier: GPL-2.0

//! Compiles the rooms with RFC 5666, as Kbuild does by default.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(RPCRDMA_LEGACY)");
    println!("cargo::rustc-cfg=RPCRDMA_LEGACY");
    println!("cargo::rerun-if-changed=build.rs");
}
