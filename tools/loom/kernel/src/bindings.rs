// SPDX-License-Identifier: GPL-2.0

//! `kernel::bindings`: the bit operations of C, which order nothing.

use crate::sync::atomic::Atomic;

/// `set_bit()`.
///
/// # Safety
///
/// `word` exists.
pub unsafe fn set_bit(bit: usize, word: *mut Atomic<usize>) {
    // SAFETY: By the safety requirements.
    unsafe { &*word }.fetch_or(1 << bit);
}

/// `clear_bit()`.
///
/// # Safety
///
/// `word` exists.
pub unsafe fn clear_bit(bit: usize, word: *mut Atomic<usize>) {
    // SAFETY: By the safety requirements.
    unsafe { &*word }.fetch_and(!(1 << bit));
}
