// SPDX-License-Identifier: GPL-2.0

//! Events of replies.

use super::{Peer, Task};
use crate::proto::requester::plan::ReplyShape;
use crate::wire::{Lists, Prefix, Segment};

events! {
    /// Traces that a call is given up after it was sent. `waited` says whether its reply was
    /// awaited, because its memory was registered; `answered`, whether the reply has arrived
    /// meanwhile.
    fn given_up(task: Task, xid: u32, waited: bool, answered: bool) => xprtrdma_given_up {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        waited: waited,
        answered: answered,
    }

    /// Traces that a reply was matched with its call. `credits` is the grant, limited to the valid
    /// range.
    fn reply(task: Task, xid: u32, credits: u32) => xprtrdma_reply {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        credits: credits,
    }

    /// Traces that a message was dropped because its version is not the connection's.
    fn reply_vers_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_vers_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// Traces that a reply was dropped because no call is waiting for it.
    fn reply_rqst_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_rqst_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// Traces that a message was dropped because it is shorter than the four fixed words. The
    /// caller sets missing words to zero.
    fn reply_short_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_short_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// Traces that a reply's header could not be decoded, so that the RPC with its XID, if there is
    /// one, fails. The event [`malformed_hdr`](super::malformed_hdr) has the reason.
    fn reply_hdr_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_hdr_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// Traces that the responder has answered ERR_VERS: it supports the versions `low` to `high`.
    fn err_vers(task: Task, xid: u32, low: u32, high: u32) => xprtrdma_err_vers {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        low: low,
        high: high,
    }

    /// Traces that the responder has answered ERR_CHUNK.
    fn err_chunk(task: Task, xid: u32) => xprtrdma_err_chunk {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
    }

    /// Traces that `bytes` of an inline reply were copied from the Receive buffer to the upper
    /// layer's pages.
    fn fixup(task: Task, bytes: usize, buffer: ReplyShape) => xprtrdma_fixup {
        task_id: task.task_id,
        client_id: task.client_id,
        fixup: bytes,
        headlen: buffer.head_len as usize,
        pagelen: buffer.page_len,
        taillen: buffer.tail_len as usize,
    }

    /// Traces a segment that was decoded from a reply, whose length is what the responder has
    /// written. [`decode_segs`] calls this for all segments of a reply.
    fn decode_seg(segment: &'a Segment) => xprtrdma_decode_seg {
        handle: segment.handle,
        length: segment.length,
        offset: segment.offset,
    }
}

/// Traces every segment of a reply's lists with [`decode_seg`].
#[inline(always)]
pub(crate) fn decode_segs(lists: &Lists<'_>) {
    #[cfg(CONFIG_TRACEPOINTS)]
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_decode_seg) {
        for segment in lists.write_list().flat_map(|chunk| chunk.segments()) {
            decode_seg(&segment);
        }
        for segment in lists.reply_chunk().into_iter().flat_map(|c| c.segments()) {
            decode_seg(&segment);
        }
    }
    #[cfg(not(CONFIG_TRACEPOINTS))]
    let _ = lists;
}
