// SPDX-License-Identifier: GPL-2.0

//! Chunk lists: plans, reassembly, and checks of replies.

use std::vec::Vec;

use super::Input;
use crate::proto::cases::plan::Conditions;
use crate::proto::cases::reply::{check_lists, lengths};
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallKind, CallShape, Forms, PlanError, ReplyKind, ReplyShape};
use crate::proto::requester::reply::{check, Offer};
use crate::proto::responder::reassembly::{position_zero, Piece, Reassembly};
use crate::wire::{Limits, Lists, Message, Segment, Version};

/// Checks that the pieces of a message have no gaps, use the base once, and obey the positions.
pub fn reassembly(data: &[u8]) {
    let Ok(header) = Message::decode_as(Version::One, data, &Limits::NONE) else {
        return;
    };
    let Some(lists) = header.lists() else { return };
    let max = 1 << 20;
    let inline = header.payload().len() as u32;
    if let Ok(pieces) = Reassembly::inline(lists, inline, max) {
        check_pieces(pieces, lists, 0, inline, max);
    }
    if let Ok(pieces) = Reassembly::long(lists, max) {
        let base: u32 = position_zero(lists).map(|r| r.segment.length).sum();
        check_pieces(pieces, lists, position_zero(lists).count(), base, max);
    }
}

fn check_pieces(pieces: Reassembly<'_>, lists: &Lists<'_>, skip: usize, base_len: u32, max: u32) {
    let (mut at, mut base) = (0u32, 0u32);
    let mut reads = lists.read_list().skip(skip);
    let mut chunk = None;
    let limit = 2 * lists.read_list().count() + 2 + lists.read_list().count();
    for (n, piece) in pieces.enumerate() {
        assert!(n <= limit, "too many pieces");
        let Ok(piece) = piece else { return };
        at += match piece {
            Piece::Base { start, len } => {
                assert!(start == base && len > 0);
                base += len;
                assert!(base <= base_len);
                len
            }
            Piece::Read(r) => {
                assert_eq!(Some(r), reads.next());
                assert!(chunk == Some(r.position) || r.position == at);
                chunk = Some(r.position);
                r.segment.length
            }
            Piece::RoundUp { len } => {
                assert!((1..=3).contains(&len) && (at + len) % 4 == 0);
                len
            }
        };
        assert!(at <= max);
    }
    assert_eq!((reads.next(), base), (None, base_len), "a piece is missing");
}

/// Checks that an accepted reply claims no more than its call has offered.
pub fn reply(data: &[u8]) {
    let Some((&split, data)) = data.split_first() else {
        return;
    };
    let (a, b) = data.split_at(usize::from(split).min(data.len()));
    let (Ok(call), Ok(reply)) = (
        Message::decode_as(Version::One, a, &Limits::NONE),
        Message::decode(b, &Limits::NONE),
    ) else {
        return;
    };
    let (Some(offered), Some(returned)) = (call.lists(), reply.lists()) else {
        return;
    };
    let sum = |s: &[Segment]| s.iter().map(|s| u64::from(s.length)).sum::<u64>();
    let room: u64 = offered.write_list().map(|c| c.total_len()).sum();
    let reply_room = offered.reply_chunk().map(|c| c.total_len());
    if let Ok((write, reply)) = check_lists(returned, offered) {
        assert!(u64::from(write) <= room);
        assert!(reply.map(u64::from) <= reply_room);
        assert_eq!(returned.read_list().count(), 0);
    }
    let write: Option<Vec<_>> = offered.write_list().next().map(|c| c.segments().collect());
    let chunk: Option<Vec<_>> = offered.reply_chunk().map(|c| c.segments().collect());
    let offer = Offer {
        write_chunk: write.as_deref(),
        reply_chunk: chunk.as_deref(),
    };
    let Ok(outcome) = check(reply.body(), &offer) else {
        return;
    };
    let (write_len, reply_len) = lengths(&outcome);
    assert!(u64::from(write_len) <= write.as_deref().map_or(0, sum));
    assert!(u64::from(reply_len) <= chunk.as_deref().map_or(0, sum));
}

/// Checks that plans send every byte once, and fit the thresholds.
pub fn plan(data: &[u8]) {
    let mut i = Input::new(data);
    let call = CallShape {
        head_len: i.number(),
        page_len: i.number(),
        tail_len: i.number(),
        payload_in_pages: i.byte() % 2 == 0,
    };
    let reply = ReplyShape {
        head_len: i.number(),
        page_len: i.number(),
        tail_len: i.number(),
        buflen: i.number(),
        payload_in_pages: i.byte() % 2 == 0,
    };
    let cond = Conditions {
        thresholds: Thresholds {
            client_to_server: i.number(),
            server_to_client: i.number(),
            remote_invalidation: false,
            version: if i.byte() % 2 == 0 {
                Version::One
            } else {
                Version::Two
            },
        },
        data_touch: i.byte() % 4 == 0,
        max_segs: i.number(),
        read_chunks: i.byte() % 8 != 0,
    };
    match cond.plan(&call, &reply) {
        Ok(plan) => check_plan(&plan, &call, &reply, &cond),
        Err(PlanError::MessageTooLong) => {
            let sum = |lens: [u32; 3]| lens.into_iter().map(u64::from).sum::<u64>();
            let c = sum([call.head_len, call.page_len, call.tail_len]);
            let r = sum([reply.head_len, reply.page_len, reply.tail_len]);
            assert!(c.max(r) > u64::from(u32::MAX));
        }
        Err(PlanError::NoReadChunk) => {
            let t = &cond.thresholds;
            let segs = cond.max_segs as usize;
            let most = t.version.header_len(segs, Some(segs), None);
            assert!(!cond.read_chunks || most as u64 > u64::from(t.client_to_server));
        }
    }
}

fn check_plan(plan: &Forms, call: &CallShape, reply: &ReplyShape, cond: &Conditions) {
    let t = &cond.thresholds;
    let segs = cond.max_segs as usize;
    let reads = if plan.call == CallKind::Inline {
        0
    } else {
        segs
    };
    let header = match plan.reply {
        ReplyKind::Inline => t.version.header_len(reads, None, None),
        ReplyKind::WriteChunk => t.version.header_len(reads, Some(segs), None),
        ReplyKind::ReplyChunk => t.version.header_len(reads, None, Some(segs)),
    };
    let inline = plan.call.inline_parts(call).len();
    assert!(header as u64 + u64::from(inline) <= u64::from(t.client_to_server));
    let total = call.head_len + call.page_len + call.tail_len;
    let chunk = match plan.call {
        CallKind::Inline => 0,
        CallKind::ReadChunk { .. } => call.page_len,
        CallKind::PositionZero => total,
    };
    let elided = total - inline - chunk;
    let padded = matches!(plan.call, CallKind::ReadChunk { .. }) && call.page_len % 4 != 0;
    assert!(elided == 0 || (padded && elided < 4));
    assert!(plan.reply != ReplyKind::WriteChunk || reply.page_len != 0);
    let data =
        matches!(plan.call, CallKind::ReadChunk { .. }) || plan.reply == ReplyKind::WriteChunk;
    assert!(!(data && cond.data_touch));
    assert!(cond.read_chunks || plan.call == CallKind::Inline);
    assert!(plan.call != CallKind::Inline || inline == total);
}
