// SPDX-License-Identifier: GPL-2.0

//! Random numbers.

use kernel::bindings as k;

/// Returns a random number. Any context.
pub(crate) fn random() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { k::get_random_u32() }
}
