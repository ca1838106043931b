// SPDX-License-Identifier: GPL-2.0

//! Version one, from the XDR of RFC 8166 section 4 (RFC 5666 section 4.3).

use super::super::message::{Body, ErrorBody, Message, Proc};
#[cfg(RPCRDMA_LEGACY)]
use super::super::v1;
use super::super::v1::len;
use super::super::{
    has_read_list, peek, DecodeError, Direction, EncodeError, Limits, ListProc, Lists, Prefix,
    ReadSegment, Segment, Version, What,
};
use super::ensure;

/// The result of a check: the name of the vector that fails, if any.
type Check = Result<(), &'static str>;

/// RDMA_MSG, no chunks, then the first two words of a call.
pub const MSG_INLINE: [u8; 36] = [
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 0, // xid, vers, credits, proc
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // three absent lists
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, // xid, CALL
];

/// RDMA_MSG, a read chunk of two segments at position 148, then a word of the call.
pub const MSG_READ: [u8; 80] = [
    0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, //
    0, 0, 0, 1, 0, 0, 0, 148, // an entry, its position
    0xaa, 0, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0xde, 0xad, 0, 0, // handle, length, offset
    0, 0, 0, 1, 0, 0, 0, 148, //
    0xaa, 0, 0, 2, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, //
    0, 0, 0, 0, // end of the read list
    0, 0, 0, 0, // end of the write list
    0, 0, 0, 0, // no reply chunk
    0, 0, 0, 7,
];

/// RDMA_MSG, two write chunks (two segments, one segment), no reply chunk.
pub const MSG_WRITE: [u8; 92] = [
    0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, //
    0, 0, 0, 0, // no read list
    0, 0, 0, 1, 0, 0, 0, 2, // a chunk of two segments
    0, 0, 0, 1, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, //
    0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, //
    0, 0, 0, 1, 0, 0, 0, 1, // a chunk of one segment
    0, 0, 0, 3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, //
    0, 0, 0, 0, // end of the write list
    0, 0, 0, 0, // no reply chunk
];

/// RDMA_NOMSG, a long call at position zero that offers a reply chunk.
pub const NOMSG_LONG: [u8; 72] = [
    0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, //
    0, 0, 0, 1, 0, 0, 0, 0, // an entry at position zero
    0, 0, 0, 4, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 8, //
    0, 0, 0, 0, // end of the read list
    0, 0, 0, 0, // no write list
    0, 0, 0, 1, 0, 0, 0, 1, // a reply chunk of one segment
    0, 0, 0, 5, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 16,
];

/// RDMA_MSGP with alignment 4096 and threshold 1024, no chunks, a word of message.
pub const MSGP: [u8; 40] = [
    0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2, //
    0, 0, 0x10, 0, 0, 0, 4, 0, // align, thresh
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
    0, 0, 0, 10,
];

/// RDMA_DONE.
pub const DONE: [u8; 16] = [
    0, 0, 0, 11, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, //
];

/// RDMA_ERROR, ERR_VERS, versions one to two.
pub const ERR_VERS: [u8; 28] = [
    0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 4, //
    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2,
];

/// RDMA_ERROR, ERR_CHUNK as in RFC 8166.
pub const ERR_CHUNK: [u8; 20] = [
    0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 4, //
    0, 0, 0, 2,
];

/// RDMA_ERROR, ERR_CHUNK with the `rdma_extra` of RFC 5666.
pub const ERR_CHUNK_5666: [u8; 52] = [
    0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 4, //
    0, 0, 0, 2, //
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

const READ: [ReadSegment; 2] = [
    ReadSegment {
        position: 148,
        segment: segment(0xaa00_0001, 4096, 0xdead_0000),
    },
    ReadSegment {
        position: 148,
        segment: segment(0xaa00_0002, 10, 0x1_0000_0000),
    },
];

const WRITE: [&[Segment]; 2] = [
    &[segment(1, 8192, 0x3000), segment(2, 4, 0)],
    &[segment(3, 0, u64::MAX)],
];

const LONG_CALL: Segment = segment(4, 0x4000, 8);
const LONG_REPLY: Segment = segment(5, 0x8000, 16);

const fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment {
        handle,
        length,
        offset,
    }
}

fn decode(bytes: &[u8]) -> Result<Message<'_>, &'static str> {
    Message::decode_as(Version::One, bytes, &Limits::NONE).map_err(|_| "refused")
}

/// Decodes each vector and compares it, item by item.
///
/// # Errors
///
/// The name of the first vector that fails.
pub fn check_decode() -> Check {
    decode_inline()?;
    decode_reads()?;
    decode_writes()?;
    decode_long()?;
    decode_others()?;
    decode_errors()?;
    split_plain()?;
    read_lists()
}

/// A message without chunks is split into the same parts as the decoder finds.
fn split_plain() -> Check {
    let one = |bytes| Message::split_plain(Version::One, bytes);
    let h = decode(&MSG_INLINE)?;
    let prefix = peek(&MSG_INLINE).map_err(|_| "peek")?;
    let want = Some((prefix, None, h.payload()));
    ensure!(one(&MSG_INLINE) == want, "no direction in the header");
    for other in [&MSG_READ[..], &MSG_WRITE, &NOMSG_LONG, &MSGP, &DONE] {
        ensure!(one(other).is_none(), "another message");
    }
    ensure!(one(&ERR_CHUNK_5666).is_none(), "an error with zeros");
    let two = Message::split_plain(Version::Two, &MSG_INLINE);
    ensure!(two.is_none(), "another version");
    Ok(())
}

/// The word that announces a read list, and the lists that a responder keeps.
fn read_lists() -> Check {
    for (bytes, begins) in [
        (&MSG_INLINE[..], false),
        (&MSG_READ, true),
        (&MSG_WRITE, false),
        (&NOMSG_LONG, true),
        (&DONE, false),
        (&[0; 16], false),
        (&[], false),
    ] {
        ensure!(has_read_list(bytes) == begins, "read list");
    }
    for bytes in [&MSG_WRITE[..], &NOMSG_LONG] {
        let h = decode(bytes)?;
        let lists = h.lists().ok_or("lists")?;
        let (writes, reply) = lists.results();
        let kept = Lists::of_results(writes, reply);
        ensure!(kept.read_list().count() == 0, "no read list");
        ensure!(kept.write_list().eq(lists.write_list()), "write list");
        ensure!(kept.reply_chunk() == lists.reply_chunk(), "reply chunk");
    }
    Ok(())
}

//~ 5666-4.1-2 header's XID alone
fn decode_inline() -> Check {
    let h = decode(&MSG_INLINE)?;
    let prefix = Prefix {
        xid: 0x1234_5678,
        version: 1,
        credits: 32,
        proc: 0,
    };
    ensure!(peek(&MSG_INLINE) == Ok(prefix), "peek");
    ensure!(h.xid() == 0x1234_5678 && h.credits() == 32, "inline prefix");
    ensure!(h.proc() == Proc::Msg, "inline proc");
    ensure!(h.lists().is_some_and(|l| l.is_empty()), "inline lists");
    ensure!(h.header_len() == 28, "inline header length");
    ensure!(
        h.payload() == [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0],
        "inline payload"
    );
    Ok(())
}

//~ 5666-3.4-6 any object may be a chunk
fn decode_reads() -> Check {
    let h = decode(&MSG_READ)?;
    let lists = h.lists().ok_or("read lists")?;
    ensure!(lists.read_list().eq(READ), "read list");
    ensure!(lists.read_list().count() == 2, "read list length");
    ensure!(lists.write_list().next().is_none(), "read: write list");
    ensure!(lists.reply_chunk().is_none(), "read: reply chunk");
    ensure!(
        h.header_len() == 76 && h.payload() == [0, 0, 0, 7],
        "read payload"
    );
    Ok(())
}

//~ 5666-2-1 steering tag of at most 32 bits
fn decode_writes() -> Check {
    let h = decode(&MSG_WRITE)?;
    let lists = h.lists().ok_or("write lists")?;
    ensure!(lists.read_list().next().is_none(), "write: read list");
    let mut chunks = lists.write_list();
    for want in WRITE {
        let chunk = chunks.next().ok_or("write chunk missing")?;
        ensure!(chunk.segments().eq(want.iter().copied()), "write segments");
        ensure!(chunk.count() == want.len(), "write segment count");
        ensure!(chunk.segments().count() == want.len(), "segments to come");
    }
    ensure!(chunks.next().is_none(), "write chunk too many");
    let total = lists.write_list().map(|c| c.total_len()).sum::<u64>();
    ensure!(total == 8196, "write total");
    ensure!(
        lists
            .write_list()
            .flat_map(|c| c.segments())
            .map(|s| s.handle)
            .eq([1, 2, 3]),
        "write handles"
    );
    ensure!(
        h.header_len() == 92 && h.payload().is_empty(),
        "write payload"
    );
    Ok(())
}

fn decode_long() -> Check {
    let h = decode(&NOMSG_LONG)?;
    ensure!(h.proc() == Proc::Nomsg, "long proc");
    let lists = h.lists().ok_or("long lists")?;
    let read = ReadSegment {
        position: 0,
        segment: LONG_CALL,
    };
    ensure!(lists.read_list().eq([read]), "long read list");
    let reply = lists.reply_chunk().ok_or("long reply chunk")?;
    ensure!(reply.segments().eq([LONG_REPLY]), "long reply segments");
    ensure!(
        h.header_len() == 72 && h.payload().is_empty(),
        "long payload"
    );
    Ok(())
}

//~ 5666-4.1-7 nothing follows RDMA_DONE and RDMA_ERROR
//~ 5666-4.1-8 depends on the message type
fn decode_others() -> Check {
    let h = decode(&MSGP)?;
    ensure!(h.proc() == Proc::Msgp && h.header_len() == 36, "msgp");
    match h.body() {
        Body::Msgp {
            align: 4096,
            thresh: 1024,
            lists,
            payload: [0, 0, 0, 10],
        } => ensure!(lists.is_empty(), "msgp lists"),
        _ => return Err("msgp body"),
    }
    let h = decode(&DONE)?;
    ensure!(h.proc() == Proc::Done && h.lists().is_none(), "done");
    ensure!(h.header_len() == 16 && h.xid() == 11, "done length");
    Ok(())
}

//~ 5666-4.3-1 eight words of padding
fn decode_errors() -> Check {
    let vers = Body::Error(ErrorBody::Vers { low: 1, high: 2 });
    let chunk = Body::Error(ErrorBody::BadHeader);
    let h = decode(&ERR_VERS)?;
    ensure!(*h.body() == vers && h.header_len() == 28, "err_vers");
    let h = decode(&ERR_CHUNK)?;
    ensure!(*h.body() == chunk && h.header_len() == 20, "err_chunk");
    let h = decode(&ERR_CHUNK_5666)?;
    ensure!(*h.body() == chunk && h.xid() == 13, "err_chunk 5666");
    Ok(())
}

/// Encodes each message and compares it with its vector, and with the predicted length.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ 5666-3.3-1 call requests any number of credits
//~ 8166-4.5-1 ERR_CHUNK has nothing behind
pub fn check_encode() -> Check {
    encode_one(&MSG_INLINE, 28, |b| {
        Version::One.inline(b, 0x1234_5678, 32, Direction::Call)
    })?;
    encode_one(&MSG_READ, 76, |b| {
        let mut w = Version::One.begin(b, 7, 1, Direction::Call, ListProc::Msg)?;
        for r in READ {
            w.segment(r.position, r.segment)?;
        }
        w.finish()
    })?;
    encode_one(&MSG_WRITE, 92, |b| {
        let mut w = Version::One
            .begin(b, 8, 2, Direction::Call, ListProc::Msg)?
            .write_list()?;
        for chunk in WRITE {
            let mut c = w.chunk()?;
            for s in chunk {
                c.segment(*s)?;
            }
            w = c.end();
        }
        w.finish()
    })?;
    encode_one(&NOMSG_LONG, 72, |b| {
        let mut w = Version::One.begin(b, 9, 3, Direction::Call, ListProc::Nomsg)?;
        w.segment(0, LONG_CALL)?;
        let mut c = w.write_list()?.reply_chunk()?;
        c.segment(LONG_REPLY)?;
        Ok(c.finish())
    })?;
    #[cfg(RPCRDMA_LEGACY)]
    encode_withdrawn()?;
    let vers = ErrorBody::Vers { low: 1, high: 2 };
    encode_one(&ERR_VERS, 28, |b| Version::One.error(b, 12, 6, vers))?;
    encode_one(&ERR_CHUNK, 20, |b| {
        Version::One.error(b, 13, 7, ErrorBody::BadHeader)
    })
}

/// Encodes the messages that RFC 8166 has withdrawn.
#[cfg(RPCRDMA_LEGACY)]
fn encode_withdrawn() -> Check {
    ensure!(len::MIN + v1::PADDING == 36, "padded");
    encode_one(&MSGP, 36, |b| {
        v1::begin_padded(b, 10, 4, 4096, 1024)?
            .write_list()?
            .finish()
    })?;
    encode_one(&DONE, 16, |b| v1::done(b, 11, 5))
}

/// Encodes into a buffer of exactly the right length, and into each shorter one, which must fail.
fn encode_one(
    golden: &[u8],
    header_len: usize,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Check {
    let mut buf = [0xee; 128];
    let room = buf.get_mut(..header_len).ok_or("encode: buffer")?;
    ensure!(encode(room) == Ok(header_len), "encode: length");
    ensure!(golden.get(..header_len) == Some(&*room), "encode: bytes");
    for short in 0..header_len {
        let room = buf.get_mut(..short).ok_or("encode: short buffer")?;
        ensure!(encode(room) == Err(EncodeError::NoRoom), "encode: no room");
    }
    Ok(())
}

/// Truncates every vector at every byte, and damages it at known places.
///
/// # Errors
///
/// The name of the first vector that is accepted or refused for another reason.
//~ 5666-4.2-1 header and chunks are checked
pub fn check_refuse() -> Check {
    const HEADERS: [(&[u8], usize); 8] = [
        (&MSG_INLINE, 28),
        (&MSG_READ, 76),
        (&MSG_WRITE, 92),
        (&NOMSG_LONG, 72),
        (&MSGP, 36),
        (&DONE, 16),
        (&ERR_VERS, 28),
        (&ERR_CHUNK, 20),
    ];
    for (bytes, header_len) in HEADERS {
        for n in 0..header_len {
            let cut = Message::decode_as(
                Version::One,
                bytes.get(..n).unwrap_or_default(),
                &Limits::NONE,
            );
            ensure!(
                matches!(cut, Err(DecodeError { what: What::Truncated, offset }) if offset <= n),
                "cut short"
            );
        }
    }
    spoil(&MSG_INLINE, 7, 2, What::Version(2), 4)?;
    spoil(&MSG_INLINE, 15, 5, What::Proc(5), 12)?;
    spoil(&MSG_READ, 19, 2, What::Bool(2), 16)?;
    spoil(&MSG_READ, 23, 149, What::Position(149), 20)?;
    spoil(&MSG_READ, 67, 3, What::Bool(3), 64)?;
    spoil(&MSG_READ, 75, 9, What::Bool(9), 72)?;
    spoil(&MSG_WRITE, 24, 0xff, What::Truncated, 28)?;
    spoil(&ERR_VERS, 19, 3, What::ErrorCode(3), 16)?;
    refuse_beyond_limits()
}

fn spoil(golden: &[u8], at: usize, byte: u8, what: What, offset: usize) -> Check {
    let mut buf = [0; 128];
    let copy = buf.get_mut(..golden.len()).ok_or("spoil: buffer")?;
    copy.copy_from_slice(golden);
    *copy.get_mut(at).ok_or("spoil: offset")? = byte;
    let got = Message::decode_as(Version::One, copy, &Limits::NONE);
    ensure!(got == Err(DecodeError { what, offset }), "spoilt");
    Ok(())
}

fn refuse_beyond_limits() -> Check {
    let exact = Limits {
        read_segments: 2,
        write_chunks: 2,
        chunk_segments: 2,
    };
    ensure!(
        Message::decode_as(Version::One, &MSG_READ, &exact).is_ok(),
        "limits: reads"
    );
    ensure!(
        Message::decode_as(Version::One, &MSG_WRITE, &exact).is_ok(),
        "limits: writes"
    );
    let beyond = |bytes, limits, what, offset| {
        Message::decode_as(Version::One, bytes, &limits) == Err(DecodeError { what, offset })
    };
    let fewer = Limits {
        read_segments: 1,
        ..exact
    };
    let what = What::ReadSegments;
    ensure!(beyond(&MSG_READ, fewer, what, 40), "limits: read segments");
    let cut = MSG_READ.get(..50).unwrap_or_default();
    ensure!(beyond(cut, fewer, what, 40), "limits: first, then length");
    ensure!(beyond(cut, exact, What::Truncated, 44), "cut in an entry");
    let fewer = Limits {
        write_chunks: 1,
        ..exact
    };
    let what = What::WriteChunks;
    ensure!(beyond(&MSG_WRITE, fewer, what, 60), "limits: write chunks");
    let fewer = Limits {
        chunk_segments: 1,
        ..exact
    };
    let what = What::ChunkSegments(2);
    ensure!(beyond(&MSG_WRITE, fewer, what, 24), "limits: segments");
    Ok(())
}

/// Compares predicted lengths with those of the vectors.
///
/// # Errors
///
/// The name of the first prediction that is wrong.
pub fn check_lengths() -> Check {
    ensure!(len::MIN == 28, "minimum");
    ensure!(len::header(0, None, None) == len::MIN, "inline");
    ensure!(len::header(2, None, None) == 76, "reads");
    let two = [len::MIN, len::write_chunk(2), len::write_chunk(1)];
    ensure!(two.iter().sum::<usize>() == MSG_WRITE.len(), "writes");
    ensure!(len::header(1, None, Some(1)) == NOMSG_LONG.len(), "long");
    Ok(())
}
