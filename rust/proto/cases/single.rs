// SPDX-License-Identifier: GPL-2.0

//! Calls without chunks or with one chunk of one segment, and the replies to them. The shortcut for
//! each kind takes every call and reply of that kind, and decides as the text of the protocol says.

use super::super::super::wire::{ListProc, Lists, Message, Segment, Version};
use super::super::inline::Thresholds;
use super::super::responder::call::{Call, LONGEST_SEGMENT};
use super::super::responder::intake::{one_read, one_write, plain, take, take_read, Arrival};
use super::super::responder::limits::Limits;
use super::super::responder::marks::Mark;
use super::super::responder::reassembly::{Part, Source};
use super::super::responder::reply::{Plan, Single};
use super::ensure;
use super::hostile::{LIMITS, RPC};

type Check = Result<(), &'static str>;

const XID: u32 = 77;
const BUF: usize = 160;
const BOTH: Limits = Limits {
    versions: (Version::One, Version::Two),
    ..LIMITS
};

/// Returns the limits of a call: bytes of the call, of the reply, work requests of either kind.
const fn limits(max_call: u32, max_reply: u32, wrs: u32) -> Limits {
    Limits {
        max_call,
        max_reply,
        read_wrs: wrs,
        write_wrs: wrs,
        ..BOTH
    }
}

/// Writes a message in this version: its direction if the header has one, and its further words.
fn message<'a>(
    buf: &'a mut [u8; BUF],
    (version, direction): (Version, u32),
    words: &[u32],
) -> Result<&'a [u8], &'static str> {
    let begin = [XID, version.number(), 32, 0];
    let direction = (version == Version::Two).then_some(direction);
    let all = begin
        .into_iter()
        .chain(direction)
        .chain(words.iter().copied());
    let mut len: usize = 0;
    for (place, word) in buf.chunks_exact_mut(4).zip(all) {
        place.copy_from_slice(&word.to_be_bytes());
        len = len.saturating_add(4);
    }
    buf.get(..len).ok_or("buffer")
}

/// Takes a call with one chunk of one segment by the shortcut for its list.
fn single<'a>(bytes: &'a [u8], limits: &Limits) -> Option<Call<'a>> {
    one_read(bytes, limits).or_else(|| one_write(bytes, limits))
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_plain()?;
    check_reads()?;
    check_writes()?;
    check_read()?;
    check_calls()?;
    check_only_read()?;
    check_replies()?;
    check_one_reply()?;
    check_long_replies()?;
    check_long_calls()
}

/// A call without chunks may be as long as the longest call. Another message is none.
fn check_plain() -> Check {
    let mut buf = [0; BUF];
    for version in [Version::One, Version::Two] {
        let bytes = message(&mut buf, (version, 0), &[0, 0, 0, XID, 0])?;
        for (max, taken) in [(7, false), (8, true), (9, true)] {
            let call = plain(bytes, &limits(max, 64, 9));
            ensure!(call.is_some() == taken, "longest call");
        }
        let call = plain(bytes, &BOTH).ok_or("plain call")?;
        ensure!(
            (call.xid(), call.version()) == (XID, version),
            "first words"
        );
        ensure!(call.total_len() == 8 && call.inline().len() == 8, "inline");
        ensure!(call.rkey().is_none() && call.reads() == 0, "no chunk");
        for other in [[0, 0, 0, XID, 1], [0, 0, 0, 9, 0], [0, 0, 0, 0, 0]] {
            let bytes = message(&mut buf, (version, 0), &other)?;
            ensure!(plain(bytes, &BOTH).is_none(), "no call");
        }
    }
    let reply = message(&mut buf, (Version::Two, 1), &[0, 0, 0, XID, 0])?;
    ensure!(plain(reply, &BOTH).is_none(), "direction of the header");
    ensure!(plain(reply, &LIMITS).is_none(), "version not served");
    Ok(())
}

/// Bytes inline beside a read segment: the header of an RPC call, and a word behind it.
const INLINE: u32 = 44;

/// One read segment beside [`INLINE`] bytes: position, length, address, limits, whether it is
/// taken.
type Read = (u32, u32, u64, Limits, bool);

const MANY: Limits = limits(1 << 20, 1 << 20, 64);

const READS: [Read; 26] = [
    (44, 8, 0, MANY, true),
    (40, 8, 0, MANY, true),
    // Within the RPC header.
    (36, 8, 0, MANY, false),
    (4, 8, 0, MANY, false),
    // Position zero is that of a long call; a position behind the inline part.
    (0, 8, 0, MANY, false),
    (48, 8, 0, MANY, false),
    // No bytes; lengths that do not fit a message.
    (44, 0, 0, MANY, false),
    (44, u32::MAX, 0, MANY, false),
    (44, u32::MAX - 3, 0, MANY, false),
    // The longest call, with the round-up.
    (44, 8, 0, limits(52, 64, 64), true),
    (44, 5, 0, limits(52, 64, 64), true),
    (44, 9, 0, limits(52, 64, 64), false),
    (44, 8, 0, limits(51, 64, 64), false),
    (44, 8, 0, limits(43, 64, 64), false),
    // One work request, and a second one from 29 pages on.
    (44, 8, 0, limits(1 << 20, 0, 1), true),
    (44, 8, 0, limits(1 << 20, 0, 0), false),
    (44, 28 << 12, 0, limits(1 << 20, 0, 1), true),
    (44, 29 << 12, 0, limits(1 << 20, 0, 2), true),
    (44, 29 << 12, 0, limits(1 << 20, 0, 1), false),
    // Only RDMA Reads count.
    (
        44,
        8,
        0,
        Limits {
            write_wrs: 0,
            ..MANY
        },
        true,
    ),
    (
        44,
        8,
        0,
        Limits {
            read_wrs: 0,
            ..MANY
        },
        false,
    ),
    // The last byte of the address space, and one beyond.
    (44, 8, u64::MAX - 7, MANY, true),
    (44, 8, u64::MAX - 6, MANY, false),
    // The longest segment, and a longer one.
    (44, LONGEST_SEGMENT, 0, limits(u32::MAX, 0, u32::MAX), true),
    (
        44,
        LONGEST_SEGMENT + 1,
        0,
        limits(u32::MAX, 0, u32::MAX),
        false,
    ),
    (40, 8, 0, LIMITS, true),
];

/// The words of a call with one read segment.
const fn read_words(position: u32, length: u32, offset: u64) -> [u32; 20] {
    // CAST: the halves of the address.
    let (high, low) = ((offset >> 32) as u32, offset as u32);
    let [a, b, c, d, e, f, g, h] = RPC;
    [
        1, position, 5, length, high, low, 0, 0, 0, XID, 0, a, b, c, d, e, f, g, h, 0,
    ]
}

/// A call that the shortcut leaves is refused.
//~ 5666-3.7-1 round-up that was not transferred
fn check_reads() -> Check {
    for (position, length, offset, limits, taken) in READS {
        let mut buf = [0; BUF];
        let words = read_words(position, length, offset);
        let bytes = message(&mut buf, (Version::One, 0), &words)?;
        let call = single(bytes, &limits);
        ensure!(call.is_some() == taken, "read segment");
        ensure!(take(bytes, &limits).is_ok() == taken, "served");
        let Some(call) = call else {
            continue;
        };
        let padded = length.next_multiple_of(4);
        ensure!(call.total_len() == padded.saturating_add(INLINE), "length");
        ensure!(call.pulled() == length && call.reads() == 1, "to be read");
        ensure!(call.rkey() == Some(5), "R_key");
    }
    Ok(())
}

/// One write segment beside 8 bytes inline: length, address, limits, whether it is taken.
type Write = (u32, u64, Limits, bool);

const WRITES: [Write; 13] = [
    (64, 0, MANY, true),
    (0, 0, MANY, false),
    (64, u64::MAX - 63, MANY, true),
    (64, u64::MAX - 62, MANY, false),
    (LONGEST_SEGMENT, 0, MANY, true),
    (LONGEST_SEGMENT + 1, 0, MANY, false),
    // No more is written than the longest reply. It touches up to three pages more than its bytes
    // fill: here one page less than 30, and 30 pages.
    (LONGEST_SEGMENT, 0, limits(64, 26 << 12, 1), true),
    (LONGEST_SEGMENT, 0, limits(64, 27 << 12, 1), false),
    (26 << 12, 0, limits(64, 1 << 20, 1), true),
    (27 << 12, 0, limits(64, 1 << 20, 1), false),
    (
        64,
        0,
        Limits {
            read_wrs: 0,
            ..MANY
        },
        true,
    ),
    (64, 0, limits(8, 64, 64), true),
    (64, 0, limits(7, 64, 64), false),
];

fn check_writes() -> Check {
    for (length, offset, limits, taken) in WRITES {
        let mut buf = [0; BUF];
        // CAST: the halves of the address.
        let (high, low) = ((offset >> 32) as u32, offset as u32);
        let words = [0, 1, 1, 5, length, high, low, 0, 0, XID, 0];
        let bytes = message(&mut buf, (Version::One, 0), &words)?;
        let call = single(bytes, &limits);
        ensure!(call.is_some() == taken, "write segment");
        ensure!(take(bytes, &limits).is_ok() == taken, "served");
        let Some(call) = call else {
            continue;
        };
        ensure!(call.total_len() == 8 && call.pulled() == 0, "all is inline");
        ensure!(call.reads() == 0 && call.rkey() == Some(5), "R_key");
        let chunk = call.lists().only_write().map(|s| (s.length, s.offset));
        ensure!(chunk == Some((length, offset)), "chunk");
    }
    Ok(())
}

/// The parts of a call with a read chunk in its middle.
fn check_read() -> Check {
    let mut buf = [0; BUF];
    let bytes = message(&mut buf, (Version::One, 0), &read_words(40, 6, 64))?;
    let call = single(bytes, &LIMITS).ok_or("read chunk")?;
    let part = |at, len, source| Part { at, len, source };
    let want = [
        part(0, 40, Source::Inline { start: 0 }),
        part(
            40,
            6,
            Source::Read {
                handle: 5,
                offset: 64,
            },
        ),
        part(46, 2, Source::RoundUp),
        part(48, 4, Source::Inline { start: 40 }),
    ];
    ensure!(call.parts().eq(want), "parts");
    let without = Limits {
        remote_invalidation: false,
        ..LIMITS
    };
    let call = single(bytes, &without).ok_or("read chunk")?;
    ensure!(call.rkey().is_none(), "no remote invalidation");
    Ok(())
}

/// In both versions a call is taken, and nothing else with such chunks.
fn check_calls() -> Check {
    let mut buf = [0; BUF];
    for version in [Version::One, Version::Two] {
        let mut words = read_words(40, 8, 0);
        let bytes = message(&mut buf, (version, 0), &words)?;
        let call = single(bytes, &BOTH).ok_or("a call")?;
        ensure!(
            (call.xid(), call.version()) == (XID, version),
            "first words"
        );
        for (xid, direction) in [(XID, 1), (9, 0), (0, 0)] {
            [words[9], words[10]] = [xid, direction];
            let bytes = message(&mut buf, (version, 0), &words)?;
            ensure!(single(bytes, &BOTH).is_none(), "no call");
        }
    }
    let (read, write) = (read_words(40, 8, 0), [0, 1, 1, 5, 64, 0, 9, 0, 0, XID, 0]);
    for words in [&read[..], &write] {
        let reply = message(&mut buf, (Version::Two, 1), words)?;
        ensure!(single(reply, &BOTH).is_none(), "direction of the header");
    }
    let call = message(&mut buf, (Version::Two, 0), &read_words(40, 8, 0))?;
    ensure!(single(call, &LIMITS).is_none(), "version not served");
    Ok(())
}

/// The only segment of a read list is all that is read, to its position in the call.
fn check_only_read() -> Check {
    fn served<'a>(buf: &'a mut [u8; BUF], words: &[u32]) -> Result<Call<'a>, &'static str> {
        match take(message(buf, (Version::One, 0), words)?, &LIMITS) {
            Ok(Arrival::Call(call)) => Ok(call),
            _ => Err("not served"),
        }
    }
    fn is_read(call: &Call<'_>) -> Option<bool> {
        let read = call.lists().only_read()?;
        let Segment { handle, offset, .. } = read.segment;
        let part = Part {
            at: read.position,
            len: read.segment.length,
            source: Source::Read { handle, offset },
        };
        let mut reads = call
            .parts()
            .filter(|part| matches!(part.source, Source::Read { .. }));
        Some((reads.next(), reads.next()) == (Some(part), None))
    }
    let mut buf = [0; BUF];
    let call = served(&mut buf, &read_words(40, 8, 64))?;
    ensure!(is_read(&call) == Some(true), "one segment");
    let call = served(&mut buf, &[0, 0, 0, XID, 0])?;
    ensure!(is_read(&call).is_none(), "no segment");
    let two = [1, 40, 5, 8, 0, 64, 1, 40, 5, 8, 0, 72, 0, 0, 0, XID, 0];
    let two: [u32; 25] = core::array::from_fn(|n| {
        let rpc = n.checked_sub(two.len()).and_then(|n| RPC.get(n));
        two.get(n).or(rpc).copied().unwrap_or_default()
    });
    let call = served(&mut buf, &two)?;
    ensure!(is_read(&call).is_none(), "two segments");
    // A long call: type RDMA_NOMSG, no inline part.
    let long = read_words(0, 64, 64);
    let len = message(&mut buf, (Version::One, 0), long.get(..9).ok_or("words")?)?.len();
    buf[15] = 1;
    let long = buf.get(..len).ok_or("buffer")?;
    let Ok(Arrival::Call(call)) = take(long, &LIMITS) else {
        return Err("long call");
    };
    ensure!(is_read(&call) == Some(true), "position zero");
    Ok(())
}

/// Length of a reply, its marks, and whether the shortcut takes it. The offer is a segment of 64
/// bytes, so that the header has 52 bytes in version one and 56 in version two.
type Reply = (u32, &'static [(u32, u32)], bool);

const REPLIES: [Reply; 17] = [
    (300, &[(100, 64)], true),
    (300, &[(100, 1)], true),
    (300, &[(0, 64)], true),
    // Padding behind the payload, whole, in part, and none.
    (108, &[(100, 5)], true),
    (106, &[(100, 5)], true),
    (105, &[(100, 5)], true),
    (104, &[(100, 5)], false),
    // A payload that is too long, empty, or in the middle of a word; no payload, and two.
    (300, &[(100, 65)], false),
    (300, &[(100, 0)], false),
    (300, &[(98, 8)], false),
    (300, &[(u32::MAX - 3, 8)], false),
    (300, &[], false),
    (300, &[(100, 8), (200, 8)], false),
    // The header and the rest just fit, in version two and in version one.
    (968 + 64, &[(100, 64)], true),
    (969 + 64, &[(100, 64)], false),
    (968 + 64, &[(968, 64)], true),
    (972 + 64, &[(972, 64)], false),
];

//~ 8166-3.4-1 do not write XDR padding
fn check_replies() -> Check {
    let offer = [0, 1, 1, 5, 64, 0, 9, 0, 0, XID, 0];
    let mut buf = [0; BUF];
    let call = message(&mut buf, (Version::One, 0), &offer)?;
    let call = single(call, &LIMITS).ok_or("a call")?;
    let two = Thresholds {
        version: Version::Two,
        ..Thresholds::DEFAULT
    };
    for (len, spans, taken) in REPLIES {
        let mut marks = [Mark::default(); 2];
        for (mark, &(start, len)) in marks.iter_mut().zip(spans) {
            *mark = Mark { start, len };
        }
        let marks = marks.get(..spans.len()).ok_or("marks")?;
        let reply = Single::new(len, marks, call.lists(), &two);
        ensure!(reply.is_some() == taken, "reply");
        if let Some(reply) = reply {
            check_planned(&reply, len, marks, call.lists(), &two)?;
        }
    }
    let longest = [Mark {
        start: 972,
        len: 64,
    }];
    for (len, fits) in [(972 + 64, true), (976 + 64, false)] {
        let one = Single::new(len, &longest, call.lists(), &Thresholds::DEFAULT);
        ensure!(one.is_some() == fits, "threshold in version one");
    }
    Ok(())
}

/// The general plan of such a reply is the same.
fn check_planned(
    reply: &Single,
    len: u32,
    marks: &[Mark],
    offered: &Lists<'_>,
    thresholds: &Thresholds,
) -> Check {
    let plan = Plan::new(len, marks, offered, thresholds).map_err(|_| "no plan")?;
    ensure!(reply.send_len() == plan.send_len(), "length of the Send");
    let long = plan.proc() == ListProc::Nomsg;
    ensure!(reply.is_long() == long, "message type");
    ensure!(long || reply.rest().eq(plan.rest()), "rest");
    let (mut a, mut b) = ([0; BUF], [0; BUF]);
    let mut written = None;
    let n = plan.encode(&mut a, 9, 3, |write| written = Some(write));
    ensure!(written == Some(reply.write()), "RDMA Write");
    ensure!(reply.encode(&mut b, 9, 3) == n && a == b, "header");
    Ok(())
}

/// A read segment of a message without an inline part: position, length, limits, and whether it is
/// taken.
const LONG_CALLS: [(u32, u32, Limits, bool); 7] = [
    (0, 6000, MANY, true),
    // Another position, no bytes, and a length that is no multiple of four.
    (4, 6000, MANY, false),
    (0, 0, MANY, false),
    (0, 6001, MANY, false),
    // The longest call, and work requests.
    (0, 6000, limits(6000, 64, 64), true),
    (0, 6001, limits(6000, 64, 64), false),
    (0, 29 << 12, limits(1 << 20, 64, 1), false),
];

/// Long calls with one segment.
fn check_long_calls() -> Check {
    let mut buf = [0; BUF];
    for (position, len, limits, taken) in LONG_CALLS {
        for version in [Version::One, Version::Two] {
            let words = [1, position, 5, len, 0, 9, 0, 0, 0];
            let end = message(&mut buf, (version, 0), &words)?.len();
            *buf.get_mut(15).ok_or("type")? = 1;
            let bytes = buf.get(..end).ok_or("buffer")?;
            let call = one_read(bytes, &limits);
            ensure!(call.is_some() == taken, "shortcut of a long call");
            let general = take(bytes, &limits);
            ensure!(general.is_ok() == taken, "long call");
            let same = call.is_none() || general.as_ref().ok() == call.map(Arrival::Call).as_ref();
            ensure!(same, "same long call");
            ensure!(take_read(bytes, &limits) == general, "taken as any call");
            if let Ok(Arrival::Call(call)) = general {
                ensure!(call.total_len() == len && call.reads() == 1, "one read");
            }
        }
    }
    let words = [1, 0, 5, 6000, 0, 9, 0, 0, 0];
    let reply = message(&mut buf, (Version::Two, 1), &words)?.len();
    *buf.get_mut(15).ok_or("type")? = 1;
    let reply = take(buf.get(..reply).ok_or("buffer")?, &BOTH);
    let is_call = matches!(reply, Ok(Arrival::Call(_)));
    ensure!(!is_call, "direction of the header");
    Ok(())
}

/// Lengths of replies to a call with a reply chunk of 2000 bytes, and whether they are long ones.
/// The header has 48 bytes, and the threshold is 1024.
const LONG: [(u32, bool); 6] = [
    (0, false),
    (976, false),
    (977, true),
    (2000, true),
    (2001, false),
    (u32::MAX, false),
];

/// Long replies: all of the reply is one RDMA Write.
fn check_long_replies() -> Check {
    let mut buf = [0; BUF];
    let t = Thresholds::DEFAULT;
    let offer = [0, 0, 1, 1, 5, 2000, 0, 9, XID, 0];
    let bytes = message(&mut buf, (Version::One, 0), &offer)?;
    let decoded = Message::decode(bytes, &LIMITS.wire()).map_err(|_| "refused")?;
    let lists = decoded.lists().ok_or("lists")?;
    for (len, taken) in LONG {
        let reply = Single::new(len, &[], lists, &t);
        ensure!(reply.is_some() == taken, "shortcut of a long reply");
        if let Some(reply) = reply {
            check_planned(&reply, len, &[], lists, &t)?;
        }
        let plan = Plan::new(len, &[], lists, &t).ok();
        let long = plan.filter(|plan| plan.proc() == ListProc::Nomsg);
        ensure!(long.is_some() == taken, "long reply");
        let Some(plan) = long else {
            continue;
        };
        ensure!(plan.send_len() == 48, "length of the header");
        let (mut header, mut written, mut writes) = ([0; BUF], None, 0u32);
        let n = plan.encode(&mut header, XID, 32, |write| {
            written = Some((
                write.range.start,
                write.range.len,
                write.handle,
                write.offset,
            ));
            writes = writes.saturating_add(1);
        });
        ensure!(written == Some((0, len, 5, 9)), "RDMA Write of all");
        ensure!(writes == 1, "one RDMA Write");
        let mut want = [0; BUF];
        let words = [0, 0, 1, 1, 5, len, 0, 9];
        message(&mut want, (Version::One, 0), &words)?;
        *want.get_mut(15).ok_or("type")? = 1;
        ensure!(n == Ok(48) && header == want, "long header");
    }
    Ok(())
}

/// The reply in bytes, and offers of other chunks.
fn check_one_reply() -> Check {
    let mark = [Mark { start: 100, len: 5 }];
    let mut buf = [0; BUF];
    let offer = [0, 1, 1, 5, 64, 0, 9, 0, 0, XID, 0];
    let call = message(&mut buf, (Version::One, 0), &offer)?;
    let call = single(call, &LIMITS).ok_or("a call")?;
    let t = Thresholds::DEFAULT;
    let reply = Single::new(112, &mark, call.lists(), &t).ok_or("reply")?;
    ensure!(reply.send_len() == 52 + 100 + 4, "length of the Send");
    let rest = reply.rest().map(|r| (r.start, r.len));
    ensure!(rest.eq([(0, 100), (108, 4)]), "rest");
    let write = reply.write();
    ensure!((write.handle, write.offset) == (5, 9), "memory");
    ensure!((write.range.start, write.range.len) == (100, 5), "payload");
    let mut buf = [0; BUF];
    let want = message(&mut buf, (Version::One, 0), &[0, 1, 1, 5, 5, 0, 9, 0, 0])?;
    let mut header = [0; BUF];
    let n = reply.encode(&mut header, XID, 32).map_err(|_| "no room")?;
    ensure!(header.get(..n) == Some(want), "header");
    for other in [
        &[0, 1, 2, 5, 64, 0, 9, 5, 64, 0, 9, 0, 0, XID, 0][..],
        &[0, 1, 1, 5, 64, 0, 9, 0, 1, 1, 5, 64, 0, 9, XID, 0],
        &[0, 0, 0, XID, 0],
    ] {
        let mut buf = [0; BUF];
        let bytes = message(&mut buf, (Version::One, 0), other)?;
        let decoded = Message::decode(bytes, &LIMITS.wire()).map_err(|_| "refused")?;
        let lists = decoded.lists().ok_or("lists")?;
        ensure!(Single::new(112, &mark, lists, &t).is_none(), "other chunks");
    }
    Ok(())
}
