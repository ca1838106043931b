// SPDX-License-Identifier: GPL-2.0

//! The operations that are measured, by time (`benches/codec.rs`) and by instructions
//! (`src/bin/instructions.rs`): four forms of messages, encoded and decoded in both versions, and a
//! requester's checks of replies.

mod responder;
mod shapes;

use std::hint::black_box;

use rpcrdma_proto::proto::requester::reply::{self, Offer, Outcome};
use rpcrdma_proto::wire::{EncodeError, Limits, Message, Segment, Version};
use shapes::{inline, read_chunk, reply_chunk, write_16, Codec, One, Two};

/// Length of the messages' buffer in bytes.
pub const BUF: usize = 1024;

/// The limits of a requester.
const REQUESTER: Limits = Limits::requester(1, 16);

/// The limits of a responder.
const RESPONDER: Limits = Limits {
    read_segments: 64,
    write_chunks: 2,
    chunk_segments: 64,
};

/// An operation on a message of `len` bytes in `buf`.
#[derive(Clone, Copy)]
pub struct Op {
    /// Name, as printed.
    pub name: &'static str,
    /// Writes the message that [`Op::run`] works on; returns its length.
    pub prepare: fn(&mut [u8]) -> Result<usize, EncodeError>,
    /// Runs the operation, and returns a number that depends on its outcome.
    pub run: fn(&mut [u8], usize) -> usize,
}

const fn op(
    name: &'static str,
    prepare: fn(&mut [u8]) -> Result<usize, EncodeError>,
    run: fn(&mut [u8], usize) -> usize,
) -> Op {
    Op { name, prepare, run }
}

fn nothing(_: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(0)
}

fn decode<C: Codec>(buf: &mut [u8], len: usize, limits: &Limits) -> usize {
    C::decode(&buf[..len], limits)
}

fn decode_either(buf: &mut [u8], len: usize) -> usize {
    let message = Message::decode(&buf[..len], &REQUESTER);
    message.map_or(0, |m| black_box(&m).header_len())
}

fn check(buf: &mut [u8], len: usize, offer: &Offer<'_>) -> usize {
    let Ok(message) = Message::decode_as(Version::One, &buf[..len], &REQUESTER) else {
        return 0;
    };
    match reply::check(message.body(), offer) {
        Ok(Outcome::Inline { write_len, .. } | Outcome::ReplyChunk { write_len, .. }) => {
            write_len as usize + 1
        }
        Ok(Outcome::Error(_)) => 1,
        Err(_) => 0,
    }
}

fn check_16(buf: &mut [u8], len: usize) -> usize {
    const OFFER: [Segment; 16] = [Segment {
        handle: 1,
        length: 4096,
        offset: 0,
    }; 16];
    let offer = Offer {
        write_chunk: Some(&OFFER),
        reply_chunk: None,
    };
    check(buf, len, &offer)
}

/// Encoding and decoding of the four shapes in one version.
macro_rules! codec_ops {
    ($codec:ty, $version:literal) => {
        [
            op(
                concat!($version, " decode inline"),
                inline::<$codec>,
                |b, n| decode::<$codec>(b, n, &REQUESTER),
            ),
            op(
                concat!($version, " decode one read chunk"),
                read_chunk::<$codec>,
                |b, n| decode::<$codec>(b, n, &RESPONDER),
            ),
            op(
                concat!($version, " decode 16 write segments"),
                write_16::<$codec>,
                |b, n| decode::<$codec>(b, n, &REQUESTER),
            ),
            op(
                concat!($version, " decode reply chunk"),
                reply_chunk::<$codec>,
                |b, n| decode::<$codec>(b, n, &REQUESTER),
            ),
            op(concat!($version, " encode inline"), nothing, |b, _| {
                inline::<$codec>(b).unwrap_or(0)
            }),
            op(
                concat!($version, " encode one read chunk"),
                nothing,
                |b, _| read_chunk::<$codec>(b).unwrap_or(0),
            ),
            op(
                concat!($version, " encode 16 write segments"),
                nothing,
                |b, _| write_16::<$codec>(b).unwrap_or(0),
            ),
            op(concat!($version, " encode reply chunk"), nothing, |b, _| {
                reply_chunk::<$codec>(b).unwrap_or(0)
            }),
        ]
    };
}

/// Version one.
pub const ONE: [Op; 8] = codec_ops!(One, "v1");

/// Version two.
pub const TWO: [Op; 8] = codec_ops!(Two, "v2");

/// Operations for both versions, and operations that do more than the codec.
pub const OTHERS: [Op; 4] = [
    op("either decode v1 inline", inline::<One>, decode_either),
    op("either decode v2 inline", inline::<Two>, decode_either),
    op("v1 decode and check inline reply", inline::<One>, |b, n| {
        check(b, n, &Offer::default())
    }),
    op(
        "v1 decode and check 16 write segments",
        write_16::<One>,
        check_16,
    ),
];

/// Does nothing. Its cost is that of the measurement.
pub const NOTHING: Op = op("(nothing)", nothing, |_, len| len);

/// All operations, [`NOTHING`] first.
pub fn ops() -> impl Iterator<Item = Op> {
    let codecs = [NOTHING].into_iter().chain(ONE).chain(TWO);
    codecs.chain(OTHERS).chain(responder::OPS)
}
