// SPDX-License-Identifier: GPL-2.0

//! Replies that claim no more than the offer, and replies that claim more.

use super::super::super::wire::message::{Body, ErrorBody};
use super::super::super::wire::{
    Direction, EncodeError, Limits, ListProc, Lists, Message, OnlyChunk, Segment, Version,
    WriteChunk,
};
use super::super::requester::reply::{
    check as check_reply, check_chunk, check_common, match_rkey, Offer, Outcome, Violation,
};
use super::super::responder::call::Handles;
use super::ensure;

type Check = Result<(), &'static str>;

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_chunks()?;
    check_bodies()?;
    check_common_replies()
}

/// Returns the bytes written into the write chunk and into the reply chunk.
pub const fn lengths(outcome: &Outcome) -> (u32, u32) {
    match *outcome {
        Outcome::Inline { write_len, .. } => (write_len, 0),
        Outcome::ReplyChunk {
            reply_chunk_len,
            write_len,
        } => (write_len, reply_chunk_len),
        Outcome::Error(_) => (0, 0),
    }
}

/// Checks a reply's lists against the lists of its call, however many chunks those have. The module
/// offers one write chunk, and other clients may offer more. Returns the bytes written into all
/// write chunks, and into the reply chunk if there is one.
///
/// # Errors
///
/// The violation.
pub fn check_lists(
    returned: &Lists<'_>,
    offered: &Lists<'_>,
) -> Result<(u32, Option<u32>), &'static str> {
    let chunk = |returned: WriteChunk<'_>, offered: WriteChunk<'_>| {
        check_chunk(returned.segments(), offered.segments()).map_err(|_| "not as offered")
    };
    ensure!(returned.read_list().next().is_none(), "a read list");
    let (mut write, mut room) = (0u32, offered.write_list());
    for got in returned.write_list() {
        let len = chunk(got, room.next().ok_or("a write chunk too many")?)?;
        write = write.saturating_add(len);
    }
    let all = returned.write_list().next().is_none() || room.next().is_none();
    ensure!(all, "a write chunk missing");
    let reply = match (returned.reply_chunk(), offered.reply_chunk()) {
        (None, _) => None,
        (Some(_), None) => return Err("a reply chunk too many"),
        (Some(got), Some(room)) => Some(chunk(got, room)?),
    };
    Ok((write, reply))
}

/// Offered lengths, returned lengths, verdict.
type ChunkCase = (&'static [u32], &'static [u32], Result<u32, Violation>);

const CHUNKS: [ChunkCase; 14] = [
    (&[], &[], Ok(0)),
    (&[4096], &[4096], Ok(4096)),
    (&[4096], &[17], Ok(17)),
    (&[4096], &[0], Ok(0)),
    (&[4096, 4096], &[4096, 100], Ok(4196)),
    (&[4096, 4096], &[0, 0], Ok(0)),
    (&[4096], &[4097], Err(Violation::SegmentLength)),
    (&[4096], &[u32::MAX], Err(Violation::SegmentLength)),
    (&[4096, 4], &[100, 4], Err(Violation::Gap)),
    (&[4096, 0, 4], &[0, 0, 1], Err(Violation::Gap)),
    (&[4096], &[], Err(Violation::SegmentCount)),
    (&[4096], &[4096, 0], Err(Violation::SegmentCount)),
    (&[], &[0], Err(Violation::SegmentCount)),
    (&[u32::MAX, 1], &[u32::MAX, 1], Err(Violation::Overflow)),
];

const fn segment(length: u32) -> Segment {
    Segment {
        handle: 77,
        length,
        offset: 0,
    }
}

//~ 5666-3.4-3 byte counts agree with chunk lengths
//~ 5666-3.4-9 filled in part, or not filled
//~ 8166-4.3-1 returns lengths written, never more
//~ 8166-4.3-4 not used: lengths of zero
fn check_chunks() -> Check {
    for (offered, returned, want) in CHUNKS {
        let offered = offered.iter().map(|&n| segment(n));
        let returned = returned.iter().map(|&n| segment(n));
        ensure!(check_chunk(returned, offered) == want, "chunk");
    }
    Ok(())
}

/// Encodes a reply: write chunks, reply chunk, and whether there is a read list.
fn encode(
    buf: &mut [u8],
    proc: ListProc,
    read: bool,
    writes: &[&[u32]],
    reply: Option<&[u32]>,
) -> Result<usize, EncodeError> {
    let mut w = Version::One.begin(buf, 1, 1, Direction::Reply, proc)?;
    if read {
        w.segment(4, segment(8))?;
    }
    let mut w = w.write_list()?;
    for chunk in writes {
        let mut c = w.chunk()?;
        for &n in *chunk {
            c.segment(segment(n))?;
        }
        w = c.end();
    }
    let Some(reply) = reply else {
        return w.finish();
    };
    let mut c = w.reply_chunk()?;
    for &n in reply {
        c.segment(segment(n))?;
    }
    Ok(c.finish())
}

/// Message type, read list, write chunks, reply chunk, verdict.
type BodyCase = (
    ListProc,
    bool,
    &'static [&'static [u32]],
    Option<&'static [u32]>,
    Result<Outcome, Violation>,
);

const fn inline(write_len: u32) -> Result<Outcome, Violation> {
    Ok(Outcome::Inline {
        inline_len: 0,
        write_len,
    })
}

const fn long(reply_chunk_len: u32, write_len: u32) -> Result<Outcome, Violation> {
    Ok(Outcome::ReplyChunk {
        reply_chunk_len,
        write_len,
    })
}

/// Against an offer of a write chunk of 4096 + 4 bytes and a reply chunk of 8192 bytes.
const BODIES: [BodyCase; 12] = [
    (ListProc::Msg, false, &[], None, inline(0)),
    (ListProc::Msg, false, &[&[4093, 0]], None, inline(4093)),
    (ListProc::Msg, false, &[&[4096, 3]], None, inline(4099)),
    (ListProc::Msg, false, &[&[0, 0]], Some(&[0]), inline(0)),
    (ListProc::Nomsg, false, &[], Some(&[8192]), long(8192, 0)),
    (
        ListProc::Nomsg,
        false,
        &[&[4096, 0]],
        Some(&[9]),
        long(9, 4096),
    ),
    (ListProc::Nomsg, false, &[], None, Err(Violation::NoMessage)),
    (ListProc::Msg, true, &[], None, Err(Violation::ReadList)),
    (
        ListProc::Msg,
        false,
        &[&[1, 0], &[]],
        None,
        Err(Violation::ExtraWriteChunk),
    ),
    (
        ListProc::Msg,
        false,
        &[&[4097, 0]],
        None,
        Err(Violation::SegmentLength),
    ),
    (
        ListProc::Nomsg,
        false,
        &[],
        Some(&[8193]),
        Err(Violation::SegmentLength),
    ),
    (
        ListProc::Nomsg,
        false,
        &[],
        Some(&[]),
        Err(Violation::SegmentCount),
    ),
];

//~ 5666-3.4-4 server returns the data inline
//~ 8166-4.2-1 RDMA_MSGP and RDMA_DONE not accepted
//~ 8166-4.3-2 reply has no read list
fn check_bodies() -> Check {
    const WRITE: [Segment; 2] = [segment(4096), segment(4)];
    const REPLY: [Segment; 1] = [segment(8192)];
    const OFFER: Offer<'_> = Offer {
        write_chunk: Some(&WRITE),
        reply_chunk: Some(&REPLY),
    };
    let mut buf = [0; 256];
    for (proc, read, writes, reply, want) in BODIES {
        let len = encode(&mut buf, proc, read, writes, reply).map_err(|_| "no room")?;
        let bytes = buf.get(..len).ok_or("buffer")?;
        let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        let got = check_reply(message.body(), &OFFER);
        ensure!(got == want, "body");
        let nothing = check_reply(message.body(), &Offer::default());
        let lists = message.lists().ok_or("lists")?;
        let any = !lists.is_empty() || proc == ListProc::Nomsg;
        ensure!(nothing.is_err() == any, "chunks without an offer");
    }
    let error = Body::Error(ErrorBody::BadHeader);
    let want = Ok(Outcome::Error(ErrorBody::BadHeader));
    let got = check_reply(&error, &OFFER);
    ensure!(got == want, "error");
    check_types(&OFFER)
}

/// Checks that the short check of the common replies decides as the general one does.
fn check_common_replies() -> Check {
    const OFFERS: [Option<&[Segment]>; 4] = [
        None,
        Some(&[]),
        Some(&[segment(4096)]),
        Some(&[segment(4096), segment(4)]),
    ];
    for chunk in OFFERS {
        let write = Offer {
            write_chunk: chunk,
            reply_chunk: None,
        };
        let reply = Offer {
            write_chunk: None,
            reply_chunk: chunk,
        };
        for offer in [write, reply] {
            check_one(OnlyChunk::None, &offer)?;
            for returned in [0, 17, 4096, 4097] {
                check_one(OnlyChunk::Write(segment(returned)), &offer)?;
                check_one(OnlyChunk::Reply(segment(returned)), &offer)?;
            }
        }
    }
    Ok(())
}

/// Checks a reply whose only chunk, if any, has one segment.
fn check_one(chunk: OnlyChunk, offer: &Offer<'_>) -> Check {
    let (proc, write, reply) = match chunk {
        OnlyChunk::None => (ListProc::Msg, None, None),
        OnlyChunk::Write(segment) => (ListProc::Msg, Some([segment.length]), None),
        OnlyChunk::Reply(segment) => (ListProc::Nomsg, None, Some([segment.length])),
    };
    let writes = write.as_ref().map(|lengths| &lengths[..]);
    let reply = reply.as_ref().map(|lengths| &lengths[..]);
    let mut buf = [0; 64];
    let len = encode(&mut buf, proc, false, writes.as_slice(), reply).map_err(|_| "no room")?;
    let bytes = buf.get(..len).ok_or("buffer")?;
    let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    let common = check_common(&chunk, offer);
    let same = match check_reply(message.body(), offer) {
        Ok(outcome) => {
            let (write, reply) = lengths(&outcome);
            common == Ok(write.saturating_add(reply))
        }
        Err(_) => common.is_err(),
    };
    ensure!(same, "common reply");
    Ok(())
}

/// Checks messages that are no reply to a call.
fn check_types(offer: &Offer<'_>) -> Check {
    let optional = Body::Optional {
        opttype: 1,
        optinfo: &[],
        payload: &[],
    };
    let padded = Body::Msgp {
        align: 4,
        thresh: 4,
        lists: Lists::default(),
        payload: &[],
    };
    let refused = Body::Error(ErrorBody::InvalidOption);
    for body in [Body::Done, padded, optional, refused] {
        let got = check_reply(&body, offer);
        ensure!(got == Err(Violation::MessageType), "no reply to a call");
    }
    Ok(())
}

/// Returns the R_key that is invalidated with the reply to a request with these R_keys.
fn choose_rkey<const N: usize>(handles: [u32; N], allowed: bool) -> Option<u32> {
    let mut seen = Handles::default();
    handles.into_iter().for_each(|handle| seen.see(handle));
    seen.choose(allowed)
}

/// Checks which R_key a peer has invalidated, and which one a reply invalidates.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 8797-3.2-1 only if both ends support it
//~ 8797-4.1-1 invalidate remotely if both set R
//~ 8797-4.1-2 STag that belongs to the XID
//~ 8797-4.1-3 replies use plain Send
//~ XC-3.2-3 Invalidate answers only calls with chunks
pub fn check_invalidate() -> Check {
    let own = [5, 6, 7];
    ensure!(match_rkey(own, 6, true) == Some(1), "R_key of the request");
    ensure!(
        match_rkey(own, 8, true).is_none(),
        "R_key of another request"
    );
    ensure!(match_rkey([], 8, true).is_none(), "request without R_keys");
    ensure!(
        match_rkey(own, 6, false).is_none(),
        "invalidation not allowed"
    );
    ensure!(choose_rkey([5, 5], true) == Some(5), "one R_key");
    ensure!(choose_rkey([5, 6], true).is_none(), "two R_keys");
    ensure!(
        choose_rkey([5], false).is_none(),
        "choice: invalidation not allowed"
    );
    ensure!(choose_rkey([], true).is_none(), "no chunk");
    Ok(())
}
