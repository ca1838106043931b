// SPDX-License-Identifier: GPL-2.0

//! Events about calls of the server, and our replies to them.

use kernel::prelude::*;

use super::Peer;
use crate::proto::backward::Refusal;

events! {
    /// Somebody wants to serve calls of the server, `reqs` at a time.
    fn cb_setup(peer: Peer, reqs: u32) => xprtrdma_cb_setup {
        addr: peer.addr,
        port: peer.port,
        reqs: reqs,
    }

    /// A call of the server has arrived.
    fn cb_call(peer: Peer, xid: u32) => xprtrdma_cb_call {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
    }

    /// The reply to such a call was posted.
    fn cb_reply(peer: Peer, xid: u32) => xprtrdma_cb_reply {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
    }

    /// A call of the server was dropped.
    fn cb_refused(peer: Peer, xid: u32, refusal: Refusal) => xprtrdma_cb_refused {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        reason: reason(refusal),
    }
}

fn reason(refusal: Refusal) -> &'static CStr {
    match refusal {
        Refusal::Form => c"not RDMA_MSG",
        Refusal::Chunks => c"chunks",
        Refusal::Xid => c"two XIDs",
        Refusal::TooLong => c"too long",
        Refusal::Overflow => c"more calls than granted",
        Refusal::NotServed => c"nobody serves it",
    }
}
