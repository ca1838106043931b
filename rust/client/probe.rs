// SPDX-License-Identifier: GPL-2.0

//! Is a peer that owes replies still there?
//!
//! A server may lose its end of a connection and its word of that may get lost as well, in a
//! blackout of the link, for example. A client whose calls have all been acknowledged sends nothing
//! more and would learn of it when they time out, after a minute. So when a server that owes replies
//! has been silent for two whole intervals, an RDMA Write of nothing asks the device at its end. A
//! server that is merely slow is not disturbed by that; without an answer the connection is given up,
//! and the calls are sent again on the next one.

use kernel::error::code::ENOTCONN;
use kernel::sync::atomic::{Atomic, Relaxed};

use super::endpoint::Endpoint;
use super::link::Link;
use super::names;
use super::request::{Phase, Request, PROBE_TAG};
use super::transport::Client;
use crate::observe::trace::{self, WcStatus};
use crate::proto::requester::liveness;
use crate::rdma::qp::{PostError, Qp, WcError};
use crate::sunrpc::xprt::Xprt;

/// Seconds from one look to the next: the server is probed 10 to 15 s after its last word.
pub(super) const INTERVAL: u32 = 5;

/// What is known of a connection's silence.
pub(super) struct Vigil {
    /// A message has come since the last look.
    heard: Atomic<bool>,
    /// Looks in a row that found it silent; see [`liveness::after`]. Only [`look`] changes it, which
    /// runs once at a time.
    silent: Atomic<u32>,
    /// A probe is under way.
    probing: Atomic<bool>,
}

impl Vigil {
    /// Of a new connection.
    pub(super) const fn new() -> Self {
        Self {
            heard: Atomic::new(false),
            silent: Atomic::new(0),
            probing: Atomic::new(false),
        }
    }

    /// A message has come. Any context.
    #[inline]
    pub(super) fn heard(&self) {
        self.heard.store(true, Relaxed);
    }

    /// Whether a peer that owes replies has been silent for a whole interval at the last look.
    pub(super) fn is_quiet(&self) -> bool {
        liveness::is_quiet(self.silent.load(Relaxed)) && !self.heard.load(Relaxed)
    }

    /// Whether a message has come since the last time.
    fn take_heard(&self) -> bool {
        let heard = self.heard.load(Relaxed);
        // One that comes right now is lost: then a probe is sent too early, once.
        self.heard.store(false, Relaxed);
        heard
    }
}

/// Looks whether the peer has gone silent, and probes it then. To be called every [`INTERVAL`]; does
/// not sleep.
pub(super) fn look(client: &Client, xprt: &Xprt<Client>, ep: &Endpoint) {
    let vigil = &ep.link.vigil;
    let heard = vigil.take_heard();
    let owed = if heard { 0 } else { owed(xprt, ep.epoch) };
    let silent = liveness::after(vigil.silent.load(Relaxed), heard, owed > 0);
    vigil.silent.store(silent, Relaxed);
    if liveness::is_suspicious(silent) && !vigil.probing.load(Relaxed) && !client.unprobed() {
        vigil.silent.store(liveness::FIRST, Relaxed);
        probe(xprt, ep, owed);
    }
}

/// Replies that connection number `epoch` owes.
fn owed(xprt: &Xprt<Client>, epoch: u32) -> usize {
    let waiting = |request: &Request| {
        let seat = request.lock();
        let state = &seat.state;
        state.phase == Phase::Sent && state.epoch == epoch && !state.answered
    };
    xprt.slots().filter(|slot| waiting(slot.data())).count()
}

fn probe(xprt: &Xprt<Client>, ep: &Endpoint, owed: usize) {
    trace::probe(names::peer(xprt), owed);
    ep.link.vigil.probing.store(true, Relaxed);
    let Err(error) = ep.qp.post_probe(PROBE_TAG) else {
        return;
    };
    ep.link.vigil.probing.store(false, Relaxed);
    // ENOTCONN: the queue pair has failed before. Anything else is about the probe, and would be said of
    // the next one, too.
    if !matches!(error, PostError::Full | PostError::Broken(ENOTCONN)) {
        xprt.data().leave_unprobed();
    }
    // A full queue holds what was sent and not acknowledged, and ends in the same way. One that is being
    // closed is no news, and the next connection must not be taken for it.
    if error != PostError::Full && !ep.is_closed() {
        ep.link.give_up();
    }
}

/// A probe has ended. Completion worker; does not sleep.
pub(super) fn done(link: &Link, qp: &Qp<Link>, outcome: Result<(), WcError>) {
    link.vigil.probing.store(false, Relaxed);
    let cid = names::cid(qp, u32::MAX);
    let Err(error) = outcome else {
        return trace::wc_probe(cid, WcStatus::SUCCESS);
    };
    if error.is_flush() {
        return;
    }
    trace::wc_probe(cid, names::status(&error));
    // Only silence says that the peer is gone. In anything else one of the two devices has found fault
    // with the probe, and would do so again on the next connection.
    if !error.is_silence() {
        link.xprt().data().leave_unprobed();
    }
    link.give_up();
}
