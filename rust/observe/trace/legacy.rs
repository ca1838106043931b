// SPDX-License-Identifier: GPL-2.0

//! Events of features of RFC 5666 alone: configuration, padding, read chunks in replies.

use super::{count, Peer, StackString, Task};
use crate::proto::legacy::conf::Configuration;
use crate::wire::Message;

events! {
    /// Traces the outcome of a CONF_RDMA exchange. Without an agreement the values are zero.
    fn conf_answer(peer: Peer, outcome: &'static str, agreed: Option<&'a Configuration>)
        => xprtrdma_conf_answer {
        peer(peer),
        outcome: StackString::new(&outcome),
        call: agreed.map_or(0, |agreed| agreed.max_call),
        reply: agreed.map_or(0, |agreed| agreed.max_reply),
        align: agreed.and_then(|agreed| agreed.padding).map_or(0, |padding| padding.align()),
        reads: agreed.is_some_and(|agreed| agreed.read_chunks),
    }

    /// Traces a call that has `pad` bytes before its data, which are aligned to `align` bytes.
    fn padded_call(task: Task, xid: u32, align: u32, pad: u32) => xprtrdma_padded_call {
        task(task),
        xid: xid,
        align: align,
        pad: pad,
    }

    /// Traces a reply with read chunks that is about to be read. The RPC message has `length`
    /// bytes, and its read chunks as many segments.
    fn pull_reply(peer: Peer, header: &'a Message<'a>, length: u32) => xprtrdma_pull_reply {
        peer(peer),
        xid: header.xid(),
        length: length,
        segments: count(header.lists().map_or(0, |lists| lists.read_list().count())),
    }

    /// Traces that an RDMA_DONE was posted.
    fn done_sent(peer: Peer, xid: u32) => xprtrdma_done_sent {
        peer(peer),
        xid: xid,
    }
}
