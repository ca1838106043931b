// SPDX-License-Identifier: GPL-2.0

//! Cases of RFC 5666 only: RDMA_DONE, padding, CONF_RDMA.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::super::wire::{
    Direction, EncodeError, Limits, ListProc, Message, Segment, Version,
};
use super::super::legacy::conf::{call, Configuration};
use super::super::legacy::done::{Dones, Exposure};
use super::super::legacy::padded::Padding;
use super::super::legacy::read_chunks::{check_pulled, parts};
use super::super::legacy::round_up::check_rounded_up;
use super::super::requester::reply::{check, Offer, Violation};
use super::super::responder::call::LONGEST_SEGMENT;
use super::ensure;
use super::reply::lengths;

type Check = Result<(), &'static str>;

/// Checks that RDMA_DONE takes a credit, and that a reply to a later call returns it.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.5-1 after reading client sends RDMA_DONE
//~ 5666-3.8-1 client accounts for RDMA_DONE
//~ 5666-3.8-4 replenishes the credit RDMA_DONE took
pub fn check_done() -> Check {
    let mut d = Dones::default();
    ensure!(!d.try_send(8, 0), "nothing is due");
    let early = d.stamp();
    d.on_due();
    ensure!(!d.try_send(3, 3), "no credit is left");
    ensure!(d.try_send(3, 2) && !d.try_send(3, 2), "one RDMA_DONE");
    ensure!(d.unconfirmed() == 1, "RDMA_DONE takes a credit");
    let late = d.stamp();
    d.on_reply(early);
    ensure!(d.unconfirmed() == 1, "reply to a call before RDMA_DONE");
    d.on_reply(late);
    ensure!(d.unconfirmed() == 0, "reply to a call after RDMA_DONE");
    d.on_reply(early);
    ensure!(d.unconfirmed() == 0, "a late reply takes nothing back");
    check_dones_take_credits()?;
    check_exposure()
}

/// Checks that RDMA_DONEs observe the grant even if no call is in flight, and that a call is
/// nevertheless sent.
fn check_dones_take_credits() -> Check {
    let mut d = Dones::default();
    for _ in 0..5 {
        d.on_due();
    }
    for _ in 0..5 {
        ensure!(d.try_send(1, 0), "the next RDMA_DONE");
        ensure!(!d.try_send(1, 0), "two RDMA_DONEs on a grant of one");
        d.on_reply(d.stamp());
        ensure!(d.unconfirmed() == 0, "confirmed");
    }
    ensure!(!d.try_send(1, 0), "none is left");
    Ok(())
}

//~ 5666-3.8-2 server takes its memory back
//~ 5666-3.8-3 credits enough for RDMA_DONE
//~ 5666-11-1 protect themselves against missing RDMA_DONEs
//~ 5666-11-2 may lower the grant
//~ 5666-11-3 grant does not fall to zero
//~ 5666-11-4 resources are recovered after time
fn check_exposure() -> Check {
    let mut e = Exposure::new(2);
    ensure!(e.grant(32) == 32, "full grant");
    ensure!(e.try_expose() && e.try_expose(), "two replies");
    ensure!(!e.try_expose(), "no third");
    ensure!(e.grant(32) == 30 && e.grant(2) == 1, "less, never zero");
    ensure!(e.grant(0) == 1, "never zero");
    ensure!(e.release() && e.release(), "released");
    ensure!(!e.release() && e.grant(2) == 2, "nothing left to release");
    Ok(())
}

/// Checks the padding for positions and lengths around the threshold.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.9-1 alignment and threshold of RDMA_MSGP
//~ 5666-3.9-2 skips the padding before opaque data
pub fn check_padding() -> Check {
    const BAD: [u32; 5] = [0, 1, 2, 12, u32::MAX];
    for align in BAD {
        ensure!(Padding::new(align, 0).is_none(), "alignment");
    }
    let p = Padding::new(4096, 1024).ok_or("good alignment")?;
    ensure!(p.align() == 4096 && p.thresh() == 1024, "numbers");
    const CASES: [(u32, u32, u32); 7] = [
        (148, 1023, 0),
        (148, 1024, 3948),
        (148, 8192, 3948),
        (0, 8192, 0),
        (4096, 8192, 0),
        (4097, 8192, 4095),
        (u32::MAX, 8192, 1),
    ];
    for (position, len, want) in CASES {
        ensure!(p.before(position, len) == want, "padding");
    }
    Ok(())
}

const REQUEST: Request = Request {
    maxcall_sendsize: 8192,
    maxreply_sendsize: 2048,
    maxrdmaread: 16,
};

const REPLY: Reply = Reply {
    maxcall_sendsize: 4096,
    align: 4096,
    maxrdmaread: 8,
};

/// Checks the effect of CONF_RDMA, and what may be sent before the answer.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-6.1-1 before any other RPC program
//~ 5666-6.1-2 assumes one receive of 1 KB
//~ 5666-6.2-1 no call longer than server accepts
//~ 5666-6.2-2 server may accept more or less
//~ 5666-6.2-3 announces no RDMA Reads
//~ 5666-6.2-4 pad as the server recommends
//~ 5666-6.2-6 client and server have agreed
pub fn check_conf() -> Check {
    ensure!(call(1, &REQUEST).len() <= 1024, "one receive of 1 KB");
    let c = Configuration::agree(&REQUEST, &REPLY).ok_or("answered")?;
    ensure!((c.max_call, c.max_reply) == (4096, 2048), "sizes");
    ensure!(c.read_chunks, "read chunks");
    ensure!(c.padding == Padding::new(4096, 4096), "padding");
    check_answers()
}

/// Checks answers at the limits of their values, and an error.
//~ 5666-6.2-2 server may accept more or less
//~ 5666-6.2-3 announces no RDMA Reads
fn check_answers() -> Check {
    let agree = |reply| Configuration::agree(&REQUEST, &reply);
    let least = Reply {
        maxcall_sendsize: 1024,
        ..REPLY
    };
    let least = agree(least).map(|c| c.max_call);
    ensure!(least == Some(1024), "the basic level itself");
    for maxcall_sendsize in [0, 512, 1023] {
        let modest = Reply {
            maxcall_sendsize,
            ..REPLY
        };
        ensure!(agree(modest).is_none(), "less than the basic level");
    }
    for align in [0, 3, 4] {
        let c = agree(Reply { align, ..REPLY }).ok_or("alignment")?;
        ensure!(c.padding.is_none(), "no padding");
    }
    let still = agree(Reply {
        maxrdmaread: 0,
        ..REPLY
    });
    let still = still.ok_or("no reads")?;
    ensure!(!still.read_chunks, "no reads at the server");
    let generous = Reply {
        maxcall_sendsize: u32::MAX,
        align: 1 << 31,
        maxrdmaread: u32::MAX,
    };
    let c = agree(generous).ok_or("generous")?;
    ensure!(c.max_call == 8192, "no more than requested");
    Ok(())
}

/// Offered segments, returned segments, and the length of the data; `None` where the reply claims
/// too much.
type RoundUp = (&'static [u32], &'static [u32], Option<u32>);

const ROUND_UPS: [RoundUp; 12] = [
    (&[4097], &[4100], Some(4097)),
    (&[4098], &[4100], Some(4098)),
    (&[4099], &[4100], Some(4099)),
    (&[4096, 1], &[4096, 4], Some(4097)),
    // Less than was offered.
    (&[4097], &[4097], Some(4097)),
    (&[4097], &[4000], Some(4000)),
    // More than round-up, and round-up that does not end at a multiple of four.
    (&[4096], &[4100], None),
    (&[4097], &[4099], None),
    (&[4097], &[4101], None),
    (&[4097], &[4104], None),
    // In another segment than the last one.
    (&[4097, 4096], &[4100, 4096], None),
    (&[4097], &[u32::MAX], None),
];

/// Checks replies of a responder that includes the round-up in the length of a write chunk.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.7-3 returned length includes the round-up
pub fn check_round_up() -> Check {
    for (offered, returned, want) in ROUND_UPS {
        let mut buf = [0; 128];
        let bytes = reply_with(&mut buf, returned).map_err(|_| "no room")?;
        let reply = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        let mut room = [segment(0); 2];
        let room = room.get_mut(..offered.len()).ok_or("room")?;
        for (place, len) in room.iter_mut().zip(offered) {
            *place = segment(*len);
        }
        let offer = Offer {
            write_chunk: Some(room),
            reply_chunk: None,
        };
        let got = check_rounded_up(reply.body(), &offer);
        let got = got.ok().map(|outcome| lengths(&outcome).0);
        ensure!(got == want, "round-up");
        let strict = check(reply.body(), &offer).ok();
        let exact = offered.iter().sum::<u32>();
        let more = returned.iter().any(|len| *len > exact) || want.is_none();
        ensure!(strict.is_none() || !more, "not from other responders");
    }
    Ok(())
}

const fn segment(length: u32) -> Segment {
    Segment {
        handle: 1,
        length,
        offset: 0,
    }
}

/// Writes a reply that returns a write chunk of these lengths. Returns its bytes.
fn reply_with<'a>(buf: &'a mut [u8], lengths: &[u32]) -> Result<&'a [u8], EncodeError> {
    let header = Version::One.begin(buf, 7, 1, Direction::Reply, ListProc::Msg)?;
    let mut chunk = header.write_list()?.chunk()?;
    for length in lengths {
        chunk.segment(segment(*length))?;
    }
    let len = chunk.end().finish()?;
    buf.get(..len).ok_or(EncodeError::NoRoom)
}

/// Message type, inline bytes, read list of (position, length), and what is found: the length of
/// the message and the number of RDMA Reads. The RPC has room for 4096 bytes.
type Reads = (ListProc, usize, &'static [(u32, u32)], Option<(u32, u32)>);

const READS: [Reads; 16] = [
    (ListProc::Msg, 40, &[(40, 1000)], Some((1040, 1))),
    (ListProc::Msg, 40, &[(36, 1001), (36, 2)], Some((1044, 2))),
    (ListProc::Msg, 40, &[(8, 4), (16, 8)], Some((52, 2))),
    (ListProc::Nomsg, 0, &[(0, 4096)], Some((4096, 1))),
    (ListProc::Nomsg, 0, &[(0, 40), (0, 60)], Some((100, 2))),
    // An empty segment beside others.
    (ListProc::Msg, 40, &[(40, 0), (40, 8)], Some((48, 1))),
    // Positions: beyond the end, before the end of the chunk before, zero beside a message, none
    // of zero without a message.
    (ListProc::Msg, 40, &[(44, 8)], None),
    (ListProc::Msg, 40, &[(16, 8), (20, 8)], None),
    (ListProc::Msg, 40, &[(0, 8)], None),
    (ListProc::Nomsg, 0, &[(4, 8)], None),
    // Longer than the RPC has room for, also in the sum.
    (ListProc::Msg, 40, &[(40, 4057)], None),
    (ListProc::Nomsg, 0, &[(0, 4097)], None),
    (ListProc::Nomsg, 0, &[(0, u32::MAX), (0, u32::MAX)], None),
    (ListProc::Msg, 40, &[(40, 1 << 31), (40, 1 << 31)], None),
    // Nothing to read.
    (ListProc::Msg, 40, &[], None),
    (ListProc::Msg, 40, &[(40, 0)], None),
];

/// Checks which read chunks a reply may have.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-3.4-7 results may come as read chunks
//~ 5666-3.8-5 replies may carry read chunks
//~ 5666-5.2-2 long reply may come as read chunk
pub fn check_reads() -> Check {
    for (proc, inline, reads, want) in READS {
        let mut buf = [0; 256];
        let bytes = reply_of(&mut buf, proc, inline, (reads, 0)).map_err(|_| "no room")?;
        let reply = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        let found = check_pulled(&reply, 4096);
        let found = found.ok().map(|found| (found.len, found.reads));
        ensure!(found == want, "read chunks");
        let parts = parts(&reply, 4096).map(|parts| parts.map_while(Result::ok));
        let sum = parts.map(|parts| parts.fold(0u32, |sum, part| sum.saturating_add(part.len)));
        ensure!(want.is_none() || sum.ok() == want.map(|w| w.0), "parts");
    }
    // An address that wraps, and one that just does not.
    for (offset, fine) in [(u64::MAX - 6, false), (u64::MAX - 7, true)] {
        let mut buf = [0; 256];
        let bytes = reply_of(&mut buf, ListProc::Msg, 40, (&[(40, 8)], offset));
        let reply = Message::decode(bytes.map_err(|_| "no room")?, &Limits::NONE);
        let found = check_pulled(&reply.map_err(|_| "refused")?, 4096);
        ensure!(found.is_ok() == fine, "address");
    }
    // The longest segment, and a longer one, of an RPC that has room for both.
    for (length, fine) in [(LONGEST_SEGMENT, true), (LONGEST_SEGMENT + 1, false)] {
        let mut buf = [0; 256];
        let bytes = reply_of(&mut buf, ListProc::Nomsg, 0, (&[(0, length)], 0));
        let reply = Message::decode(bytes.map_err(|_| "no room")?, &Limits::NONE);
        let found = check_pulled(&reply.map_err(|_| "refused")?, u32::MAX);
        let refused = found == Err(Violation::SegmentLength);
        ensure!(if fine { found.is_ok() } else { refused }, "segment length");
    }
    // Chunks of the call are not used beside read chunks.
    let mut buf = [0; 256];
    let bytes = reply_with(&mut buf, &[8]).map_err(|_| "no room")?;
    let reply = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    ensure!(
        check_pulled(&reply, 4096) == Err(Violation::ExtraWriteChunk),
        "write chunk"
    );
    Ok(())
}

/// Writes a reply with these read segments, all at `offset`. Returns its bytes.
fn reply_of<'a>(
    buf: &'a mut [u8],
    proc: ListProc,
    inline: usize,
    (reads, offset): (&[(u32, u32)], u64),
) -> Result<&'a [u8], EncodeError> {
    let mut header = Version::One.begin(buf, 7, 1, Direction::Reply, proc)?;
    for (position, length) in reads {
        let segment = Segment {
            offset,
            ..segment(*length)
        };
        header.segment(*position, segment)?;
    }
    let len = header.finish()?.saturating_add(inline);
    buf.get(..len).ok_or(EncodeError::NoRoom)
}
