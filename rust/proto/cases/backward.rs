// SPDX-License-Identifier: GPL-2.0

//! Calls in the backward direction.

use super::super::super::wire::cm_private::{Settings, Size};
use super::super::super::wire::{Limits, Message, Version};
use super::super::backward::{
    is_answer, is_call, is_torn, max_call, max_message, message, Refusal,
};
use super::super::inline::Thresholds;
use super::ensure;

/// XID of every message here.
const XID: u32 = 0x0102_0304;
/// A transport header without chunks.
const PLAIN: [u8; 28] = [
    1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, // XID, version 1, two credits, RDMA_MSG
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // no lists
];

/// Makes a transport header and an RPC message of `len` bytes with the given first two words.
fn with_message(header: &[u8], xid: u32, direction: u32, len: usize) -> ([u8; 96], usize) {
    let mut out = [0; 96];
    let words = [xid.to_be_bytes(), direction.to_be_bytes()];
    let bytes = header.iter().chain(words.iter().flatten());
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    (out, header.len().saturating_add(len).min(96))
}

fn judge(bytes: &[u8], max: u32) -> Option<Result<usize, Refusal>> {
    let call = Message::decode(bytes, &Limits::requester(1, 16)).ok()?;
    is_call(&call).then(|| message(&call, max).map(<[u8]>::len))
}

/// Checks which messages are calls, and which calls are served.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 8167-4-1 no chunks and fit inline
//~ XC-3.3-4 only GENL permits chunks
//~ 8167-4-2 direction told by RPC message type
pub fn check() -> Result<(), &'static str> {
    // XID and direction in the RPC message, its length, the longest one; verdict.
    type Case = (
        u32,
        u32,
        usize,
        u32,
        Option<Result<usize, Refusal>>,
        &'static str,
    );
    const CASES: [Case; 8] = [
        (XID, 0, 40, 4096, Some(Ok(40)), "call"),
        (XID, 0, 8, 8, Some(Ok(8)), "shortest call"),
        (XID, 1, 40, 4096, None, "reply"),
        (XID, 2, 40, 4096, None, "bad direction"),
        (XID, 0, 7, 4096, None, "too short for a direction"),
        (XID, 0, 0, 4096, None, "empty"),
        (
            XID,
            0,
            41,
            40,
            Some(Err(Refusal::TooLong)),
            "a byte too long",
        ),
        (
            5,
            0,
            40,
            4096,
            Some(Err(Refusal::Xid)),
            "another XID in the RPC message",
        ),
    ];
    for (xid, direction, len, max, verdict, name) in CASES {
        let (bytes, end) = with_message(&PLAIN, xid, direction, len);
        ensure!(judge(bytes.get(..end).unwrap_or(&[]), max) == verdict, name);
    }
    check_forms()?;
    check_torn()?;
    check_headers()?;
    check_answers()?;
    check_consequences()?;
    check_max()
}

/// In version two the header's direction is that of the RPC message, or the message is dropped.
//~ V2-4.2.2-2 direction is that of RPC message
fn check_torn() -> Result<(), &'static str> {
    // Version two, and a direction before the lists.
    let mut two = [0; 32];
    for (to, from) in two.iter_mut().zip(PLAIN) {
        *to = from;
    }
    two[7] = 2;
    for (header, rpc, torn) in [
        (0, 0, false),
        (1, 1, false),
        (0, 1, true),
        (1, 0, true),
        (1, 7, false),
    ] {
        two[19] = header;
        let (bytes, len) = with_message(&two, XID, rpc, 40);
        let message = Message::decode(bytes.get(..len).unwrap_or(&[]), &Limits::NONE);
        ensure!(message.is_ok_and(|m| is_torn(&m) == torn), "directions");
        let (bytes, len) = with_message(&PLAIN, XID, rpc, 40);
        let message = Message::decode(bytes.get(..len).unwrap_or(&[]), &Limits::NONE);
        ensure!(message.is_ok_and(|m| !is_torn(&m)), "version one");
    }
    Ok(())
}

/// In version two the header says whether a message is a call. No call is served whose RPC message
/// is none.
fn check_headers() -> Result<(), &'static str> {
    use Refusal::{Form, Xid};
    // Message type, direction of the header, XID and direction in the RPC message, its length;
    // verdict.
    type Case = (u8, u8, (u32, u32), usize, Option<Result<usize, Refusal>>);
    const CASES: [Case; 7] = [
        (0, 0, (XID, 0), 40, Some(Ok(40))),
        (0, 1, (XID, 1), 40, None),
        // No inline message.
        (1, 0, (XID, 0), 0, Some(Err(Form))),
        (1, 1, (XID, 0), 0, None),
        // Neither a call nor a reply, and too short for either.
        (0, 0, (XID, 7), 40, Some(Err(Form))),
        (0, 0, (XID, 0), 7, Some(Err(Form))),
        (0, 0, (5, 0), 40, Some(Err(Xid))),
    ];
    for (proc, said, (xid, rpc), len, verdict) in CASES {
        let mut two = in_version_two(&PLAIN, said);
        two[7] = 2;
        two[15] = proc;
        let header = two.get(..32).unwrap_or(&[]);
        let (bytes, end) = with_message(header, xid, rpc, len);
        let judged = judge(bytes.get(..end).unwrap_or(&[]), 4096);
        ensure!(judged == verdict, "call in version two");
    }
    Ok(())
}

/// A call with a chunk, and one in RDMA_MSGP.
fn check_forms() -> Result<(), &'static str> {
    let segment = [0u8; 16];
    let mut chunked = [0u8; 28 + 8 + 16];
    let head = PLAIN.iter().take(20);
    // A write list of one chunk of one segment, and no reply chunk.
    let lists = [0, 0, 0, 1, 0, 0, 0, 1];
    let end = [0u8; 8];
    let bytes = head.chain(&lists).chain(&segment).chain(&end);
    for (to, from) in chunked.iter_mut().zip(bytes) {
        *to = *from;
    }
    let (bytes, end) = with_message(&chunked, XID, 0, 40);
    let verdict = judge(bytes.get(..end).unwrap_or(&[]), 4096);
    ensure!(verdict == Some(Err(Refusal::Chunks)), "chunks");

    let mut padded = [0u8; 36];
    let head = PLAIN.iter().take(12).chain(&[0, 0, 0, 2]);
    for (to, from) in padded.iter_mut().zip(head) {
        *to = *from;
    }
    let (bytes, end) = with_message(&padded, XID, 0, 40);
    let verdict = judge(bytes.get(..end).unwrap_or(&[]), 4096);
    ensure!(verdict == Some(Err(Refusal::Form)), "RDMA_MSGP");
    Ok(())
}

/// Returns a message with a word for the direction behind its type, as version two has it.
fn in_version_two(bytes: &[u8], direction: u8) -> [u8; 96] {
    let (head, tail) = bytes.split_at_checked(16).unwrap_or_default();
    let word = [0, 0, 0, direction];
    let mut two = [0; 96];
    for (to, from) in two.iter_mut().zip(head.iter().chain(&word).chain(tail)) {
        *to = *from;
    }
    two
}

/// Messages that answer a call of their receiver, and others.
fn check_answers() -> Result<(), &'static str> {
    // Direction in the RPC message, its length, byte of the header that is not zero; verdict.
    const CASES: [(u32, usize, Option<usize>, bool, &str); 9] = [
        (1, 40, None, true, "reply"),
        (1, 8, None, true, "shortest reply"),
        (1, 7, None, false, "too short for a direction"),
        (0, 40, None, false, "call"),
        (2, 40, None, false, "bad direction"),
        (1, 40, Some(15), false, "reply without an inline message"),
        (1, 40, Some(19), false, "reply with a read list"),
        (1, 40, Some(23), false, "reply with a write list"),
        (1, 40, Some(27), false, "reply with a reply chunk"),
    ];
    for (direction, len, set, verdict, name) in CASES {
        let mut header = PLAIN;
        if let Some(byte) = set.and_then(|at| header.get_mut(at)) {
            *byte = 1;
        }
        let (bytes, end) = with_message(&header, XID, direction, len);
        let bytes = bytes.get(..end).unwrap_or(&[]);
        ensure!(is_answer(Version::One, bytes) == verdict, name);
        for (word, of_reply) in [(0, false), (1, true), (2, false)] {
            let two = in_version_two(bytes, word);
            let two = two.get(..end.saturating_add(4)).unwrap_or(&[]);
            ensure!(is_answer(Version::Two, two) == (verdict && of_reply), name);
            ensure!(!is_answer(Version::One, two), "version two as one");
        }
    }
    let error = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4];
    ensure!(is_answer(Version::One, &error), "error");
    ensure!(
        !is_answer(Version::One, error.get(..15).unwrap_or(&[])),
        "part of an error"
    );
    ensure!(!is_answer(Version::One, &[]), "nothing");
    Ok(())
}

fn check_consequences() -> Result<(), &'static str> {
    use Refusal::{Chunks, Form, NotServed, Overflow, TooLong, Xid};
    for refusal in [Form, Chunks, Xid, TooLong] {
        ensure!(refusal.is_breach(), "malformed is a breach");
        ensure!(!refusal.ends_connection(), "malformed is dropped");
    }
    ensure!(
        Overflow.is_breach() && Overflow.ends_connection(),
        "beyond the credits"
    );
    ensure!(
        !NotServed.is_breach() && !NotServed.ends_connection(),
        "no service is no breach"
    );
    Ok(())
}

fn check_max() -> Result<(), &'static str> {
    // Client's send and receive sizes, the server's (both), buffer; longest message.
    const CASES: [(u32, u32, u32, u32, u32); 6] = [
        (4096, 4096, 4096, 4096, 4068),
        (4096, 4096, 65536, 4096, 4068),
        (1024, 4096, 4096, 4096, 996),
        (4096, 1024, 4096, 4096, 996),
        (65536, 65536, 65536, 4096, 4068),
        (65536, 65536, 65536, 20, 0),
    ];
    for (send, receive, server, buffer, max) in CASES {
        let of = |send, receive| Settings {
            remote_invalidation: false,
            send: Size::from_bytes(send),
            receive: Size::from_bytes(receive),
            versions: None,
        };
        let t = Thresholds::for_client(&of(send, receive), Some(of(server, server)));
        ensure!(max_message(&t, buffer) == max, "longest message");
        let call = receive.min(server).min(buffer).saturating_sub(28);
        ensure!(max_call(&t, buffer) == call, "longest call");
    }
    Ok(())
}
