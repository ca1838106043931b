// SPDX-License-Identifier: GPL-2.0

//! Calls that a responder serves: where their parts come from, and what they take.

use super::super::super::wire::{
    Direction, EncodeError, ListProc, ReadListWriter, Segment, Version,
};
use super::super::responder::call::{Call, Unfit};
use super::super::responder::intake::{take, Arrival, Reason};
use super::super::responder::limits::Limits;
use super::super::responder::reassembly::{Part, Source, Violation};
use super::ensure;
use super::hostile::LIMITS;

type Check = Result<(), &'static str>;

/// A part as the cases write it: each with its first byte in the call and its length.
#[derive(Clone, Copy)]
enum Want {
    /// Inline: the first byte there.
    I(u32, u32, u32),
    /// RDMA Read: R_key, address.
    R(u32, u32, u32, u64),
    /// Round-up.
    U(u32, u32),
}

use Want::{I, R, U};

impl Want {
    const fn part(self) -> Part {
        let (at, len, source) = match self {
            I(at, len, start) => (at, len, Source::Inline { start }),
            R(at, len, handle, offset) => (at, len, Source::Read { handle, offset }),
            U(at, len) => (at, len, Source::RoundUp),
        };
        Part { at, len, source }
    }
}

/// Read list: position, R_key, length. Address 0x1000 each.
type Reads = &'static [(u32, u32, u32)];

/// Message type, read list, length of the inline part, parts.
type Case = (ListProc, Reads, u32, &'static [Want]);

const CALLS: [Case; 10] = [
    (ListProc::Msg, &[], 100, &[I(0, 100, 0)]),
    (
        ListProc::Msg,
        &[(148, 7, 4096)],
        160,
        &[I(0, 148, 0), R(148, 4096, 7, 0x1000), I(4244, 12, 148)],
    ),
    // Round-up that was not transferred, in the middle and at the end.
    (
        ListProc::Msg,
        &[(148, 7, 5)],
        160,
        &[
            I(0, 148, 0),
            R(148, 5, 7, 0x1000),
            U(153, 3),
            I(156, 12, 148),
        ],
    ),
    (
        ListProc::Msg,
        &[(148, 7, 5)],
        148,
        &[I(0, 148, 0), R(148, 5, 7, 0x1000), U(153, 3)],
    ),
    // Two segments of one chunk, one of them empty, and a second chunk.
    (
        ListProc::Msg,
        &[(40, 7, 6), (40, 8, 0), (40, 9, 6), (56, 7, 4)],
        44,
        &[
            I(0, 40, 0),
            R(40, 6, 7, 0x1000),
            R(46, 6, 9, 0x1000),
            I(52, 4, 40),
            R(56, 4, 7, 0x1000),
        ],
    ),
    // A long call, in one segment and in two.
    (ListProc::Nomsg, &[(0, 7, 100)], 0, &[R(0, 100, 7, 0x1000)]),
    (
        ListProc::Nomsg,
        &[(0, 7, 60), (0, 8, 40)],
        0,
        &[R(0, 60, 7, 0x1000), R(60, 40, 8, 0x1000)],
    ),
    // A long call with a further chunk, which divides a segment.
    (
        ListProc::Nomsg,
        &[(0, 7, 100), (48, 8, 6)],
        0,
        &[
            R(0, 48, 7, 0x1000),
            R(48, 6, 8, 0x1000),
            U(54, 2),
            R(56, 52, 7, 0x1030),
        ],
    ),
    // The same where two segments meet.
    (
        ListProc::Nomsg,
        &[(0, 7, 48), (0, 9, 12), (48, 8, 8)],
        0,
        &[
            R(0, 48, 7, 0x1000),
            R(48, 8, 8, 0x1000),
            R(56, 12, 9, 0x1000),
        ],
    ),
    // Chunks one behind the other, and behind the end of the base.
    (
        ListProc::Nomsg,
        &[(0, 7, 8), (8, 8, 4), (12, 9, 4)],
        0,
        &[R(0, 8, 7, 0x1000), R(8, 4, 8, 0x1000), R(12, 4, 9, 0x1000)],
    ),
];

/// Room for any call of the cases.
const BUF: usize = 512;
const XID: u32 = 77;

fn segment(handle: u32, length: u32) -> Segment {
    Segment {
        handle,
        length,
        offset: 0x1000,
    }
}

/// Writes a call without write list and reply chunk.
fn plain<'a>(
    buf: &'a mut [u8; BUF],
    proc: ListProc,
    reads: &[(u32, u32, u32)],
    inline: u32,
) -> Result<&'a [u8], &'static str> {
    encode(buf, proc, inline, |mut w| {
        for &(position, handle, length) in reads {
            w.segment(position, segment(handle, length))?;
        }
        w.finish()
    })
}

/// Writes a call whose lists `lists` writes, with `inline` bytes of RPC message.
fn encode(
    buf: &mut [u8; BUF],
    proc: ListProc,
    inline: u32,
    lists: impl FnOnce(ReadListWriter<'_>) -> Result<usize, EncodeError>,
) -> Result<&[u8], &'static str> {
    let w = Version::One.begin(buf, XID, 5, Direction::Call, proc);
    let header = w.and_then(lists).map_err(|_| "no room")?;
    if let Some(xid) = buf
        .get_mut(header..)
        .and_then(|rest| rest.first_chunk_mut())
    {
        *xid = XID.to_be_bytes();
    }
    // CAST: a small number.
    buf.get(..header.saturating_add(inline as usize))
        .ok_or("buffer")
}

fn call<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Call<'a>, Option<Unfit>> {
    match take(bytes, limits) {
        Ok(Arrival::Call(call)) => Ok(call),
        Ok(_) => Err(None),
        Err(refusal) => match refusal.reason {
            Reason::Chunks(unfit) => Err(Some(unfit)),
            _ => Err(None),
        },
    }
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.7-1 round-up that was not transferred
//~ 5666-5.1-1 message is in first read chunk
//~ 8167-4-2 direction told by RPC message type
pub fn check() -> Check {
    for (proc, reads, inline, want) in CALLS {
        let mut buf = [0; BUF];
        let bytes = plain(&mut buf, proc, reads, inline)?;
        let call = call(bytes, &LIMITS).map_err(|_| "refused")?;
        ensure!(call.parts().eq(want.iter().map(|w| w.part())), "parts");
        let len = want
            .iter()
            .fold(0, |sum: u32, w| sum.saturating_add(w.part().len));
        ensure!(call.total_len() == len, "length");
        let read = want.iter().filter(|w| matches!(w, R(..)));
        let pulled = read
            .clone()
            .fold(0, |sum: u32, w| sum.saturating_add(w.part().len));
        ensure!(call.pulled() == pulled, "bytes to read");
        // CAST: a small number.
        ensure!(call.reads() == read.count() as u32, "RDMA Reads");
        let inline_len = u32::try_from(call.inline().len());
        ensure!(inline_len == Ok(inline), "inline part");
        ensure!((call.xid(), call.credits()) == (XID, 5), "first words");
        ensure!(call.version() == Version::One, "version");
    }
    check_items()?;
    check_lengths()?;
    check_work()?;
    check_offer()?;
    check_inline_length()?;
    check_header_direction()
}

/// Only a single read chunk beside plain arguments is a separate item. The parts of the call are
/// the same.
fn check_items() -> Check {
    // The message type, the read list, and the position of the item.
    type Item = (ListProc, Reads, Option<u32>);
    let cases: [Item; 4] = [
        (ListProc::Msg, &[(72, 7, 8)], Some(72)),
        (ListProc::Msg, &[(72, 7, 8), (72, 8, 8)], Some(72)),
        (ListProc::Msg, &[(72, 7, 8), (84, 8, 8)], None),
        (ListProc::Nomsg, &[(0, 7, 80)], None),
    ];
    for (proc, reads, item) in cases {
        for service in [1u8, 2, 3] {
            let inline = if proc == ListProc::Msg { 80 } else { 0 };
            let mut buf = [0; BUF];
            let len = plain(&mut buf, proc, reads, inline)?.len();
            // A credential of RPCSEC_GSS with a body of 32 bytes.
            let rpc = len.saturating_sub(inline as usize);
            let gss = [(27, 6), (31, 32), (35, 1), (47, service)];
            for (at, byte) in gss.into_iter().filter(|_| proc == ListProc::Msg) {
                *buf.get_mut(rpc.saturating_add(at)).ok_or("buffer")? = byte;
            }
            let bytes = buf.get(..len).ok_or("buffer")?;
            let call = call(bytes, &LIMITS).map_err(|_| "refused")?;
            let want = item.filter(|_| service == 1);
            ensure!(call.item() == want, "item");
        }
    }
    Ok(())
}

/// The longest call just fits in each form.
fn check_lengths() -> Check {
    let max = LIMITS.max_call;
    let long = max.saturating_sub(40);
    let longer = max.saturating_sub(39);
    /// Message type, read list, length of the inline part, whether it is served.
    type Length = (ListProc, [(u32, u32, u32); 1], u32, bool);
    let cases: [Length; 6] = [
        (ListProc::Nomsg, [(0, 7, max)], 0, true),
        (ListProc::Nomsg, [(0, 7, max.saturating_add(1))], 0, false),
        (ListProc::Msg, [(40, 7, long)], 40, true),
        (ListProc::Msg, [(40, 7, longer)], 40, false),
        // The round-up also counts.
        (ListProc::Msg, [(40, 7, long.saturating_sub(3))], 40, true),
        (ListProc::Msg, [(40, 7, long.saturating_sub(3))], 44, false),
    ];
    for (proc, reads, inline, served) in cases {
        let mut buf = [0; BUF];
        let bytes = plain(&mut buf, proc, &reads, inline)?;
        // More Reads than this test is about.
        let limits = Limits {
            read_wrs: 1000,
            ..LIMITS
        };
        let call = call(bytes, &limits);
        ensure!(call.is_ok() == served, "longest call");
        ensure!(
            served || matches!(call, Err(Some(Unfit::Reads(_)))),
            "too long"
        );
    }
    Ok(())
}

/// Work requests are counted for the worst alignment of the local pages.
fn check_work() -> Check {
    // Pages of an RDMA Read, segments, bytes, RDMA Reads.
    const WORK: [(u32, u32, u64, u64); 8] = [
        (1, 0, 0, 0),
        (1, 1, 1, 2),
        (1, 1, 4096, 3),
        (30, 1, 4096, 1),
        (30, 1, 28 * 4096, 1),
        (30, 1, 29 * 4096, 2),
        (30, 64, 64, 66),
        (0, 1, 1, u64::MAX),
    ];
    for (sges, segments, bytes, want) in WORK {
        let limits = Limits {
            read_pages: sges,
            ..LIMITS
        };
        ensure!(limits.read_requests(segments, bytes) == want, "RDMA Reads");
    }
    // A byte of the head, those of three pages, and a byte of the tail.
    const WRITTEN: [(u32, u32, u64, u64); 4] = [
        (1, 0, 0, 0),
        (1, 1, 4096 + 4, 5),
        (30, 1, 27 * 4096, 2),
        (0, 1, 1, u64::MAX),
    ];
    for (sges, segments, bytes, want) in WRITTEN {
        let limits = Limits { sges, ..LIMITS };
        let got = limits.write_requests(segments, bytes);
        ensure!(got == want, "work requests of a reply");
    }
    let mut buf = [0; BUF];
    let bytes = plain(
        &mut buf,
        ListProc::Msg,
        &[(40, 7, 0x1_0000), (40, 7, 1)],
        40,
    )?;
    for (read_wrs, served) in [(20, true), (19, false)] {
        // Two segments, 16 pages: 2 + 18.
        let limits = Limits {
            read_wrs,
            read_pages: 1,
            ..LIMITS
        };
        let call = call(bytes, &limits);
        ensure!(call.is_ok() == served, "Reads");
        ensure!(
            served || call == Err(Some(Unfit::ReadWork)),
            "too many Reads"
        );
    }
    Ok(())
}

/// Chunks for the reply are bounded by the longest reply, and no shorter.
fn check_offer() -> Check {
    let mut buf = [0; BUF];
    let bytes = encode(&mut buf, ListProc::Msg, 8, |w| {
        let mut c = w.write_list()?.chunk()?;
        c.segment(segment(3, 1 << 30))?;
        let mut c = c.end().reply_chunk()?;
        c.segment(segment(3, 1 << 30))?;
        Ok(c.finish())
    })?;
    let served = call(bytes, &LIMITS).map_err(|_| "refused")?;
    ensure!(served.rkey() == Some(3), "one R_key of several chunks");
    let lists = served.lists();
    ensure!(lists.write_list().count() == 1, "write list");
    ensure!(lists.reply_chunk().is_some(), "reply chunk");
    // Two segments, two stretches of the reply in one of them, 257 pages, 30 in a work request.
    for (write_wrs, served) in [(11, true), (10, false)] {
        let limits = Limits {
            write_wrs,
            ..LIMITS
        };
        let call = call(bytes, &limits);
        ensure!(call.is_ok() == served, "Writes");
        ensure!(
            served || call == Err(Some(Unfit::WriteWork)),
            "too many Writes"
        );
    }
    Ok(())
}

/// The inline part alone may be as long as the longest call, with chunks for the reply and without.
fn check_inline_length() -> Check {
    let limits = Limits {
        max_call: 100,
        ..LIMITS
    };
    let too_long = Err(Some(Unfit::Reads(Violation::TooLong)));
    for (len, fits) in [(96, true), (100, true), (104, false)] {
        let mut buf = [0; BUF];
        let bytes = plain(&mut buf, ListProc::Msg, &[], len)?;
        let got = call(bytes, &limits).map(|call| call.total_len());
        ensure!(got == if fits { Ok(len) } else { too_long }, "no chunk");
        let bytes = encode(&mut buf, ListProc::Msg, len, |w| {
            let mut c = w.write_list()?.chunk()?;
            c.segment(segment(3, 64))?;
            c.segment(segment(3, 64))?;
            c.end().finish()
        })?;
        let got = call(bytes, &limits).map(|call| call.total_len());
        ensure!(got == if fits { Ok(len) } else { too_long }, "write chunk");
    }
    Ok(())
}

/// In version two the header says what a message is: a message of the direction REPLY is no call,
/// whatever its RPC message says.
//~ V2-4.2.2-2 direction is that of RPC message
fn check_header_direction() -> Check {
    let limits = Limits {
        versions: (Version::One, Version::Two),
        ..LIMITS
    };
    for chunk in [false, true] {
        for direction in [Direction::Call, Direction::Reply] {
            let mut buf = [0; BUF];
            let w = Version::Two.begin(&mut buf, XID, 5, direction, ListProc::Msg);
            let header = w.and_then(|w| {
                let w = w.write_list()?;
                if !chunk {
                    return w.finish();
                }
                let mut c = w.chunk()?;
                c.segment(segment(3, 64))?;
                c.segment(segment(3, 64))?;
                c.end().finish()
            });
            let header = header.map_err(|_| "no room")?;
            let rpc = buf
                .get_mut(header..)
                .and_then(|rest| rest.first_chunk_mut());
            *rpc.ok_or("buffer")? = (u64::from(XID) << 32).to_be_bytes();
            let bytes = buf.get(..header.saturating_add(8)).ok_or("buffer")?;
            let is_call = matches!(take(bytes, &limits), Ok(Arrival::Call(_)));
            ensure!(is_call == (direction == Direction::Call), "direction");
        }
    }
    Ok(())
}
