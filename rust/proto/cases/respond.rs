// SPDX-License-Identifier: GPL-2.0

//! Replies of a responder: which byte goes which way, and what the header says of it.

use super::super::super::wire::{
    Direction, EncodeError, Limits, ListProc, Lists, Message, Segment, Version,
};
use super::super::inline::Thresholds;
use super::super::responder::marks::{Mark, Marks, MOST};
use super::super::responder::reply::{Cannot, Plan};
use super::ensure;
use super::reply::check_lists;

type Check = Result<(), &'static str>;
type Chunks = &'static [&'static [u32]];

/// A range or a segment's part: first byte, length.
type Span = (u32, u32);

/// The expected plan.
#[derive(Clone, Copy)]
struct Want {
    proc: ListProc,
    /// The part that goes inline or into the reply chunk.
    rest: &'static [Span],
    /// RDMA Writes: first byte and length in the reply, address.
    writes: &'static [(u32, u32, u64)],
    /// Lengths that come back, of all segments in order.
    lengths: &'static [u32],
}

/// Offered write chunks, offered reply chunk, marks, length of the reply, plan.
type Case = (
    Chunks,
    Option<&'static [u32]>,
    &'static [Span],
    u32,
    Result<Want, Cannot>,
);

const fn msg(
    rest: &'static [Span],
    writes: &'static [(u32, u32, u64)],
    lengths: &'static [u32],
) -> Result<Want, Cannot> {
    Ok(Want {
        proc: ListProc::Msg,
        rest,
        writes,
        lengths,
    })
}

const fn nomsg(
    rest: &'static [Span],
    writes: &'static [(u32, u32, u64)],
    lengths: &'static [u32],
) -> Result<Want, Cannot> {
    Ok(Want {
        proc: ListProc::Nomsg,
        rest,
        writes,
        lengths,
    })
}

/// Where the segments lie: each 65,536 bytes behind the one before, the first at zero.
const FAR: u64 = 0x1_0000;

/// With the thresholds of 1024 bytes.
const CASES: [Case; 20] = [
    (&[], None, &[], 100, msg(&[(0, 100)], &[], &[])),
    (&[], None, &[], 996, msg(&[(0, 996)], &[], &[])),
    (&[], None, &[], 997, Err(Cannot::Inline)),
    // A payload without a write chunk is inline.
    (&[], None, &[(100, 50)], 200, msg(&[(0, 200)], &[], &[])),
    // A payload, the padding behind it, and the rest: the padding goes nowhere.
    (
        &[&[4096]],
        None,
        &[(100, 4093)],
        4212,
        msg(&[(0, 100), (4196, 16)], &[(100, 4093, 0)], &[4093]),
    ),
    // The payload is the last item, with padding and without.
    (
        &[&[4096]],
        None,
        &[(100, 5)],
        108,
        msg(&[(0, 100)], &[(100, 5, 0)], &[5]),
    ),
    (
        &[&[4096]],
        None,
        &[(100, 5)],
        105,
        msg(&[(0, 100)], &[(100, 5, 0)], &[5]),
    ),
    // Segments are filled in order; one of no length, and one that is left over.
    (
        &[&[8, 0, 8, 8]],
        None,
        &[(100, 12)],
        112,
        msg(
            &[(0, 100)],
            &[(100, 8, 0), (108, 4, 2 * FAR)],
            &[8, 0, 4, 0],
        ),
    ),
    // Several chunks: one payload each, in order; one chunk is left over.
    (
        &[&[64], &[64], &[64]],
        None,
        &[(100, 10), (200, 64)],
        300,
        msg(
            &[(0, 100), (112, 88), (264, 36)],
            &[(100, 10, 0), (200, 64, FAR)],
            &[10, 64, 0],
        ),
    ),
    // A payload of zero bytes takes its chunk.
    (
        &[&[64], &[64]],
        None,
        &[(100, 0), (200, 8)],
        300,
        msg(&[(0, 200), (208, 92)], &[(200, 8, FAR)], &[0, 8]),
    ),
    // More payloads than chunks.
    (
        &[&[64]],
        None,
        &[(100, 8), (200, 8)],
        300,
        msg(&[(0, 100), (108, 192)], &[(100, 8, 0)], &[8]),
    ),
    // Payloads one behind the other.
    (
        &[&[64], &[64]],
        None,
        &[(100, 6), (108, 8)],
        116,
        msg(&[(0, 100)], &[(100, 6, 0), (108, 8, FAR)], &[6, 8]),
    ),
    // Marks that do not hold: truncated, behind the end, overlapping, in the middle of a word.
    (
        &[&[64]],
        None,
        &[(100, 8)],
        104,
        msg(&[(0, 104)], &[], &[0]),
    ),
    (
        &[&[64]],
        None,
        &[(u32::MAX - 3, 8)],
        104,
        msg(&[(0, 104)], &[], &[0]),
    ),
    (
        &[&[64], &[64]],
        None,
        &[(100, 8), (104, 8)],
        112,
        msg(&[(0, 100), (108, 4)], &[(100, 8, 0)], &[8, 0]),
    ),
    (&[&[64]], None, &[(98, 8)], 112, msg(&[(0, 112)], &[], &[0])),
    // A short reply leaves the reply chunk alone.
    (&[], Some(&[4096]), &[], 100, msg(&[(0, 100)], &[], &[0])),
    (
        &[],
        Some(&[1000, 4096]),
        &[],
        2000,
        nomsg(
            &[(0, 2000)],
            &[(0, 1000, 0), (1000, 1000, FAR)],
            &[1000, 1000],
        ),
    ),
    // The rest in the reply chunk: two stretches, divided by the payload and by the segments.
    (
        &[&[64]],
        Some(&[700, 4096]),
        &[(600, 62)],
        2000,
        nomsg(
            &[(0, 600), (664, 1336)],
            &[
                (600, 62, 0),
                (0, 600, FAR),
                (664, 100, FAR + 600),
                (764, 1236, 2 * FAR),
            ],
            &[62, 700, 1236],
        ),
    ),
    (
        &[&[64]],
        Some(&[1935]),
        &[(600, 62)],
        2000,
        Err(Cannot::ReplyChunk),
    ),
];

const BUF: usize = 1024;

/// Segments of these lengths.
fn segments(lengths: &[u32], from: u64) -> impl Iterator<Item = Segment> + '_ {
    let at = (from..).map(|n| n.saturating_mul(FAR));
    lengths.iter().zip(at).map(|(&length, offset)| Segment {
        handle: 1,
        length,
        offset,
    })
}

/// Writes a call that offers the chunks.
fn offer(buf: &mut [u8], writes: Chunks, reply: Option<&[u32]>) -> Result<usize, EncodeError> {
    let w = Version::One.begin(buf, 1, 1, Direction::Call, ListProc::Msg)?;
    let mut w = w.write_list()?;
    let mut from: u64 = 0;
    for chunk in writes {
        let mut c = w.chunk()?;
        for segment in segments(chunk, from) {
            c.segment(segment)?;
            from = from.saturating_add(1);
        }
        w = c.end();
    }
    let Some(reply) = reply else {
        return w.finish();
    };
    let mut c = w.reply_chunk()?;
    for segment in segments(reply, from) {
        c.segment(segment)?;
    }
    Ok(c.finish())
}

/// Encodes the chunks, and returns their lists.
fn lists<'a>(
    buf: &'a mut [u8; BUF],
    writes: Chunks,
    reply: Option<&[u32]>,
) -> Result<Lists<'a>, &'static str> {
    let n = offer(buf, writes, reply).map_err(|_| "no room")?;
    let call = Message::decode(buf.get(..n).ok_or("buffer")?, &Limits::NONE);
    call.map_err(|_| "refused")?
        .lists()
        .copied()
        .ok_or("no lists")
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.6-1 results into the write list
//~ 8166-3.4-1 do not write XDR padding
//~ 8166-3.5-1 reply as a long reply
pub fn check() -> Check {
    for (writes, reply, spans, len, want) in CASES {
        let mut buf = [0; BUF];
        let offered = lists(&mut buf, writes, reply)?;
        let mut marks = [Mark::default(); MOST];
        for (mark, &(start, len)) in marks.iter_mut().zip(spans) {
            *mark = Mark { start, len };
        }
        let marks = marks.get(..spans.len()).ok_or("marks")?;
        let plan = Plan::new(len, marks, &offered, &Thresholds::DEFAULT);
        match (plan, want) {
            (Ok(plan), Ok(want)) => check_plan(&plan, &want, &offered)?,
            (Err(got), Err(want)) => ensure!(got == want, "refused otherwise"),
            _ => return Err("refused or not"),
        }
    }
    check_inline_len()?;
    check_headers()?;
    check_marks()
}

/// A reply to a call without chunks: its Send has the header and all of the reply.
fn check_inline_len() -> Check {
    let two = Thresholds {
        version: Version::Two,
        ..Thresholds::DEFAULT
    };
    for (t, header) in [(Thresholds::DEFAULT, 28), (two, 32)] {
        let longest = 1024u32.saturating_sub(header);
        for len in [0, 100, longest] {
            let all = len.saturating_add(header);
            let plan = Plan::new(len, &[], &Lists::EMPTY, &t).map_err(|_| "no plan")?;
            ensure!(plan.send_len() == all, "inline reply");
        }
        let longer = Plan::new(longest.saturating_add(1), &[], &Lists::EMPTY, &t);
        ensure!(longer == Err(Cannot::Inline), "too long");
    }
    Ok(())
}

fn check_plan(plan: &Plan<'_>, want: &Want, offered: &Lists<'_>) -> Check {
    ensure!(plan.proc() == want.proc, "message type");
    let rest = plan.rest().map(|r| (r.start, r.len));
    ensure!(rest.eq(want.rest.iter().copied()), "rest");
    check_header(plan, want, offered)
}

/// The header passes the check of a requester, and says how much was written.
//~ 8166-4.3-1 returns lengths written, never more
//~ 8166-4.3-2 reply has no read list
//~ 8166-4.3-4 not used: lengths of zero
fn check_header(plan: &Plan<'_>, want: &Want, offered: &Lists<'_>) -> Check {
    let mut buf = [0; BUF];
    let (mut wanted, mut as_wanted, mut written) = (want.writes.iter(), true, 0u32);
    let encoded = plan.encode(&mut buf, 9, 3, |w| {
        as_wanted &= wanted.next() == Some(&(w.range.start, w.range.len, w.offset));
        written = written.saturating_add(w.range.len);
    });
    let n = encoded.map_err(|_| "no room")?;
    ensure!(as_wanted && wanted.next().is_none(), "writes");
    let inline = plan.rest().fold(0, |sum: u32, r| sum.saturating_add(r.len));
    let inline = if want.proc == ListProc::Msg {
        inline
    } else {
        0
    };
    let send = u32::try_from(n).map(|n| n.saturating_add(inline));
    ensure!(send == Ok(plan.send_len()), "length of the Send");
    let reply = Message::decode(buf.get(..n).ok_or("buffer")?, &Limits::NONE);
    let reply = reply.map_err(|_| "refused")?;
    ensure!((reply.xid(), reply.credits()) == (9, 3), "first words");
    let returned = reply.lists().copied().ok_or("no lists")?;
    let (write, reply) = check_lists(&returned, offered)?;
    let all = returned.write_list().chain(returned.reply_chunk());
    let all = all.flat_map(|c| c.segments()).map(|s| s.length);
    ensure!(all.eq(want.lengths.iter().copied()), "lengths");
    let said = write.saturating_add(reply.unwrap_or(0));
    ensure!(written == said, "as much as was written");
    ensure!(
        handles(&returned).eq(handles(offered)),
        "the offered R_keys come back"
    );
    Ok(())
}

/// Returns the R_keys of results, in the order of the header.
fn handles<'a>(lists: &Lists<'a>) -> impl Iterator<Item = u32> + use<'a> {
    let chunks = lists.write_list().chain(lists.reply_chunk());
    chunks.flat_map(|c| c.segments()).map(|s| s.handle)
}

/// Headers that leave no room.
fn check_headers() -> Check {
    let segments = &[0u32; 60];
    let mut buf = [0; BUF];
    let offered = lists(&mut buf, &[], Some(segments))?;
    let narrow = Thresholds {
        server_to_client: 991,
        ..Thresholds::DEFAULT
    };
    // 28 + 4 + 60 * 16 bytes.
    let plan = |t| Plan::new(0, &[], &offered, t);
    ensure!(plan(&narrow) == Err(Cannot::Header), "header");
    ensure!(plan(&Thresholds::DEFAULT).is_ok(), "header and little else");
    let plan = Plan::new(32, &[], &offered, &Thresholds::DEFAULT).map_err(|_| "no plan")?;
    ensure!(plan.send_len() == 1024, "all of the threshold");
    ensure!(
        plan.encode(&mut [0; 991], 1, 1, |_| ()).is_err(),
        "short buffer"
    );
    let next = Plan::new(33, &[], &offered, &Thresholds::DEFAULT);
    ensure!(next == Err(Cannot::ReplyChunk), "one byte more");
    Ok(())
}

/// Marks belong to the chunks in order, and those that were truncated away are forgotten.
fn check_marks() -> Check {
    let mut buf = [0; BUF];
    let offered = lists(&mut buf, &[&[64], &[0, 100]], None)?;
    let mut marks = Marks::new();
    let mark = |start, len| Mark { start, len };
    marks.add(100, 64, &offered);
    marks.add(200, 101, &offered);
    ensure!(marks.as_slice() == [mark(100, 64), mark(200, 101)], "two");
    marks.add(400, 9999, &offered);
    ensure!(marks.as_slice().len() == 2, "no chunk is left");
    // Encoded again from byte 160, which was in the middle of the first.
    marks.add(160, 65, &offered);
    ensure!(marks.as_slice() == [mark(160, 65)], "first chunk again");
    marks.add(160, 0, &offered);
    marks.add(164, 100, &offered);
    ensure!(marks.as_slice() == [mark(160, 0), mark(164, 100)], "anew");
    marks.add(160, 4, &offered);
    ensure!(marks.as_slice() == [mark(160, 4)], "at the same place");
    marks.add(164, 8, &offered);
    ensure!(marks.as_slice().len() == 2, "right behind it");
    marks.clear();
    ensure!(marks.as_slice().is_empty(), "cleared");
    let mut buf = [0; BUF];
    let one = lists(&mut buf, &[&[64]], None)?;
    marks.add(100, 65, &one);
    marks.add(200, 9999, &one);
    ensure!(marks.as_slice() == [mark(100, 65)], "one of two");
    let mut none = Marks::default();
    none.add(0, 8, &Lists::EMPTY);
    ensure!(none.as_slice().is_empty(), "nothing noted");
    check_settled()?;
    check_truncated()
}

/// A payload begins behind its length. NFSv4 marks the text of a link at its length.
fn check_settled() -> Check {
    // Length of a payload at 100, the words at 96 and at 100; where it begins.
    const CASES: [(u32, Option<u32>, Option<u32>, u32); 9] = [
        (5, Some(0), Some(5), 104),
        (4095, Some(0), Some(4095), 104),
        // A payload that begins with its own length.
        (5, Some(5), Some(5), 100),
        (5, Some(5), Some(0x6c69_6e6b), 100),
        // Neither word is the length, or one is missing.
        (5, Some(0), Some(6), 100),
        (5, Some(0), None, 100),
        (5, None, Some(5), 104),
        // Longer than any link.
        (4096, Some(0), Some(4096), 100),
        (0, Some(0), Some(0), 100),
    ];
    let mut buf = [0; BUF];
    let two = lists(&mut buf, &[&[8192], &[8192]], None)?;
    for (len, before, at, start) in CASES {
        let word = |offset| match offset {
            96 => before,
            100 => at,
            9996 => Some(7),
            _ => None,
        };
        let mut marks = Marks::new();
        marks.add(100, len, &two);
        marks.add(10_000, 7, &two);
        let read = Mark {
            start: 10_000,
            len: 7,
        };
        marks.settle(word);
        ensure!(marks.as_slice() == [Mark { start, len }, read], "settled");
    }
    Ok(())
}

/// A reply that ends before the end of a payload has been truncated, whether the payload has a
/// chunk or not.
fn check_truncated() -> Check {
    let mut buf = [0; BUF];
    let one = lists(&mut buf, &[&[64]], None)?;
    for offered in [&one, &Lists::EMPTY] {
        let mut marks = Marks::new();
        ensure!(!marks.truncated(0), "no payload");
        marks.add(100, 64, offered);
        marks.add(40, 8, offered);
        ensure!(!marks.truncated(164), "all of it");
        ensure!(marks.truncated(163), "a byte less");
        ensure!(marks.truncated(100), "none of it");
        marks.clear();
        ensure!(!marks.truncated(0), "cleared");
        marks.add(u32::MAX, 9, offered);
        ensure!(!marks.truncated(u32::MAX), "it saturates");
    }
    Ok(())
}
