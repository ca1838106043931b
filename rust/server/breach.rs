// SPDX-License-Identifier: GPL-2.0

//! What a requester did wrong, so that its connection is closed.
//!
//! A connection has one breach at most: those that follow are consequences of the first.

use kernel::sync::atomic::Full;

use super::flights::Kind;
use super::log;
use super::responder::{Conn, QueuePair};
use crate::conn::owner::Owner as _;
use crate::conn::traced;
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::rdma::qp::{Tag, WcError};

/// Closes a connection because of a breach. `xid` is zero if it belongs to no message.
#[cold]
pub(super) fn close(conn: &Conn, xid: u32, breach: RequesterBreach) {
    if count(conn, xid, breach) {
        log::closed(&conn.owner().peer(), breach.what());
    }
    conn.force_close();
}

/// Closes a connection one of whose work requests, of `tag`, has failed or was flushed.
#[cold]
pub(super) fn failed(conn: &Conn, qp: &QueuePair, tag: Tag, error: &WcError) {
    let kind = conn.role().flights.kind(tag);
    let (cid, wc) = (traced::cid(qp, tag.get()), traced::status(error));
    match kind {
        Kind::Send => trace::server::send_failed(cid, wc),
        Kind::Write => trace::server::write_failed(cid, wc),
        Kind::Read => trace::server::read_failed(cid, wc),
        Kind::Probe => {}
    }
    let transfer = matches!(kind, Kind::Read | Kind::Write);
    let breach =
        RequesterBreach::of_send(wc).or_else(|| transfer.then(|| RequesterBreach::of_transfer(wc)));
    note(conn, error, breach);
    conn.force_close();
}

/// Notes that a Receive has failed, or that the device has reported an error.
#[cold]
pub(super) fn broken(conn: &Conn, qp: &QueuePair, error: &WcError) {
    let wc = traced::status(error);
    trace::server::recv_failed(traced::cid(qp, u32::MAX), wc);
    note(conn, error, RequesterBreach::of_receive(wc));
}

/// Counts, traces and logs the breach that a failure is. A flush is not logged: it only follows
/// from the end of the connection.
fn note(conn: &Conn, error: &WcError, breach: Option<RequesterBreach>) {
    let Some(breach) = breach else {
        return;
    };
    if count(conn, 0, breach) && !error.is_flush() {
        log::closed(&conn.owner().peer(), breach.what());
    }
}

/// Counts and traces the first breach of a connection. Returns whether it is the first.
fn count(conn: &Conn, xid: u32, breach: RequesterBreach) -> bool {
    let first = !conn.role().breached.xchg(true, Full);
    if first {
        report(conn, xid, breach);
    }
    first
}

/// Counts and traces a breach of the protocol by the requester. Closes nothing.
#[cold]
pub(super) fn report(conn: &Conn, xid: u32, breach: RequesterBreach) {
    conn.tally().breach();
    requester::breach(traced::peer(conn.owner()), xid, breach);
}
