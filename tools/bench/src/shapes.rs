// SPDX-License-Identifier: GPL-2.0

//! The messages that are encoded and decoded, in either version.

use std::hint::black_box;

use rpcrdma_proto::wire::{
    Direction, EncodeError, Limits, ListProc, Message, ReadListWriter, Segment, Version,
};

/// One version's codec.
pub trait Codec {
    /// The version.
    const VERSION: Version;

    /// Starts a header with chunk lists.
    fn begin(buf: &mut [u8], proc: ListProc) -> Result<ReadListWriter<'_>, EncodeError> {
        Self::VERSION.begin(buf, black_box(1), black_box(32), Direction::Reply, proc)
    }

    /// Decodes a message; returns its header's length, or zero.
    fn decode(bytes: &[u8], limits: &Limits) -> usize {
        let result = Message::decode_as(Self::VERSION, bytes, limits);
        // The message is used in place: moving it is not the decoder's cost.
        black_box(&result);
        result.map_or(0, |message| message.header_len())
    }
}

/// Version one.
pub struct One;

impl Codec for One {
    const VERSION: Version = Version::One;
}

/// Version two.
pub struct Two;

impl Codec for Two {
    const VERSION: Version = Version::Two;
}

/// A segment that the compiler does not know, like a real one.
pub fn segment(n: u32) -> Segment {
    let n = black_box(n);
    Segment {
        handle: n,
        length: 4096,
        offset: u64::from(n) << 12,
    }
}

/// No chunks, and 100 bytes of RPC message.
pub fn inline<C: Codec>(buf: &mut [u8]) -> Result<usize, EncodeError> {
    C::begin(buf, ListProc::Msg)?.finish().map(|n| n + 100)
}

/// A call with one read chunk of one segment.
pub fn read_chunk<C: Codec>(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let mut w = C::begin(buf, ListProc::Msg)?;
    w.segment(148, segment(1))?;
    w.finish().map(|n| n + 148)
}

/// One write chunk of 16 segments.
pub fn write_16<C: Codec>(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let w = C::begin(buf, ListProc::Msg)?.write_list()?;
    let mut c = w.chunk()?;
    for n in 0..16 {
        c.segment(segment(n))?;
    }
    c.end().finish().map(|n| n + 100)
}

/// A long reply: a reply chunk of one segment, and nothing inline.
pub fn reply_chunk<C: Codec>(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let w = C::begin(buf, ListProc::Nomsg)?;
    let mut c = w.write_list()?.reply_chunk()?;
    c.segment(segment(1))?;
    Ok(c.finish())
}
