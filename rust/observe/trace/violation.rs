// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by a peer.

use kernel::prelude::*;

use super::{Peer, Task, Text};
use crate::proto::requester::reply::Violation;
use crate::wire::DecodeError;

events! {
    /// Traces that a header of `length` bytes was refused. `xid` is zero if the message was too
    /// short for one.
    fn malformed_hdr(peer: Peer, xid: u32, error: &'a DecodeError, length: usize)
        => xprtrdma_malformed_hdr {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        what: Text::new(&error.what),
        offset: super::count(error.offset),
        length: super::count(length),
    }

    /// Traces that a reply used chunks in a way that its call had not offered.
    fn reply_violation(task: Task, xid: u32, violation: Violation) => xprtrdma_reply_violation {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        what: violation_name(violation),
    }

    /// Traces that the peer invalidated an R_key that the answered call had not given to it, or
    /// invalidated one although it was not allowed to.
    fn reminv_foreign(peer: Peer, xid: u32, handle: u32) => xprtrdma_reminv_foreign {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        handle: handle,
    }

    /// Traces that a Receive was consumed by another operation than a Send. `opcode` is that of the
    /// completion (`enum ib_wc_opcode`).
    fn not_a_send(peer: Peer, opcode: u32) => xprtrdma_not_a_send {
        addr: peer.addr,
        port: peer.port,
        opcode: opcode,
    }

    /// Traces that a reply granted no credit, and that the grant counts as `used` instead.
    fn bad_credits(peer: Peer, xid: u32, granted: u32, used: u32) => xprtrdma_bad_credits {
        addr: peer.addr,
        port: peer.port,
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
