// SPDX-License-Identifier: GPL-2.0

//! Replies with read chunks, which RFC 5666 allows.
//!
//! The requester reads the chunks as a responder reads those of a call, and then sends RDMA_DONE
//! ([`super::done`]).

use super::super::super::wire::message::Body;
use super::super::super::wire::Message;
use super::super::requester::reply::Violation;
use super::super::responder::call::LONGEST_SEGMENT;
use super::super::responder::reassembly::{Placement, Source};

/// The content of the read chunks of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Bytes of the whole RPC message.
    pub len: u32,
    /// The number of RDMA Reads that it takes.
    pub reads: u32,
}

/// Returns the parts of a reply with read chunks, for which the RPC has space for `max` bytes.
/// [`check_pulled`] has checked them.
///
/// # Errors
///
/// [`Violation::ReadList`] if the chunks make up no message, or a longer one.
//= 5666-3.4-7 results may come as read chunks
//= 5666-5.2-2 long reply may come as read chunk
pub fn parts<'a>(reply: &Message<'a>, max: u32) -> Result<Placement<'a>, Violation> {
    let (lists, inline, long) = match *reply.body() {
        Body::Msg { lists, payload } => (lists, payload, false),
        Body::Nomsg { lists } => (lists, &[][..], true),
        _ => return Err(Violation::MessageType),
    };
    Placement::new(&lists, inline, long, max).map_err(|_| Violation::ReadList)
}

/// Checks a reply with read chunks. It must not also use chunks that the call offered.
///
/// # Errors
///
/// The first [`Violation`] found. The reply must then not be read.
//= 5666-3.8-5 replies may carry read chunks
pub fn check_pulled(reply: &Message<'_>, max: u32) -> Result<Pulled, Violation> {
    let lists = reply.lists().ok_or(Violation::MessageType)?;
    let written = lists.write_list().chain(lists.reply_chunk());
    if written.into_iter().any(|chunk| chunk.total_len() != 0) {
        return Err(Violation::ExtraWriteChunk);
    }
    for read in lists.read_list() {
        let last = u64::from(read.segment.length.saturating_sub(1));
        let wraps = read.segment.offset.checked_add(last).is_none();
        if read.segment.length > LONGEST_SEGMENT || wraps {
            return Err(Violation::SegmentLength);
        }
    }
    let mut found = Pulled { len: 0, reads: 0 };
    for part in parts(reply, max)? {
        let part = part.map_err(|_| Violation::ReadList)?;
        found.len = found.len.saturating_add(part.len);
        let read = matches!(part.source, Source::Read { .. });
        found.reads = found.reads.saturating_add(u32::from(read));
    }
    if found.reads == 0 {
        return Err(Violation::ReadList);
    }
    Ok(found)
}
