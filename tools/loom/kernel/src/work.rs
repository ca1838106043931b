// SPDX-License-Identifier: GPL-2.0

//! The accesses of the module's room `work`, which order nothing.

use crate::sync::atomic::{Atomic, AtomicType, Relaxed};

/// `READ_ONCE()`.
pub fn read_once<T: AtomicType>(atomic: &Atomic<T>) -> T {
    atomic.load(Relaxed)
}

/// `WRITE_ONCE()`.
pub fn write_once<T: AtomicType>(atomic: &Atomic<T>, value: T) {
    atomic.store(value, Relaxed);
}
