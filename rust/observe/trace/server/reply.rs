// SPDX-License-Identifier: GPL-2.0

//! Events of replies: chunks, errors, Sends and the send queue.

use super::SendQueue;
use crate::observe::trace::{count, Cid, Peer, Source, WcStatus};
use crate::proto::responder::limits::Limits;
use crate::wire::{Message, Segment};

events! {
    /// Traces a segment that was put into a reply's header, with the length that is written. It is
    /// number `segno` of its chunk.
    fn encode_wseg(cid: Cid, segno: u32, segment: &'a Segment) => svcrdma_encode_wseg {
        cid(cid),
        segno: segno,
        segment(segment),
    }

    /// Traces that a chunk of `segments` segments is too short: `remaining` bytes do not fit.
    fn small_wrch_err(cid: Cid, remaining: u32, segments: u32) => svcrdma_small_wrch_err {
        cid(cid),
        remaining: remaining,
        seg_no: segments,
        num_segs: segments,
    }

    /// Traces that the inline part of a reply was copied behind its header. The lengths of both are
    /// in bytes.
    fn send_pullup(cid: Cid, hdr_len: usize, message: usize) => svcrdma_send_pullup {
        cid(cid),
        hdrlen: count(hdr_len),
        msglen: count(message),
    }

    /// Traces that a reply could not be sent, and that the connection is closed. `status` is the
    /// negative errno.
    fn send_err(peer: Peer, xid: u32, status: i32) => svcrdma_send_err {
        addr: peer.endpoint(),
        xid: xid,
        status: status,
    }

    /// Traces that a message is answered with ERR_VERS.
    fn err_vers(xid: u32) => svcrdma_err_vers {
        xid: xid,
    }

    /// Traces that a message is answered with ERR_CHUNK.
    fn err_chunk(xid: u32) => svcrdma_err_chunk {
        xid: xid,
    }
}

events! {
    class(cid: Cid, wc: WcStatus) {
        cid(cid),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that an RDMA Write was flushed, because the connection ended.
    fn wc_write_flush => svcrdma_wc_write_flush;

    /// Traces that an RDMA Write failed.
    fn wc_write_err => svcrdma_wc_write_err;

    /// Traces that a Send was flushed, because the connection ended.
    fn wc_send_flush => svcrdma_wc_send_flush;

    /// Traces that a Send failed.
    fn wc_send_err => svcrdma_wc_send_err;
}

events! {
    class(cid: Cid, work_requests: u32) {
        cid(cid),
        sqecount: work_requests as i32,
    }

    /// Traces that the RDMA Writes to a reply's write chunks were posted, with `work_requests` work
    /// requests.
    fn post_write_chunk => svcrdma_post_write_chunk;

    /// Traces that the RDMA Writes to a reply chunk were posted, with `work_requests` work
    /// requests.
    fn post_reply_chunk => svcrdma_post_reply_chunk;

    /// Traces that the memory of the RDMA Reads or Writes of an RPC is released.
    fn cc_release => svcrdma_cc_release;
}

/// Traces every segment in a reply's header, which has these `bytes`, with [`encode_wseg`].
#[inline(always)]
pub(crate) fn encode_lists(cid: impl Source<Cid>, bytes: &[u8], limits: &Limits) {
    if event_enabled!(crate::raw::__tracepoint_svcrdma_encode_wseg) {
        trace_segments(cid.get(), bytes, limits);
    }
}

#[cold]
fn trace_segments(cid: Cid, bytes: &[u8], limits: &Limits) {
    let Ok(message) = Message::decode(bytes, &limits.wire()) else {
        return;
    };
    let chunks = message.lists().map(|lists| {
        let written = lists.write_list();
        written.chain(lists.reply_chunk())
    });
    for chunk in chunks.into_iter().flatten() {
        for (segno, segment) in chunk.segments().enumerate() {
            encode_wseg(cid, count(segno), &segment);
        }
    }
}

events! {
    /// Traces that a Send was posted. It invalidates the R_key `inv_rkey`, or none if that is zero.
    fn post_send(cid: Cid, num_sge: u32, inv_rkey: u32) => svcrdma_post_send {
        cid(cid),
        num_sge: num_sge,
        inv_rkey: inv_rkey,
    }

    /// Traces that the Send of a reply with RDMA Writes is known to have completed.
    fn wc_send(cid: Cid) => svcrdma_wc_send {
        cid(cid),
    }

    /// Traces that a reply, or the RDMA Reads of a call, must wait because the send queue is full.
    fn sq_full(cid: Cid, queue: SendQueue) => svcrdma_sq_full {
        cid(cid),
        avail: queue.free as i32,
        depth: queue.depth as i32,
    }

    /// Traces that the send queue has space for the replies that were waiting.
    fn sq_retry(cid: Cid, queue: SendQueue) => svcrdma_sq_retry {
        cid(cid),
        avail: queue.free as i32,
        depth: queue.depth as i32,
    }

    /// Traces that work requests could not be posted. `status` is the negative errno.
    fn sq_post_err(cid: Cid, queue: SendQueue, status: i32) => svcrdma_sq_post_err {
        cid(cid),
        avail: queue.free as i32,
        depth: queue.depth as i32,
        status: status,
    }
}
