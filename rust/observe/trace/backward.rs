// SPDX-License-Identifier: GPL-2.0

//! Events of calls that the server makes, and of the replies to them.

use kernel::prelude::*;

use super::Peer;
use crate::proto::backward::Refusal;

events! {
    /// Traces that SUNRPC has requested a backchannel, for `reqs` calls at a time.
    fn cb_setup(peer: Peer, reqs: u32) => xprtrdma_cb_setup {
        addr: peer.addr,
        port: peer.port,
        reqs: reqs,
    }

    /// Traces that a call of the server has arrived.
    fn cb_call(peer: Peer, xid: u32) => xprtrdma_cb_call {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
    }

    /// Traces that the reply to a call of the server was posted.
    fn cb_reply(peer: Peer, xid: u32) => xprtrdma_cb_reply {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
    }

    /// Traces that a call of the server was dropped.
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
