// SPDX-License-Identifier: GPL-2.0

//! `kernel::prelude`.

pub use self::code::*;

/// An error: an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(i32);

/// The result of a fallible function.
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

/// The errors.
pub mod code {
    use super::Error;

    pub const EBUSY: Error = Error(16);
    pub const ENODEV: Error = Error(19);
    pub const EINVAL: Error = Error(22);
    pub const ENOSPC: Error = Error(28);
    pub const ENETUNREACH: Error = Error(101);
    pub const ENOTCONN: Error = Error(107);
}

impl Error {
    /// Returns the error of an errno.
    pub(crate) fn of(errno: i32) -> Self {
        Self(errno)
    }

    /// Returns the errno as C functions return it.
    pub fn to_errno(self) -> i32 {
        -self.0
    }
}

/// The flags of an allocation that may sleep.
pub const GFP_KERNEL: () = ();
