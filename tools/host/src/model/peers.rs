// SPDX-License-Identifier: GPL-2.0

//! Negotiation and characteristics, with a model of the peer.

use std::vec::Vec;

use super::operations::decode;
use super::Input;
use crate::proto::peers::{Key, Peers, APART_MS};
use crate::proto::version::{answer, Answer, Cause, Memory, Negotiation, Progress, Setting};
use crate::proto::xchar::{Fault, Peer, Receives};
use crate::wire::message::ErrorBody;
use crate::wire::xchar::{self, BackwardSupport, Characteristic, Disposition};
use crate::wire::{Direction, Limits, ListProc, Message, Version};

const PEER: Key = Key {
    net: 1,
    address: [0; 16],
    port: 20049,
};

/// Runs a requester and a peer of any kind over many connections. Checks that no more than one
/// message is sent before the first answer, that no third version is used, and that no more than
/// two incidents in a row end connections without a version.
pub fn negotiation(data: &[u8]) {
    let mut i = Input::new(data);
    let ttl = 1 + u64::from(i.number());
    let mut peers = Peers::new();
    let mut now = 0u64;
    while !i.is_empty() {
        now += 100 * u64::from(i.byte());
        let apart = |until| now + ttl >= until + APART_MS;
        let valid = peers.entries(now).any(|e| e.one_only || apart(e.until));
        let known = peers.is_one_only(&PEER, now);
        let mut n = Negotiation::new(Setting::Two.first_version(false, known), false);
        assert_eq!(n.settled(), known.then_some(Version::One));
        let memory = connection(&mut i, &mut n);
        if let Some(memory) = memory {
            peers.note(&PEER, memory, now, ttl);
        }
        // The second incident in a row is the last one.
        let last = valid && memory == Some(Memory::Doubt);
        assert!(!last || peers.is_one_only(&PEER, now));
        assert!(memory != Some(Memory::OneOnly) || peers.is_one_only(&PEER, now));
    }
}

/// Runs one connection. Returns the last knowledge about the peer.
fn connection(i: &mut Input<'_>, n: &mut Negotiation) -> Option<Memory> {
    let (mut outstanding, mut memory, mut sent) = (false, None, 0);
    for _ in 0..8 {
        let first = n.on_sent(7);
        assert!(!first || n.settled().is_none() && !outstanding);
        outstanding |= first;
        sent += u32::from(first);
        assert!(sent <= 2, "one more attempt in version two");
        if i.byte() % 4 == 0 {
            let (cause, open) = (cause(i), outstanding);
            let lost = if i.byte() % 4 == 0 {
                n.on_timeout().or(n.on_lost(cause))
            } else {
                n.on_lost(cause)
            };
            assert!(n.settled().is_none() && !n.on_sent(8));
            assert!(lost.is_some() || !open || cause != Cause::Peer);
            return lost.or(memory);
        }
        let mut buf = [0; 64];
        let len = message(i, &mut buf);
        let m = Message::decode(&buf[..len], &Limits::NONE).unwrap();
        let settled = n.settled();
        let Some(answer) = Answer::of(&m) else {
            continue;
        };
        let progress = n.on_answer(m.xid(), answer);
        memory = progress.memory().or(memory);
        match progress {
            Progress::Unrelated => assert_eq!(settled, n.settled()),
            Progress::Ignored => assert!(outstanding && n.settled().is_none()),
            Progress::Settled(v) => {
                assert!(outstanding && settled.is_none() && n.settled() == Some(v));
                outstanding = false;
            }
            Progress::Fallback => {
                assert!(outstanding && n.settled() == Some(Version::One));
                assert!(!n.takes_grant(true));
                outstanding = false;
            }
            Progress::Again => sent += 1,
            Progress::Refused => assert!(!n.takes_grant(true) && n.settled() == Some(Version::One)),
            Progress::Failed => return memory,
        }
    }
    memory
}

fn cause(i: &mut Input<'_>) -> Cause {
    [Cause::Local, Cause::Peer, Cause::Forced][usize::from(i.byte()) % 3]
}

/// Writes a message of some kind. Most messages answer XID 7.
fn message(i: &mut Input<'_>, buf: &mut [u8]) -> usize {
    let kind = i.byte();
    let xid = if kind < 200 { 7 } else { 8 };
    let (low, high) = (u32::from(i.byte() % 4), u32::from(i.byte() % 4));
    let version = if kind % 2 == 0 {
        Version::One
    } else {
        Version::Two
    };
    let direction = if kind % 16 == 3 {
        Direction::Call
    } else {
        Direction::Reply
    };
    let vers = ErrorBody::Vers { low, high };
    match kind % 5 {
        0 => version.error(buf, xid, 1, vers),
        1 => version.error(buf, xid, 1, ErrorBody::BadHeader),
        2 => version.error(buf, xid, 1, ErrorBody::InvalidOption),
        _ => version
            .begin(buf, xid, 1, direction, ListProc::Msg)
            .and_then(|w| w.finish()),
    }
    .unwrap()
}

/// Checks that our Receives are always long enough for the peer's messages, and that the
/// announcements of the peer bound our Sends.
pub fn characteristics(data: &[u8]) {
    let mut i = Input::new(data);
    receives(&mut i);
    peer(&mut i);
    for asked in [0, 1, 2, 3, i.number()] {
        let both = answer(asked, Version::One, Version::Two);
        assert_eq!(both.is_ok(), asked == 1 || asked == 2);
        assert_eq!(
            answer(asked, Version::One, Version::One).is_ok(),
            asked == 1
        );
    }
}

fn receives(i: &mut Input<'_>) {
    let mut r = Receives::new(4096);
    let mut posted = std::vec![4096; 3];
    // The size of new Receives.
    let mut size = 4096;
    for _ in 0..i.byte() {
        let wanted = 1024 * (1 + u32::from(i.byte() % 64));
        match i.byte() % 6 {
            0 => posted.push(size),
            1 if !posted.is_empty() => {
                if posted.remove(0) < size {
                    r.on_consumed(1);
                }
            }
            2 => r.want(wanted),
            3 => {
                r.on_request(wanted, (1024, 65536));
            }
            4 => r.on_post_failed(),
            _ => {
                if let Some(to) = r.wanted() {
                    let smaller = posted.iter().filter(|&&p| p < to).count() as u32;
                    size = to;
                    r.on_posting(to, smaller);
                }
            }
        }
        let least = posted.iter().min();
        assert!(least.is_none_or(|&p| p >= r.announced()), "announced");
        assert!(r.announced() >= 1024);
        assert!(r.growing().is_none_or(|to| to > r.announced()));
    }
}

fn known(i: &mut Input<'_>) -> Characteristic<'static> {
    match i.byte() % 4 {
        0 => Characteristic::RemoteInvalidation(i.byte() % 2 == 0),
        1 => {
            let level = BackwardSupport::from_u32(u32::from(i.byte() % 4));
            Characteristic::BackwardSupport(level.unwrap())
        }
        2 => Characteristic::PreferredThreshold(i.number()),
        _ => Characteristic::ReceiveBufferSize(i.number()),
    }
}

fn peer(i: &mut Input<'_>) {
    let mut p = Peer::new();
    let mut xid = 0;
    let mut buf = [0; 256];
    for _ in 0..i.byte() {
        match i.byte() % 6 {
            0 => {
                xid += 1;
                let (free, want) = (p.request().is_none(), i.number());
                let taken = p.try_request(xid, want);
                assert!(taken.is_err() || free);
            }
            1 => {
                let dispositions = [
                    Disposition::Done,
                    Disposition::Rejected,
                    Disposition::Pending,
                ];
                let count = usize::from(i.byte() % 3);
                let what: Vec<_> = (0..count)
                    .map(|_| dispositions[usize::from(i.byte() % 3)])
                    .collect();
                let n = xchar::respond(&mut buf, xid, 1, what.iter().copied()).unwrap();
                let was = p;
                let result = p.on_operation(xid, &decode(&buf[..n]));
                let open = was.request().is_some_and(|r| !r.pending && r.xid == xid);
                let answered = result.is_ok();
                assert_eq!(answered, open && count == 1);
                assert!(answered || p == was);
            }
            2 => {
                let (now, cleared) = (known(i), i.byte() % 2 == 0);
                let n = xchar::update(&mut buf, 9, 1, Direction::Call, &now, cleared).unwrap();
                small(p.on_operation(9, &decode(&buf[..n])));
            }
            3 => {
                let other = Characteristic::Other {
                    id: xchar::value::Id(0xffff_ff01),
                    data: &[1, 2],
                };
                let values = [known(i), other, known(i)];
                let start = values.map(|value| xchar::Initial {
                    value,
                    fixed: false,
                });
                let n = xchar::init(&mut buf, 9, 1, Direction::Reply, &start).unwrap();
                small(p.on_operation(9, &decode(&buf[..n])));
            }
            _ if i.byte() == 77 => p.on_unsupported(xchar::OpType::Request),
            _ => {}
        }
        check_peer(&p);
    }
}

/// The only fault of an announcement is a size that is too small.
fn small(result: Result<(), Fault>) {
    assert!(matches!(result, Ok(()) | Err(Fault::TooSmall(0..1024))));
}

fn check_peer(p: &Peer) {
    if let Some(request) = p.request() {
        assert!(p.send_limit() <= request.want, "more than was asked for");
    }
    assert!(p.send_limit() >= 1024, "less than every peer supports");
    let level = p.backward_support(false);
    assert_ne!(level, BackwardSupport::Unknown);
}
