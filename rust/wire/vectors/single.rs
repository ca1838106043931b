// SPDX-License-Identifier: GPL-2.0

//! Messages with one chunk of one segment, and messages that are almost such ones.

use super::super::{
    peek, CommonReply, Direction, Limits, Lists, Message, OneSegment, OnlyChunk, ReadSegment,
    Segment, Version,
};
use super::ensure;

type Check = Result<(), &'static str>;

const BUF: usize = 128;
const SEGMENT: Segment = Segment {
    handle: 5,
    length: 64,
    offset: 0x1_0000_0002,
};

/// The words from the lists on: one read segment at position 8, then the RPC message.
const READ: [u32; 11] = [1, 8, 5, 64, 1, 2, 0, 0, 0, 7, 0];
/// The same with a write chunk.
const WRITE: [u32; 11] = [0, 1, 1, 5, 64, 1, 2, 0, 0, 7, 0];

/// A reply chunk of one segment alone, without an RPC message.
const REPLY: [u32; 8] = [0, 0, 1, 1, 5, 64, 1, 2];

/// Lists that are not one chunk of one segment. The first three are malformed.
const OTHERS: [&[u32]; 15] = [
    &[1, 6, 5, 64, 1, 2, 0, 0, 0, 7, 0],
    &[2, 8, 5, 64, 1, 2, 0, 0, 0, 7, 0],
    &[0, 1, 2, 5, 64, 1, 2, 0, 0, 7, 0],
    // Two read segments, and a read segment with each of the other lists.
    &[1, 8, 5, 64, 1, 2, 1, 8, 5, 64, 1, 2, 0, 0, 0, 7, 0],
    &[1, 8, 5, 64, 1, 2, 0, 1, 1, 5, 64, 1, 2, 0, 0, 7, 0],
    &[1, 8, 5, 64, 1, 2, 0, 0, 1, 1, 5, 64, 1, 2, 7, 0],
    // Two write chunks, one of two segments, and one with a reply chunk.
    &[0, 1, 1, 5, 64, 1, 2, 1, 1, 5, 64, 1, 2, 0, 0, 7, 0],
    &[0, 1, 2, 5, 64, 1, 2, 5, 64, 1, 2, 0, 0, 7, 0],
    &[0, 1, 1, 5, 64, 1, 2, 0, 1, 1, 5, 64, 1, 2, 7, 0],
    // Chunks without segments: of these bytes, the second and third have the length of a segment.
    &[0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0],
    &[0, 1, 0, 1, 0, 1, 0, 0, 0, 7, 0],
    &[0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 5, 64, 1, 2, 7, 0],
    // A reply chunk alone, no lists, and lists that are truncated.
    &[0, 0, 1, 1, 5, 64, 1, 2, 7, 0, 0],
    &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
    &[1, 8, 5, 64, 1, 2, 0, 0],
];

/// Writes a message with these words from its type on.
fn message<'a>(
    buf: &'a mut [u8; BUF],
    version: Version,
    proc: u32,
    words: &[u32],
) -> Result<&'a [u8], &'static str> {
    let begin = [7, version.number(), 32, proc];
    let direction = match version {
        Version::One => &[][..],
        Version::Two => &[1],
    };
    let all = begin.iter().chain(direction).chain(words);
    let mut len: usize = 0;
    for (place, word) in buf.chunks_exact_mut(4).zip(all) {
        place.copy_from_slice(&word.to_be_bytes());
        len = len.saturating_add(4);
    }
    buf.get(..len).ok_or("buffer")
}

/// Runs the vectors in both versions.
///
/// # Errors
///
/// The name of the first vector that fails.
pub fn check() -> Check {
    for version in [Version::One, Version::Two] {
        check_read(version)?;
        check_write(version)?;
        check_others(version)?;
        check_common_reply(version)?;
    }
    check_common_direction()
}

fn check_read(version: Version) -> Check {
    let read = ReadSegment {
        position: 8,
        segment: SEGMENT,
    };
    let mut buf = [0; BUF];
    let bytes = message(&mut buf, version, 0, &READ)?;
    let split = Message::split_single(version, bytes, Lists::one_read).ok_or("single: read")?;
    ensure!(split.segment == read, "single: read segment");
    ensure!(split.lists.only_read() == Some(read), "single: read list");
    ensure!(split.lists.only_write().is_none(), "single: no write list");
    let other = Message::split_single(version, bytes, Lists::one_write);
    ensure!(other.is_none(), "single: not a write segment");
    check_parts(version, &split, bytes)
}

fn check_write(version: Version) -> Check {
    let mut buf = [0; BUF];
    let bytes = message(&mut buf, version, 0, &WRITE)?;
    let split = Message::split_single(version, bytes, Lists::one_write).ok_or("single: write")?;
    ensure!(split.segment == SEGMENT, "single: write segment");
    let only = split.lists.only_write();
    ensure!(only == Some(SEGMENT), "single: write list");
    ensure!(split.lists.only_read().is_none(), "single: no read list");
    let other = Message::split_single(version, bytes, Lists::one_read);
    ensure!(other.is_none(), "single: not a read segment");
    check_parts(version, &split, bytes)
}

/// The parts are those that the decoder finds.
fn check_parts<S>(version: Version, split: &OneSegment<'_, S>, bytes: &[u8]) -> Check {
    let decoded = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    let lists: Option<&Lists<'_>> = decoded.lists();
    ensure!(lists == Some(&split.lists), "single: lists");
    ensure!(split.payload == decoded.payload(), "single: RPC message");
    ensure!(Ok(split.prefix) == peek(bytes), "single: first words");
    let direction = match version {
        Version::One => None,
        Version::Two => Some(Direction::Reply),
    };
    ensure!(split.direction == direction, "single: direction");
    Ok(())
}

/// Returns whether a message is recognised as one with one chunk of one segment.
fn is_split(version: Version, bytes: &[u8]) -> bool {
    Message::split_single(version, bytes, Lists::one_read).is_some()
        || Message::split_single(version, bytes, Lists::one_write).is_some()
}

/// Any other message has to be decoded as a whole.
fn check_others(version: Version) -> Check {
    let mut buf = [0; BUF];
    for words in OTHERS {
        let bytes = message(&mut buf, version, 0, words)?;
        ensure!(!is_split(version, bytes), "single: other lists");
        let Ok(decoded) = Message::decode(bytes, &Limits::NONE) else {
            continue;
        };
        let lists = decoded.lists().ok_or("lists")?;
        let reads = lists.read_list().count();
        ensure!(
            lists.only_read().is_some() == (reads == 1),
            "single: read list"
        );
        let writes: usize = lists.write_list().map(|c| c.count()).sum();
        let chunks = lists.write_list().count();
        let one = (chunks, writes) == (1, 1) && lists.reply_chunk().is_none();
        ensure!(lists.only_write().is_some() == one, "single: write list");
        let segments = lists.reply_chunk().map(|c| c.count());
        let alone = segments == Some(1) && chunks == 0;
        ensure!(
            lists.only_reply() == alone.then_some(SEGMENT),
            "single: reply"
        );
    }
    for words in [READ, WRITE] {
        for (proc, split) in [(1, true), (2, false), (3, false), (4, false), (5, false)] {
            let typed = message(&mut buf, version, proc, &words)?;
            ensure!(is_split(version, typed) == split, "single: type");
        }
        let bytes = message(&mut buf, version, 0, &words)?;
        ensure!(!is_split(other(version), bytes), "single: another version");
    }
    Ok(())
}

fn other(version: Version) -> Version {
    match version {
        Version::One => Version::Two,
        Version::Two => Version::One,
    }
}

/// Replies without lists, or whose only chunk has one segment. Any other message has to be decoded
/// as a whole.
fn check_common_reply(version: Version) -> Check {
    let is_some = |bytes: &[u8]| CommonReply::of(version, bytes).is_some();
    let mut buf = [0; BUF];
    for (proc, words, chunk) in [
        (0, &WRITE[..], OnlyChunk::Write(SEGMENT)),
        (0, &[0, 0, 0, 7, 1], OnlyChunk::None),
        (1, &REPLY, OnlyChunk::Reply(SEGMENT)),
    ] {
        let foreign = message(&mut buf, other(version), proc, words)?;
        ensure!(!is_some(foreign), "common: another version");
        for proc in [u32::from(proc == 0), 2, 3, 4, 5] {
            let typed = message(&mut buf, version, proc, words)?;
            ensure!(!is_some(typed), "common: another type");
        }
        let bytes = message(&mut buf, version, proc, words)?;
        let decoded = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        let reply = CommonReply::of(version, bytes).ok_or("common: not decoded")?;
        ensure!(reply.chunk == chunk, "common: chunk");
        ensure!(reply.payload == decoded.payload(), "common: RPC message");
        ensure!((reply.xid, reply.credits) == (7, 32), "common: first words");
        for len in 0..decoded.header_len() {
            let short = bytes.get(..len).ok_or("buffer")?;
            ensure!(!is_some(short), "common: cut off");
        }
    }
    for words in OTHERS.iter().copied().chain([&READ[..]]) {
        let bytes = message(&mut buf, version, 0, words)?;
        let absent = words.starts_with(&[0, 0, 0]);
        ensure!(is_some(bytes) == absent, "common: other lists");
        let alone = words.starts_with(&[0, 0, 1]);
        let long = message(&mut buf, version, 1, words)?;
        ensure!(is_some(long) == alone, "common: other lists, RDMA_NOMSG");
    }
    Ok(())
}

/// A message of version two is decoded as a whole unless its direction is REPLY.
fn check_common_direction() -> Check {
    let mut buf = [0; BUF];
    for (proc, words) in [(0, &WRITE[..]), (1, &REPLY[..])] {
        let bytes = message(&mut buf, Version::Two, proc, words)?;
        for direction in [0, 2] {
            let mut copy = [0; BUF];
            let copy = copy.get_mut(..bytes.len()).ok_or("buffer")?;
            copy.copy_from_slice(bytes);
            *copy.get_mut(19).ok_or("buffer")? = direction;
            let common = CommonReply::of(Version::Two, copy);
            ensure!(common.is_none(), "common: direction");
        }
    }
    Ok(())
}
