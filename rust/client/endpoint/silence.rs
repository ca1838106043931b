// SPDX-License-Identifier: GPL-2.0

//! Probes a server that owes replies and is silent.
//!
//! A server may lose its end of a connection, and the disconnect message may get lost as well, for
//! example while the link is down. A client whose calls have all been acknowledged sends nothing
//! more, so it would learn of the loss only when the calls time out after a minute. When a server
//! that owes replies has been silent for two whole intervals, the client therefore posts an RDMA
//! Write of zero bytes, which the server's device must acknowledge. A server that is merely slow is
//! not disturbed. Without an acknowledgement the connection is closed, and the calls are sent again
//! on the next one.
//!
//! A device need not report that the server accepts nothing: over InfiniBand the server may ask for
//! messages without a Receive to be repeated without end, and TCP waits for a server whose window
//! is closed. Then neither a probe completes nor the LOCAL_INVs of a call, whose task may have been
//! killed and has no timer. In time the send queue has no space for a probe. The connection is
//! therefore also closed when nothing completes for [`MOST_STUCK`] intervals while a probe or
//! LOCAL_INVs are outstanding, or while the queue is nearly full.

use kernel::sync::atomic::{Atomic, Relaxed};

use super::tags::PROBE_TAG;
use super::{Conn, Endpoint, QueuePair};
use crate::compat::code::ENOTCONN;
use crate::conn::traced;
use crate::observe::trace::{self, WcStatus};
use crate::proto::requester::liveness;
use crate::rdma::qp::{PostError, WcError};

/// Seconds from one check to the next. The server is probed 10 to 15 s after its last message.
pub(in crate::client) const INTERVAL: u32 = 5;

/// The number of probes that fail in a row, after which a transport sends no more: a device that is
/// restarting fails one of them, a device that refuses probes fails all.
const MOST_FAILED: u32 = 2;

/// The number of whole intervals without a completion after which a connection is closed over which
/// a completion is awaited.
const MOST_STUCK: u32 = 3;

/// The silence of one connection's peer.
pub(in crate::client) struct Silence {
    /// The number of checks in a row that found the peer silent; see [`liveness::after`]. Only the
    /// transport's watch changes the number, and runs once at a time.
    silent: Atomic<u32>,
    /// The same number, counted from the latest message: not reset by a probe; shown in debugfs.
    quiet: Atomic<u32>,
    /// A probe is in progress.
    probing: Atomic<bool>,
    /// The number of checks in a row that found a completion awaited and none delivered, and the
    /// position of the latest one. Only the watch changes them.
    stuck: Atomic<u32>,
    retired: Atomic<u64>,
}

impl Silence {
    /// Makes the state of a new connection.
    pub(super) const fn new() -> Self {
        Self {
            silent: Atomic::new(0),
            quiet: Atomic::new(0),
            probing: Atomic::new(false),
            stuck: Atomic::new(0),
            retired: Atomic::new(0),
        }
    }

    /// Counts a check. `heard`: a message has arrived since the last check. `owed`: the peer owes a
    /// reply. Returns whether a probe is due.
    fn check(&self, heard: bool, owed: bool) -> bool {
        count(&self.quiet, heard, owed);
        liveness::is_suspicious(count(&self.silent, heard, owed)) && !self.probing.load(Relaxed)
    }

    /// Counts a check. `retired` is the position of the last work request that has completed.
    /// `awaited`: a completion is awaited besides that of a probe. Returns whether the connection
    /// must be closed because nothing completes.
    fn is_stuck(&self, retired: u64, awaited: bool) -> bool {
        let progress = self.retired.xchg(retired, Relaxed) != retired;
        let awaited = awaited || self.probing.load(Relaxed);
        liveness::silent(count(&self.stuck, progress, awaited)) >= MOST_STUCK
    }

    /// Returns the number of whole intervals since the latest message, if a reply is owed.
    pub(in crate::client) fn silent(&self) -> u32 {
        liveness::silent(self.quiet.load(Relaxed))
    }

    /// Records that a probe has been posted.
    fn probe_begins(&self) {
        self.silent.store(liveness::FIRST, Relaxed);
        self.probing.store(true, Relaxed);
    }

    /// Records that the probe has completed, or could not be posted.
    fn probe_ends(&self) {
        self.probing.store(false, Relaxed);
    }
}

/// Counts a check in `looks`, and returns the result; see [`liveness::after`].
fn count(looks: &Atomic<u32>, heard: bool, owed: bool) -> u32 {
    let after = liveness::after(looks.load(Relaxed), heard, owed);
    looks.store(after, Relaxed);
    after
}

impl Endpoint {
    /// Checks whether a completion has been awaited for too long, with `fencing` calls whose
    /// LOCAL_INVs are outstanding. The connection must be closed then. Call this every
    /// [`INTERVAL`].
    pub(in crate::client) fn is_stuck(&self, fencing: u32) -> bool {
        let (silence, (free, all)) = (&self.requester().silence, self.qp().send_queue());
        // On a queue that may be too full for a probe, a signalled work request is outstanding.
        silence.is_stuck(self.qp().retired(), fencing != 0 || free <= all / 4)
    }

    /// Checks whether the server has become silent, and then probes it. `owed` is the number of
    /// replies that it owes. Returns whether a probe is due. Call this every [`INTERVAL`]. Does not
    /// sleep.
    pub(in crate::client) fn check_silence(&self, owed: u32) -> bool {
        let heard = self.shared().take_heard();
        let due = self.requester().silence.check(heard, owed > 0);
        if due && self.shared().owner().data().failed_probes.load(Relaxed) < MOST_FAILED {
            self.probe(owed);
        }
        due
    }

    /// Returns whether a server that owes replies has been silent for a whole interval.
    pub(in crate::client) fn is_silent(&self) -> bool {
        let silent = self.requester().silence.silent.load(Relaxed);
        liveness::is_quiet(silent) && !self.shared().has_heard()
    }

    fn probe(&self, owed: u32) {
        let (conn, silence) = (self.shared(), &self.requester().silence);
        // CAST: `usize` has at least 32 bits.
        trace::probe(traced::peer(conn.owner()), owed as usize);
        silence.probe_begins();
        let Err(error) = self.qp().post_probe(PROBE_TAG) else {
            return conn.tally().probe();
        };
        silence.probe_ends();
        // ENOTCONN means that the queue pair had failed before. Any other error concerns the probe
        // itself.
        if !matches!(error, PostError::Full | PostError::Broken(ENOTCONN)) {
            conn.owner().data().failed_probes.add(1, Relaxed);
        }
        // A full queue holds Sends that are not acknowledged. The device reports their failure, or
        // `is_stuck` notices that it does not.
        if error != PostError::Full && !self.is_closed() {
            conn.force_close();
        }
    }
}

/// Handles the end of a probe. Completion worker; does not sleep.
pub(in crate::client) fn probe_ended(conn: &Conn, qp: &QueuePair, outcome: Result<(), WcError>) {
    conn.role().silence.probe_ends();
    let cid = traced::cid(qp, u32::MAX);
    let failed = &conn.owner().data().failed_probes;
    let Err(error) = outcome else {
        failed.store(0, Relaxed);
        return trace::wc_probe(cid, WcStatus::SUCCESS);
    };
    if error.is_flush() {
        return;
    }
    trace::wc_probe(cid, traced::status(&error));
    // Only silence means that the peer is gone. Any other error means that one of the devices has
    // failed, or has refused the probe, and would refuse it on the next connection as well.
    if !error.is_silence() {
        failed.add(1, Relaxed);
    }
    conn.force_close();
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_client_silence)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_across_probes() {
        let silence = Silence::new();
        assert!(!silence.check(true, true) && silence.silent() == 0);
        assert!(!silence.check(false, true) && silence.silent() == 1);
        for round in 1..4 {
            assert!(silence.check(false, true) && silence.silent() == 2 * round);
            silence.probe_begins();
            silence.probe_ends();
            assert!(!silence.check(false, true) && silence.silent() == 2 * round + 1);
        }
        assert!(!silence.check(true, true) && silence.silent() == 0);
    }

    #[test]
    fn a_completion_that_is_awaited_must_come_within_three_intervals() {
        let silence = Silence::new();
        for look in 1..10 {
            // Nothing is awaited, and then another completion has arrived.
            assert!(!silence.is_stuck(0, false));
            assert!(!silence.is_stuck(look, true));
        }
        for _ in 0..2 {
            assert!(!silence.is_stuck(9, true));
        }
        silence.probe_begins();
        assert!(silence.is_stuck(9, false));
        silence.probe_ends();
        assert!(!silence.is_stuck(9, false));
    }
}
