// SPDX-License-Identifier: GPL-2.0

//! Who processes a message that was decoded.

use super::requester::{Conn, Incoming, QueuePair};
use super::{backward, reply};
use crate::proto::backward::is_call;
use crate::wire::Message;

/// Passes on a call of the server, or a reply or error about a call of ours. `grant`: its credits
/// count. Completion worker; does not sleep.
#[inline]
pub(super) fn message(
    conn: &Conn,
    qp: &QueuePair,
    msg: &Incoming<'_>,
    header: &Message<'_>,
    grant: bool,
) {
    if is_call(header) {
        call(conn, msg, header);
    } else {
        reply::handle(conn, qp, msg, header, grant);
    }
}

/// Handles a call of the server.
fn call(conn: &Conn, msg: &Incoming<'_>, header: &Message<'_>) {
    // A call answers none of ours, so the peer had no key to invalidate.
    match msg.invalidated() {
        Some(rkey) => {
            reply::report_foreign_rkey(conn, header.xid(), rkey);
            conn.force_close();
        }
        None => backward::receive(conn, header),
    }
}
