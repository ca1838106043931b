// SPDX-License-Identifier: GPL-2.0

//! Sessions: how their version is settled, and what they do about messages of all kinds.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::xchar::{init, BackwardSupport};
use super::super::super::wire::{
    Direction, EncodeError, Limits, ListProc, Message, Remedy, Version,
};
use super::super::inline::Thresholds;
use super::super::session::{
    Announced, Body, Breach, Close, Config, Output, Session, Side, Take, Verdict,
};
use super::super::version::{Cause, Memory, ANSWER_TIMEOUT_MS};
use super::ensure;

pub(super) type Check = Result<(), &'static str>;

pub(super) const ONE: Version = Version::One;
pub(super) const TWO: Version = Version::Two;

/// Private data that say nothing about version two. The peer has Receives for operations.
pub(super) const NOTHING: Announced = Announced {
    two: false,
    spares: true,
    sizes: None,
};

/// A client that begins with version two, with Receives of 16384 bytes.
pub(super) const CLIENT: Config = Config {
    side: Side::Client,
    versions: (TWO, TWO),
    one: Thresholds {
        client_to_server: 2048,
        server_to_client: 3072,
        remote_invalidation: true,
        version: ONE,
    },
    receive: 16384,
    announced: NOTHING,
    send: 12288,
    invalidation: true,
    backward: BackwardSupport::SizeLimited,
    xid: 0x1000,
};

/// A server of both versions, with Receives of 8192 bytes.
pub(super) const SERVER: Config = Config {
    side: Side::Server,
    versions: (ONE, TWO),
    receive: 8192,
    send: 65536,
    invalidation: false,
    backward: BackwardSupport::General,
    xid: 0x2000,
    ..CLIENT
};

/// Messages that a peer may send.
#[derive(Clone, Copy)]
pub(super) enum Say {
    /// A call or reply with an RPC message: its version, XID, direction.
    Rpc(Version, u32, Direction),
    /// A reply in version two whose RPC message has another XID.
    Invalid(u32),
    /// An error.
    Error(Version, u32, ErrorBody),
}

impl Say {
    pub(super) fn encode(self, buf: &mut [u8]) -> Result<usize, EncodeError> {
        let (version, xid, direction, inner) = match self {
            Self::Rpc(version, xid, direction) => (version, xid, direction, xid),
            Self::Invalid(xid) => (TWO, xid, Direction::Reply, !xid),
            Self::Error(version, xid, error) => return version.error(buf, xid, 9, error),
        };
        let len = version
            .begin(buf, xid, 9, direction, ListProc::Msg)?
            .finish()?;
        let rpc = u64::from(inner) << 32 | direction as u64;
        let slot = buf.get_mut(len..).and_then(|rest| rest.first_chunk_mut());
        *slot.ok_or(EncodeError::NoRoom)? = rpc.to_be_bytes();
        Ok(len.saturating_add(8))
    }
}

/// Encodes a message, decodes it and hands it to a session.
pub(super) fn hear(session: &mut Session, say: Say) -> Result<Verdict, &'static str> {
    let mut buf = [0; 128];
    let len = say.encode(&mut buf).map_err(|_| "no room")?;
    let bytes = buf.get(..len).ok_or("buffer")?;
    let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    Ok(session.on_message(&message, 0))
}

/// Checks that a session has exactly these outputs.
pub(super) fn outputs(session: &mut Session, now: u64, want: &[Output]) -> Check {
    for &output in want {
        ensure!(session.poll(now) == Some(output), "output");
    }
    ensure!(session.poll(now).is_none(), "another output");
    Ok(())
}

/// Returns whether a session does nothing by itself, however much time passes.
#[inline(never)]
pub(super) fn waits_for_ever(session: &Session) -> bool {
    let mut session = *session;
    session.on_timer(u64::MAX);
    session.poll(u64::MAX).is_none()
}

const fn vers(low: u32, high: u32) -> ErrorBody {
    ErrorBody::Vers { low, high }
}

const fn reply(version: Version) -> Say {
    Say::Rpc(version, 7, Direction::Reply)
}

/// A client whose first call, with XID 7, was sent at time zero.
pub(super) fn probing() -> Session {
    let mut session = Session::new(CLIENT);
    session.on_sent(7, 0);
    session
}

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
pub fn check() -> Check {
    check_first()?;
    check_fallback()?;
    check_failures()?;
    check_patience()?;
    check_loss()?;
    check_undecodable()?;
    check_early_operation()?;
    check_one()?;
    check_late_reply()?;
    check_server()?;
    check_sides()?;
    check_watch()?;
    check_generations()?;
    check_unserved()?;
    check_nothing()
}

//~ V2-5-1 one message at a time
//~ V2-5-2 first message at most 1024 bytes
fn check_first() -> Check {
    let mut s = Session::new(CLIENT);
    let t = *s.terms();
    ensure!(
        (t.send, t.expected, t.version) == (1024, 1024, TWO),
        "first"
    );
    ensure!(!t.settled && t.watch, "not settled");
    ensure!(waits_for_ever(&s), "no timer");
    s.on_sent(7, 3);
    s.on_sent(8, 1000);
    let mut late = s;
    late.on_timer(2 + ANSWER_TIMEOUT_MS);
    outputs(&mut late, 0, &[])?;
    late.on_timer(3 + ANSWER_TIMEOUT_MS);
    ensure!(late.poll(0).is_some(), "timer of the first");
    outputs(&mut s, 9, &[])?;
    let verdict = hear(&mut s, reply(TWO))?;
    ensure!(verdict.take == Take::Deliver && verdict.grant, "the reply");
    ensure!(s.settled() == Some(TWO), "settled");
    s.on_timer(u64::MAX);
    ensure!(
        s.poll(9) == Some(Output::Remember(Memory::Forget)),
        "memory"
    );
    ensure!(s.poll(9) == Some(Output::Settled(TWO)), "settled");
    ensure!(s.terms().generation != t.generation, "new terms");
    ensure!(!s.terms().voids(t.generation), "a raise voids nothing");
    Ok(())
}

//~ V2-5-1 one message at a time
//~ V2-5.2-7 error in version one settles
fn check_fallback() -> Check {
    let resend = |version| Output::Resend { xid: 7, version };
    for error in [vers(1, 1), ErrorBody::BadHeader] {
        let mut s = probing();
        let old = s.terms().generation;
        let verdict = hear(&mut s, Say::Error(ONE, 7, error))?;
        ensure!(verdict.take == Take::Done && !verdict.grant, "no grant");
        let t = *s.terms();
        ensure!((t.send, t.receive, t.version) == (2048, 3072, ONE), "terms");
        ensure!(t.expect_invalidation && t.watch, "private data count");
        ensure!(t.voids(old), "prepared for version two");
        let want = [
            Output::Remember(Memory::OneOnly),
            Output::Settled(ONE),
            resend(ONE),
            Output::Void {
                before: t.generation,
            },
        ];
        outputs(&mut s, 0, &want)?;
        ensure!(waits_for_ever(&s), "no timer");
        let verdict = hear(&mut s, Say::Error(ONE, 7, ErrorBody::BadHeader))?;
        ensure!(verdict.take == Take::Deliver && !verdict.grant, "an error");
        let verdict = hear(&mut s, reply(ONE))?;
        ensure!(verdict.take == Take::Deliver && verdict.grant, "a reply");
        ensure!(!s.terms().watch, "the negotiation has ended");
        outputs(&mut s, 0, &[])?;
    }
    let mut s = probing();
    let verdict = hear(&mut s, Say::Error(TWO, 7, ErrorBody::BadHeader))?;
    ensure!(verdict.take == Take::Done, "first error in version two");
    outputs(&mut s, 0, &[resend(TWO)])?;
    hear(&mut s, Say::Error(TWO, 7, ErrorBody::BadHeader))?;
    ensure!(s.settled() == Some(ONE), "second error in version two");
    let refused = hear(&mut s, Say::Error(ONE, 7, vers(2, 2)))?.take == Take::Done;
    let close = Some(Output::Close(Close::NoVersion));
    ensure!((0..9).any(|_| s.poll(0) == close) && refused, "closed");
    Ok(())
}

fn check_failures() -> Check {
    let mut s = probing();
    let verdict = hear(&mut s, Say::Error(ONE, 7, vers(3, 5)))?;
    ensure!(verdict.take == Take::Deliver, "the RPC fails");
    ensure!(s.settled().is_none(), "no version");
    let close = |why| [Output::Remember(Memory::OneOnly), Output::Close(why)];
    outputs(&mut s, 0, &close(Close::NoVersion))?;
    let mut s = probing();
    s.on_timer(ANSWER_TIMEOUT_MS - 1);
    outputs(&mut s, 0, &[])?;
    s.on_timer(ANSWER_TIMEOUT_MS);
    outputs(&mut s, 0, &close(Close::Unanswered))?;
    s.on_timer(ANSWER_TIMEOUT_MS + 1);
    s.want_receive(65536);
    outputs(&mut s, 0, &[])?;
    let mut s = probing();
    let verdict = hear(&mut s, Say::Invalid(7))?;
    ensure!(
        verdict.take == Take::Drop && !verdict.grant,
        "invalid reply"
    );
    ensure!(verdict.breach == Some(Breach::Reply), "counted");
    ensure!(s.settled().is_none() && !waits_for_ever(&s), "still waits");
    let verdict = hear(&mut s, Say::Rpc(TWO, 7, Direction::Call))?;
    ensure!(verdict.take == Take::Deliver && !verdict.grant, "a call");
    ensure!(s.settled().is_none(), "a call settles nothing");
    Ok(())
}

/// A server whose private data announce version two may be slow, and does not count as dropping the
/// first message. If it closes the connection, the client concludes nothing for certain.
//~ V2-5.2-2 drops the first message
fn check_patience() -> Check {
    let mut s = Session::new(Config {
        announced: Announced {
            two: true,
            ..NOTHING
        },
        ..CLIENT
    });
    s.on_sent(7, 0);
    s.on_timer(3_600_000);
    outputs(&mut s, 3_600_000, &[])?;
    let (mut lost, mut forced) = (s, s);
    ensure!(lost.on_lost(Cause::Peer) == Some(Memory::Doubt), "a doubt");
    ensure!(forced.on_lost(Cause::Forced).is_none(), "it is only slow");
    hear(&mut s, Say::Error(TWO, 7, ErrorBody::BadHeader))?;
    outputs(
        &mut s,
        0,
        &[Output::Resend {
            xid: 7,
            version: TWO,
        }],
    )?;
    ensure!(waits_for_ever(&s), "nor for the second attempt");
    hear(&mut s, reply(TWO))?;
    ensure!(s.settled() == Some(TWO), "an answer after an hour");
    Ok(())
}

//~ V2-5.2-1 connection lost right after refusing
//~ V2-5.2-2 drops the first message
fn check_loss() -> Check {
    ensure!(
        probing().on_lost(Cause::Peer) == Some(Memory::OneOnly),
        "peer"
    );
    ensure!(probing().on_lost(Cause::Local).is_none(), "local");
    ensure!(
        Session::new(SERVER).on_lost(Cause::Peer).is_none(),
        "server"
    );
    Ok(())
}

//~ V2-5.2-8 an answer that does not decode
fn check_undecodable() -> Check {
    // RDMA2_MSG of a later draft: another word stands in the place of the direction.
    let mut later = [0; 32];
    for (slot, word) in later.chunks_exact_mut(4).zip([7u32, 2, 9, 0, 0x100]) {
        slot.copy_from_slice(&word.to_be_bytes());
    }
    let error = Message::decode(&later, &Limits::NONE)
        .err()
        .ok_or("decoded")?;
    let mut s = probing();
    let verdict = s.on_undecodable(&later, &error, 0);
    ensure!(verdict.take == Take::Done && !verdict.grant, "taken");
    ensure!(
        verdict.breach == Some(Breach::Undecodable(error)),
        "counted"
    );
    ensure!(s.settled() == Some(ONE), "version one");
    ensure!(
        s.poll(0) == Some(Output::Remember(Memory::OneOnly)),
        "memory"
    );
    let mut other = Session::new(CLIENT);
    other.on_sent(8, 0);
    let verdict = other.on_undecodable(&later, &error, 0);
    ensure!(other.settled().is_none(), "another XID");
    ensure!(verdict.take == Take::Drop, "dropped");
    check_answers()
}

/// A server answers a call that it cannot decode, if there is space for the answer.
//~ V2-5.2-5 not spoken, answered by ERR_VERS
fn check_answers() -> Check {
    let mut call = [0; 16];
    for (slot, word) in call.chunks_exact_mut(4).zip([7u32, 3, 9, 0]) {
        slot.copy_from_slice(&word.to_be_bytes());
    }
    let error = Message::decode(&call, &Limits::NONE)
        .err()
        .ok_or("decoded")?;
    let mut s = Session::new(SERVER);
    for _ in 0..4 {
        let verdict = s.on_undecodable(&call, &error, 0);
        ensure!(verdict.take == Take::Drop, "not processed");
        let breach = Some(Breach::Undecodable(error));
        ensure!(verdict.breach == breach, "counted");
    }
    hear(&mut s, Say::Rpc(TWO, 7, Direction::Call))?;
    ensure!(s.poll(0) == Some(Output::Settled(TWO)), "settled");
    for _ in 0..4 {
        ensure!(error_sent(&mut s) == Some((3, vers(1, 2))), "ERR_VERS");
    }
    ensure!(s.poll(0).is_none(), "four answers");
    s.on_undecodable(&call, &error, 0);
    ensure!(
        error_sent(&mut s) == Some((3, vers(2, 2))),
        "settled on two"
    );
    check_other_version(&mut s)
}

/// A thread of a server refuses a message in another version than the connection's, as the session
/// does, even if the message has further defects.
//~ 5666-4.2-3 inclusive range of supported versions
//~ V2-5.2-9 settled version is the only one
fn check_other_version(s: &mut Session) -> Check {
    for (version, error) in [(1, vers(2, 2)), (3, vers(2, 2)), (2, ErrorBody::BadHeader)] {
        let refused = Remedy::Answer {
            xid: 7,
            version,
            error: ErrorBody::BadHeader,
        };
        let want = Remedy::Answer {
            xid: 7,
            version,
            error,
        };
        ensure!(refused.within(s.versions()) == want, "of a thread");
    }
    let Ok(Verdict { breach, .. }) = hear(s, Say::Rpc(ONE, 7, Direction::Call)) else {
        return Err("refused");
    };
    ensure!(breach == Some(Breach::Version(1)), "of the session");
    ensure!(error_sent(s) == Some((1, vers(2, 2))), "the same");
    Ok(())
}

/// Returns the version word and the error of the next message.
fn error_sent(s: &mut Session) -> Option<(u32, ErrorBody)> {
    match s.poll(0) {
        Some(Output::Send(control)) => match control.body {
            Body::Error(error) if control.xid == 7 => Some((control.version, error)),
            _ => None,
        },
        _ => None,
    }
}

/// An optional operation before the first reply: the peer knows version two.
fn check_early_operation() -> Check {
    let mut buf = [0; 128];
    let len = init(&mut buf, 9, 9, Direction::Reply, &[]).map_err(|_| "no room")?;
    let bytes = buf.get(..len).ok_or("buffer")?;
    let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    let mut client = probing();
    let verdict = client.on_message(&message, 0);
    ensure!(
        verdict.take == Take::Done && !verdict.grant,
        "not yet a grant"
    );
    ensure!(client.settled().is_none(), "not settled");
    ensure!(
        client.on_lost(Cause::Peer) == Some(Memory::Doubt),
        "knows two"
    );
    Ok(())
}

/// A client that uses version one from the beginning.
fn check_one() -> Check {
    let mut s = Session::new(Config {
        versions: (ONE, ONE),
        ..CLIENT
    });
    ensure!(s.settled() == Some(ONE) && s.terms().send == 2048, "terms");
    ensure!(s.terms().thresholds() == CLIENT.one, "thresholds");
    s.on_sent(7, 0);
    ensure!(waits_for_ever(&s), "no timer");
    let verdict = hear(&mut s, reply(ONE))?;
    ensure!(verdict.grant && !s.terms().watch, "reply");
    ensure!(s.on_lost(Cause::Peer).is_none(), "no memory");
    outputs(&mut s, 0, &[])
}

/// A reply that has arrived before the loss of the connection is handled after it.
fn check_late_reply() -> Check {
    let mut s = Session::new(Config {
        versions: (ONE, ONE),
        ..CLIENT
    });
    s.on_sent(7, 0);
    ensure!(s.on_lost(Cause::Peer).is_none(), "no memory");
    let verdict = hear(&mut s, reply(ONE))?;
    ensure!(
        verdict.take == Take::Deliver && verdict.breach.is_none(),
        "reply"
    );
    ensure!(s.terms().thresholds() == CLIENT.one, "terms after the loss");
    outputs(&mut s, 0, &[])
}

/// A server of version one only leaves messages in version two to its caller.
//~ V2-2.3-1 inline threshold of 4096 bytes
fn check_unserved() -> Check {
    let only_one = Config {
        versions: (ONE, ONE),
        ..SERVER
    };
    let small = Config {
        receive: 4095,
        ..SERVER
    };
    for config in [only_one, small] {
        let mut s = Session::new(config);
        for _ in 0..2 {
            let verdict = hear(&mut s, Say::Rpc(TWO, 7, Direction::Call))?;
            ensure!(verdict.take == Take::Deliver && !verdict.grant, "two");
            ensure!(verdict.breach.is_none(), "the caller counts it");
            hear(&mut s, Say::Rpc(ONE, 7, Direction::Call))?;
            ensure!(s.settled() == Some(ONE), "not settled by version two");
        }
        outputs(&mut s, 0, &[Output::Settled(ONE)])?;
    }
    let client = Session::new(Config {
        receive: 4095,
        ..CLIENT
    });
    ensure!(client.settled() == Some(ONE), "client with small Receives");
    let least = Session::new(Config {
        receive: 4096,
        ..CLIENT
    });
    ensure!(least.settled().is_none(), "client with 4096 bytes");
    Ok(())
}

/// A server answers in the version of the first message that it could decode.
//~ V2-5.3-2 first message settles the version
fn check_server() -> Check {
    for (first, other) in [(ONE, TWO), (TWO, ONE)] {
        let mut s = Session::new(SERVER);
        ensure!(s.settled().is_none() && s.terms().watch, "waits");
        let verdict = hear(&mut s, Say::Rpc(first, 7, Direction::Call))?;
        ensure!(verdict.take == Take::Deliver, "first call");
        ensure!(s.settled() == Some(first), "pinned");
        outputs(&mut s, 0, &[Output::Settled(first)])?;
        let breach = Some(Breach::Version(other.number()));
        for direction in [Direction::Reply, Direction::Call] {
            outputs(&mut s, 0, &[])?;
            let verdict = hear(&mut s, Say::Rpc(other, 8, direction))?;
            ensure!(verdict.take == Take::Drop, "another version");
            ensure!(verdict.breach == breach, "counted");
        }
        let Some(Output::Send(answer)) = s.poll(0) else {
            return Err("no ERR_VERS");
        };
        let mut buf = [0; 64];
        let len = answer.encode(&mut buf, 3).map_err(|_| "no room")?;
        let mut want = [0; 64];
        let number = first.number();
        let n = other.error(&mut want, 8, 3, vers(number, number));
        ensure!(n == Ok(len) && buf == want, "ERR_VERS");
    }
    Ok(())
}

/// In version one only the server invalidates R_keys remotely, if both ends support it.
//~ 8797-3.2-1 only if both ends support it
fn check_sides() -> Check {
    for support in [true, false] {
        let one = Thresholds {
            remote_invalidation: support,
            ..CLIENT.one
        };
        let client = Session::new(Config {
            versions: (ONE, ONE),
            one,
            ..CLIENT
        });
        let mut server = Session::new(Config { one, ..SERVER });
        hear(&mut server, Say::Rpc(ONE, 7, Direction::Call))?;
        let (c, s) = (client.terms(), server.terms());
        ensure!(c.expect_invalidation == support, "the client expects it");
        ensure!(!c.may_invalidate, "a client does not");
        ensure!(s.may_invalidate == support, "the server may");
        ensure!(!s.expect_invalidation, "a server expects none");
        ensure!(s.thresholds() == one, "thresholds");
    }
    Ok(())
}

/// A server's session sees the messages of version two up to the first reply, and none of version
/// one after the first call.
fn check_watch() -> Check {
    for (version, watched) in [(ONE, false), (TWO, true)] {
        let mut s = Session::new(SERVER);
        hear(&mut s, Say::Rpc(version, 7, Direction::Call))?;
        ensure!(s.terms().watch == watched, "before the first reply");
        s.on_replied();
        ensure!(!s.terms().watch, "after the first reply");
    }
    Ok(())
}

/// Generations wrap around: one up to half of their range after the latest void is valid.
fn check_generations() -> Check {
    const HALF: u32 = u32::MAX / 2;
    let mut terms = *Session::new(CLIENT).terms();
    for (before, generation, void) in [
        (5, 5, false),
        (5, 4, true),
        (0, HALF, false),
        (0, HALF.wrapping_add(1), true),
        (0, u32::MAX, true),
        (u32::MAX, 0, false),
    ] {
        terms.void_before = before;
        ensure!(terms.voids(generation) == void, "void generations");
    }
    Ok(())
}

/// A message that must carry an RPC message and carries none settles no version, at either side.
//~ V2-5-3 valid reply settles
//~ V2-5.3-2 first message settles the version
fn check_nothing() -> Check {
    for (direction, mut s) in [
        (Direction::Reply, probing()),
        (Direction::Call, Session::new(SERVER)),
    ] {
        let mut buf = [0; 64];
        let len = TWO
            .begin(&mut buf, 7, 9, direction, ListProc::Nomsg)
            .and_then(|w| w.finish());
        let bytes = buf.get(..len.map_err(|_| "no room")?).ok_or("buffer")?;
        let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
        let verdict = s.on_message(&message, 0);
        ensure!(s.settled().is_none(), "NOMSG without a message");
        let dropped = verdict.take == Take::Drop && verdict.breach == Some(Breach::Reply);
        ensure!(dropped || direction == Direction::Call, "dropped");
        hear(&mut s, Say::Rpc(TWO, 7, direction))?;
        ensure!(s.settled() == Some(TWO), "a whole message");
    }
    let mut s = Session::new(SERVER);
    hear(&mut s, Say::Invalid(7))?;
    ensure!(s.settled().is_none(), "two XIDs");
    Ok(())
}
