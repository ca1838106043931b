// SPDX-License-Identifier: GPL-2.0

//! Relaxed loads and stores of atomic values without a function call.
//!
//! `kernel::sync::atomic` calls a C function for each access, because Rust cannot use the macros of
//! C that it stands on. For a relaxed load that macro is `READ_ONCE()`, and for a relaxed store
//! `WRITE_ONCE()`: one volatile access. The path of an RPC has a dozen of these.

use kernel::sync::atomic::Atomic;

/// An atomic value whose loads and stores are single instructions.
pub(crate) trait Once<T> {
    /// Loads the value with relaxed ordering.
    fn read_once(&self) -> T;

    /// Stores a value with relaxed ordering.
    fn write_once(&self, value: T);
}

macro_rules! once {
    ($($(#[$attr:meta])* $ty:ty),*) => {$(
        $(#[$attr])*
        impl Once<$ty> for Atomic<$ty> {
            #[inline(always)]
            fn read_once(&self) -> $ty {
                // SAFETY: The pointer is that of an atomic value, so it is valid and aligned. In
                // the kernel's memory model, a volatile access to a value of the size of a machine
                // word or less is atomic, and does not race with the accesses of `Atomic`.
                unsafe { self.as_ptr().read_volatile() }
            }

            #[inline(always)]
            fn write_once(&self, value: $ty) {
                // SAFETY: The pointer is that of an atomic value, so it is valid and aligned. In
                // the kernel's memory model, a volatile access to a value of the size of a machine
                // word or less is atomic, and does not race with the accesses of `Atomic`.
                unsafe { self.as_ptr().write_volatile(value) }
            }
        }
    )*};
}

once!(bool, u32);

/// On a processor of 32 bits, a volatile access to 64 bits is not atomic.
#[cfg(target_pointer_width = "64")]
mod wide {
    use super::*;

    once!(u64);
}

#[cfg(not(target_pointer_width = "64"))]
impl Once<u64> for Atomic<u64> {
    fn read_once(&self) -> u64 {
        self.load(kernel::sync::atomic::Relaxed)
    }

    fn write_once(&self, value: u64) {
        self.store(value, kernel::sync::atomic::Relaxed);
    }
}
