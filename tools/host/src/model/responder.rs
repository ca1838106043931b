// SPDX-License-Identifier: GPL-2.0

//! The decisions of a responder beside slow models that look at every byte.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use super::Input;
use crate::proto::cases::window::Flow;
use crate::proto::inline::Thresholds;
use crate::proto::responder::call::{Call, LONGEST_SEGMENT};
use crate::proto::responder::grant::Grant;
use crate::proto::responder::intake::{take, take_read, Arrival};
use crate::proto::responder::limits::Limits;
use crate::proto::responder::marks::{Mark, Marks, MOST};
use crate::proto::responder::reassembly::{Part, Source};
use crate::proto::responder::reply::{Cannot, Plan, Single, Write};
use crate::wire::{self, Direction, ListProc, Lists, Message, Segment, Version};

/// Limits that are small enough for a model of every byte.
pub const LIMITS: Limits = Limits {
    versions: (Version::One, Version::Two),
    max_call: 1000,
    max_reply: 1000,
    read_wrs: 12,
    write_wrs: 12,
    sges: 2,
    read_pages: 2,
    page_shift: 6,
    remote_invalidation: true,
};

/// Where a byte of a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Inline(u32),
    Read(u32, u64),
    Zero,
}

/// Calls are put together as the model does, byte by byte, or refused where the model cannot.
pub fn intake(data: &[u8]) {
    assert_eq!(take_read(data, &LIMITS), take(data, &LIMITS));
    let Ok(Arrival::Call(call)) = take(data, &LIMITS) else {
        if let Some((message, lists)) = well_formed_call(data) {
            assert_eq!(model_call(&message, &lists), None, "refused: {message:?}");
        }
        return;
    };
    let (message, lists) = well_formed_call(data).expect("served, but malformed");
    let bytes = model_call(&message, &lists).expect("served, but not as it should be");
    assert_eq!(call.parts().flat_map(origins).collect::<Vec<_>>(), bytes);
    assert_eq!(call.total_len() as usize, bytes.len());
    let pulled = bytes.iter().filter(|o| matches!(o, Origin::Read(..)));
    assert_eq!(call.pulled() as usize, pulled.count());
    let reads = call
        .parts()
        .filter(|p| matches!(p.source, Source::Read { .. }));
    assert_eq!(call.reads() as usize, reads.count());
    assert_eq!(wire::has_read_list(data), lists.read_list().count() != 0);
    check_rkey(&call, &lists);
}

/// The R_key that may be invalidated is the only one of the call.
fn check_rkey(call: &Call<'_>, lists: &Lists<'_>) {
    let reads = lists.read_list().map(|read| read.segment);
    let results = lists.write_list().chain(lists.reply_chunk());
    let all = reads.chain(results.flat_map(|chunk| chunk.segments()));
    let mut handles: Vec<u32> = all.map(|segment| segment.handle).collect();
    handles.dedup();
    match handles[..] {
        [only] => assert_eq!(call.rkey(), Some(only)),
        _ => assert_eq!(call.rkey(), None),
    }
}

/// A message that could be a call, as far as its header and the first words behind it show.
fn well_formed_call(data: &[u8]) -> Option<(Message<'_>, Lists<'_>)> {
    let message = Message::decode(data, &wire::Limits::NONE).ok()?;
    let lists = *message.lists()?;
    let long = matches!(message.body(), wire::message::Body::Nomsg { .. });
    let padded = matches!(message.body(), wire::message::Body::Msgp { .. });
    let direction = message.check_direction().ok()?;
    let call = direction == Some(Direction::Call) || (long && direction.is_none());
    let few = lists.write_list().count() <= MOST;
    (call && few && !padded).then_some((message, lists))
}

/// A byte of a call, and the number of the read segment that it comes from.
type Byte = (Origin, usize);

/// Every byte of a call, or `None` if it must not be served.
fn model_call(message: &Message<'_>, lists: &Lists<'_>) -> Option<Vec<Origin>> {
    let reads: Vec<_> = lists.read_list().collect();
    let long = matches!(message.body(), wire::message::Body::Nomsg { .. });
    let any_zero = reads.iter().any(|r| r.position == 0);
    let short = reads
        .iter()
        .map(|r| &r.segment)
        .all(|s| s.length <= LIMITS.max_call);
    if long != any_zero || !short || !reads.iter().all(|r| reachable(&r.segment)) {
        return None;
    }
    let beside = reads.first().filter(|_| !long);
    if beside.is_some_and(|first| first.position < rpc_header(message.payload())) {
        return None;
    }
    let inline = 0..message.payload().len() as u32;
    let mut bytes: Vec<Byte> = inline.map(|n| (Origin::Inline(n), 0)).collect();
    let (mut end, mut first) = (0, 0);
    for chunk in reads.chunk_by(|a, b| a.position == b.position) {
        let numbered = chunk.iter().zip(first..);
        let read: Vec<Byte> = numbered
            .flat_map(|(r, n)| segment_bytes(&r.segment).map(move |byte| (byte, n)))
            .collect();
        first += chunk.len();
        let at = chunk[0].position as usize;
        if read.is_empty() || at < end || at > bytes.len() {
            return None;
        }
        // The chunk at position zero is the base, and may end anywhere.
        let pad = if at == 0 { 0 } else { (4 - read.len() % 4) % 4 };
        let padding = (0..pad).map(|_| (Origin::Zero, 0));
        let padded: Vec<Byte> = read.into_iter().chain(padding).collect();
        end = if at == 0 { 0 } else { at + padded.len() };
        bytes.splice(at..at, padded);
    }
    if bytes.len() > LIMITS.max_call as usize || bytes.len() % 4 != 0 {
        return None;
    }
    let served = few_reads(&bytes) && few_writes(lists);
    served.then(|| bytes.into_iter().map(|(origin, _)| origin).collect())
}

/// The length of the header of an RPC call: six words, and two bodies of at most 400 bytes, each
/// with a flavor and a length before it.
fn rpc_header(rpc: &[u8]) -> u32 {
    let mut at = 24;
    for _ in 0..2 {
        let Some(len) = rpc.get(at + 4..at + 8) else {
            return u32::MAX;
        };
        let len = u32::from_be_bytes(len.try_into().unwrap());
        if len > 400 {
            return u32::MAX;
        }
        at += 8 + len.div_ceil(4) as usize * 4;
    }
    at as u32
}

fn reachable(s: &Segment) -> bool {
    let end = u128::from(s.offset) + u128::from(s.length);
    s.length <= LONGEST_SEGMENT && (s.length == 0 || end <= 1 << 64)
}

fn segment_bytes(s: &Segment) -> impl Iterator<Item = Origin> {
    let Segment {
        handle,
        offset,
        length,
    } = *s;
    (0..u64::from(length)).map(move |n| Origin::Read(handle, offset.wrapping_add(n)))
}

/// Whether the Reads of these bytes take no more work requests than allowed. A Read ends where the
/// next byte does not come from the same segment.
fn few_reads(bytes: &[Byte]) -> bool {
    let segment = |byte: &Byte| matches!(byte.0, Origin::Read(..)).then_some(byte.1);
    let runs = bytes.chunk_by(|a, b| segment(a) == segment(b));
    let reads: Vec<_> = runs.filter(|run| segment(&run[0]).is_some()).collect();
    let total = reads.iter().map(|read| read.len() as u64).sum();
    LIMITS.read_requests(reads.len() as u32, total) <= u64::from(LIMITS.read_wrs)
}

fn few_writes(lists: &Lists<'_>) -> bool {
    let chunks: Vec<Vec<Segment>> = lists
        .write_list()
        .chain(lists.reply_chunk())
        .map(|c| c.segments().collect())
        .collect();
    let sizes = chunks
        .iter()
        .map(|c| c.iter().map(|s| u64::from(s.length)).sum::<u64>());
    let used = chunks.iter().flatten().filter(|s| s.length != 0).count();
    let stretches = match lists.reply_chunk() {
        Some(_) => lists.write_list().count(),
        None => 0,
    };
    let bytes = sizes.clone().sum::<u64>().min(u64::from(LIMITS.max_reply));
    let segments = (used + stretches) as u32;
    let counted = lists.read_list().count() as u32 <= LIMITS.read_wrs
        && chunks.iter().all(|c| c.len() as u32 <= LIMITS.write_wrs);
    counted
        && chunks.iter().flatten().all(reachable)
        && sizes.clone().all(|size| size != 0)
        && LIMITS.write_requests(segments, bytes) <= u64::from(LIMITS.write_wrs)
}

fn origins(part: Part) -> impl Iterator<Item = Origin> {
    (0..part.len).map(move |n| match part.source {
        Source::Inline { start } => Origin::Inline(start + n),
        Source::Read { handle, offset } => Origin::Read(handle, offset + u64::from(n)),
        Source::RoundUp => Origin::Zero,
    })
}

/// Returns the offer of a call in the model of replies: chunks of segments, each with a range of
/// addresses of its own.
fn offer(i: &mut Input<'_>) -> (Vec<u8>, usize) {
    let mut buf = std::vec![0; 8192];
    let mut at = 0u64;
    let mut segment = |length: u32| {
        at += 1 << 32;
        Segment {
            handle: 1 + (at >> 33) as u32,
            length,
            offset: at,
        }
    };
    let w = Version::One
        .begin(&mut buf, 1, 1, Direction::Call, ListProc::Msg)
        .unwrap();
    let mut w = w.write_list().unwrap();
    for _ in 0..i.byte() % 4 {
        let mut c = w.chunk().unwrap();
        for _ in 0..=i.byte() % 4 {
            c.segment(segment(u32::from(i.byte() % 80))).unwrap();
        }
        w = c.end();
    }
    let n = if i.byte() % 2 == 0 {
        w.finish().unwrap()
    } else {
        let mut c = w.reply_chunk().unwrap();
        for _ in 0..=i.byte() % 3 {
            c.segment(segment(i.number() % 1000)).unwrap();
        }
        c.finish()
    };
    (buf, n)
}

/// A requester finds every byte of a reply: in the chunks by the lengths that came back, and
/// inline.
pub fn respond(data: &[u8]) {
    let mut i = Input::new(data);
    let (buf, n) = offer(&mut i);
    let call = Message::decode(&buf[..n], &wire::Limits::NONE).unwrap();
    let lists = *call.lists().unwrap();
    let mut marks = Marks::new();
    let mut at = 0;
    for _ in 0..i.byte() % 6 {
        at += u32::from(i.byte() % 64) * 4;
        let len = u32::from(i.byte() % 100);
        marks.add(at, len, &lists);
        // Sometimes the upper layer truncates and encodes again.
        at = if i.byte() % 8 == 0 {
            at / 8 * 4
        } else {
            at + len.next_multiple_of(4)
        };
    }
    check_marks(marks.as_slice(), &lists);
    let thresholds = Thresholds {
        server_to_client: 128 + u32::from(i.byte()),
        ..Thresholds::DEFAULT
    };
    let len = i.number() % 1000;
    check_single(len, marks.as_slice(), &lists, &thresholds);
    match Plan::new(len, marks.as_slice(), &lists, &thresholds) {
        Ok(plan) => check_plan(&plan, len, marks.as_slice(), &lists, &thresholds),
        Err(why) => check_refused(why, len, marks.as_slice(), &lists, &thresholds),
    }
}

/// A reply with one RDMA Write to a chunk of one segment is sent as [`Plan`] says.
fn check_single(len: u32, marks: &[Mark], lists: &Lists<'_>, thresholds: &Thresholds) {
    let plan = Plan::new(len, marks, lists, thresholds);
    let chunks = lists.write_list().chain(lists.reply_chunk());
    let one = chunks.map(|c| c.count()).eq([1]);
    let Some(single) = Single::new(len, marks, lists, thresholds) else {
        let written = plan.is_ok_and(|plan| {
            let rest: u32 = plan.rest().map(|range| range.len).sum();
            plan.proc() == ListProc::Nomsg || rest != len
        });
        assert!(!(one && written), "not found to be simple");
        return;
    };
    let plan = plan.expect("only the simple plan can be sent");
    let (mut buf, mut other, mut writes) = ([0; 128], [0; 128], Vec::new());
    let n = plan.encode(&mut buf, 5, 6, |w| writes.push(w)).unwrap();
    assert_eq!(single.encode(&mut other, 5, 6), Ok(n));
    assert_eq!(buf, other);
    assert_eq!(writes, [single.write()]);
    assert_eq!(plan.send_len(), single.send_len());
    let long = plan.proc() == ListProc::Nomsg;
    assert_eq!(single.is_long(), long);
    assert!(match long {
        true => single.rest().next().is_none(),
        false => plan.rest().eq(single.rest()),
    });
}

/// Marks ascend, none before the end of another, and each has a chunk.
fn check_marks(marks: &[Mark], lists: &Lists<'_>) {
    for pair in marks.windows(2) {
        assert!(pair[0].start < pair[1].start && pair[0].end() <= pair[1].start);
    }
    let chunks: Vec<_> = lists.write_list().collect();
    assert!(marks.len() <= chunks.len());
}

/// Which bytes of a reply belong to the payload of which chunk, and which are padding of one.
/// `None` stands for the rest.
fn owners(len: u32, marks: &[Mark]) -> Vec<Option<(usize, bool)>> {
    let mut owners = std::vec![None; len as usize];
    for (chunk, mark) in marks.iter().enumerate() {
        if mark.end() > len {
            continue;
        }
        for n in mark.start..mark.end().next_multiple_of(4).min(len) {
            owners[n as usize] = Some((chunk, n < mark.end()));
        }
    }
    owners
}

fn header_bytes(lists: &Lists<'_>) -> usize {
    let writes: usize = lists.write_list().map(|c| 8 + 16 * c.count()).sum();
    28 + writes + lists.reply_chunk().map_or(0, |c| 4 + 16 * c.count())
}

fn check_plan(plan: &Plan<'_>, len: u32, marks: &[Mark], lists: &Lists<'_>, t: &Thresholds) {
    let owners = owners(len, marks);
    // What the requester's memory holds afterwards.
    let mut memory = BTreeMap::new();
    let (mut buf, mut writes) = (std::vec![0; 8192], Vec::new());
    let n = plan.encode(&mut buf, 5, 6, |w| writes.push(w)).unwrap();
    assert_eq!(n, header_bytes(lists));
    for w in &writes {
        for n in 0..w.range.len {
            let place = (w.handle, w.offset + u64::from(n));
            assert_eq!(
                memory.insert(place, w.range.start + n),
                None,
                "written twice"
            );
        }
    }
    let reply = Message::decode(&buf[..n], &wire::Limits::NONE).unwrap();
    let returned = *reply.lists().unwrap();
    crate::proto::cases::reply::check_lists(&returned, lists).unwrap();
    for (chunk, c) in returned.write_list().enumerate() {
        let wanted = indices(&owners, |o| o == Some((chunk, true)));
        assert_eq!(take_out(&mut memory, c.segments()), wanted);
    }
    let rest = indices(&owners, |o| o.is_none());
    let sent: Vec<u32> = plan.rest().flat_map(|r| r.start..r.start + r.len).collect();
    assert_eq!(sent, rest);
    let long = plan.proc() == ListProc::Nomsg;
    let segments = returned
        .reply_chunk()
        .into_iter()
        .flat_map(|c| c.segments());
    assert_eq!(
        take_out(&mut memory, segments),
        if long { rest.clone() } else { Vec::new() }
    );
    assert!(memory.is_empty(), "written where no length says so");
    let inline = if long { 0 } else { rest.len() };
    assert_eq!(plan.send_len() as usize, n + inline);
    assert!(plan.send_len() <= t.server_to_client);
    // The reply chunk is for what does not fit.
    assert_eq!(long, n + rest.len() > t.server_to_client as usize);
    check_writes(&writes, len, lists);
}

/// The Writes take no more work requests than the intake has counted for such a reply, wherever its
/// pages begin, and however much of it lies in the head before them and in the tail behind them.
fn check_writes(writes: &[Write], len: u32, lists: &Lists<'_>) {
    let chunks = || lists.write_list().chain(lists.reply_chunk());
    let segments = chunks()
        .flat_map(|c| c.segments())
        .filter(|s| s.length != 0)
        .count();
    let stretches = lists
        .reply_chunk()
        .map_or(0, |_| lists.write_list().count());
    let counted = LIMITS.write_requests((segments + stretches) as u32, u64::from(len));
    let parts = [0, 4, 36].map(|head| [0, 4, 36].map(|tail| (head, tail)));
    for (head, tail) in parts.into_iter().flatten() {
        let Some(between) = len.checked_sub(head + tail) else {
            continue;
        };
        for shift in 0..1 << LIMITS.page_shift {
            let pages = (between != 0).then(|| (shift + between - 1) >> LIMITS.page_shift);
            let page = |n: u32| match n {
                _ if n < head => 0,
                _ if n >= head + between => pages.map_or(1, |last| last + 2),
                _ => 1 + ((n - head + shift) >> LIMITS.page_shift),
            };
            let pages = writes.iter().map(|w| {
                let last = w.range.start + w.range.len - 1;
                page(last) - page(w.range.start) + 1
            });
            let taken: u32 = pages.map(|pages| pages.div_ceil(LIMITS.sges)).sum();
            assert!(u64::from(taken) <= counted);
        }
    }
}

fn indices(
    owners: &[Option<(usize, bool)>],
    of: impl Fn(Option<(usize, bool)>) -> bool,
) -> Vec<u32> {
    let all = owners.iter().enumerate();
    all.filter(|(_, owner)| of(**owner))
        .map(|(n, _)| n as u32)
        .collect()
}

/// Takes what the segments say was written out of the requester's memory.
fn take_out(
    memory: &mut BTreeMap<(u32, u64), u32>,
    segments: impl Iterator<Item = Segment>,
) -> Vec<u32> {
    let mut found = Vec::new();
    for s in segments {
        for n in 0..u64::from(s.length) {
            found.push(
                memory
                    .remove(&(s.handle, s.offset + n))
                    .expect("not written"),
            );
        }
    }
    found
}

fn check_refused(why: Cannot, len: u32, marks: &[Mark], lists: &Lists<'_>, t: &Thresholds) {
    let rest = indices(&owners(len, marks), |o| o.is_none()).len();
    let header = header_bytes(lists);
    let threshold = t.server_to_client as usize;
    let room = lists.reply_chunk().map(|c| c.total_len());
    match why {
        Cannot::Header => assert!(header > threshold),
        Cannot::Inline => assert!(header + rest > threshold && room.is_none()),
        Cannot::ReplyChunk => {
            assert!(header + rest > threshold && room < Some(rest as u64));
        }
        Cannot::WriteChunk => {
            let mut pairs = marks.iter().zip(lists.write_list());
            assert!(pairs.any(|(mark, chunk)| u64::from(mark.len) > chunk.total_len()));
        }
    }
}

/// A responder and a requester with messages on their way. A requester that keeps to its grants is
/// never refused, finds a Receive for every call, and is never stuck; another one is bounded.
pub fn grants(data: &[u8]) {
    let mut i = Input::new(data);
    let honest = i.byte() % 4 != 0;
    let spare = u32::from(i.byte() % 3);
    let mut most = u32::from(i.byte() % 64);
    let mut grant = Grant::new(most, spare);
    let mut flow = Flow::new();
    let (mut calls, mut replies) = (0u32, VecDeque::new());
    let mut highest = grant.posted();
    while !i.is_empty() {
        assert!(grant.allowed() <= grant.posted() && grant.allowed() >= 1);
        match i.byte() % 6 {
            0 | 1 if flow.try_take() || !honest => calls += 1,
            2 if calls > 0 => {
                calls -= 1;
                let before = grant;
                let within = i.byte() % 2 == 0 && grant.on_call_within();
                let mut counted = before;
                let outcome = counted.on_call(i.number());
                assert!(!within || (outcome, grant) == (Ok(0), counted));
                grant = counted;
                match outcome {
                    Ok(more) => {
                        assert!(more == 0 || grant.posted() + more <= most.max(1));
                        grant.on_posted(if i.byte() % 4 == 0 { 0 } else { more });
                        highest = highest.max(grant.posted());
                    }
                    Err(_) => {
                        assert!(!honest, "refused");
                        return;
                    }
                }
                assert!(grant.in_progress() <= highest + spare);
            }
            3 if grant.in_progress() > 0 => {
                let credits = grant.on_reply();
                assert!(credits >= 1 && credits <= grant.posted());
                assert!(credits <= most.max(1));
                replies.push_back(credits);
            }
            4 => {
                if let Some(credits) = replies.pop_front() {
                    flow.on_reply(credits, u32::MAX);
                }
            }
            5 if i.byte() % 8 == 0 => {
                most = u32::from(i.byte() % 64);
                grant.set_max(most);
            }
            _ => {}
        }
        if honest {
            // Every call on its way finds a Receive, even if none is posted again before.
            assert!(grant.in_progress() + calls <= grant.allowed());
            let idle = calls == 0 && grant.in_progress() == 0 && replies.is_empty();
            assert!(!idle || flow.available() > 0, "stuck");
        }
    }
}
