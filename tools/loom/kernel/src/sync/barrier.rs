// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::barrier`.

use loom::sync::atomic::{fence, Ordering};

use super::atomic::Full;
use crate::order;

/// `smp_mb()`.
#[track_caller]
pub fn smp_mb(_: Full) {
    if order::holds() {
        fence(Ordering::SeqCst);
    }
}
