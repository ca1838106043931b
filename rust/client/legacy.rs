// SPDX-License-Identifier: GPL-2.0

//! Servers of RFC 5666: what is different with them.
//!
//! Such a server sends no private data (RFC 8797 is younger). What RFC 8166 has withdrawn is only
//! done towards a server that has sent none, or that has asked for it by the Connection
//! Configuration Protocol.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};

use super::asked::Conf;
use super::pulls::Pulls;

/// What a connection knows of a server that may be one of RFC 5666.
#[pin_data]
pub(super) struct Legacy {
    /// The server has sent no private data.
    may_be_old: AtomicFlag,
    #[pin]
    pub(super) conf: Conf,
    #[pin]
    pub(super) pulls: Pulls,
}

impl Legacy {
    /// Knows nothing yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            may_be_old: AtomicFlag::new(false),
            conf <- Conf::new(),
            pulls <- Pulls::new(),
        })
    }

    /// Returns whether the server may be one of RFC 5666: it has sent no private data.
    pub(super) fn may_be_old(&self) -> bool {
        self.may_be_old.load(Relaxed)
    }

    /// Notes whether the server has sent private data.
    pub(super) fn note_private_data(&self, any: bool) {
        self.may_be_old.store(!any, Relaxed);
    }
}
