// SPDX-License-Identifier: GPL-2.0

//! The responder's path for the commonest calls and their replies. The names say which NFS
//! operation has such a call.

use std::hint::black_box;

use rpcrdma_proto::proto::inline::Thresholds;
use rpcrdma_proto::proto::responder::call::Call;
use rpcrdma_proto::proto::responder::grant::Grant;
use rpcrdma_proto::proto::responder::intake::{take, Arrival};
use rpcrdma_proto::proto::responder::limits::Limits;
use rpcrdma_proto::proto::responder::marks::Mark;
use rpcrdma_proto::proto::responder::reply::Plan;
use rpcrdma_proto::wire::{self, Direction, EncodeError, ListProc, Message, Version};

use crate::shapes::segment;
use crate::{op, Op};

const LIMITS: Limits = Limits {
    versions: (Version::One, Version::One),
    max_call: (1 << 20) + 4096,
    max_reply: (1 << 20) + 4096,
    read_wrs: 64,
    write_wrs: 64,
    sges: 30,
    read_pages: 30,
    page_shift: 12,
    remote_invalidation: true,
};

const THRESHOLDS: Thresholds = Thresholds {
    client_to_server: 4096,
    server_to_client: 4096,
    remote_invalidation: true,
    version: Version::One,
};

/// Which chunks a call has, each of one segment.
#[derive(Clone, Copy)]
enum Chunk {
    None,
    Read,
    Write,
    Reply,
}

/// Writes a call with 200 bytes of RPC message, or with all of it in a chunk at position zero.
fn call(buf: &mut [u8], chunk: Chunk, proc: ListProc) -> Result<usize, EncodeError> {
    let mut w = Version::One.begin(buf, black_box(1), 32, Direction::Call, proc)?;
    let long = proc == ListProc::Nomsg;
    if long || matches!(chunk, Chunk::Read) {
        w.segment(if long { 0 } else { 148 }, segment(1))?;
    }
    let mut w = w.write_list()?;
    if let Chunk::Write = chunk {
        let mut c = w.chunk()?;
        c.segment(segment(1))?;
        w = c.end();
    }
    let n = match chunk {
        Chunk::Reply => {
            let mut c = w.reply_chunk()?;
            c.segment(segment(1))?;
            c.finish()
        }
        _ => w.finish()?,
    };
    if long {
        return Ok(n);
    }
    buf[n..n + 200].fill(0);
    buf[n + 3] = 1;
    Ok(n + 200)
}

/// Takes a call in; returns its length, or zero.
fn intake(buf: &mut [u8], len: usize) -> usize {
    let arrival = take(&buf[..len], &LIMITS);
    match black_box(&arrival) {
        Ok(Arrival::Call(call)) => call.total_len() as usize,
        _ => 0,
    }
}

/// Takes a call in and goes through its parts.
fn parts(buf: &mut [u8], len: usize) -> usize {
    match take(&buf[..len], &LIMITS) {
        Ok(Arrival::Call(call)) => end_of(&call),
        _ => 0,
    }
}

fn end_of(call: &Call<'_>) -> usize {
    call.parts().map(|part| black_box(part).len as usize).sum()
}

/// Plans a reply of `len` bytes to the call in `buf`, goes through what it consists of unless
/// all is inline, and encodes its header. The lists of the call are decoded before.
fn reply(buf: &mut [u8], call: usize, marks: &[Mark], len: u32) -> usize {
    let mut header = [0; 128];
    let lists = match Message::decode_as(Version::One, &buf[..call], &wire::Limits::NONE) {
        Ok(message) => message.lists().copied().unwrap_or_default(),
        Err(_) => return 0,
    };
    let Ok(plan) = Plan::new(len, black_box(marks), &lists, &THRESHOLDS) else {
        return 0;
    };
    let mut bytes = 0;
    if plan.proc() == ListProc::Nomsg || !marks.is_empty() {
        bytes = plan.rest().map(|range| black_box(range).len).sum();
    }
    let encoded = plan.encode(black_box(&mut header), 1, 32, |write| {
        bytes += black_box(write).range.len;
    });
    encoded.map_or(0, |n| n + bytes as usize)
}

/// One call and its reply, as the credits see them.
fn credits(_: &mut [u8], _: usize) -> usize {
    let mut grant = black_box(Grant::new(128, 0));
    let more = grant.on_call(black_box(32)).unwrap_or(0);
    (more + grant.on_reply()) as usize
}

const PAYLOAD: [Mark; 1] = [Mark {
    start: 120,
    len: 4096,
}];

/// Intake, replies and credits.
pub const OPS: [Op; 11] = [
    op(
        "intake inline (GETATTR)",
        |b| call(b, Chunk::None, ListProc::Msg),
        intake,
    ),
    op(
        "intake write chunk (READ)",
        |b| call(b, Chunk::Write, ListProc::Msg),
        intake,
    ),
    op(
        "intake read chunk (WRITE)",
        |b| call(b, Chunk::Read, ListProc::Msg),
        intake,
    ),
    op(
        "intake reply chunk (READDIR)",
        |b| call(b, Chunk::Reply, ListProc::Msg),
        intake,
    ),
    op(
        "intake long call",
        |b| call(b, Chunk::None, ListProc::Nomsg),
        intake,
    ),
    op(
        "intake, parts of inline",
        |b| call(b, Chunk::None, ListProc::Msg),
        parts,
    ),
    op(
        "intake, parts of read chunk",
        |b| call(b, Chunk::Read, ListProc::Msg),
        parts,
    ),
    op(
        "decode, reply inline",
        |b| call(b, Chunk::None, ListProc::Msg),
        |b, n| reply(b, n, &[], 240),
    ),
    op(
        "decode, reply with write chunk",
        |b| call(b, Chunk::Write, ListProc::Msg),
        |b, n| reply(b, n, &PAYLOAD, 120 + 4096 + 80),
    ),
    op(
        "decode, reply in reply chunk",
        |b| call(b, Chunk::Reply, ListProc::Msg),
        |b, n| reply(b, n, &[], 4096),
    ),
    op(
        "grant, call and reply",
        |b| call(b, Chunk::None, ListProc::Msg),
        credits,
    ),
];
