// SPDX-License-Identifier: GPL-2.0

//! Probes a server that owes replies and is silent.
//!
//! A server may lose its end of a connection, and the message that says so may get lost as well,
//! for example in a blackout of the link. A client whose calls have all been acknowledged sends
//! nothing more. It would learn of the loss only when the calls time out, after a minute. So when a
//! server that owes replies has been silent for two whole intervals, the client posts an RDMA Write
//! of no bytes, which the device at the server's end has to acknowledge. A server that is merely
//! slow is not disturbed. Without an acknowledgement the connection is closed, and the calls are
//! sent again on the next one.

use kernel::error::code::ENOTCONN;

use super::advice::{self, Reason};
use super::endpoint::Endpoint;
use super::request::{Phase, Request};
use super::requester::{Conn, QueuePair};
use super::tags::PROBE_TAG;
use super::transport::Client;
use crate::conn::traced;
use crate::observe::trace::{self, WcStatus};
use crate::rdma::qp::{PostError, WcError};
use crate::sunrpc::xprt::Xprt;

/// Seconds from one look to the next. The server is probed 10 to 15 s after its last message.
pub(super) const INTERVAL: u32 = 5;

/// Looks whether the server has become silent, and then probes it. Call it every [`INTERVAL`]. Does
/// not sleep.
pub(super) fn look(client: &Client, xprt: &Xprt<Client>, ep: &Endpoint) {
    let heard = ep.shared().take_heard();
    let owed = if heard { 0 } else { owed(xprt, ep.epoch()) };
    if ep.requester().liveness.look(heard, owed > 0) {
        advice::log_unanswered(xprt, Reason::Mute);
        if !client.unprobed() {
            probe(client, ep, owed);
        }
    }
}

/// Returns whether a server that owes replies has been silent for a whole interval.
pub(super) fn is_silent(ep: &Endpoint) -> bool {
    ep.requester().liveness.was_silent() && !ep.shared().has_heard()
}

/// Counts the replies that connection number `epoch` owes.
fn owed(xprt: &Xprt<Client>, epoch: u32) -> usize {
    let waits = |request: &Request| {
        let locked = request.lock();
        let state = &locked.state;
        state.phase == Phase::Sent && state.epoch == epoch && !state.answered
    };
    xprt.slots().filter(|slot| waits(slot.data())).count()
}

fn probe(client: &Client, ep: &Endpoint, owed: usize) {
    let conn = ep.shared();
    trace::probe(traced::peer(conn.owner()), owed);
    ep.requester().liveness.probe_begins();
    let Err(error) = ep.qp().post_probe(PROBE_TAG) else {
        return conn.tally().probe();
    };
    ep.requester().liveness.probe_ends();
    // ENOTCONN means that the queue pair had failed before. Any other error is about the probe
    // itself, and would meet the next one, too.
    if !matches!(error, PostError::Full | PostError::Broken(ENOTCONN)) {
        client.set_unprobed();
    }
    // A full queue holds Sends that are not acknowledged, and the device reports their failure.
    if error != PostError::Full && !ep.is_closed() {
        conn.force_close();
    }
}

/// Handles the end of a probe. Completion worker; does not sleep.
pub(super) fn ended(conn: &Conn, qp: &QueuePair, outcome: Result<(), WcError>) {
    conn.role().liveness.probe_ends();
    let cid = traced::cid(qp, u32::MAX);
    let Err(error) = outcome else {
        return trace::wc_probe(cid, WcStatus::SUCCESS);
    };
    if error.is_flush() {
        return;
    }
    trace::wc_probe(cid, traced::status(&error));
    // Only silence means that the peer is gone. With any other error one of the two devices has
    // refused the probe, and would refuse it on the next connection as well.
    if !error.is_silence() {
        conn.owner().data().set_unprobed();
    }
    conn.force_close();
}
