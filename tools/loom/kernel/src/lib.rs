// SPDX-License-Identifier: GPL-2.0

//! The parts of the crate `kernel` that lock-free code of `rpcrdma.ko` uses, made of loom's
//! primitives.
//!
//! The orders are those of Linux' memory model (`Documentation/atomic_t.txt`), in terms of C11:
//! `Full` is a full barrier before and after the operation, and a `cmpxchg` that fails orders
//! nothing. loom ignores control and address dependencies.

pub mod bindings;
pub mod error;
pub mod order;
pub mod prelude;
pub mod sync;
pub mod work;

/// `kernel::ffi`.
pub mod ffi {
    pub use core::ffi::{c_char, c_int};
}
