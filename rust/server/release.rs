// SPDX-License-Identifier: GPL-2.0

//! Frees what the device has finished with, and posts what waits for it. Process context; nothing
//! here sleeps.

use super::responder::{Conn, QueuePair};
use crate::conn::traced;
use crate::observe::trace;

/// Frees the pages of all replies that are known to have been sent.
#[inline(always)]
pub(super) fn sent(conn: &Conn, qp: &QueuePair) {
    let role = conn.role();
    while let Some((tag, source)) = role.flights.sent() {
        let cid = traced::cid(qp, tag.get());
        trace::server::wc_send(cid);
        trace::server::cc_release(cid, source.work_requests());
        role.spare.put_source(source);
    }
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
    match conn.role().flights.resume(qp) {
        Ok(true) => conn.owner().room_regained(),
        Ok(false) => {}
        Err(_) => conn.force_close(),
    }
}
