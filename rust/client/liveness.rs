// SPDX-License-Identifier: GPL-2.0

//! What a connection knows of its peer's silence. [`super::probe`] acts on it.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::proto::requester::liveness;

/// The silence of one connection's peer.
pub(super) struct Liveness {
    /// The number of looks in a row that found the peer silent; see [`liveness::after`]. Only the
    /// transport's watch changes it, which runs once at a time.
    silent: Atomic<u32>,
    /// The same, counted from the latest message: a probe does not begin it anew. For people.
    quiet: Atomic<u32>,
    /// A probe is under way.
    probing: Atomic<bool>,
}

impl Liveness {
    /// Makes the state of a new connection.
    pub(super) const fn new() -> Self {
        Self {
            silent: Atomic::new(0),
            quiet: Atomic::new(0),
            probing: Atomic::new(false),
        }
    }

    /// Notes what a look has found: `heard`, whether a message has come since the last look, and
    /// `owed`, whether the peer owes a reply. Returns whether a probe is due.
    pub(super) fn look(&self, heard: bool, owed: bool) -> bool {
        let silent = liveness::after(self.silent.load(Relaxed), heard, owed);
        self.silent.store(silent, Relaxed);
        let quiet = liveness::after(self.quiet.load(Relaxed), heard, owed);
        self.quiet.store(quiet, Relaxed);
        liveness::is_suspicious(silent) && !self.probing.load(Relaxed)
    }

    /// Returns whether the last look found that a peer which owes replies had been silent for a
    /// whole interval.
    pub(super) fn was_silent(&self) -> bool {
        liveness::is_quiet(self.silent.load(Relaxed))
    }

    /// Returns the number of whole intervals since the latest message, if a reply is owed.
    pub(super) fn silent(&self) -> u32 {
        liveness::silent(self.quiet.load(Relaxed))
    }

    /// Notes that a probe is posted.
    pub(super) fn probe_begins(&self) {
        self.silent.store(liveness::FIRST, Relaxed);
        self.probing.store(true, Relaxed);
    }

    /// Notes that the probe has ended, or could not be posted.
    pub(super) fn probe_ends(&self) {
        self.probing.store(false, Relaxed);
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_client_liveness)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_across_probes() {
        let liveness = Liveness::new();
        assert!(!liveness.look(true, true) && liveness.silent() == 0);
        assert!(!liveness.look(false, true) && liveness.silent() == 1);
        for round in 1..4 {
            assert!(liveness.look(false, true) && liveness.silent() == 2 * round);
            liveness.probe_begins();
            liveness.probe_ends();
            assert!(!liveness.look(false, true) && liveness.silent() == 2 * round + 1);
        }
        assert!(!liveness.look(true, true) && liveness.silent() == 0);
    }
}
