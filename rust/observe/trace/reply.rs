// SPDX-License-Identifier: GPL-2.0

//! Events on the way of a reply.

use super::{Peer, Task};
use crate::proto::requester::plan::ReplyShape;
use crate::wire::{Lists, Prefix, Segment};

events! {
    /// A call that was sent is given up. `waited`: for its reply, since its memory was exposed;
    /// `answered`: the reply has come after all.
    fn given_up(task: Task, xid: u32, waited: bool, answered: bool) => xprtrdma_given_up {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        waited: waited,
        answered: answered,
    }

    /// A reply was matched with its call. `credits`: the grant, after bounds.
    fn reply(task: Task, xid: u32, credits: u32) => xprtrdma_reply {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        credits: credits,
    }

    /// A message of another version than the connection's was dropped.
    fn reply_vers_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_vers_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// A reply was dropped for which no call is waiting.
    fn reply_rqst_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_rqst_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// A message too short for the four fixed words was dropped. What it lacks is to be zero.
    fn reply_short_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_short_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// A reply's header could not be decoded; the RPC that it names, if any, fails. See
    /// [`malformed_hdr`](super::malformed_hdr) for the reason.
    fn reply_hdr_err(prefix: Prefix, peer: Peer) => xprtrdma_reply_hdr_err {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        addr: peer.addr,
        port: peer.port,
    }

    /// The responder answered ERR_VERS: it speaks versions `low` to `high`.
    fn err_vers(task: Task, xid: u32, low: u32, high: u32) => xprtrdma_err_vers {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        low: low,
        high: high,
    }

    /// The responder answered ERR_CHUNK.
    fn err_chunk(task: Task, xid: u32) => xprtrdma_err_chunk {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
    }

    /// `bytes` of a reply that came inline were copied from the Receive buffer to the upper layer's
    /// pages.
    fn fixup(task: Task, bytes: usize, buffer: ReplyShape) => xprtrdma_fixup {
        task_id: task.task_id,
        client_id: task.client_id,
        fixup: bytes,
        headlen: buffer.head_len as usize,
        pagelen: buffer.page_len,
        taillen: buffer.tail_len as usize,
    }

    /// A segment was decoded from a reply; its length is what the responder wrote. See
    /// [`decode_segs`].
    fn decode_seg(segment: &'a Segment) => xprtrdma_decode_seg {
        handle: segment.handle,
        length: segment.length,
        offset: segment.offset,
    }
}

/// Emits [`decode_seg`] for every segment of a reply's lists.
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
