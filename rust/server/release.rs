// SPDX-License-Identifier: GPL-2.0

//! Frees what the device has finished with, and posts what waits for it. Process context; nothing
//! here sleeps.

use super::flights::Broken;
use super::responder::{Conn, QueuePair};
use crate::conn::traced;
use crate::observe::trace;
use crate::rdma::qp::Tag;
use crate::rdma::scatter::Source;

/// Frees the pages of all replies that are known to have been sent. Completion worker.
#[inline(always)]
pub(super) fn sent(conn: &Conn, qp: &QueuePair) {
    while let Some((tag, source)) = conn.role().flights.sent() {
        free(conn, qp, tag, source);
    }
}

/// Frees the pages of all replies that are known to have been sent, if no completion will tell of
/// them.
#[cold]
pub(super) fn sent_quietly(conn: &Conn, qp: &QueuePair) {
    while let Some((tag, source)) = conn.role().flights.sent_quietly() {
        free(conn, qp, tag, source);
    }
}

/// Frees the pages of a reply.
#[inline(always)]
fn free(conn: &Conn, qp: &QueuePair, tag: Tag, source: Source) {
    let cid = traced::cid(qp, tag.get());
    trace::server::wc_send(cid);
    trace::server::cc_release(cid, source.work_requests());
    conn.role().spare.put_source(source);
}

/// Posts what is parked, if there is anything: it may wait for a slot.
#[inline]
pub(super) fn resume_parked(conn: &Conn, qp: &QueuePair) {
    if conn.role().calls.parked() != 0 {
        resume(conn, qp);
    }
}

/// Posts what is parked, as far as there is room.
#[cold]
pub(super) fn resume(conn: &Conn, qp: &QueuePair) {
    posted(conn, conn.role().flights.resume(qp));
}

/// Announces that the connection takes replies again, if operations were posted that had been
/// parked; or closes the connection.
#[inline(always)]
pub(super) fn posted(conn: &Conn, result: Result<bool, Broken>) {
    match result {
        Ok(false) => {}
        Ok(true) => conn.owner().room_regained(),
        Err(Broken) => conn.force_close(),
    }
}
