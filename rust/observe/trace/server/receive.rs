// SPDX-License-Identifier: GPL-2.0

//! Events of Receives.

use crate::observe::trace::{count, Cid, Peer, Source, WcStatus};

events! {
    /// Traces that a Receive was posted.
    fn post_recv(cid: Cid) => svcrdma_post_recv {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
    }

    /// Traces that Receives could not be posted. `status` is the negative errno.
    fn rq_post_err(peer: Peer, status: i32) => svcrdma_rq_post_err {
        addr: peer.endpoint(),
        status: status,
    }

    /// Traces that a message of `received` bytes has arrived.
    fn wc_recv(cid: Cid, received: usize) => svcrdma_wc_recv {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        received: count(received),
    }

    /// Traces that a Receive was flushed, because the connection has ended.
    fn wc_recv_flush(cid: Cid, wc: WcStatus) => svcrdma_wc_recv_flush {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that a Receive has failed.
    fn wc_recv_err(cid: Cid, wc: WcStatus) => svcrdma_wc_recv_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }
}

/// Traces the failure of a Receive, with [`wc_recv_flush`] or [`wc_recv_err`].
#[cold]
pub(crate) fn recv_failed(cid: impl Source<Cid>, wc: WcStatus) {
    if wc.is_flush() {
        wc_recv_flush(cid, wc);
    } else {
        wc_recv_err(cid, wc);
    }
}
