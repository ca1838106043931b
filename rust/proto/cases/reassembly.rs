// SPDX-License-Identifier: GPL-2.0

//! Messages put together from inline data and read chunks.

use super::super::super::wire::{
    Direction, EncodeError, Limits, ListProc, Message, Segment, Version,
};
use super::super::responder::reassembly::{position_zero, Piece, Reassembly, Violation};
use super::ensure;

type Check = Result<(), &'static str>;

/// A piece as the cases write it.
#[derive(Clone, Copy)]
enum Want {
    /// Base: start, length.
    B(u32, u32),
    /// Read segment: position, length.
    R(u32, u32),
    /// Round-up.
    U(u32),
    /// Refused.
    E(Violation),
}

use Want::{B, E, R, U};

/// Read list (position, length), length of the base, pieces.
type Case = (&'static [(u32, u32)], u32, &'static [Want]);

/// RDMA_MSG, at most 10,000 bytes in all.
const INLINE: [Case; 13] = [
    (&[], 0, &[]),
    (&[], 100, &[B(0, 100)]),
    // A chunk in the middle, with round-up and without.
    (&[(148, 4096)], 160, &[B(0, 148), R(148, 4096), B(148, 12)]),
    (&[(148, 5)], 160, &[B(0, 148), R(148, 5), U(3), B(148, 12)]),
    (&[(148, 8)], 160, &[B(0, 148), R(148, 8), B(148, 12)]),
    // A chunk at the end.
    (&[(148, 5)], 148, &[B(0, 148), R(148, 5), U(3)]),
    // One chunk of several segments. Only the last is followed by round-up.
    (
        &[(4, 5), (4, 6)],
        8,
        &[B(0, 4), R(4, 5), R(4, 6), U(1), B(4, 4)],
    ),
    // Two chunks without inline data between them.
    (
        &[(4, 5), (12, 4), (20, 1)],
        8,
        &[B(0, 4), R(4, 5), U(3), R(12, 4), B(4, 4), R(20, 1), U(3)],
    ),
    (
        &[(4, 4), (4, 0), (8, 0)],
        4,
        &[B(0, 4), R(4, 4), R(4, 0), R(8, 0)],
    ),
    (
        &[(8, 4), (4, 4)],
        8,
        &[B(0, 8), R(8, 4), E(Violation::Overlap)],
    ),
    (
        &[(4, 8), (8, 4)],
        8,
        &[B(0, 4), R(4, 8), E(Violation::Overlap)],
    ),
    (&[(12, 4)], 8, &[E(Violation::Beyond)]),
    (&[(4, 9997)], 8, &[B(0, 4), E(Violation::TooLong)]),
];

/// RDMA_NOMSG; the base is the length of the chunk at position zero.
const LONG: [Case; 4] = [
    (&[(0, 100)], 100, &[B(0, 100)]),
    (&[(0, 60), (0, 40)], 100, &[B(0, 100)]),
    (&[(0, 100), (96, 8)], 100, &[B(0, 96), R(96, 8), B(96, 4)]),
    (&[(0, 100), (0, 7)], 107, &[B(0, 107)]),
];

fn encode(buf: &mut [u8], proc: ListProc, reads: &[(u32, u32)]) -> Result<usize, EncodeError> {
    let mut w = Version::One.begin(buf, 1, 1, Direction::Call, proc)?;
    for &(position, length) in reads {
        let segment = Segment {
            handle: 9,
            length,
            offset: 0,
        };
        w.segment(position, segment)?;
    }
    w.finish()
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.7-1 round-up that was not transferred
//~ 8166-3.4-2 round-up bytes present, and absent
//~ 8166-4.3-3 equal positions are one chunk
pub fn check() -> Check {
    for (reads, base, want) in INLINE {
        run(ListProc::Msg, reads, base, want)?;
    }
    for (reads, base, want) in LONG {
        run(ListProc::Nomsg, reads, base, want)?;
    }
    check_starts()
}

fn run(proc: ListProc, reads: &[(u32, u32)], base: u32, want: &[Want]) -> Check {
    let mut buf = [0; 256];
    let n = encode(&mut buf, proc, reads).map_err(|_| "no room")?;
    let message = Message::decode(buf.get(..n).ok_or("buffer")?, &Limits::NONE);
    let message = message.map_err(|_| "refused")?;
    let lists = message.lists().ok_or("lists")?;
    let pieces = match proc {
        ListProc::Msg => Reassembly::inline(lists, base, 10_000),
        ListProc::Nomsg => Reassembly::long(lists, 10_000),
    };
    let got = pieces.map_err(|_| "not started")?.map(|piece| match piece {
        Ok(Piece::Base { start, len }) => (0, start, len),
        Ok(Piece::Read(r)) => (1, r.position, r.segment.length),
        Ok(Piece::RoundUp { len }) => (2, 0, len),
        Err(v) => (3, violation(v), 0),
    });
    let want = want.iter().map(|w| match *w {
        B(start, len) => (0, start, len),
        R(position, len) => (1, position, len),
        U(len) => (2, 0, len),
        E(v) => (3, violation(v), 0),
    });
    ensure!(got.eq(want), "pieces");
    Ok(())
}

fn violation(v: Violation) -> u32 {
    // CAST: a number to compare.
    v as u32
}

//~ 5666-5.1-1 message is in first read chunk
fn check_starts() -> Check {
    type Start = (ListProc, &'static [(u32, u32)], Violation);
    const BAD: [Start; 6] = [
        (ListProc::Msg, &[(0, 8)], Violation::PositionZero),
        (ListProc::Nomsg, &[], Violation::NoMessage),
        (ListProc::Nomsg, &[(4, 8)], Violation::NoMessage),
        (ListProc::Nomsg, &[(0, 0)], Violation::NoMessage),
        (ListProc::Nomsg, &[(0, 10_001)], Violation::TooLong),
        (
            ListProc::Nomsg,
            &[(0, u32::MAX), (0, 9)],
            Violation::TooLong,
        ),
    ];
    for (proc, reads, want) in BAD {
        let mut buf = [0; 128];
        let n = encode(&mut buf, proc, reads).map_err(|_| "no room")?;
        let message = Message::decode(buf.get(..n).ok_or("buffer")?, &Limits::NONE);
        let message = message.map_err(|_| "refused")?;
        let lists = message.lists().ok_or("lists")?;
        let got = match proc {
            ListProc::Msg => Reassembly::inline(lists, 8, 10_000),
            ListProc::Nomsg => Reassembly::long(lists, 10_000),
        };
        ensure!(got.err() == Some(want), "start");
        let zero = reads.iter().take_while(|(p, _)| *p == 0).count();
        ensure!(position_zero(lists).count() == zero, "position zero");
    }
    Ok(())
}
