// SPDX-License-Identifier: GPL-2.0

//! The characteristics that this module knows: section 3.

use super::super::super::wire::xchar::{BackwardSupport, Characteristic, OpType};

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

/// The known characteristics that a peer does not expect to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    size: bool,
    invalidation: bool,
    backward: bool,
}

impl Fixed {
    /// None of them.
    pub const NONE: Self = Self {
        size: false,
        invalidation: false,
        backward: false,
    };

    /// Adds the characteristic of this value.
    pub const fn add(&mut self, known: Known) {
        match known {
            Known::ReceiveBufferSize(_) => self.size = true,
            Known::RemoteInvalidation(_) => self.invalidation = true,
            Known::BackwardSupport(_) => self.backward = true,
            // Only UPD_XCHAR has it.
            Known::PreferredThreshold(_) => {}
        }
    }

    /// Returns whether the characteristic of this value is one of them.
    pub const fn has(&self, known: Known) -> bool {
        match known {
            Known::ReceiveBufferSize(_) => self.size,
            Known::RemoteInvalidation(_) => self.invalidation,
            Known::BackwardSupport(_) => self.backward,
            Known::PreferredThreshold(_) => false,
        }
    }
}

/// The operations that a peer does not support: it has answered them by an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsupported {
    init: bool,
    request: bool,
    update: bool,
}

impl Unsupported {
    /// None of them.
    pub const NONE: Self = Self {
        init: false,
        request: false,
        update: false,
    };

    /// Adds an operation.
    pub const fn add(&mut self, op: OpType) {
        match op {
            OpType::Init => self.init = true,
            OpType::Request => self.request = true,
            OpType::Update => self.update = true,
            // It is sent only to a peer that has sent a request, and must support it.
            OpType::Response => {}
        }
    }

    /// Returns whether the peer may support an operation. Each operation is OPTIONAL by itself, but
    /// a peer without INIT_XCHAR has none (section 4).
    //= XC-4-4 each operation may be unsupported
    pub const fn allows(&self, op: OpType) -> bool {
        match op {
            OpType::Init => !self.init,
            OpType::Request => !self.init && !self.request,
            OpType::Update => !self.init && !self.update,
            OpType::Response => true,
        }
    }
}
