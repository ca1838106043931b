// SPDX-License-Identifier: GPL-2.0

//! Version negotiations that succeed and that fail, and the memory of peers.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::{Direction, EncodeError, Limits, ListProc, Message, Version};
use super::super::peers::{Key, Peers, APART_MS, CAPACITY, TTL_MS};
use super::super::version::{answer, Answer, Cause, Memory, Negotiation, Progress, Setting};
use super::ensure;

type Check = Result<(), &'static str>;

const ONE: Version = Version::One;
const TWO: Version = Version::Two;

const fn vers(low: u32, high: u32) -> ErrorBody {
    ErrorBody::Vers { low, high }
}

/// Answers to the message with XID 7, and their effects.
const CASES: [(Answer, Progress); 15] = [
    (Answer::Reply(TWO), Progress::Settled(TWO)),
    (Answer::Reply(ONE), Progress::Settled(ONE)),
    (Answer::Invalid, Progress::Ignored),
    (Answer::Undecodable, Progress::Fallback),
    (Answer::Error(ONE, vers(1, 1)), Progress::Fallback),
    (Answer::Error(ONE, vers(0, 1)), Progress::Fallback),
    (Answer::Error(TWO, vers(0, 9)), Progress::Fallback),
    (Answer::Error(ONE, vers(0, 0)), Progress::Failed),
    (Answer::Error(ONE, vers(3, 5)), Progress::Failed),
    (Answer::Error(ONE, vers(2, 2)), Progress::Again),
    (Answer::Error(ONE, vers(2, 1)), Progress::Failed),
    (Answer::Error(ONE, ErrorBody::BadHeader), Progress::Fallback),
    (
        Answer::Error(ONE, ErrorBody::InvalidOption),
        Progress::Fallback,
    ),
    (Answer::Error(TWO, ErrorBody::BadHeader), Progress::Again),
    (
        Answer::Error(TWO, ErrorBody::InvalidOption),
        Progress::Again,
    ),
];

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ V2-5.1-1 non-error reply settles version two
//~ V2-5.2-6 requester picks a version of the range
//~ V2-5.2-7 error in version one settles
pub fn check() -> Check {
    for (answer, want) in CASES {
        let mut n = probing();
        ensure!(n.on_answer(8, answer) == Progress::Unrelated, "other XID");
        ensure!(n.on_answer(7, answer) == want, "answer");
        let settled = match want {
            Progress::Settled(version) => Some(version),
            Progress::Fallback => Some(ONE),
            _ => None,
        };
        ensure!(n.settled() == settled, "settled version");
        let memory = match settled {
            Some(TWO) => Some(Memory::Forget),
            Some(ONE) => Some(Memory::OneOnly),
            None => (want == Progress::Failed).then_some(Memory::OneOnly),
        };
        ensure!(want.memory() == memory, "memory");
    }
    check_first_message()?;
    check_retry()?;
    check_grants()?;
    check_loss()?;
    check_kinds()?;
    check_setting()?;
    check_peers()?;
    check_table()?;
    check_responder()
}

/// A negotiation whose first message was sent.
fn probing() -> Negotiation {
    let mut n = Negotiation::new(TWO, false);
    n.on_sent(7);
    n
}

//~ V2-5-1 one message at a time
fn check_first_message() -> Check {
    let mut n = Negotiation::new(TWO, false);
    ensure!(n.version() == TWO && n.is_open(), "first version is two");
    ensure!(n.on_sent(7) && !n.on_sent(8), "only one is the first");
    ensure!(n.probing() == Some(7), "unanswered");
    ensure!(n.settled().is_none(), "no version before the answer");
    n.on_answer(7, Answer::Reply(TWO));
    ensure!(n.settled() == Some(TWO), "settled");
    n.on_answer(7, Answer::Error(ONE, vers(1, 1)));
    ensure!(n.settled() == Some(TWO), "settled version stays");
    let mut one = Negotiation::new(ONE, false);
    ensure!(one.version() == ONE && !one.on_sent(7), "no negotiation");
    ensure!(one.settled() == Some(ONE), "version one from the beginning");
    let mut failed = probing();
    failed.on_answer(7, Answer::Error(ONE, vers(3, 5)));
    ensure!(failed.settled().is_none(), "failed");
    ensure!(!failed.on_sent(8), "and does not begin again");
    Ok(())
}

/// An error in version two leads to one more attempt in version two, not to any number.
//~ V2-5.2-7 error in version one settles
fn check_retry() -> Check {
    for first in [ErrorBody::BadHeader, ErrorBody::InvalidOption] {
        for second in [ErrorBody::BadHeader, ErrorBody::InvalidOption] {
            let mut n = probing();
            n.on_answer(7, Answer::Error(TWO, first));
            ensure!(n.probing() == Some(7), "only the first is sent again");
            let got = n.on_answer(7, Answer::Error(TWO, second));
            ensure!(got == Progress::Fallback, "second error");
            // The peer has settled version two all the same.
            let mut refused = n;
            let got = refused.on_answer(8, Answer::Error(ONE, vers(2, 2)));
            ensure!(got == Progress::Refused, "version one is refused");
            n.on_answer(8, Answer::Reply(ONE));
            let got = n.on_answer(9, Answer::Error(ONE, vers(2, 2)));
            ensure!(got == Progress::Unrelated, "version one was confirmed");
        }
        let mut n = probing();
        n.on_answer(7, Answer::Error(TWO, first));
        let got = n.on_answer(7, Answer::Reply(TWO));
        ensure!(got == Progress::Settled(TWO), "reply to the second");
    }
    // ERR_VERS whose range has version two, and not version one.
    for range in [vers(2, 2), vers(2, 9)] {
        let mut n = probing();
        let got = n.on_answer(7, Answer::Error(TWO, range));
        ensure!(got == Progress::Again, "version two is in the range");
        let got = n.on_answer(7, Answer::Error(TWO, range));
        ensure!(got == Progress::Failed, "once more, and no other version");
    }
    Ok(())
}

/// The grant of an error does not count before the first non-error reply.
//~ V2-5-1 one message at a time
fn check_grants() -> Check {
    let mut n = probing();
    ensure!(!n.takes_grant(true) && !n.takes_grant(false), "unsettled");
    n.on_answer(7, Answer::Error(ONE, vers(1, 1)));
    ensure!(!n.takes_grant(true), "grant of ERR_VERS");
    ensure!(n.is_open() && n.takes_grant(false), "grant of a reply");
    n.on_answer(8, Answer::Error(ONE, ErrorBody::BadHeader));
    ensure!(!n.takes_grant(true) && n.is_open(), "grant of ERR_CHUNK");
    n.on_answer(8, Answer::Reply(ONE));
    ensure!(n.takes_grant(true) && !n.is_open(), "after a reply");
    let mut two = probing();
    two.on_answer(7, Answer::Reply(TWO));
    ensure!(two.takes_grant(true) && !two.is_open(), "settled on two");
    Ok(())
}

//~ V2-5.2-1 connection lost right after refusing
//~ V2-5.2-2 drops the first message
fn check_loss() -> Check {
    let lost = |n: &mut Negotiation| n.on_lost(Cause::Peer);
    let mut n = Negotiation::new(TWO, false);
    ensure!(lost(&mut n).is_none(), "nothing was sent");
    ensure!(!n.on_sent(7), "nothing is sent");
    ensure!(lost(&mut probing()) == Some(Memory::OneOnly), "unanswered");
    ensure!(probing().on_lost(Cause::Local).is_none(), "local cause");
    let forced = |n: &mut Negotiation| n.on_lost(Cause::Forced);
    ensure!(forced(&mut probing()) == Some(Memory::OneOnly), "silent");
    let mut n = probing();
    n.on_answer(7, Answer::Error(ONE, vers(1, 1)));
    ensure!(n.clone().on_lost(Cause::Local).is_none(), "local, refused");
    ensure!(lost(&mut n.clone()) == Some(Memory::OneOnly), "refused");
    n.on_answer(7, Answer::Reply(ONE));
    ensure!(lost(&mut n).is_none(), "later loss");
    // INVAL_OPTION exists only in version two, so a loss after it does not mean version one.
    let mut n = probing();
    n.on_answer(7, Answer::Error(TWO, ErrorBody::InvalidOption));
    ensure!(
        forced(&mut n.clone()).is_none(),
        "knows version two, silent"
    );
    ensure!(lost(&mut n) == Some(Memory::Doubt), "knows version two");
    let mut n = probing();
    n.on_version_two();
    ensure!(n.clone().on_timeout() == Some(Memory::Doubt), "operation");
    n.on_answer(7, Answer::Error(ONE, vers(1, 1)));
    ensure!(lost(&mut n) == Some(Memory::OneOnly), "but refuses it");
    let mut n = probing();
    ensure!(n.on_timeout() == Some(Memory::OneOnly), "no answer in time");
    ensure!(n.on_timeout().is_none(), "once");
    ensure!(
        Negotiation::new(ONE, false).on_timeout().is_none(),
        "version one"
    );
    Ok(())
}

/// The meaning of a message to the negotiation.
//~ V2-5-3 valid reply settles
fn check_kinds() -> Check {
    let kind = |version: Version, xid, direction, rpc: &[u8]| {
        let mut buf = [0; 64];
        let len = header(&mut buf, version, xid, direction).map_err(|_| "no room")?;
        let (_, rest) = buf.split_at_mut(len);
        rest.get_mut(..rpc.len())
            .ok_or("room")?
            .copy_from_slice(rpc);
        let bytes = buf.get(..len.saturating_add(rpc.len())).ok_or("buffer")?;
        let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        Ok::<_, &'static str>(Answer::of(&message))
    };
    const REPLY: [u8; 8] = [0, 0, 0, 7, 0, 0, 0, 1];
    const CALL: [u8; 8] = [0, 0, 0, 7, 0, 0, 0, 0];
    let (call, reply) = (Direction::Call, Direction::Reply);
    for version in [ONE, TWO] {
        let good = Some(Answer::Reply(version));
        ensure!(kind(version, 7, reply, &REPLY)? == good, "reply");
        ensure!(kind(version, 7, call, &CALL)?.is_none(), "call");
    }
    let invalid = Some(Answer::Invalid);
    ensure!(kind(TWO, 7, reply, &[])? == invalid, "no RPC message");
    ensure!(kind(TWO, 8, reply, &REPLY)? == invalid, "another XID");
    ensure!(kind(TWO, 7, reply, &CALL)? == invalid, "a call inside");
    ensure!(kind(TWO, 7, call, &REPLY)?.is_none(), "a reply inside");
    Ok(())
}

fn header(
    buf: &mut [u8],
    version: Version,
    xid: u32,
    direction: Direction,
) -> Result<usize, EncodeError> {
    version
        .begin(buf, xid, 1, direction, ListProc::Msg)?
        .finish()
}

/// Settings, the peer's announcement, the knowledge about the peer, and the version of the first
/// message.
fn check_setting() -> Check {
    const TABLE: [(Setting, bool, bool, Version); 8] = [
        (Setting::Auto, false, false, ONE),
        (Setting::Auto, true, false, TWO),
        (Setting::Auto, true, true, ONE),
        (Setting::Auto, false, true, ONE),
        (Setting::One, true, false, ONE),
        (Setting::Two, false, false, TWO),
        (Setting::Two, true, true, ONE),
        (Setting::Two, false, true, ONE),
    ];
    for (setting, knows, one_only, first) in TABLE {
        ensure!(setting.first_version(knows, one_only) == first, "setting");
        ensure!(setting.may_use_two() == (setting != Setting::One), "two");
    }
    ensure!(Setting::default() == Setting::Auto, "default");
    Ok(())
}

const fn key(n: u8) -> Key {
    Key {
        net: 1,
        address: [n; 16],
        port: 20049,
    }
}

fn check_peers() -> Check {
    let mut peers = Peers::new();
    let known = |peers: &Peers, key: &Key, now| peers.is_one_only(key, now);
    peers.note(&key(1), Memory::OneOnly, 100, 60);
    ensure!(known(&peers, &key(1), 159), "known");
    ensure!(!known(&peers, &key(1), 160), "expired");
    for other in [Key { net: 2, ..key(1) }, Key { port: 1, ..key(1) }, key(2)] {
        peers.note(&key(1), Memory::OneOnly, 100, 60);
        ensure!(!known(&peers, &other, 101), "another peer");
    }
    peers.note(&key(1), Memory::Forget, 100, 60);
    ensure!(!known(&peers, &key(1), 101), "forgotten");
    check_doubts()
}

/// The second doubt means version one, unless it may be of the same incident as the first.
fn check_doubts() -> Check {
    let mut peers = Peers::new();
    let mut doubt = |now| {
        peers.note(&key(1), Memory::Doubt, now, TTL_MS);
        let known = |now| peers.is_one_only(&key(1), now);
        (known(now), peers.entries(now).map(|e| e.until).next())
    };
    let (first, second) = (100u64, 100u64.saturating_add(APART_MS));
    let end = |now: u64| Some(now.saturating_add(TTL_MS));
    ensure!(doubt(first) == (false, end(first)), "one doubt");
    ensure!(doubt(first) == (false, end(first)), "the same incident");
    let last = second.saturating_sub(1);
    ensure!(doubt(last) == (false, end(first)), "its last doubt");
    ensure!(doubt(second) == (true, end(second)), "second doubt");
    let third = second.saturating_add(1);
    ensure!(doubt(third) == (true, end(second)), "same incident again");
    let later = third.saturating_add(APART_MS);
    ensure!(doubt(later) == (true, end(later)), "third doubt");
    let over = later.saturating_add(TTL_MS);
    ensure!(doubt(over) == (false, end(over)), "a doubt expires");
    ensure!(peers.entries(over).count() == 1, "listed once");
    peers.note(&key(1), Memory::OneOnly, over, TTL_MS);
    ensure!(peers.is_one_only(&key(1), over), "no doubt any more");
    Ok(())
}

fn check_table() -> Check {
    let mut peers = Peers::new();
    let many = u8::try_from(CAPACITY).map_err(|_| "capacity")?;
    for n in 0..many {
        peers.note(&key(n), Memory::OneOnly, u64::from(n), 1000);
    }
    ensure!(peers.entries(99).count() == CAPACITY, "full");
    peers.note(&key(0), Memory::OneOnly, 100, 1000);
    ensure!(peers.entries(100).count() == CAPACITY, "renewed");
    peers.note(&key(99), Memory::Forget, 100, 1000);
    ensure!(
        peers.entries(100).count() == CAPACITY,
        "an unknown one is forgotten"
    );
    peers.note(&key(200), Memory::OneOnly, 101, 1000);
    ensure!(peers.entries(102).count() == CAPACITY, "still full");
    ensure!(!peers.is_one_only(&key(1), 102), "the first to expire");
    ensure!(peers.is_one_only(&key(0), 102), "was renewed");
    ensure!(peers.is_one_only(&key(2), 102), "not the first to expire");
    let found = peers.entries(102).any(|e| e.key == key(200) && e.one_only);
    ensure!(found, "listed");
    ensure!(peers.entries(5000).count() == 0, "expired ones");
    peers.clear();
    ensure!(peers.entries(103).count() == 0, "cleared");
    let elsewhere = Key { net: 2, ..key(3) };
    peers.note(&elsewhere, Memory::OneOnly, 103, 1000);
    ensure!(peers.is_one_only(&elsewhere, 104), "another namespace");
    ensure!(!peers.is_one_only(&key(3), 104), "this namespace");
    Ok(())
}

//~ 5666-4.2-3 inclusive range of supported versions
//~ V2-5.2-5 not spoken, answered by ERR_VERS
//~ V2-5.3-1 replies use version of their calls
fn check_responder() -> Check {
    ensure!(answer(1, ONE, TWO) == Ok(ONE), "asked in one");
    ensure!(answer(2, ONE, TWO) == Ok(TWO), "asked in two");
    ensure!(answer(2, ONE, ONE) == Err(vers(1, 1)), "one only");
    ensure!(answer(3, ONE, TWO) == Err(vers(1, 2)), "asked in three");
    ensure!(answer(0, ONE, TWO) == Err(vers(1, 2)), "asked in zero");
    ensure!(answer(1, TWO, TWO) == Err(vers(2, 2)), "two only");
    Ok(())
}
