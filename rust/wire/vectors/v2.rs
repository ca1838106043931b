// SPDX-License-Identifier: GPL-2.0

//! Version two, from the XDR of its section 4.2, and the message type of both versions.

use super::super::message::{Body, ErrorBody, Message, Mismatch, Proc};
use super::super::v2::{len, FIRST_MESSAGE_MAX};
use super::super::{
    answer, error_as, has_read_list, peek, DecodeError, Direction, EncodeError, Limits, ListProc,
};
use super::super::{Prefix, Receiver, Remedy, Segment, Version, What};
use super::ensure;
use super::v1 as one;

type Check = Result<(), &'static str>;

/// RDMA2_MSG, CALL, no chunks, then the first two words of a call.
pub const MSG_INLINE: [u8; 40] = [
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 2, 0, 0, 0, 32, 0, 0, 0, 0, // xid, vers, credits, proc
    0, 0, 0, 0, // direction
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // three absent lists
    0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, // xid, CALL
];

/// RDMA2_NOMSG, REPLY, a reply chunk of one segment.
pub const NOMSG_REPLY: [u8; 52] = [
    0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, //
    0, 0, 0, 1, // direction
    0, 0, 0, 0, // no read list
    0, 0, 0, 0, // no write list
    0, 0, 0, 1, 0, 0, 0, 1, // a reply chunk of one segment
    0, 0, 0, 5, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 16,
];

/// RDMA2_ERROR, ERR_VERS, versions one to two.
pub const ERR_VERS: [u8; 28] = [
    0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 4, //
    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2,
];

/// RDMA2_ERROR, BAD_HEADER.
pub const ERR_BAD_HEADER: [u8; 20] = [
    0, 0, 0, 13, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 4, //
    0, 0, 0, 2,
];

/// RDMA2_ERROR, INVAL_OPTION.
pub const ERR_INVAL_OPTION: [u8; 20] = [
    0, 0, 0, 14, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 4, //
    0, 0, 0, 3,
];

/// RDMA2_OPTIONAL, REPLY, operation 77 with five bytes, then a word of RPC message.
pub const OPTIONAL: [u8; 40] = [
    0, 0, 0, 15, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 5, //
    0, 0, 0, 1, 0, 0, 0, 77, // direction, opttype
    0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, // optinfo with padding
    0xab, 0xcd, 0xef, 0x01,
];

const REPLY_CHUNK: Segment = Segment {
    handle: 5,
    length: 0x8000,
    offset: 16,
};

fn decode(bytes: &[u8]) -> Result<Message<'_>, &'static str> {
    Message::decode_as(Version::Two, bytes, &Limits::NONE).map_err(|_| "v2 refused")
}

/// Runs the vectors.
///
/// # Errors
///
/// The name of the first vector that fails.
pub fn check() -> Check {
    check_decode()?;
    check_encode()?;
    check_refuse()?;
    check_lengths()?;
    check_bare_errors()?;
    check_message()?;
    check_plain()?;
    check_mismatch()
}

/// Decodes each vector and compares it, item by item.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ V2-3.1-2 optional operations may be supported
//~ V2-3.2-1 XID and credits of the direction
//~ V2-4.2.1-2 no RPC message follows RDMA2_ERROR
//~ V2-4.2.1-3 all, part or nothing
//~ V2-4.2.2-3 direction of error is REPLY
//~ V2-4.2.2-6 XID and credits of optional operation
pub fn check_decode() -> Check {
    let h = decode(&MSG_INLINE)?;
    ensure!(h.xid() == 0x1234_5678 && h.credits() == 32, "v2 prefix");
    ensure!(h.proc() == Proc::Msg && h.header_len() == 32, "v2 msg");
    ensure!(h.direction() == Some(Direction::Call), "v2 direction");
    let h = decode(&NOMSG_REPLY)?;
    ensure!(h.proc() == Proc::Nomsg && h.header_len() == 52, "v2 nomsg");
    let Body::Nomsg { lists } = h.body() else {
        return Err("v2 nomsg body");
    };
    let chunk = lists.reply_chunk().ok_or("v2 reply chunk")?;
    ensure!(chunk.segments().eq([REPLY_CHUNK]), "v2 reply segments");
    ensure!(
        h.direction() == Some(Direction::Reply),
        "v2 reply direction"
    );
    let h = decode(&OPTIONAL)?;
    let optional = Body::Optional {
        opttype: 77,
        optinfo: &[1, 2, 3, 4, 5],
        payload: &[0xab, 0xcd, 0xef, 0x01],
    };
    ensure!(*h.body() == optional && h.header_len() == 36, "v2 optional");
    ensure!(h.proc() == Proc::Optional, "v2 optional proc");
    ensure!(
        h.direction() == Some(Direction::Reply),
        "v2 optional direction"
    );
    for (bytes, error) in errors() {
        let h = decode(bytes)?;
        ensure!(*h.body() == Body::Error(error), "v2 error");
        ensure!(
            h.direction() == Some(Direction::Reply),
            "v2 error direction"
        );
        ensure!(h.header_len() == bytes.len(), "v2 error length");
    }
    Ok(())
}

const fn errors() -> [(&'static [u8], ErrorBody); 3] {
    [
        (&ERR_VERS, ErrorBody::Vers { low: 1, high: 2 }),
        (&ERR_BAD_HEADER, ErrorBody::BadHeader),
        (&ERR_INVAL_OPTION, ErrorBody::InvalidOption),
    ]
}

/// Encodes each message and compares it with its vector, and with the predicted length.
///
/// # Errors
///
/// The name of the first vector that fails.
pub fn check_encode() -> Check {
    encode_one(&MSG_INLINE, len::MIN, |b| {
        Version::Two
            .begin(b, 0x1234_5678, 32, Direction::Call, ListProc::Msg)?
            .finish()
    })?;
    encode_one(&NOMSG_REPLY, len::header(0, None, Some(1)), |b| {
        let w = Version::Two.begin(b, 9, 3, Direction::Reply, ListProc::Nomsg)?;
        let mut c = w.write_list()?.reply_chunk()?;
        c.segment(REPLY_CHUNK)?;
        Ok(c.finish())
    })?;
    for (bytes, error) in errors() {
        let credits = u32::from(bytes.get(11).copied().unwrap_or(0));
        let xid = u32::from(bytes.get(3).copied().unwrap_or(0));
        let want = match error {
            ErrorBody::Vers { .. } => 28,
            _ => 20,
        };
        encode_one(bytes, want, |b| Version::Two.error(b, xid, credits, error))?;
    }
    Ok(())
}

/// Predicted lengths of headers: read segments, segments of the write chunk and of the reply chunk.
/// By the XDR they take 24 and 16 bytes each, a list item or count 4 bytes.
const LENGTHS: [(usize, Option<usize>, Option<usize>, usize); 7] = [
    (0, None, None, 32),
    (1, None, None, 32 + 24),
    (3, None, None, 32 + 72),
    (0, Some(0), None, 32 + 8),
    (0, Some(2), None, 32 + 40),
    (0, None, Some(2), 32 + 36),
    (2, Some(1), Some(3), 32 + 48 + 24 + 52),
];

/// Compares predicted lengths with written ones.
fn check_lengths() -> Check {
    const SEGMENT: Segment = Segment {
        handle: 1,
        length: 2,
        offset: 3,
    };
    for (reads, write, reply, want) in LENGTHS {
        let two = Version::Two.header_len(reads, write, reply);
        ensure!(
            two == want && len::header(reads, write, reply) == want,
            "length"
        );
        let one = Version::One.header_len(reads, write, reply);
        ensure!(one.saturating_add(4) == want, "length of version one");
        let mut buf = [0; 512];
        let written = write_lists(&mut buf, reads, (write, reply), SEGMENT);
        ensure!(written == Ok(want), "written length");
    }
    Ok(())
}

fn write_lists(
    buf: &mut [u8],
    reads: usize,
    (write, reply): (Option<usize>, Option<usize>),
    segment: Segment,
) -> Result<usize, EncodeError> {
    let mut w = Version::Two.begin(buf, 1, 1, Direction::Call, ListProc::Msg)?;
    for _ in 0..reads {
        w.segment(0, segment)?;
    }
    let mut w = w.write_list()?;
    if let Some(count) = write {
        let mut c = w.chunk()?;
        for _ in 0..count {
            c.segment(segment)?;
        }
        w = c.end();
    }
    let Some(count) = reply else {
        return w.finish();
    };
    let mut c = w.reply_chunk()?;
    for _ in 0..count {
        c.segment(segment)?;
    }
    Ok(c.finish())
}

/// Errors have no RPC message: one that follows is not taken for one, and none is written.
//~ V2-4.2.1-2 no RPC message follows RDMA2_ERROR
fn check_bare_errors() -> Check {
    for error in [
        ErrorBody::Vers { low: 1, high: 2 },
        ErrorBody::BadHeader,
        ErrorBody::InvalidOption,
    ] {
        for version in [Version::One, Version::Two] {
            let mut buf = [0xff; 64];
            let n = version.error(&mut buf, 1, 1, error).map_err(|_| "room")?;
            let want = match error {
                ErrorBody::Vers { .. } => 28,
                _ => 20,
            };
            ensure!(n == want, "length of an error");
            let message = Message::decode(&buf, &Limits::NONE).map_err(|_| "refused")?;
            ensure!(message.payload().is_empty(), "bytes behind an error");
            ensure!(message.header_len() == want, "header of an error");
        }
    }
    Ok(())
}

/// Encodes into a buffer of exactly the right length, and into each shorter one, which must fail.
fn encode_one(
    golden: &[u8],
    header_len: usize,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Check {
    let mut buf = [0xee; 64];
    let room = buf.get_mut(..header_len).ok_or("v2 encode: buffer")?;
    ensure!(encode(room) == Ok(header_len), "v2 encode: length");
    ensure!(golden.get(..header_len) == Some(&*room), "v2 encode: bytes");
    for short in 0..header_len {
        let room = buf.get_mut(..short).ok_or("v2 encode: short")?;
        ensure!(encode(room) == Err(EncodeError::NoRoom), "v2 no room");
    }
    Ok(())
}

/// Truncates every vector at every byte, and damages it at known places.
///
/// # Errors
///
/// The name of the first vector that is accepted or refused for another reason.
pub fn check_refuse() -> Check {
    const HEADERS: [(&[u8], usize); 6] = [
        (&MSG_INLINE, 32),
        (&NOMSG_REPLY, 52),
        (&ERR_VERS, 28),
        (&ERR_BAD_HEADER, 20),
        (&ERR_INVAL_OPTION, 20),
        (&OPTIONAL, 36),
    ];
    for (bytes, header_len) in HEADERS {
        for n in 0..header_len {
            let cut = Message::decode_as(
                Version::Two,
                bytes.get(..n).unwrap_or_default(),
                &Limits::NONE,
            );
            let what = cut.err().map(|e| e.what);
            ensure!(what == Some(What::Truncated), "v2 cut short");
        }
    }
    spoil(&MSG_INLINE, 7, 1, What::Version(1), 4)?;
    spoil(&MSG_INLINE, 15, 2, What::Proc(2), 12)?;
    spoil(&MSG_INLINE, 15, 3, What::Proc(3), 12)?;
    spoil(&MSG_INLINE, 19, 2, What::Direction(2), 16)?;
    spoil(&OPTIONAL, 19, 9, What::Direction(9), 16)?;
    spoil(&OPTIONAL, 24, 1, What::Truncated, 28)?;
    spoil(&ERR_BAD_HEADER, 19, 4, What::ErrorCode(4), 16)
}

fn spoil(golden: &[u8], at: usize, byte: u8, what: What, offset: usize) -> Check {
    let mut buf = [0; 64];
    let copy = buf.get_mut(..golden.len()).ok_or("v2 spoil: buffer")?;
    copy.copy_from_slice(golden);
    *copy.get_mut(at).ok_or("v2 spoil: offset")? = byte;
    let got = Message::decode_as(Version::Two, copy, &Limits::NONE);
    ensure!(got == Err(DecodeError { what, offset }), "v2 spoilt");
    Ok(())
}

fn any(bytes: &[u8]) -> Result<Message<'_>, &'static str> {
    Message::decode(bytes, &Limits::NONE).map_err(|_| "any: refused")
}

/// Checks the message type that both versions share.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ 5666-4.1-5 first four words have same place
//~ 5666-4.2-2 errors are answered by RDMA_ERROR
//~ 5666-4.2-5 other errors answered by ERR_CHUNK
//~ V2-4.2.3-1 errors are handled as in version
pub fn check_message() -> Check {
    let (a, b) = (any(&one::MSG_INLINE)?, any(&MSG_INLINE)?);
    ensure!(
        a.version() == Version::One && b.version() == Version::Two,
        "any: version"
    );
    ensure!(a.body() == b.body() && a.xid() == b.xid(), "any: same call");
    ensure!(
        a.credits() == 32 && a.payload() == b.payload(),
        "any: credits"
    );
    ensure!((a.header_len(), b.header_len()) == (28, 32), "any: length");
    let found = (a.direction(), b.direction());
    ensure!(found == (None, Some(Direction::Call)), "any: direction");
    ensure!(any(&one::DONE)?.body() == &Body::Done, "any: done");
    let chunk = Body::Error(ErrorBody::BadHeader);
    ensure!(any(&one::ERR_CHUNK)?.body() == &chunk, "any: err_chunk");
    ensure!(any(&ERR_BAD_HEADER)?.body() == &chunk, "any: bad_header");
    ensure!(
        any(&ERR_VERS)?.body() == any(&one::ERR_VERS)?.body(),
        "any: err_vers"
    );
    let padded = any(&one::MSGP)?;
    ensure!(padded.payload() == [0, 0, 0, 10], "any: padded");
    ensure!(any(&NOMSG_REPLY)?.lists().is_some(), "any: lists");
    ensure!(any(&OPTIONAL)?.lists().is_none(), "any: optional");
    let other = Message::decode_as(Version::One, &MSG_INLINE, &Limits::NONE);
    let what = other.err().map(|e| e.what);
    ensure!(what == Some(What::Version(2)), "any: two in one");
    let other = Message::decode_as(Version::Two, &one::MSG_INLINE, &Limits::NONE);
    let what = other.err().map(|e| e.what);
    ensure!(what == Some(What::Version(1)), "any: one in two");
    check_remedies()?;
    check_neutral_encode()
}

/// Messages that cannot be decoded, with the remedies: their first words, and the answers of a
/// requester and of a responder. The XID is 1.
const REMEDIES: [(&[u32], Option<ErrorBody>, Option<ErrorBody>); 20] = [
    // An answer needs only the XID and the version of the message.
    (&[], None, None),
    (&[1], None, None),
    (&[1, 3], None, RANGE),
    (&[1, 3, 0], None, RANGE),
    (&[1, 3, 0, 0], None, RANGE),
    (&[1, 1], None, BAD),
    (&[1, 1, 0], None, BAD),
    (&[1, 1, 0, 0], None, BAD),
    (&[1, 1, 0, 9], None, BAD),
    // An error is not answered, whatever its code or version; nor is RDMA_DONE.
    (&[1, 1, 0, 4, 9], None, None),
    (&[1, 2, 0, 4, 9], None, None),
    (&[1, 3, 0, 4, 9], None, None),
    // In version two a call is answered by either role, a reply by none.
    (&[1, 2, 0, 0, 0, 7], BAD, BAD),
    (&[1, 2, 0, 0, 1, 7], None, None),
    (&[1, 2, 0, 0, 2, 7], None, BAD),
    // The numbers of RDMA_MSGP and RDMA_DONE mean nothing in version two, nor does the word behind.
    (&[1, 2, 0, 2, 0], None, BAD),
    (&[1, 2, 0, 3, 0], None, BAD),
    (&[1, 2, 0, 3, 1], None, BAD),
    // An operation also has a direction.
    (&[1, 2, 0, 5, 1], None, None),
    // In a version that is not known, the number of RDMA_DONE may be that of a type without answer.
    (&[1, 3, 0, 3, 0, 7], None, None),
];

const RANGE: Option<ErrorBody> = Some(ErrorBody::Vers { low: 1, high: 2 });
const BAD: Option<ErrorBody> = Some(ErrorBody::BadHeader);

//~ 5666-4.2-2 errors are answered by RDMA_ERROR
//~ 5666-4.2-4 version otherwise valid at its receiver
//~ V2-4.2.3-1 errors are handled as in version
fn check_remedies() -> Check {
    for (words, requester, responder) in REMEDIES {
        let mut buf = [0; 32];
        for (slot, word) in buf.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        let bytes = buf.get(..words.len().saturating_mul(4)).ok_or("words")?;
        ensure!(Message::decode(bytes, &Limits::NONE).is_err(), "decoded");
        let version = words.get(1).copied().unwrap_or(0);
        for (receiver, want) in [
            (Receiver::Requester, requester),
            (Receiver::Responder, responder),
        ] {
            let want = want.map_or(Remedy::Drop, |error| Remedy::Answer {
                xid: 1,
                version,
                error,
            });
            ensure!(answer(bytes, receiver, (1, 2)) == want, "remedy");
        }
    }
    let mut buf = [0; 32];
    let n = error_as(7, &mut buf, 5, 9, ErrorBody::Vers { low: 1, high: 2 });
    let vers = [0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 1];
    ensure!(
        n == Ok(28) && buf.starts_with(&vers),
        "version word repeated"
    );
    let n = error_as(7, &mut buf, 5, 9, ErrorBody::InvalidOption);
    ensure!(
        n == Ok(20) && buf.get(19) == Some(&2),
        "not in other versions"
    );
    Ok(())
}

//~ 5666-4.2-4 version otherwise valid at its receiver
fn check_neutral_encode() -> Check {
    let mut buf = [0; 64];
    for (version, golden) in [
        (Version::One, &one::MSG_INLINE[..]),
        (Version::Two, &MSG_INLINE[..]),
    ] {
        let w = version.begin(&mut buf, 0x1234_5678, 32, Direction::Call, ListProc::Msg);
        let n = w.and_then(|w| w.finish()).map_err(|_| "any: no room")?;
        ensure!(n == version.min_header(), "any: minimum");
        ensure!(buf.get(..n) == golden.get(..n), "any: begin");
    }
    let n = Version::Two.error(&mut buf, 14, 8, ErrorBody::InvalidOption);
    ensure!(
        n == Ok(20) && buf.starts_with(&ERR_INVAL_OPTION),
        "any: error"
    );
    let n = Version::One.error(&mut buf, 13, 7, ErrorBody::InvalidOption);
    ensure!(
        n == Ok(20) && buf.starts_with(&one::ERR_CHUNK),
        "any: error in one"
    );
    let n = Version::One.error(&mut buf, 12, 6, ErrorBody::Vers { low: 1, high: 2 });
    ensure!(
        n == Ok(28) && buf.starts_with(&one::ERR_VERS),
        "any: versions"
    );
    let n = Version::One.inline(&mut buf, 0x1234_5678, 32, Direction::Call);
    ensure!(
        n == Ok(28) && buf.get(..28) == one::MSG_INLINE.get(..28),
        "any: inline in one"
    );
    let n = Version::Two.inline(&mut buf, 0x1234_5678, 32, Direction::Call);
    ensure!(
        n == Ok(32) && buf.get(..32) == MSG_INLINE.get(..32),
        "any: inline in two"
    );
    ensure!(Version::One.default_inline() == 1024, "default, one");
    ensure!(Version::Two.default_inline() == 4096, "default, two");
    ensure!(FIRST_MESSAGE_MAX == 1024, "first message");
    Ok(())
}

/// Checks headers that disagree with the RPC message behind them.
//~ 5666-4.1-1 header's XID that of message
//~ 5666-4.1-6 followed by an RPC message
//~ 8167-4-2 direction told by RPC message type
//~ V2-4.2.1-1 RPC message follows RDMA2_MSG
//~ V2-4.2.2-2 direction is that of RPC message
//~ V2-4.2.2-4 direction of an optional operation
fn check_mismatch() -> Check {
    ensure!(
        any(&MSG_INLINE)?.check_direction() == Ok(Some(Direction::Call)),
        "agree"
    );
    ensure!(
        any(&one::MSG_INLINE)?.check_direction() == Ok(Some(Direction::Call)),
        "direction from the RPC message"
    );
    ensure!(
        any(&ERR_VERS)?.check_direction() == Ok(Some(Direction::Reply)),
        "error"
    );
    ensure!(
        any(&one::NOMSG_LONG)?.check_direction() == Ok(None),
        "direction unknown"
    );
    ensure!(
        any(&OPTIONAL)?.check_direction() == Ok(Some(Direction::Reply)),
        "optional"
    );
    let call_in_reply = [
        0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 77, 0, 0, 0,
        0, //
        0, 0, 0, 1, 0, 0, 0, 0, // the same XID, CALL
    ];
    let got = any(&call_in_reply)?.check_direction();
    ensure!(got == Err(Mismatch::Direction), "call in an optional reply");
    let mut part_in_reply = call_in_reply;
    part_in_reply[31] = 9;
    let got = any(&part_in_reply)?.check_direction();
    ensure!(got == Ok(Some(Direction::Reply)), "other part of a call");
    mismatch(19, 1, Mismatch::Direction)?;
    mismatch(39, 1, Mismatch::Direction)?;
    mismatch(39, 2, Mismatch::Direction)?;
    mismatch(35, 0x79, Mismatch::Xid)?;
    let empty = MSG_INLINE.get(..32).unwrap_or_default();
    ensure!(
        any(empty)?.check_direction() == Err(Mismatch::NoMessage),
        "no message"
    );
    let short = MSG_INLINE.get(..36).unwrap_or_default();
    ensure!(
        any(short)?.check_direction() == Err(Mismatch::Direction),
        "no direction"
    );
    let long = any(&NOMSG_REPLY)?.check_whole();
    ensure!(long == Ok(Some(Direction::Reply)), "in the reply chunk");
    // A call in the reply chunk, a reply in an empty one, and in none.
    for (at, byte) in [(19, 0), (42, 0), (31, 0)] {
        let mut copy = NOMSG_REPLY;
        *copy.get_mut(at).ok_or("long: offset")? = byte;
        let got = any(&copy)?.check_whole();
        ensure!(got == Err(Mismatch::NoMessage), "no long message");
    }
    Ok(())
}

fn mismatch(at: usize, byte: u8, want: Mismatch) -> Check {
    let mut copy = MSG_INLINE;
    *copy.get_mut(at).ok_or("mismatch: offset")? = byte;
    ensure!(any(&copy)?.check_direction() == Err(want), "mismatch");
    Ok(())
}

/// A message without chunks is split into its parts. The header names its direction.
fn check_plain() -> Check {
    fn two(bytes: &[u8]) -> Option<(Prefix, Option<Direction>, &[u8])> {
        Message::split_plain(Version::Two, bytes)
    }
    let mut bytes = MSG_INLINE;
    for (word, direction) in [(0, Direction::Call), (1, Direction::Reply)] {
        bytes[19] = word;
        let prefix = peek(&bytes).map_err(|_| "peek")?;
        let payload = any(&bytes)?.payload();
        let want = Some((prefix, Some(direction), payload));
        ensure!(two(&bytes) == want, "direction in the header");
    }
    bytes[19] = 2;
    ensure!(two(&bytes).is_none(), "neither CALL nor REPLY");
    ensure!(two(&NOMSG_REPLY).is_none(), "chunks");
    ensure!(two(&one::MSG_INLINE).is_none(), "another version");
    let mut read = [0; 60];
    for (byte, from) in read.iter_mut().zip(&MSG_INLINE) {
        *byte = *from;
    }
    ensure!(!has_read_list(&read), "no read list");
    read[23] = 1;
    ensure!(has_read_list(&read), "read list");
    Ok(())
}
