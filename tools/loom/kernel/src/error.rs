// SPDX-License-Identifier: GPL-2.0

//! `kernel::error`.

use crate::prelude::{Error, Result};

/// Returns the result of a C function.
///
/// # Errors
///
/// The errno.
pub fn to_result(result: i32) -> Result {
    match result {
        0.. => Ok(()),
        _ => Err(Error::of(-result)),
    }
}

/// Returns a result as a C function does.
pub fn from_result(call: impl FnOnce() -> Result<i32>) -> i32 {
    call().unwrap_or_else(Error::to_errno)
}
