// SPDX-License-Identifier: GPL-2.0

//! Events of features of RFC 5666 alone: configuration, padding, read chunks in replies.

use crate::observe::trace::{count, Peer};

events! {
    /// Traces a call of CONF_RDMA. Replies of up to `reply` bytes are sent inline from now on.
    fn conf_call(peer: Peer, xid: u32, reply: u32) => svcrdma_conf_call {
        addr: peer.endpoint(),
        xid: xid,
        length: reply,
    }

    /// Traces that `padding` bytes were removed from a call.
    fn padded_call(peer: Peer, xid: u32, padding: usize) => svcrdma_padded_call {
        addr: peer.endpoint(),
        xid: xid,
        length: count(padding),
    }

    /// Traces a reply of `length` bytes that is exposed as a read chunk.
    fn expose_reply(peer: Peer, xid: u32, length: u32) => svcrdma_expose_reply {
        addr: peer.endpoint(),
        xid: xid,
        length: length,
    }

    /// Traces an RDMA_DONE. The reply to the call with this XID exposed `exposed` bytes; zero if no
    /// such reply is exposed.
    fn done_received(peer: Peer, xid: u32, exposed: usize) => svcrdma_done_received {
        addr: peer.endpoint(),
        xid: xid,
        length: count(exposed),
    }
}
