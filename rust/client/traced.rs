// SPDX-License-Identifier: GPL-2.0

//! How trace events name the task of an RPC, and the peer of a transport.

use super::transport::Client;
use crate::observe::trace::{Lazy, Peer, Task};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;

/// Returns the task of an RPC. Nothing is looked up unless the event is enabled.
#[inline(always)]
pub(super) fn task<'a, 'b>(
    rqst: &'a Rqst<'b, Client>,
) -> Lazy<impl FnOnce() -> Task + Copy + use<'a, 'b>> {
    Lazy(|| Task {
        task_id: rqst.task_id(),
        client_id: rqst.client_id(),
    })
}

/// Returns the peer of a transport. Nothing is looked up unless the event is enabled.
#[inline(always)]
pub(super) fn peer(xprt: &Xprt<Client>) -> Lazy<impl FnOnce() -> Peer + Copy + use<'_>> {
    Lazy(|| shown(xprt))
}

/// Returns the peer's address and port as SUNRPC shows them.
#[cold]
pub(super) fn shown(xprt: &Xprt<Client>) -> Peer {
    let shown = xprt.shown();
    Peer::new(&shown.addr, shown.port)
}
