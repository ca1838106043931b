// SPDX-License-Identifier: GPL-2.0

//! Cases of the Connection Configuration Protocol: calls, and the answers to them.

use super::super::super::wire::conf_rdma::{Reply, Request};
use super::super::inline::Thresholds;
use super::super::legacy::conf::{call, hear, Heard};
use super::super::legacy::padded::Padding;
use super::super::legacy::padded::{room, Room};
use super::super::legacy::service::{is_ours, max_reply, reads, Answer, Reads};
use super::ensure;

type Check = Result<(), &'static str>;

const XID: u32 = 0x0bad_cafe;
const HUGE: u32 = u32::MAX;
const PROGRAM: u32 = 100_417;

const OURS: Reply = Reply {
    maxcall_sendsize: 4096,
    align: 512,
    maxrdmaread: 16,
};

/// Words behind the XID and the direction of a call, and words behind those of the answer.
type Case = (&'static [u32], &'static [u32]);

const ANSWERS: [Case; 16] = [
    // NULL, with AUTH_NONE and with AUTH_SYS.
    (&[2, PROGRAM, 1, 0, 0, 0, 0, 0], &[0, 0, 0, 0]),
    (&[2, PROGRAM, 1, 0, 1, 8, 7, 7, 0, 0], &[0, 0, 0, 0]),
    // CONF_RDMA with values of any kind.
    (
        &[2, PROGRAM, 1, 1, 0, 0, 0, 0, 8192, 2048, 4],
        &[0, 0, 0, 0, 4096, 512, 16],
    ),
    (
        &[2, PROGRAM, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 4096, 512, 16],
    ),
    (
        &[2, PROGRAM, 1, 1, 0, 0, 0, 0, HUGE, HUGE, HUGE],
        &[0, 0, 0, 0, 4096, 512, 16],
    ),
    // Too few arguments, and too many.
    (&[2, PROGRAM, 1, 1, 0, 0, 0, 0, 1, 2], &[0, 0, 0, 4]),
    (&[2, PROGRAM, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4], &[0, 0, 0, 4]),
    // Other procedures and versions.
    (&[2, PROGRAM, 1, 2, 0, 0, 0, 0], &[0, 0, 0, 3]),
    (&[2, PROGRAM, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 2, 1, 1]),
    (&[2, PROGRAM, 2, 1, 0, 0, 0, 0], &[0, 0, 0, 2, 1, 1]),
    // Another version of RPC.
    (&[3, PROGRAM, 1, 0, 0, 0, 0, 0], &[1, 0, 2, 2]),
    // Another flavour, and credentials that are no credentials.
    (&[2, PROGRAM, 1, 0, 6, 0, 0, 0], &[1, 1, 1]),
    (&[2, PROGRAM, 1, 0, 1, 404, 0, 0], &[1, 1, 1]),
    (&[2, PROGRAM, 1, 0, 1, HUGE, 0, 0], &[1, 1, 1]),
    (&[2, PROGRAM, 1, 0, 0, 0, 0, 4], &[1, 1, 1]),
    (&[2, PROGRAM], &[1, 1, 1]),
];

/// Bytes of the longest message of the cases.
const BUF: usize = 64;

fn bytes<'a>(buf: &'a mut [u8; BUF], head: &[u32], rest: &[u32]) -> &'a [u8] {
    let words = head.iter().chain(rest);
    let mut len: usize = 0;
    for (place, word) in buf.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
        len = len.saturating_add(4);
    }
    buf.get(..len).unwrap_or_default()
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ 5666-6-2 may use Connection Configuration Protocol
pub fn check() -> Check {
    for (words, want) in ANSWERS {
        let (mut buf, mut wanted) = ([0; BUF], [0; BUF]);
        let asked = bytes(&mut buf, &[XID, 0], words);
        ensure!(is_ours(asked), "a call of the program");
        let answer = Answer::to(asked, &OURS);
        let want = bytes(&mut wanted, &[XID, 1], want);
        ensure!(answer.bytes() == want, "answer");
        let configured = want.len() == 36;
        ensure!(answer.request().is_some() == configured, "request");
    }
    check_others()?;
    check_credential()?;
    check_pair()?;
    check_replies()?;
    check_room()
}

/// Checks calls of other programs, and calls without one.
fn check_others() -> Check {
    let mut buf = [0; BUF];
    ensure!(
        !is_ours(bytes(&mut buf, &[XID, 0, 2, 100_003, 3, 0], &[])),
        "NFS"
    );
    ensure!(!is_ours(bytes(&mut buf, &[XID, 0, 2], &[])), "no program");
    ensure!(!is_ours(&[]), "nothing");
    Ok(())
}

/// Checks the longest credential, of 400 bytes (RFC 5531), and a longer one.
fn check_credential() -> Check {
    for (len, want) in [(400, &[0, 0, 0, 0][..]), (404, &[1, 1, 1])] {
        let (mut head, mut wanted) = ([0; BUF], [0; BUF]);
        let begin = bytes(&mut head, &[XID, 0, 2, PROGRAM, 1, 0, 1, len], &[]);
        let mut asked = [0; 444];
        for (place, byte) in asked.iter_mut().zip(begin) {
            *place = *byte;
        }
        let want = bytes(&mut wanted, &[XID, 1], want);
        ensure!(Answer::to(&asked, &OURS).bytes() == want, "credential");
    }
    Ok(())
}

/// Checks that client and server of this module understand each other, and what they agree on.
fn check_pair() -> Check {
    let request = Request {
        maxcall_sendsize: 8192,
        maxreply_sendsize: 2048,
        maxrdmaread: 4,
    };
    let asked = call(XID, &request);
    ensure!(is_ours(&asked), "the client's call");
    let answer = Answer::to(&asked, &OURS);
    ensure!(answer.request() == Some(&request), "request");
    ensure!(
        hear(XID, answer.bytes()) == Heard::Reply(OURS),
        "the server's answer"
    );
    ensure!(
        hear(XID ^ 1, answer.bytes()) == Heard::Malformed,
        "an answer to another call"
    );
    for (maxreply_sendsize, want) in [(0, 1024), (2048, 2048), (4097, 4096), (HUGE, 4096)] {
        let request = Request {
            maxreply_sendsize,
            ..request
        };
        ensure!(max_reply(&request, 4096) == want, "longest reply");
    }
    check_reads()
}

/// Checks how a server keeps to what a client says about RDMA Reads.
//~ 5666-6.2-3 announces no RDMA Reads
//~ 5666-6.2-5 number of active RDMA Reads
fn check_reads() -> Check {
    for (theirs, want) in [
        (0, Reads::Forbidden),
        (1, Reads::Single),
        (15, Reads::Single),
        (16, Reads::Free),
        (HUGE, Reads::Free),
    ] {
        ensure!(reads(theirs, 16) == want, "RDMA Reads");
    }
    Ok(())
}

/// Checks what a client makes of answers.
fn check_replies() -> Check {
    const REPLIES: [(&[u32], Heard); 14] = [
        (&[0, 0, 0, 0, 4096, 512, 16], Heard::Reply(OURS)),
        (&[0, 0, 0, 1], Heard::Refused),
        (&[0, 0, 0, 2, 1, 1], Heard::Refused),
        (&[0, 0, 0, 3], Heard::Refused),
        (&[0, 0, 0, 4], Heard::Refused),
        (&[0, 0, 0, 5], Heard::Refused),
        (&[0, 0, 0, 6], Heard::Malformed),
        (&[1, 0, 2, 2], Heard::Refused),
        (&[1, 1, 5], Heard::Refused),
        (&[2], Heard::Malformed),
        (&[], Heard::Malformed),
        (&[0, 0, 4, 0, 0, 4096, 512, 16], Heard::Malformed),
        (&[0, 0, 0, 0, 4096, 512], Heard::Malformed),
        (&[0, 0, 0, 0, 4096, 512, 16, 0], Heard::Malformed),
    ];
    for (words, want) in REPLIES {
        let mut buf = [0; BUF];
        let reply = bytes(&mut buf, &[XID, 1], words);
        ensure!(hear(XID, reply) == want, "reply");
    }
    let mut buf = [0; BUF];
    let back = bytes(&mut buf, &[XID, 0], &[0, 0, 0, 0]);
    ensure!(hear(XID, back) == Heard::Malformed, "a call");
    Ok(())
}

/// Checks which calls a client pads. The header has 36 bytes. A reader may skip the padding of data
/// "at or above" the threshold, or of data that "exceed" it: the payload is both, and no other item
/// is either.
//~ 5666-3.9-3 data that a sender pads
//~ 5666-6.2-4 pad as the server recommends
fn check_room() -> Check {
    const CASES: [((u32, u32, u32), Option<u32>); 9] = [
        // The data begin at byte 512.
        ((200, 512, 0), Some(276)),
        ((476, 512, 0), Some(0)),
        ((480, 512, 0), Some(508)),
        // Data below the threshold, and other data that could be longer.
        ((200, 511, 0), None),
        ((512, 512, 0), None),
        ((200, 512, 512), None),
        // What just fits 4096 bytes, and what does not.
        ((200, 3584, 0), Some(276)),
        ((200, 3584, 1), None),
        ((200, HUGE, 0), None),
    ];
    let padding = Padding::new(512, 512).ok_or("padding")?;
    let thresholds = Thresholds {
        client_to_server: 4096,
        ..Thresholds::DEFAULT
    };
    for (lens, want) in CASES {
        let room = room(&padding, lens, &thresholds);
        ensure!(room.map(|room| room.pad) == want, "room");
        let above = |room: Room| lens.1 > room.thresh && lens.0.max(lens.2) <= room.thresh;
        ensure!(room.is_none_or(above), "the payload alone exceeds it");
    }
    Ok(())
}
