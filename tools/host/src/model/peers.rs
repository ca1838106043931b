// SPDX-License-Identifier: GPL-2.0

//! Negotiation and characteristics, with a model of the peer.

use std::vec::Vec;

use super::operations::decode;
use super::Input;
use crate::proto::inline::Thresholds;
use crate::proto::version::{answer, Blocked, Negotiation, PeerMemory, Progress};
use crate::proto::xchar::{client_thresholds, Known, Peer, Receives};
use crate::wire::message::ErrorBody;
use crate::wire::xchar::{self, BackwardSupport, Characteristic, Disposition};
use crate::wire::{Direction, Limits, ListProc, Message, Version};

/// Runs a requester and a peer of any kind over many connections. Checks that no more than one
/// message is sent before the first answer, that no third version is used, and that the negotiation
/// ends.
pub fn negotiation(data: &[u8]) {
    let mut i = Input::new(data);
    let ttl = u64::from(i.number());
    let mut memory = PeerMemory::new(ttl);
    let mut now = 0u64;
    while !i.is_empty() {
        now += u64::from(i.byte());
        let known = memory.is_one_only(now);
        let mut n = Negotiation::new(&memory, now);
        assert_eq!(n.settled(), known.then_some(Version::One));
        if connection(&mut i, &mut n, &mut memory, now) && !known {
            // The negotiation was interrupted, so the next connection does not try version two
            // again.
            assert!(memory.is_one_only(now) || ttl == 0);
        }
    }
}

/// Runs one connection. Returns whether it was lost while the first message was unanswered.
fn connection(i: &mut Input<'_>, n: &mut Negotiation, memory: &mut PeerMemory, now: u64) -> bool {
    let mut outstanding = false;
    for _ in 0..8 {
        let len = i.number() as usize;
        match n.may_send(len) {
            Ok(()) => {
                assert!(n.settled().is_some() || (len <= 1024 && !outstanding));
                outstanding = n.settled().is_none();
                n.on_sent(7);
            }
            Err(Blocked::TooLong) => assert!(len > 1024 && n.settled().is_none()),
            Err(Blocked::Unanswered) => assert!(outstanding),
            Err(Blocked::NoVersion) => return false,
        }
        let limit = n.thresholds(&Thresholds::DEFAULT).client_to_server;
        let want = if n.settled() == Some(Version::Two) {
            4096
        } else {
            1024
        };
        assert_eq!(limit, want);
        if i.byte() % 4 == 0 {
            n.on_lost(memory, now);
            assert_eq!(n.may_send(0), Err(Blocked::NoVersion));
            return outstanding;
        }
        let mut buf = [0; 64];
        let len = message(i, &mut buf);
        let m = Message::decode(&buf[..len], &Limits::NONE).unwrap();
        let settled = n.settled();
        match n.on_message(&m, memory, now) {
            Progress::Unrelated => assert_eq!(settled, n.settled()),
            Progress::Settled(v) => {
                assert!(outstanding && settled.is_none() && n.settled() == Some(v));
                outstanding = false;
            }
            Progress::Again | Progress::Failed => outstanding = false,
        }
    }
    false
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

/// The knowledge of both ends of a connection about the size of Receives.
struct Model {
    /// Sizes of our posted Receives.
    posted: Vec<u32>,
    /// Most bytes that the peer sends, by our announcements and its own requests.
    peer_limit: u32,
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
    let mut m = Model {
        posted: std::vec![4096; 3],
        peer_limit: 4096,
    };
    for _ in 0..i.byte() {
        let size = 1024 * (1 + u32::from(i.byte() % 64));
        let smaller = m.posted.iter().filter(|&&p| p < size).count() as u32;
        match i.byte() % 4 {
            0 => m.posted.push(r.floor()),
            1 if !m.posted.is_empty() => {
                let gone = m.posted.remove(0);
                if gone < r.floor() {
                    told(&mut m, r.on_consumed(1).map(|a| a.size));
                }
            }
            2 => {
                if let Ok(announce) = r.grow(size, smaller) {
                    told(&mut m, announce.map(|a| a.size));
                }
            }
            _ => {
                // The peer bounds its Sends before its request.
                let before = m.peer_limit;
                m.peer_limit = before.min(size);
                let want = Characteristic::ReceiveBufferSize(size);
                match r.on_wanted(&want, smaller, (2048, 32768)) {
                    (Disposition::Done, None) => m.peer_limit = size,
                    (Disposition::Rejected, None) => m.peer_limit = before,
                    (Disposition::Pending, None) => m.peer_limit = before,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(m.posted.iter().all(|&p| p >= m.peer_limit), "too small");
        assert!(m.peer_limit <= r.announced() && r.announced() <= r.floor());
    }
}

fn told(m: &mut Model, size: Option<u32>) {
    if let Some(size) = size {
        m.peer_limit = size;
    }
}

fn known(i: &mut Input<'_>) -> Known {
    match i.byte() % 4 {
        0 => Known::RemoteInvalidation(i.byte() % 2 == 0),
        1 => {
            let level = BackwardSupport::from_u32(u32::from(i.byte() % 4));
            Known::BackwardSupport(level.unwrap())
        }
        _ => Known::ReceiveBufferSize(i.number()),
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
                let (free, want) = (p.request().is_none(), known(i));
                let taken = p.try_request(xid, want);
                assert!(!taken || free);
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
                let n = xchar::respond(&mut buf, xid, 1, &what).unwrap();
                let was = p;
                let result = p.on_operation(xid, &decode(&buf[..n]));
                let open = was.request().is_some_and(|r| !r.pending && r.xid == xid);
                assert_eq!(result.is_ok(), open && count == 1);
                assert!(result.is_ok() || p == was);
            }
            2 => {
                let (now, cleared) = (known(i).value(), i.byte() % 2 == 0);
                let n = xchar::update(&mut buf, 9, 1, Direction::Call, &now, cleared).unwrap();
                p.on_operation(9, &decode(&buf[..n])).unwrap();
            }
            3 => {
                let other = Characteristic::Other {
                    id: xchar::Id(0xffff_ff01),
                    data: &[1, 2],
                };
                let values = [known(i).value(), other, known(i).value()];
                let start = values.map(|value| xchar::Initial {
                    value,
                    fixed: false,
                });
                let n = xchar::init(&mut buf, 9, 1, Direction::Reply, &start).unwrap();
                p.on_operation(9, &decode(&buf[..n])).unwrap();
            }
            4 => p.on_backward_request(i.byte() % 2 == 0),
            _ if i.byte() == 77 => p.on_unsupported(),
            _ => {}
        }
        check_peer(&p);
    }
}

fn check_peer(p: &Peer) {
    if let Some(Known::ReceiveBufferSize(want)) = p.request().map(|r| r.want) {
        assert!(p.send_limit() <= want, "more than was asked for");
    }
    let t = client_thresholds(p, &Receives::new(8192), false);
    assert_eq!(
        (t.client_to_server, t.server_to_client),
        (p.send_limit(), 4096)
    );
    let level = p.backward_support(false);
    assert_ne!(level, BackwardSupport::Unknown);
}
