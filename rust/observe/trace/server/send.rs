// SPDX-License-Identifier: GPL-2.0

//! Events of Sends and of the send queue.

use super::SendQueue;
use crate::observe::trace::{Cid, Source, WcStatus};

events! {
    /// Traces that a Send was posted. It invalidates the R_key `inv_rkey`, or none if that is zero.
    fn post_send(cid: Cid, num_sge: u32, inv_rkey: u32) => svcrdma_post_send {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        num_sge: num_sge,
        inv_rkey: inv_rkey,
    }

    /// Traces that the Send of a reply with RDMA Writes is known to have completed.
    fn wc_send(cid: Cid) => svcrdma_wc_send {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
    }

    /// Traces that a Send was flushed, because the connection has ended.
    fn wc_send_flush(cid: Cid, wc: WcStatus) => svcrdma_wc_send_flush {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that a Send has failed.
    fn wc_send_err(cid: Cid, wc: WcStatus) => svcrdma_wc_send_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that a reply, or the RDMA Reads of a call, have to wait because the send queue has no
    /// room.
    fn sq_full(cid: Cid, queue: SendQueue) => svcrdma_sq_full {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        avail: queue.free as i32,
        depth: queue.depth as i32,
    }

    /// Traces that the send queue has room for what was waiting.
    fn sq_retry(cid: Cid, queue: SendQueue) => svcrdma_sq_retry {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        avail: queue.free as i32,
        depth: queue.depth as i32,
    }

    /// Traces that work requests could not be posted. `status` is the negative errno.
    fn sq_post_err(cid: Cid, queue: SendQueue, status: i32) => svcrdma_sq_post_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        avail: queue.free as i32,
        depth: queue.depth as i32,
        status: status,
    }
}

/// Traces the failure of a Send, with [`wc_send_flush`] or [`wc_send_err`].
#[cold]
pub(crate) fn send_failed(cid: impl Source<Cid>, wc: WcStatus) {
    if wc.is_flush() {
        wc_send_flush(cid, wc);
    } else {
        wc_send_err(cid, wc);
    }
}
