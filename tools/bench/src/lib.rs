// SPDX-License-Identifier: GPL-2.0

//! The operations that are measured, by time (`benches/codec.rs`) and by instructions
//! (`src/bin/instructions.rs`).

use std::hint::black_box;

use rpcrdma_proto::proto::reply::{self, Offer};
use rpcrdma_proto::wire::v1::{self, ListProc};
use rpcrdma_proto::wire::{EncodeError, Limits, Message, Segment};

/// Length of the messages' buffer in bytes.
pub const BUF: usize = 1024;

/// What a requester accepts.
const LIMITS: Limits = Limits::requester(1, 16);

/// What a responder accepts.
const RESPONDER: Limits = Limits {
    read_segments: 64,
    write_chunks: 2,
    chunk_segments: 64,
    characteristics: 8,
};

/// An operation on a message of `len` bytes in `buf`.
#[derive(Clone, Copy)]
pub struct Op {
    /// Name, as printed.
    pub name: &'static str,
    /// Writes the message that [`Op::run`] works on; returns its length.
    pub prepare: fn(&mut [u8]) -> Result<usize, EncodeError>,
    /// Does it, and returns something that depends on the outcome.
    pub run: fn(&mut [u8], usize) -> usize,
}

fn segment(n: u32) -> Segment {
    Segment {
        handle: n,
        length: 4096,
        offset: u64::from(n) << 12,
    }
}

fn nothing(_: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(0)
}

fn inline(buf: &mut [u8]) -> Result<usize, EncodeError> {
    v1::inline(buf, 1, 32).map(|n| n + 100)
}

fn read_chunk(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let mut w = v1::begin(buf, 1, 32, ListProc::Msg)?;
    w.segment(148, segment(1))?;
    w.finish().map(|n| n + 148)
}

fn write_16(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let w = v1::begin(buf, 1, 32, ListProc::Msg)?.write_list()?;
    let mut c = w.chunk()?;
    for n in 0..16 {
        c.segment(segment(n))?;
    }
    c.end().finish().map(|n| n + 100)
}

fn reply_chunk(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let w = v1::begin(buf, 1, 32, ListProc::Nomsg)?;
    let mut c = w.write_list()?.reply_chunk()?.chunk()?;
    c.segment(segment(1))?;
    Ok(c.finish())
}

fn decode(buf: &mut [u8], len: usize, limits: &Limits) -> usize {
    let result = v1::decode(&buf[..len], limits);
    // Looked at where it is: what a caller does with it is not the decoder's cost.
    black_box(&result);
    result.map_or(0, |header| header.header_len())
}

/// All operations. The first one does nothing: its cost is that of measuring.
pub const OPS: [Op; 12] = [
    Op {
        name: "(nothing)",
        prepare: nothing,
        run: |_, len| len,
    },
    Op {
        name: "decode inline",
        prepare: inline,
        run: |b, n| decode(b, n, &LIMITS),
    },
    Op {
        name: "decode one read chunk",
        prepare: read_chunk,
        run: |b, n| decode(b, n, &RESPONDER),
    },
    Op {
        name: "decode 16 write segments",
        prepare: write_16,
        run: |b, n| decode(b, n, &LIMITS),
    },
    Op {
        name: "decode reply chunk",
        prepare: reply_chunk,
        run: |b, n| decode(b, n, &LIMITS),
    },
    Op {
        name: "decode inline, either version",
        prepare: inline,
        run: |b, n| {
            let message = Message::decode(&b[..n], &LIMITS);
            message.map_or(0, |m| black_box(&m).header_len())
        },
    },
    Op {
        name: "decode and check inline reply",
        prepare: inline,
        run: |b, n| check(b, n, &Offer::default()),
    },
    Op {
        name: "decode and check 16 write segments",
        prepare: write_16,
        run: |b, n| {
            const OFFER: [Segment; 16] = [Segment {
                handle: 1,
                length: 4096,
                offset: 0,
            }; 16];
            let offer = Offer {
                write_chunk: Some(&OFFER),
                reply_chunk: None,
            };
            check(b, n, &offer)
        },
    },
    Op {
        name: "encode inline",
        prepare: nothing,
        run: |b, _| inline(b).unwrap_or(0),
    },
    Op {
        name: "encode one read chunk",
        prepare: nothing,
        run: |b, _| read_chunk(b).unwrap_or(0),
    },
    Op {
        name: "encode 16 write segments",
        prepare: nothing,
        run: |b, _| write_16(b).unwrap_or(0),
    },
    Op {
        name: "encode reply chunk",
        prepare: nothing,
        run: |b, _| reply_chunk(b).unwrap_or(0),
    },
];

fn check(buf: &mut [u8], len: usize, offer: &Offer<'_>) -> usize {
    let Ok(header) = v1::decode(&buf[..len], &LIMITS) else {
        return 0;
    };
    reply::check(header.body(), offer).map_or(0, |o| o.lengths().0 as usize + 1)
}
