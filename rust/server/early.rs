// SPDX-License-Identifier: GPL-2.0

//! Fetching a call before a thread of the service is woken for it.
//!
//! The completion worker posts the RDMA Reads of a call when its message arrives. The service is
//! woken once, when they have completed. The worker neither sleeps nor waits: if it lacks anything,
//! or if the message is to be refused, a thread of the service receives the message.

use kernel::prelude::*;

use super::call::Call;
use super::pull::{self, Fetcher};
use super::release;
use super::responder::{Conn, Incoming, QueuePair};
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::responder::intake::{self, Arrival};
use crate::wire;

/// Begins to fetch the call in a message. Returns whether it does; otherwise a thread of the
/// service has to receive the message. Completion worker.
#[inline]
pub(super) fn fetch(conn: &Conn, qp: &QueuePair, message: &Incoming<'_>) -> bool {
    let role = conn.role();
    if !wire::has_read_list(message.bytes()) {
        return false;
    }
    let fetcher = Fetcher {
        role,
        qp,
        may_sleep: false,
    };
    let Some(call) = prepare(&fetcher, message) else {
        return false;
    };
    release::posted(conn, fetcher.start(call));
    true
}

/// Prepares to fetch the call in a message.
#[inline(always)]
fn prepare(fetcher: &Fetcher<'_>, message: &Incoming<'_>) -> Option<KBox<Call>> {
    let role = fetcher.role;
    // The calls that wait for pages come first. A thread keeps to what the client says about Reads.
    if role.is_starved() {
        return None;
    }
    let bytes = message.bytes();
    let Ok(Arrival::Call(call)) = &intake::take_read(bytes, &role.limits) else {
        return None;
    };
    let needs = pull::permit(role, call).ok()??;
    let mut context = role.calls.begin_now(call, message.index())?;
    if fetcher.prepare(call, &mut context, needs).is_err() {
        role.calls.put(context);
        // A thread may have found no regions because this call had some. The message, which is
        // queued now, wakes a thread.
        role.refill();
        return None;
    }
    trace::server::decode_call(traced::cid(fetcher.qp, message.index()), bytes, call);
    Some(context)
}
