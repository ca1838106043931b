// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync`.

pub mod atomic;
pub mod barrier;
mod completion;
mod lock;

pub use completion::Completion;
pub use lock::{Mutex, SpinLock, SpinLockGuard};
pub use loom::sync::Arc;
