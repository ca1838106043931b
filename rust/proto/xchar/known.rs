// SPDX-License-Identifier: GPL-2.0

//! The characteristics that this module knows: section 3.

use super::super::super::wire::xchar::{BackwardSupport, Characteristic};

/// A characteristic that this module knows, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Receive Buffer Size in bytes.
    ReceiveBufferSize(u32),
    /// Requester Remote Invalidation.
    RemoteInvalidation(bool),
    /// Backward Request Support.
    BackwardSupport(BackwardSupport),
    /// The threshold that the sender prefers, in bytes: a characteristic of ours.
    PreferredThreshold(u32),
}

impl Known {
    /// Returns whether both are values of the same characteristic.
    pub fn same_kind(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    /// Returns the bit that stands for the characteristic in a set of those that INIT_XCHAR has.
    pub(super) const fn bit(self) -> u8 {
        match self {
            Self::ReceiveBufferSize(_) => 1,
            Self::RemoteInvalidation(_) => 2,
            Self::BackwardSupport(_) => 4,
            // Only UPD_XCHAR has it.
            Self::PreferredThreshold(_) => 0,
        }
    }

    /// Returns the known characteristic in a decoded value. `None` for an unknown one, which is
    /// skipped.
    //= XC-2.1-4 unknown characteristics are skipped without error
    pub const fn from_value(value: &Characteristic<'_>) -> Option<Self> {
        match *value {
            Characteristic::ReceiveBufferSize(n) => Some(Self::ReceiveBufferSize(n)),
            Characteristic::RemoteInvalidation(b) => Some(Self::RemoteInvalidation(b)),
            Characteristic::BackwardSupport(l) => Some(Self::BackwardSupport(l)),
            Characteristic::PreferredThreshold(n) => Some(Self::PreferredThreshold(n)),
            Characteristic::Other { .. } => None,
        }
    }

    /// Returns the value to encode.
    pub const fn value(self) -> Characteristic<'static> {
        match self {
            Self::ReceiveBufferSize(n) => Characteristic::ReceiveBufferSize(n),
            Self::RemoteInvalidation(b) => Characteristic::RemoteInvalidation(b),
            Self::BackwardSupport(l) => Characteristic::BackwardSupport(l),
            Self::PreferredThreshold(n) => Characteristic::PreferredThreshold(n),
        }
    }
}
