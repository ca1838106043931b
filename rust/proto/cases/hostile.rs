// SPDX-License-Identifier: GPL-2.0

//! Hostile requesters, and what becomes of each message: every decision that is taken without I/O.
//!
//! The numbers are those of the project's list of 55 cases. 36 of them are decided here: 1 to 21,
//! 24, 26 to 36, 38, 47 and 48. The others need a device, a clock or the upper layer.

use super::super::super::wire::cm_private;
use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::{Limits as Decoder, Lists, Message, Remedy, Version};
use super::super::backward;
use super::super::inline::Thresholds;
#[cfg(RPCRDMA_LEGACY)]
use super::super::legacy::padded::{Padded, Unfit as Padding};
use super::super::responder::call::{Call, Unfit};
use super::super::responder::grant::{Excess, Grant};
use super::super::responder::intake::{refuse, take, Arrival, Reason, Refusal};
use super::super::responder::limits::{read_depth, Limits};
use super::super::responder::marks::{Mark, Marks};
use super::super::responder::reassembly::Violation;
use super::super::responder::reply::{Cannot, Plan};
use super::ensure;
use super::window::Flow;

type Check = Result<(), &'static str>;

pub(super) const LIMITS: Limits = Limits {
    versions: (Version::One, Version::One),
    max_call: 0x10_1000,
    max_reply: 0x10_1000,
    read_wrs: 64,
    write_wrs: 64,
    sges: 30,
    read_pages: 30,
    page_shift: 12,
    remote_invalidation: true,
};

/// The fate of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// The message is answered with ERR_CHUNK.
    E,
    /// The message is answered with ERR_VERS, from version one to version one.
    V,
    /// The message is dropped.
    D,
    /// The message is a call that is served.
    O,
    /// The message counts as a reply of the backward direction.
    R,
    /// The message is RDMA_DONE, which is never answered.
    N,
}

use Want::{D, E, N, O, R, V};

const XID: u32 = 0x0bad_cafe;
/// The largest word, as a length or a count.
const HUGE: u32 = u32::MAX;

/// The message: its type, then the words behind the first four.
type Case = (u32, u32, &'static [u32], Want);

/// The rest of the header of an RPC call with an empty credential and verifier: with the XID and
/// the direction it has 40 bytes.
pub(super) const RPC: [u32; 8] = [2, 100_003, 3, 0, 0, 0, 0, 0];

/// Number of the case, message type, words, outcome. Messages end with their inline RPC message. If
/// that is a call beside a read list, [`RPC`] follows.
const TABLE: [Case; 45] = [
    // 5: a type that version one does not have, and RDMA_MSGP.
    (5, 7, &[0, 0, 0, XID, 0], E),
    (5, 2, &[0, 0, 0, 0, 0, XID, 0], E),
    (5, 2, &[64, 64, 0, 0, 0, XID, 1], D),
    (5, 2, &[64, 64, 0, 0, 0, XID, 0], E),
    // 6: RDMA_DONE; RDMA_ERROR, whole, truncated, and with an unknown code.
    (6, 3, &[], N),
    (6, 4, &[2], D),
    (6, 4, &[], D),
    (6, 4, &[9], D),
    // 7: the list is truncated; a discriminator that is no boolean.
    (7, 0, &[1, 8, 1, 64], E),
    (7, 0, &[2, 8, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    (7, 0, &[0, 2, 0, XID, 0], E),
    // 8, 9: counts of segments: none, and more than there are.
    (8, 0, &[0, 1, 0, 0, 0, XID, 0], E),
    (8, 0, &[0, 0, 1, 0, XID, 0], E),
    (9, 0, &[0, 1, HUGE, 1, 64, 0, 0, 0, 0, XID, 0], E),
    // 10 to 13: positions: unaligned, beyond, overlapping, descending.
    (10, 0, &[1, 38, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    // Within the RPC header, and right behind it.
    (10, 0, &[1, 4, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    (10, 0, &[1, 36, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    (10, 0, &[1, 40, 1, 64, 0, 0, 0, 0, 0, XID, 0], O),
    (11, 0, &[1, 44, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    (
        12,
        0,
        &[1, 40, 1, 8, 0, 0, 1, 44, 1, 8, 0, 0, 0, 0, 0, XID, 0],
        E,
    ),
    (
        13,
        0,
        &[1, 40, 1, 8, 0, 0, 1, 36, 1, 8, 0, 0, 0, 0, 0, XID, 0],
        E,
    ),
    // 14, 15: both an inline message and position zero, and neither.
    (14, 0, &[1, 0, 1, 64, 0, 0, 0, 0, 0, XID, 0], E),
    (15, 1, &[0, 0, 0], E),
    (15, 1, &[1, 4, 1, 64, 0, 0, 0, 0, 0], E),
    (15, 0, &[0, 0, 0], E),
    (15, 0, &[0, 0, 0, XID], E),
    // 16: two read chunks.
    (
        16,
        0,
        &[1, 40, 1, 8, 0, 0, 1, 48, 1, 8, 0, 0, 0, 0, 0, XID, 0],
        O,
    ),
    // 17: longer than the longest call, in one segment and in two.
    (17, 0, &[1, 40, 1, 0x10_0ffc, 0, 0, 0, 0, 0, XID, 0], E),
    (
        17,
        1,
        &[1, 0, 1, 0x10_0000, 0, 0, 1, 0, 1, 0x1001, 0, 0, 0, 0, 0],
        E,
    ),
    // 18: an empty segment, and chunks of nothing else.
    (
        18,
        0,
        &[1, 40, 1, 0, 0, 0, 1, 40, 1, 8, 0, 0, 0, 0, 0, XID, 0],
        O,
    ),
    (18, 0, &[1, 40, 1, 0, 0, 0, 0, 0, 0, XID, 0], E),
    (18, 0, &[0, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, XID, 0], E),
    // 19: the longest segments.
    (19, 0, &[1, 40, 1, HUGE, 0, 0, 0, 0, 0, XID, 0], E),
    (19, 0, &[0, 1, 1, 1, HUGE, 0, 0, 0, 0, XID, 0], E),
    (19, 0, &[0, 1, 1, 1, (1 << 31) + 1, 0, 0, 0, 0, XID, 0], E),
    (19, 0, &[0, 1, 1, 1, 1 << 31, 0, 0, 0, 0, XID, 0], O),
    // 20: an address that wraps, and one that just does not.
    (20, 0, &[1, 40, 1, 8, HUGE, HUGE - 6, 0, 0, 0, XID, 0], E),
    (20, 0, &[1, 40, 1, 8, HUGE, HUGE - 7, 0, 0, 0, XID, 0], O),
    // 21: position zero and another chunk.
    (21, 1, &[1, 0, 1, 64, 0, 0, 1, 8, 2, 8, 0, 0, 0, 0, 0], O),
    // A call that is no whole number of XDR words, by one segment and by two.
    (21, 1, &[1, 0, 1, 62, 0, 0, 0, 0, 0], E),
    (21, 1, &[1, 0, 1, 31, 0, 0, 1, 0, 1, 31, 0, 0, 0, 0, 0], E),
    (21, 1, &[1, 0, 1, 31, 0, 0, 1, 0, 1, 33, 0, 0, 0, 0, 0], O),
    // 30: a write chunk and a reply chunk.
    (
        30,
        0,
        &[0, 1, 1, 1, 64, 0, 0, 0, 1, 1, 2, 64, 0, 0, XID, 0],
        O,
    ),
    // 47, 48: replies of the backward direction; the table below continues with them.
    (47, 0, &[0, 0, 0, XID, 1], R),
    (48, 0, &[1, 8, 1, 8, 0, 0, 0, 0, 0, XID, 1], R),
];

/// Bytes of the longest message of the cases.
const BUF: usize = 2048;

/// Writes the words of a message. Returns its bytes.
fn message(buf: &mut [u8; BUF], words: impl Iterator<Item = u32>) -> Result<&[u8], &'static str> {
    let mut len: usize = 0;
    for (place, word) in buf.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
        len = len.saturating_add(4);
    }
    buf.get(..len).ok_or("buffer")
}

/// Removes the padding of a call, or returns why the call is refused.
#[cfg(RPCRDMA_LEGACY)]
fn unpad(bytes: &[u8], message: &Message<'_>) -> Result<(), &'static str> {
    let unpadded = Padded::new(bytes, message).and_then(|call| call.pieces(|_| ()));
    unpadded.map_err(Padding::text)
}

/// Refuses each call with padding.
#[cfg(not(RPCRDMA_LEGACY))]
fn unpad(_bytes: &[u8], _message: &Message<'_>) -> Result<(), &'static str> {
    Err("not served")
}

/// Returns the fate of a message.
fn outcome(bytes: &[u8]) -> Option<Want> {
    const ERR_VERS: ErrorBody = ErrorBody::Vers { low: 1, high: 1 };
    let remedy = match take(bytes, &LIMITS) {
        Ok(Arrival::Call(_)) => return Some(O),
        Ok(Arrival::Reply(_)) => return Some(R),
        Ok(Arrival::Optional(_)) => return None,
        Ok(Arrival::Done(XID)) => return Some(N),
        Ok(Arrival::Done(_)) => return None,
        Ok(Arrival::Padded(message)) => match unpad(bytes, &message) {
            Ok(()) => return Some(O),
            Err(why) => refuse(Version::One, message.xid(), Reason::Padding(why)).remedy,
        },
        Err(refusal) => refusal.remedy,
    };
    // An answer repeats the version word.
    let asked = bytes.get(4..8).and_then(|word| word.try_into().ok());
    let word = asked.map_or(0, u32::from_be_bytes);
    match remedy {
        Remedy::Drop => Some(D),
        Remedy::Answer {
            version,
            xid: XID,
            error,
        } if version == word => match error {
            ErrorBody::BadHeader => Some(E),
            ERR_VERS => Some(V),
            _ => None,
        },
        Remedy::Answer { .. } => None,
    }
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-4.2-2 errors are answered by RDMA_ERROR
//~ 5666-4.1-6 followed by an RPC message
pub fn check() -> Check {
    for (_, proc, words, want) in TABLE {
        let mut buf = [0; BUF];
        let reads = proc == 0 && words.starts_with(&[1]) && words.ends_with(&[XID, 0]);
        let rpc = if reads { &RPC[..] } else { &[] };
        let words = words.iter().chain(rpc).copied();
        let words = [XID, 1, 32, proc].into_iter().chain(words);
        ensure!(outcome(message(&mut buf, words)?) == Some(want), "table");
    }
    check_short()?;
    check_versions()?;
    check_many_segments()?;
    check_settings()?;
    check_rkeys()?;
    check_replies()?;
    check_excess()?;
    check_backward()
}

/// Cases 1 and 2: messages that end early.
fn check_short() -> Check {
    let mut buf = [0; BUF];
    let bytes = message(&mut buf, [XID, 1, 32, 0, 0, 0, 0, XID, 0].into_iter())?;
    for len in 0..36 {
        let want = match len {
            0..8 => D,
            _ => E,
        };
        let short = bytes.get(..len).ok_or("buffer")?;
        ensure!(outcome(short) == Some(want), "short");
    }
    ensure!(outcome(bytes) == Some(O), "whole");
    Ok(())
}

/// Cases 3 and 4: versions that are not served, with an optional message of version two.
//~ 5666-4.2-4 version otherwise valid at its receiver
fn check_versions() -> Check {
    for version in [0, 2, 3, HUGE] {
        for proc in [0, 1, 5, 77] {
            let mut buf = [0; BUF];
            let words = [XID, version, 32, proc, 0, 1, 0];
            ensure!(
                outcome(message(&mut buf, words.into_iter())?) == Some(V),
                "version"
            );
        }
        // An error is never answered, in whatever version.
        let mut buf = [0; BUF];
        let words = [XID, version, 32, 4, 1, 1, 1];
        ensure!(
            outcome(message(&mut buf, words.into_iter())?) == Some(D),
            "error"
        );
    }
    let mut buf = [0; BUF];
    let bytes = message(&mut buf, [XID, 2, 32, 5, 0, 1, 0].into_iter())?;
    let both = Limits {
        versions: (Version::One, Version::Two),
        ..LIMITS
    };
    ensure!(
        matches!(take(bytes, &both), Ok(Arrival::Optional(_))),
        "optional"
    );
    Ok(())
}

/// Case 24: many short segments.
fn check_many_segments() -> Check {
    let segment = [1, 1, 0, 0];
    let entry = [1, 40, 1, 1, 0, 0];
    for (n, served) in [
        (1, true),
        (31, true),
        (62, true),
        (63, false),
        (64, false),
        (65, false),
    ] {
        let mut buf = [0; BUF];
        let begin = [XID, 1, 32, 0].into_iter();
        let rpc = [0, 0, 0, XID, 0].into_iter().chain(RPC);
        let reads = (0..n).flat_map(|_| entry);
        let got = outcome(message(&mut buf, begin.clone().chain(reads).chain(rpc))?);
        ensure!(
            (got == Some(O)) == served && (served || got == Some(E)),
            "read segments"
        );
        // CAST: a small number.
        let (chunk, rpc) = ([0, 1, n as u32], [0, 0, XID, 0]);
        let writes = chunk.into_iter().chain((0..n).flat_map(|_| segment));
        let got = outcome(message(&mut buf, begin.chain(writes).chain(rpc))?);
        ensure!(
            (got == Some(O)) == served && (served || got == Some(E)),
            "write segments"
        );
    }
    Ok(())
}

/// Cases 32 to 34: private data, and the initiator depth.
//~ 5666-6.2-5 number of active RDMA Reads
fn check_settings() -> Check {
    let ours = cm_private::Settings {
        remote_invalidation: true,
        send: cm_private::Size::from_bytes(4096),
        receive: cm_private::Size::from_bytes(4096),
        versions: None,
    };
    let garbage = [0xf6, 0xab, 0x0e, 0x19, 1, 1, 9, 9];
    let later = [0xf6, 0xab, 0x0e, 0x18, 2, 1, 9, 9];
    for data in [&[][..], &garbage, &later, garbage.get(..7).ok_or("data")?] {
        let t = Thresholds::for_server(&ours, cm_private::decode(data));
        ensure!(t == Thresholds::DEFAULT, "no private data");
    }
    let zero = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 0];
    let t = Thresholds::for_server(&ours, cm_private::decode(&zero));
    let sizes = (t.client_to_server, t.server_to_client);
    ensure!(sizes == (1024, 1024) && t.remote_invalidation, "size zero");
    ensure!(
        read_depth(0, 16).is_none() && read_depth(4, 0).is_none(),
        "depth zero"
    );
    ensure!(
        read_depth(4, 16) == Some(4) && read_depth(200, 16) == Some(16),
        "depth"
    );
    Ok(())
}

/// Decodes a call with these words behind the first four.
fn call<'a>(
    buf: &'a mut [u8; BUF],
    words: &[u32],
    limits: &Limits,
) -> Result<Call<'a>, &'static str> {
    let words = words.iter().copied().chain(RPC);
    let words = [XID, 1, 32, 0].into_iter().chain(words);
    match take(message(buf, words)?, limits) {
        Ok(Arrival::Call(call)) => Ok(call),
        _ => Err("no call"),
    }
}

/// Cases 35 and 36: R_keys that differ, and a requester that does not support it.
//~ 8797-3.2-1 only if both ends support it
//~ 8797-4.1-3 replies use plain Send
fn check_rkeys() -> Check {
    let one = [1, 40, 5, 8, 0, 0, 0, 1, 1, 5, 64, 0, 0, 0, 0, XID, 0];
    let two = [1, 40, 5, 8, 0, 0, 0, 1, 1, 6, 64, 0, 0, 0, 0, XID, 0];
    let unset = Limits {
        remote_invalidation: false,
        ..LIMITS
    };
    let mut buf = [0; BUF];
    ensure!(
        call(&mut buf, &one, &LIMITS)?.rkey() == Some(5),
        "one R_key"
    );
    ensure!(
        call(&mut buf, &two, &LIMITS)?.rkey().is_none(),
        "two R_keys"
    );
    ensure!(call(&mut buf, &one, &unset)?.rkey().is_none(), "R unset");
    ensure!(
        call(&mut buf, &[0, 0, 0, XID, 0], &LIMITS)?
            .rkey()
            .is_none(),
        "no chunk"
    );
    Ok(())
}

/// Cases 26 to 31: chunks that are too small, unused, and missing.
fn check_replies() -> Check {
    let t = Thresholds::DEFAULT;
    let write = [0, 1, 1, 5, 64, 0, 0, 1, 1, 6, 64, 0, 0, 0, 0, XID, 0];
    let mut buf = [0; BUF];
    let lists = call(&mut buf, &write, &LIMITS)?;
    let lists = *lists.lists();
    let mut marks = Marks::new();
    marks.add(100, 65, &lists);
    let got = Plan::new(200, marks.as_slice(), &lists, &t);
    ensure!(got == Err(Cannot::WriteChunk), "26: the reply fails");
    marks.clear();
    marks.add(100, 64, &lists);
    marks.add(200, 60, &lists);
    ensure!(
        lengths(marks.as_slice(), &lists)? == [64, 60],
        "27: in order"
    );
    ensure!(lengths(&[], &lists)? == [0, 0], "28: unused");
    check_long_replies()
}

/// Returns the returned lengths of two chunks of one segment each.
fn lengths(marks: &[Mark], lists: &Lists<'_>) -> Result<[u32; 2], &'static str> {
    let plan = Plan::new(300, marks, lists, &Thresholds::DEFAULT).map_err(|_| "no plan")?;
    let mut buf = [0; 256];
    let n = plan
        .encode(&mut buf, XID, 1, |_| ())
        .map_err(|_| "no room")?;
    let reply = Message::decode(buf.get(..n).ok_or("buffer")?, &Decoder::NONE);
    let lists = reply
        .map_err(|_| "refused")?
        .lists()
        .copied()
        .ok_or("no lists")?;
    let mut found = lists
        .write_list()
        .flat_map(|c| c.segments())
        .map(|s| s.length);
    match (found.next(), found.next(), found.next()) {
        (Some(a), Some(b), None) => Ok([a, b]),
        _ => Err("another number of segments"),
    }
}

fn check_long_replies() -> Check {
    let t = Thresholds::DEFAULT;
    let reply = [0, 0, 1, 1, 6, 2000, 0, 0, XID, 0];
    let mut buf = [0; BUF];
    let lists = call(&mut buf, &reply, &LIMITS)?;
    let lists = *lists.lists();
    ensure!(
        Plan::new(2001, &[], &lists, &t) == Err(Cannot::ReplyChunk),
        "29: too small"
    );
    ensure!(Plan::new(2000, &[], &lists, &t).is_ok(), "29: just fits");
    // 30: the payload, and a long rest.
    let both = [0, 1, 1, 5, 64, 0, 0, 0, 1, 1, 6, 2000, 0, 0, XID, 0];
    let mut buf = [0; BUF];
    let lists = call(&mut buf, &both, &LIMITS)?;
    let lists = *lists.lists();
    let marks = [Mark {
        start: 100,
        len: 63,
    }];
    let plan = Plan::new(2064, &marks, &lists, &t).map_err(|_| "30: no plan")?;
    let written = |handle| {
        let mut sum = 0u32;
        let encoded = plan.encode(&mut [0; BUF], XID, 1, |w| {
            if w.handle == handle {
                sum = sum.saturating_add(w.range.len);
            }
        });
        encoded.map_or(0, |_| sum)
    };
    ensure!((written(5), written(6)) == (63, 2000), "30: both chunks");
    // 31: no chunk, and a reply that exceeds the requester's Receive.
    ensure!(
        Plan::new(996, &[], &Lists::EMPTY, &t).is_ok(),
        "31: just fits"
    );
    ensure!(
        Plan::new(997, &[], &Lists::EMPTY, &t) == Err(Cannot::Inline),
        "31: too long"
    );
    Ok(())
}

/// Case 38: calls beyond the grant.
fn check_excess() -> Check {
    let mut grant = Grant::new(128, 4);
    for _ in 0..Grant::FIRST.saturating_add(4) {
        ensure!(grant.on_call(32).is_ok(), "within the grant");
    }
    ensure!(grant.on_call(32) == Err(Excess), "beyond the grant");
    Ok(())
}

/// Cases 47 and 48: replies of the backward direction.
fn check_backward() -> Check {
    let received = |words: &[u32], max: u32| {
        let mut buf = [0; BUF];
        let words = [XID, 1, 0, 0].into_iter().chain(words.iter().copied());
        match take(message(&mut buf, words).ok()?, &LIMITS) {
            Ok(Arrival::Reply(reply)) => Some(backward::message(&reply, max).map(<[u8]>::len)),
            _ => None,
        }
    };
    let whole = [0, 0, 0, XID, 1, 0];
    ensure!(received(&whole, 64) == Some(Ok(12)), "whole");
    let long = received(&whole, 8);
    ensure!(long == Some(Err(backward::Refusal::TooLong)), "too long");
    let chunks = [1, 8, 1, 8, 0, 0, 0, 0, 0, XID, 1];
    let chunks = received(&chunks, 64);
    ensure!(chunks == Some(Err(backward::Refusal::Chunks)), "chunks");
    let other = received(&[0, 0, 0, 9, 1], 64);
    ensure!(other == Some(Err(backward::Refusal::Xid)), "another XID");
    for (granted, limit) in [(0, 1), (1 << 31, 16), (7, 7)] {
        let mut flow = Flow::new();
        flow.on_reply(granted, backward::CREDITS);
        ensure!(flow.limit() == limit, "grant");
    }
    Ok(())
}

/// Refusals name the defect, for the counters.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check_reasons() -> Check {
    let reason = |words: &[u32]| {
        let mut buf = [0; BUF];
        let words = words.iter().copied();
        let refusal: Option<Refusal> = take(message(&mut buf, words).ok()?, &LIMITS).err();
        refusal.map(|refusal| refusal.reason)
    };
    ensure!(reason(&[XID]) == Some(Reason::Short), "short");
    ensure!(reason(&[XID, 9]) == Some(Reason::Version(9)), "version");
    ensure!(
        matches!(reason(&[XID, 1]), Some(Reason::Header(_))),
        "header"
    );
    ensure!(
        matches!(reason(&[XID, 1, 1, 4, 2]), Some(Reason::Type(_))),
        "type"
    );
    let reply = [XID, 1, 1, 2, 64, 64, 0, 0, 0, XID, 1];
    ensure!(
        matches!(reason(&reply), Some(Reason::Type(_))),
        "a reply with padding"
    );
    let mut buf = [0; BUF];
    let call = [XID, 1, 1, 2, 64, 64, 0, 0, 0, XID, 0].into_iter();
    let call = take(message(&mut buf, call)?, &LIMITS);
    ensure!(matches!(call, Ok(Arrival::Padded(_))), "call with padding");
    let other = reason(&[XID, 1, 1, 0, 0, 0, 0, 9, 0]);
    ensure!(matches!(other, Some(Reason::Message(_))), "message");
    let zeros = reason(&[XID, 1, 1, 0, 0, 0, 0, 0, 0]);
    ensure!(matches!(zeros, Some(Reason::Message(_))), "XID of zero");
    let later = reason(&[XID, 1, 1, 1, 1, 4, 1, 64, 0, 0, 0, 0, 0]);
    let none = Reason::Chunks(Unfit::Reads(Violation::NoMessage));
    ensure!(later == Some(none), "no chunk at position zero");
    Ok(())
}
