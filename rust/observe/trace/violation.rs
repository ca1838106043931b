// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by a peer.

use kernel::prelude::*;

use super::{Peer, Task};
use crate::proto::reply::Violation;
use crate::wire::{DecodeError, What};

events! {
    /// A header of `length` bytes was refused. `xid` is zero if the message was too short for one.
    fn malformed_hdr(peer: Peer<'_>, xid: u32, error: &DecodeError, length: usize)
        => xprtrdma_malformed_hdr {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        what: what_name(error.what).0,
        value: what_name(error.what).1,
        offset: super::count(error.offset),
        length: super::count(length),
    }

    /// A reply claims something that its call had not offered.
    fn reply_violation(task: Task, xid: u32, violation: Violation) => xprtrdma_reply_violation {
        task_id: task.task_id,
        client_id: task.client_id,
        xid: xid,
        what: violation_name(violation),
    }

    /// The peer invalidated an R_key that the answered call had not exposed, or was not
    /// allowed to invalidate any.
    fn reminv_foreign(peer: Peer<'_>, xid: u32, handle: u32) => xprtrdma_reminv_foreign {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        handle: handle,
    }

    /// A reply granted no credit, or more than there are Receives for: `used` counts instead.
    fn bad_credits(peer: Peer<'_>, xid: u32, granted: u32, used: u32) => xprtrdma_bad_credits {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        granted: granted,
        used: used,
    }
}

fn what_name(what: What) -> (&'static CStr, u32) {
    match what {
        What::Truncated => (c"truncated", 0),
        What::Version(n) => (c"version", n),
        What::Proc(n) => (c"message type", n),
        What::Bool(n) => (c"discriminator", n),
        What::Position(n) => (c"read chunk position", n),
        What::ReadSegments => (c"too many read segments", 0),
        What::WriteChunks => (c"too many write chunks", 0),
        What::ChunkSegments(n) => (c"too many chunk segments", n),
        What::ErrorCode(n) => (c"error code", n),
    }
}

fn violation_name(violation: Violation) -> &'static CStr {
    match violation {
        Violation::MessageType => c"message type",
        Violation::ReadList => c"read list in a reply",
        Violation::ExtraWriteChunk => c"write chunk not offered",
        Violation::ExtraReplyChunk => c"reply chunk not offered",
        Violation::MissingWriteChunk => c"write chunk missing",
        Violation::NoMessage => c"no message",
        Violation::SegmentCount => c"segment count",
        Violation::SegmentLength => c"segment longer than offered",
        Violation::Gap => c"gap",
        Violation::Overflow => c"length overflow",
    }
}
