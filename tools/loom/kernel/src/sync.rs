// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync`.

pub mod atomic;
pub mod barrier;
mod completion;
mod lock;

pub use completion::Completion;
pub use lock::{Mutex, SpinLock, SpinLockGuard};
/// The order of its count is that of the kernel crate, and no part of a model.
pub use std::sync::Arc;
