// SPDX-License-Identifier: GPL-2.0

//! RDMA_DONE, of RFC 5666: the requester has read what a reply has exposed.

use super::breach;
use super::config::DONE;
use super::flights::{lane, TAKEN_BACK};
use super::responder::{Conn, QueuePair};
use crate::conn::traced;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;

/// Handles an RDMA_DONE for the reply with this XID. It is counted, and answered by nothing. If the
/// reply was exposed, its memory is taken back. Process context.
#[cold]
pub(super) fn received(conn: &Conn, qp: &QueuePair, xid: u32) {
    DONE.add(lane(qp), 1);
    let found = conn.role().exposures.done(qp, TAKEN_BACK, xid);
    let exposed = found.as_ref().map_or(0, |&exposed| exposed);
    trace::server::done_received(traced::peer(conn.owner()), xid, exposed);
    match found {
        Ok(1..) => {}
        Ok(0) => breach::report(conn, xid, RequesterBreach::Done),
        Err(_) => conn.force_close(),
    }
}
