// SPDX-License-Identifier: GPL-2.0

//! Events of replies, of completions, and breaches of the protocol by a peer.

use kernel::prelude::*;

use super::{count, Cid, Peer, StackString, Task, WcStatus};
use crate::proto::requester::plan::ReplyShape;
use crate::proto::requester::reply::Violation;
use crate::wire::{DecodeError, Lists, Prefix, Segment};

events! {
    /// Traces the completion of a Receive of `received` bytes.
    fn wc_receive(cid: Cid, received: usize, wc: WcStatus) => xprtrdma_wc_receive {
        cid(cid),
        received: count(received),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }
}

events! {
    /// Traces that a call is aborted after it was sent. `waited` is true if the abort waited for
    /// the reply, because the call's memory was registered; `answered`, if the reply arrived
    /// meanwhile.
    fn given_up(task: Task, xid: u32, waited: bool, answered: bool) => xprtrdma_given_up {
        task(task),
        xid: xid,
        waited: waited,
        answered: answered,
    }

    /// Traces that a reply was matched with its call. `credits` is the grant, limited to the valid
    /// range.
    fn reply(task: Task, xid: u32, credits: u32) => xprtrdma_reply {
        task(task),
        xid: xid,
        credits: credits,
    }

    /// Traces that the responder answered ERR_VERS: it supports the versions `low` to `high`.
    fn err_vers(task: Task, xid: u32, low: u32, high: u32) => xprtrdma_err_vers {
        task(task),
        xid: xid,
        low: low,
        high: high,
    }

    /// Traces that the responder answered ERR_CHUNK.
    fn err_chunk(task: Task, xid: u32) => xprtrdma_err_chunk {
        task(task),
        xid: xid,
    }

    /// Traces that `bytes` of an inline reply were copied from the Receive buffer to the upper
    /// layer's pages.
    fn fixup(task: Task, bytes: usize, buffer: ReplyShape) => xprtrdma_fixup {
        task(task),
        fixup: bytes,
        headlen: buffer.head_len as usize,
        pagelen: buffer.page_len,
        taillen: buffer.tail_len as usize,
    }

    /// Traces a segment that was decoded from a reply. Its length is the number of bytes that the
    /// responder wrote. [`decode_segs`] calls this for all segments of a reply.
    fn decode_seg(segment: &'a Segment) => xprtrdma_decode_seg {
        segment(segment),
    }
}

events! {
    class(prefix: Prefix, peer: Peer) {
        xid: prefix.xid,
        version: prefix.version,
        proc: prefix.proc,
        peer(peer),
    }

    /// Traces that a message was dropped because its version is not the connection's.
    fn reply_vers_err => xprtrdma_reply_vers_err;

    /// Traces that a reply was dropped because no call is waiting for it.
    fn reply_rqst_err => xprtrdma_reply_rqst_err;

    /// Traces that a message was dropped because it is shorter than the four fixed words. The
    /// caller sets missing words to zero.
    fn reply_short_err => xprtrdma_reply_short_err;

    /// Traces that a reply's header could not be decoded, so that the RPC with its XID, if any,
    /// fails. The event [`malformed_hdr`] has the reason.
    fn reply_hdr_err => xprtrdma_reply_hdr_err;
}

events! {
    class(cid: Cid, wc: WcStatus) {
        cid(cid),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces the failure of a Send or a registration.
    fn wc_send => xprtrdma_wc_send;

    /// Traces the completion of a probe of the peer.
    fn wc_probe => xprtrdma_wc_probe;

    /// Traces the failure of a LOCAL_INV.
    fn wc_li => xprtrdma_wc_li;

    /// Traces the completion of the last LOCAL_INV of an RPC, for which a task is waiting.
    fn wc_li_wake => xprtrdma_wc_li_wake;

    /// Traces the completion of the last LOCAL_INV of an RPC, which completes the RPC.
    fn wc_li_done => xprtrdma_wc_li_done;
}

/// Traces every segment of a reply's lists with [`decode_seg`].
#[inline(always)]
pub(crate) fn decode_segs(lists: &Lists<'_>) {
    if event_enabled!(crate::raw::__tracepoint_xprtrdma_decode_seg) {
        for segment in lists.write_list().flat_map(|chunk| chunk.segments()) {
            decode_seg(&segment);
        }
        for segment in lists.reply_chunk().into_iter().flat_map(|c| c.segments()) {
            decode_seg(&segment);
        }
    }
}

events! {
    /// Traces that a header of `length` bytes was refused. `xid` is zero if the message was too
    /// short for one.
    fn malformed_hdr(peer: Peer, xid: u32, error: &'a DecodeError, length: usize)
        => xprtrdma_malformed_hdr {
        peer(peer),
        xid: xid,
        what: StackString::new(&error.what),
        offset: count(error.offset),
        length: count(length),
    }

    /// Traces that a reply used chunks that its call had not offered.
    fn reply_violation(task: Task, xid: u32, violation: Violation) => xprtrdma_reply_violation {
        task(task),
        xid: xid,
        what: violation_name(violation),
    }

    /// Traces that the peer invalidated an R_key that the answered call had not given to it, or any
    /// R_key although remote invalidation was not agreed.
    fn reminv_foreign(peer: Peer, xid: u32, handle: u32) => xprtrdma_reminv_foreign {
        peer(peer),
        xid: xid,
        handle: handle,
    }

    /// Traces that an operation other than a Send consumed a Receive. `opcode` is that of the
    /// completion (`enum ib_wc_opcode`).
    fn not_a_send(peer: Peer, opcode: u32) => xprtrdma_not_a_send {
        peer(peer),
        opcode: opcode,
    }

    /// Traces that a reply granted no credit, and that the grant counts as `used` instead.
    fn bad_credits(peer: Peer, xid: u32, granted: u32, used: u32) => xprtrdma_bad_credits {
        peer(peer),
        xid: xid,
        granted: granted,
        used: used,
    }
}

fn violation_name(violation: Violation) -> &'static CStr {
    match violation {
        Violation::MessageType => c"message type",
        Violation::ReadList => c"read list in a reply",
        Violation::ExtraWriteChunk => c"write chunk not offered",
        Violation::ExtraReplyChunk => c"reply chunk not offered",
        Violation::NoMessage => c"no message",
        Violation::SegmentCount => c"segment count",
        Violation::SegmentLength => c"segment longer than offered",
        Violation::Gap => c"gap",
        Violation::Overflow => c"length overflow",
    }
}
