// SPDX-License-Identifier: GPL-2.0

//! What a connection knows of its peer's silence. [`super::probe`] acts on it.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::proto::requester::liveness;

/// The silence of one connection's peer.
pub(super) struct Liveness {
    /// The number of looks in a row that found the peer silent; see [`liveness::after`]. Only the
    /// transport's watch changes it, which runs once at a time.
    silent: Atomic<u32>,
    /// A probe is under way.
    probing: Atomic<bool>,
}

impl Liveness {
    /// Makes the state of a new connection.
    pub(super) const fn new() -> Self {
        Self {
            silent: Atomic::new(0),
            probing: Atomic::new(false),
        }
    }

    /// Notes what a look has found: `heard`, whether a message has come since the last look, and
    /// `owed`, whether the peer owes a reply. Returns whether a probe is due.
    pub(super) fn look(&self, heard: bool, owed: bool) -> bool {
        let silent = liveness::after(self.silent.load(Relaxed), heard, owed);
        self.silent.store(silent, Relaxed);
        liveness::is_suspicious(silent) && !self.probing.load(Relaxed)
    }

    /// Returns whether the last look found that a peer which owes replies had been silent for a
    /// whole interval.
    pub(super) fn was_silent(&self) -> bool {
        liveness::is_quiet(self.silent.load(Relaxed))
    }

    /// Returns the number of looks in a row that found the peer silent while it owed a reply.
    pub(super) fn silent(&self) -> u32 {
        liveness::silent(self.silent.load(Relaxed))
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
