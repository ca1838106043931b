// SPDX-License-Identifier: GPL-2.0

//! Rare events of a connection, counted for the file `connections`.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::observe::connections::Counts;

/// The counters of one connection. All methods may be called in any context.
pub(crate) struct Tally {
    probes: Atomic<u64>,
    breaches: Atomic<u64>,
}

impl Tally {
    /// Makes the counters of a new connection.
    pub(crate) const fn new() -> Self {
        Self {
            probes: Atomic::new(0),
            breaches: Atomic::new(0),
        }
    }

    /// Counts a probe that was posted because the peer was silent.
    #[cold]
    pub(crate) fn probe(&self) {
        self.probes.add(1, Relaxed);
    }

    /// Counts a breach of the protocol by the peer.
    #[cold]
    pub(crate) fn breach(&self) {
        self.breaches.add(1, Relaxed);
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            probes: self.probes.load(Relaxed),
            breaches: self.breaches.load(Relaxed),
        }
    }
}
