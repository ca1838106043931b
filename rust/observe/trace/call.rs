// SPDX-License-Identifier: GPL-2.0

//! Events of calls: planning, chunks, header, memory regions, posting.

use super::{count, Cid, Peer, Region, Source, Task};
use crate::proto::requester::plan::{CallKind, CallShape, ReplyKind};
use crate::wire::{ReadSegment, Segment};

/// The forms of a call or a reply, with the numbers of `RPCRDMA_FORM_*` in
/// `include/rpcrdma/glue_trace.h`.
mod form {
    pub(super) const INLINE: u32 = 0;
    pub(super) const COPIED: u32 = 1;
    // The stock module uses 2 for calls whose pages a Send gathers.
    pub(super) const READ_CHUNK: u32 = 3;
    pub(super) const POSITION_ZERO: u32 = 4;
    pub(super) const WRITE_CHUNK: u32 = 5;
    pub(super) const REPLY_CHUNK: u32 = 6;
}

events! {
    /// Traces that memory regions were added to a connection's pool.
    fn createmrs(peer: Peer, count: u32) => xprtrdma_createmrs {
        peer(peer),
        count: count,
    }

    /// Traces that a call must wait because the pool of memory regions is empty.
    fn nomrs_err(task: Task, peer: Peer) => xprtrdma_nomrs_err {
        task(task),
        peer(peer),
    }

    /// Traces a read segment that was put into a call's header. `nents` is the number of entries of
    /// its scatterlist.
    fn chunk_read(task: Task, segment: &'a ReadSegment, nents: u32, last: bool)
        => xprtrdma_chunk_read {
        task(task),
        pos: segment.position,
        nents: nents as i32,
        segment(segment.segment),
        is_last: last,
    }

    /// Traces that a call is ready to be sent, with a transport header of `hdr_len` bytes.
    fn marshal(
        task: Task,
        xid: u32,
        hdr_len: usize,
        message: CallShape,
        call: CallKind,
        reply: ReplyKind,
    ) => xprtrdma_marshal {
        task(task),
        xid: xid,
        hdrlen: count(hdr_len),
        headlen: message.head_len,
        pagelen: message.page_len,
        taillen: message.tail_len,
        rtype: call_form(call),
        wtype: reply_form(reply),
    }

    /// Traces that a call could not be prepared. `ret` is the negative errno.
    fn marshal_failed(task: Task, xid: u32, ret: i32) => xprtrdma_marshal_failed {
        task(task),
        xid: xid,
        ret: ret,
    }

    /// Traces that a Send was posted, together with the registrations before it.
    fn post_send(cid: Cid, task: Task, num_sge: u32, signaled: bool) => xprtrdma_post_send {
        cid(cid),
        task(task),
        num_sge: num_sge as i32,
        signaled: signaled,
    }

    /// Traces that a Send could not be posted. `rc` is the negative errno.
    fn post_send_err(cq_id: u32, task: Task, rc: i32) => xprtrdma_post_send_err {
        cq_id: cq_id,
        task(task),
        rc: rc,
    }

    /// Traces that `count` Receives were posted, and that `posted` are now outstanding.
    fn post_recvs(peer: Peer, cq_id: u32, count: u32, posted: u32) => xprtrdma_post_recvs {
        peer(peer),
        cq_id: cq_id,
        count: count,
        posted: posted as i32,
    }

    /// Traces that Receives could not be posted. `status` is the negative errno.
    fn post_recvs_err(peer: Peer, cq_id: u32, status: i32) => xprtrdma_post_recvs_err {
        peer(peer),
        cq_id: cq_id,
        status: status,
    }

    /// Traces that local invalidations could not be posted. `status` is the negative errno.
    fn post_linv_err(task: Task, status: i32) => xprtrdma_post_linv_err {
        task(task),
        status: status,
    }
}

events! {
    class(task: Task, segment: &'a Segment, nents: u32, last: bool) {
        task(task),
        nents: nents as i32,
        segment(segment),
        is_last: last,
    }

    /// Traces a segment of the write chunk that was put into a call's header.
    fn chunk_write => xprtrdma_chunk_write;

    /// Traces a segment of the reply chunk that was put into a call's header.
    fn chunk_reply => xprtrdma_chunk_reply;
}

fn call_form(call: CallKind) -> u32 {
    match call {
        CallKind::Inline => form::COPIED,
        CallKind::ReadChunk { .. } => form::READ_CHUNK,
        CallKind::PositionZero => form::POSITION_ZERO,
    }
}

fn reply_form(reply: ReplyKind) -> u32 {
    match reply {
        ReplyKind::Inline => form::INLINE,
        ReplyKind::WriteChunk => form::WRITE_CHUNK,
        ReplyKind::ReplyChunk => form::REPLY_CHUNK,
    }
}

events! {
    /// Traces that the memory was unmapped, after which neither peer nor device can access it.
    fn mr_unmap(region: Region) => xprtrdma_mr_unmap {
        mr_id: region.mr_id,
        nents: region.nents as i32,
        segment(region.segment),
        dir: region.direction as u32,
    }

    /// Traces that an RPC ended without a reply, or will be sent again, while its regions were
    /// registered.
    fn mrs_zap(task: Task) => xprtrdma_mrs_zap {
        task(task),
    }
}

events! {
    class(task: Task, region: Region) {
        task(task),
        mr_id: region.mr_id,
        nents: region.nents as i32,
        segment(region.segment),
        dir: region.direction as u32,
    }

    /// Traces that memory was mapped for DMA, and that its registration was prepared.
    fn mr_map => xprtrdma_mr_map;

    /// Traces that a registration is being posted, so that the peer can access the memory.
    fn mr_fastreg => xprtrdma_mr_fastreg;

    /// Traces that a LOCAL_INV is being posted.
    fn mr_localinv => xprtrdma_mr_localinv;

    /// Traces that the peer invalidated the region with its reply.
    fn mr_reminv => xprtrdma_mr_reminv;
}

/// Traces with [`mr_fastreg`] that the registrations of `regions` are being posted.
#[inline(always)]
pub(crate) fn mr_fastregs<I: Iterator<Item: Source<Region>>>(
    task: impl Source<Task> + Copy,
    regions: impl FnOnce() -> I,
) {
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_mr_fastreg) {
        for region in regions() {
            mr_fastreg(task, region);
        }
    }
}

/// Traces with [`mr_unmap`] that the memory of `regions` was, or is being, unmapped.
#[inline(always)]
pub(crate) fn mr_unmaps<I: Iterator<Item: Source<Region>>>(regions: impl FnOnce() -> I) {
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_mr_unmap) {
        for region in regions() {
            mr_unmap(region);
        }
    }
}
