// SPDX-License-Identifier: GPL-2.0

//! Properties of the decisions.

use proptest::prelude::*;

use super::gen::{self, OwnedLists};
use crate::proto::backward;
use crate::proto::cases::conn::TABLE;
use crate::proto::cases::plan::Conditions;
use crate::proto::cases::reply::check_lists;
use crate::proto::cases::window::Flow;
use crate::proto::conn::{Conn, State, Step};
use crate::proto::credits::effective;
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallKind, CallShape, Forms, PlanError, ReplyKind, ReplyShape};
use crate::proto::requester::reply::{check, Offer, Outcome, Violation};
use crate::wire::v1::len;
use crate::wire::{Direction, Limits, ListProc, Message, Segment, Version};

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..5000u32, 2 => 0..(2u32 << 20), 1 => any::<u32>()]
}

fn call_shape() -> impl Strategy<Value = CallShape> {
    let lens = (length(), length(), length());
    (lens, any::<bool>()).prop_map(
        |((head_len, page_len, tail_len), payload_in_pages)| CallShape {
            head_len,
            page_len,
            tail_len,
            payload_in_pages,
        },
    )
}

fn reply_shape() -> impl Strategy<Value = ReplyShape> {
    let lens = (length(), length(), length(), length());
    (lens, any::<bool>()).prop_map(
        |((head_len, page_len, tail_len, buflen), payload_in_pages)| ReplyShape {
            head_len,
            page_len,
            tail_len,
            buflen,
            payload_in_pages,
        },
    )
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let kilo = || (1..=256u32).prop_map(|k| k * 1024);
    let segs = prop_oneof![6 => 1..=16u32, 1 => any::<u32>()];
    (kilo(), kilo(), any::<bool>(), segs, any::<(bool, bool)>()).prop_map(
        |(client_to_server, server_to_client, data_touch, max_segs, (read_chunks, two))| {
            Conditions {
                thresholds: Thresholds {
                    client_to_server,
                    server_to_client,
                    remote_invalidation: false,
                    version: if two { Version::Two } else { Version::One },
                },
                data_touch,
                max_segs,
                read_chunks,
            }
        },
    )
}

/// Returns the length of the read chunk.
fn chunk_len(plan: &Forms, call: &CallShape) -> u64 {
    match plan.call {
        CallKind::Inline => 0,
        CallKind::ReadChunk { .. } => call.page_len.into(),
        CallKind::PositionZero => {
            u64::from(call.head_len) + u64::from(call.page_len) + u64::from(call.tail_len)
        }
    }
}

/// Returns the length of the header that a plan leads to, with as many segments as it may have.
fn header_len(plan: &Forms, segs: usize, version: Version) -> usize {
    let reads = if plan.call == CallKind::Inline {
        0
    } else {
        segs
    };
    let n = match plan.reply {
        ReplyKind::Inline => len::header(reads, None, None),
        ReplyKind::WriteChunk => len::header(reads, Some(segs), None),
        ReplyKind::ReplyChunk => len::header(reads, None, Some(segs)),
    };
    match version {
        Version::One => n,
        Version::Two => n + 4,
    }
}

proptest! {
    /// Every byte of the call except padding is sent exactly once, and every Send fits.
    #[test]
    fn plan_is_complete_and_fits(
        call in call_shape(),
        reply in reply_shape(),
        cond in conditions(),
    ) {
        let total = u64::from(call.head_len) + u64::from(call.page_len) + u64::from(call.tail_len);
        let plan = match cond.plan(&call, &reply) {
            Ok(plan) => plan,
            Err(PlanError::NoReadChunk) => {
                prop_assert!(cond.max_segs > 16 || !cond.read_chunks);
                return Ok(());
            }
            Err(PlanError::MessageTooLong) => return Ok(()),
        };
        let sent_inline = plan.call.inline_parts(&call).len();
        let sent = u64::from(sent_inline) + chunk_len(&plan, &call);
        let elided = total - sent;
        prop_assert!(elided <= 3);
        let pads = matches!(plan.call, CallKind::ReadChunk { .. });
        prop_assert!(elided == 0 || (pads && call.page_len % 4 != 0));
        let header = header_len(&plan, cond.max_segs as usize, cond.thresholds.version) as u64;
        let send = header + u64::from(sent_inline);
        prop_assert!(send <= u64::from(cond.thresholds.client_to_server));
        let long = plan.call == CallKind::PositionZero;
        prop_assert_eq!(plan.proc() == ListProc::Nomsg, long);
        prop_assert!(!long || sent_inline == 0);
    }

    /// A plan has data chunks only where they are allowed, and never both write chunk and reply
    /// chunk.
    #[test]
    fn plan_obeys_the_upper_layer(
        call in call_shape(),
        reply in reply_shape(),
        cond in conditions(),
    ) {
        let Ok(plan) = cond.plan(&call, &reply) else { return Ok(()) };
        if let CallKind::ReadChunk { position } = plan.call {
            prop_assert!(call.payload_in_pages && call.page_len > 0 && !cond.data_touch);
            prop_assert!(position == call.head_len && position % 4 == 0);
        }
        if plan.reply == ReplyKind::WriteChunk {
            prop_assert!(reply.payload_in_pages && reply.page_len > 0 && !cond.data_touch);
        }
        prop_assert!(cond.read_chunks || plan.call == CallKind::Inline);
        // A reply that fits inline has no chunk.
        let total = u64::from(reply.head_len) + u64::from(reply.page_len)
            + u64::from(reply.tail_len);
        let min = cond.thresholds.version.min_header() as u64;
        let room = u64::from(cond.thresholds.server_to_client) - min;
        let inline = total.max(u64::from(reply.buflen)) <= room;
        prop_assert_eq!(inline, plan.reply == ReplyKind::Inline);
    }

    /// Checks that the limit stays within 1..=max, and that no more messages are sent than the
    /// limit allows.
    #[test]
    fn credits_hold(ops in prop::collection::vec((0..3u8, any::<u32>(), 0..300u32), 0..200)) {
        let mut flow = Flow::new();
        for (op, grant, max) in ops {
            match op {
                0 => {
                    let before = flow.available();
                    prop_assert_eq!(flow.try_take(), before > 0);
                    prop_assert!(before == 0 || flow.in_flight() <= flow.limit());
                }
                1 => {
                    flow.on_reply(grant, max);
                    let limit = effective(grant, max);
                    prop_assert!((1..=max.max(1)).contains(&limit) && limit == flow.limit());
                    prop_assert!(limit <= grant.max(1));
                }
                _ => flow.on_unanswered(),
            }
            prop_assert!(flow.in_flight() > 0 || flow.available() > 0, "no message may be sent");
        }
    }

    /// In any order of events, the first failure stays and Draining is final.
    #[test]
    fn connection_lives_once(events in prop::collection::vec(0..TABLE.len(), 0..40)) {
        let mut conn = Conn::new();
        for i in events {
            let before = conn;
            let step = conn.on(TABLE[i].0);
            prop_assert_eq!(matches!(step, Step::To(_)), before.state() != conn.state());
            prop_assert!(before.failure().is_none() || before.failure() == conn.failure());
            prop_assert!(before.state() != State::Draining || conn == before);
            prop_assert_eq!(conn.failure().is_some(), conn.state() == State::Draining);
        }
    }

    /// A call of the peer is served only if it is inline, complete, and no longer than the room for
    /// it.
    #[test]
    fn backward_calls_are_inline_and_fit(
        lists in gen::lists(),
        plain in any::<bool>(),
        nomsg in any::<bool>(),
        (xid, same_xid, direction) in (any::<u32>(), any::<bool>(), 0..3u32),
        rest in prop::collection::vec(any::<u8>(), 0..64),
        max in 0..80u32,
    ) {
        let lists = if plain { OwnedLists::default() } else { lists };
        let inline = lists.len() == OwnedLists::default().len() && !nomsg;
        let mut bytes = std::vec![0; 16 + lists.len()];
        let proc = if nomsg { ListProc::Nomsg } else { ListProc::Msg };
        let writer = Version::One.begin(&mut bytes, xid, 1, Direction::Call, proc).unwrap();
        lists.encode(writer).unwrap();
        let message: std::vec::Vec<u8> = [if same_xid { xid } else { !xid }, direction]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .chain(rest)
            .collect();
        if !nomsg {
            bytes.extend(&message);
        }
        let header = Message::decode_as(Version::One, &bytes, &Limits::NONE).unwrap();
        prop_assert_eq!(backward::is_call(&header), !nomsg && direction == 0);
        let fits = message.len() <= max as usize;
        let served = inline && same_xid && fits && direction < 2;
        match backward::message(&header, max) {
            Ok(payload) => prop_assert!(served && payload == message),
            Err(_) => prop_assert!(!served),
        }
    }

    /// Accepted lengths never exceed the offer, for any reply.
    #[test]
    fn reply_never_exceeds_the_offer(
        offered in gen::lists(),
        returned in gen::lists(),
        same_shape in any::<bool>(),
        nomsg in any::<bool>(),
    ) {
        let returned = if same_shape { reshape(&offered, &returned) } else { returned };
        let (mut a, mut b) = (std::vec![0; 16 + offered.len()], std::vec![0; 16 + returned.len()]);
        let writer = Version::One.begin(&mut a, 1, 1, Direction::Call, ListProc::Msg).unwrap();
        offered.encode(writer).unwrap();
        let proc = if nomsg { ListProc::Nomsg } else { ListProc::Msg };
        let writer = Version::One.begin(&mut b, 1, 1, Direction::Call, proc).unwrap();
        returned.encode(writer).unwrap();
        let call = Message::decode_as(Version::One, &a, &Limits::NONE).unwrap();
        let reply = Message::decode_as(Version::One, &b, &Limits::NONE).unwrap();
        if let Ok((write, reply_len)) = check_lists(reply.lists().unwrap(), call.lists().unwrap()) {
            prop_assert!(returned.reads.is_empty());
            let sum = |c: &std::vec::Vec<Segment>| -> u64 {
                c.iter().map(|s| u64::from(s.length)).sum()
            };
            let room: u64 = offered.writes.iter().map(sum).sum();
            prop_assert!(u64::from(write) <= room);
            prop_assert_eq!(reply_len.is_some(), returned.reply.is_some());
            if let (Some(len), Some(chunk)) = (reply_len, &offered.reply) {
                prop_assert!(u64::from(len) <= sum(chunk));
            }
        }
        let offer = Offer {
            write_chunk: offered.writes.first().map(|c| c.as_slice()),
            reply_chunk: offered.reply.as_deref(),
        };
        match check(reply.body(), &offer) {
            Ok(Outcome::ReplyChunk { .. }) => prop_assert!(nomsg && returned.reply.is_some()),
            Ok(Outcome::Inline { .. }) => prop_assert!(!nomsg),
            Ok(Outcome::Error(_)) => prop_assert!(false),
            Err(v) => prop_assert_ne!(v, Violation::MessageType),
        }
    }
}

/// `offered` with lengths taken from `lengths`, most of them within the offer.
fn reshape(offered: &OwnedLists, lengths: &OwnedLists) -> OwnedLists {
    let mut returned = offered.clone();
    returned.reads.clear();
    let pool = lengths.writes.iter().flatten().map(|s| s.length);
    let mut pool = pool.chain([0, 1, 5]).cycle();
    let chunks = returned.writes.iter_mut().chain(returned.reply.iter_mut());
    for s in chunks.flatten() {
        let n = pool.next().unwrap_or(0);
        s.length = match n % 4 {
            0 => n,
            1 => 0,
            _ => s.length.min(n),
        };
    }
    returned
}
