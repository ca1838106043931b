// SPDX-License-Identifier: GPL-2.0

//! Version negotiations that succeed and that fail.

use super::super::super::wire::message::ErrorBody;
use super::super::super::wire::{Direction, EncodeError, Limits, ListProc, Message, Version};
use super::super::inline::Thresholds;
use super::super::version::{answer, Blocked, Negotiation, PeerMemory, Progress};
use super::ensure;

type Check = Result<(), &'static str>;

/// The answers that a first message can get.
#[derive(Clone, Copy)]
enum Answer {
    /// A reply in this version, with this XID.
    Reply(Version, u32),
    /// A call of the peer with the same XID.
    Call,
    /// An error.
    Error(Version, ErrorBody),
}

const fn vers(low: u32, high: u32) -> ErrorBody {
    ErrorBody::Vers { low, high }
}

impl Answer {
    fn encode(self, buf: &mut [u8]) -> Result<usize, EncodeError> {
        let (version, xid, direction) = match self {
            Self::Reply(version, xid) => (version, xid, Direction::Reply),
            Self::Call => (Version::Two, 7, Direction::Call),
            Self::Error(version, error) => return version.error(buf, 7, 1, error),
        };
        version
            .begin(buf, xid, 1, direction, ListProc::Msg)?
            .finish()
    }
}

/// Answers to the message with XID 7, and their effects.
const CASES: [(Answer, Progress); 10] = [
    (
        Answer::Reply(Version::Two, 7),
        Progress::Settled(Version::Two),
    ),
    (
        Answer::Error(Version::One, vers(1, 1)),
        Progress::Settled(Version::One),
    ),
    (
        Answer::Error(Version::Two, vers(0, 9)),
        Progress::Settled(Version::One),
    ),
    (Answer::Error(Version::One, vers(3, 5)), Progress::Failed),
    (Answer::Error(Version::One, vers(2, 1)), Progress::Failed),
    (
        Answer::Error(Version::Two, ErrorBody::BadHeader),
        Progress::Again,
    ),
    (
        Answer::Error(Version::Two, ErrorBody::InvalidOption),
        Progress::Again,
    ),
    (Answer::Reply(Version::One, 7), Progress::Failed),
    (Answer::Reply(Version::Two, 8), Progress::Unrelated),
    (Answer::Call, Progress::Unrelated),
];

/// Runs the cases.
///
/// # Errors
///
/// The name of the first case that fails.
//~ V2-5.1-1 non-error reply settles version two
//~ V2-5.2-6 requester picks a version of the range
pub fn check() -> Check {
    for (answer, want) in CASES {
        let mut memory = PeerMemory::new(60);
        let mut n = probing(&memory)?;
        ensure!(hear(&mut n, answer, &mut memory)? == want, "answer");
        let one = want == Progress::Settled(Version::One);
        ensure!(memory.is_one_only(100) == one, "memory of version one");
        let settled = match want {
            Progress::Settled(version) => Some(version),
            _ => None,
        };
        ensure!(n.settled() == settled, "any length once settled");
    }
    check_first_message()?;
    check_thresholds()?;
    check_loss()?;
    check_responder()
}

/// A negotiation at time 100 whose first message was sent.
fn probing(memory: &PeerMemory) -> Result<Negotiation, &'static str> {
    let mut n = Negotiation::new(memory, 100);
    ensure!(n.version() == Version::Two, "first version is two");
    n.on_sent(7);
    Ok(n)
}

fn hear(
    n: &mut Negotiation,
    answer: Answer,
    memory: &mut PeerMemory,
) -> Result<Progress, &'static str> {
    let mut buf = [0; 64];
    let len = answer.encode(&mut buf).map_err(|_| "no room")?;
    let bytes = buf.get(..len).ok_or("buffer")?;
    let message = Message::decode(bytes, &Limits::NONE).map_err(|_| "refused")?;
    Ok(n.on_message(&message, memory, 100))
}

//~ V2-5-1 one message at a time
//~ V2-5-2 first message at most 1024 bytes
fn check_first_message() -> Check {
    let mut memory = PeerMemory::new(60);
    let mut n = Negotiation::new(&memory, 100);
    ensure!(n.may_send(1024) == Ok(()), "first message");
    ensure!(
        n.may_send(1025) == Err(Blocked::TooLong),
        "first message, too long"
    );
    ensure!(
        n.may_send(usize::MAX) == Err(Blocked::TooLong),
        "first message, far too long"
    );
    n.on_sent(7);
    ensure!(
        n.may_send(100) == Err(Blocked::Unanswered),
        "second message before the answer"
    );
    hear(
        &mut n,
        Answer::Error(Version::Two, ErrorBody::BadHeader),
        &mut memory,
    )?;
    ensure!(
        n.may_send(1025) == Err(Blocked::TooLong),
        "too long after another error"
    );
    ensure!(n.may_send(1024) == Ok(()), "again after another error");
    n.on_sent(7);
    hear(&mut n, Answer::Reply(Version::Two, 7), &mut memory)?;
    ensure!(n.may_send(4096) == Ok(()), "any length once settled");
    hear(&mut n, Answer::Error(Version::One, vers(1, 1)), &mut memory)?;
    ensure!(n.settled() == Some(Version::Two), "settled version stays");
    Ok(())
}

//~ V2-2.3-1 inline threshold of 4096 bytes
//~ V2-2.3-2 assume a threshold of 4096 bytes
//~ V2-5.1-2 default threshold of version two
//~ V2-5.2-3 threshold is that of the version
//~ V2-5.2-4 thresholds change without connection being lost
fn check_thresholds() -> Check {
    let mut memory = PeerMemory::new(60);
    let agreed = Thresholds {
        client_to_server: 8192,
        ..Thresholds::DEFAULT
    };
    let mut two = probing(&memory)?;
    ensure!(
        two.thresholds(&agreed).client_to_server == 1024,
        "thresholds during the negotiation"
    );
    hear(&mut two, Answer::Reply(Version::Two, 7), &mut memory)?;
    let t = two.thresholds(&agreed);
    let size = (t.client_to_server, t.server_to_client);
    ensure!(
        size == (4096, 4096) && t.version == Version::Two,
        "thresholds of version two"
    );
    let mut one = probing(&memory)?;
    hear(
        &mut one,
        Answer::Error(Version::One, vers(1, 1)),
        &mut memory,
    )?;
    ensure!(
        one.thresholds(&agreed) == agreed,
        "thresholds of version one"
    );
    ensure!(
        one.version() == Version::One,
        "version one without negotiation"
    );
    Ok(())
}

//~ V2-5.2-1 connection lost right after refusing
//~ V2-5.2-2 drops the first message
fn check_loss() -> Check {
    let mut memory = PeerMemory::new(60);
    let mut n = probing(&memory)?;
    n.on_lost(&mut memory, 100);
    ensure!(
        n.may_send(0) == Err(Blocked::NoVersion),
        "nothing is sent after a loss"
    );
    let next = Negotiation::new(&memory, 159);
    ensure!(
        next.settled() == Some(Version::One),
        "version two is not tried again"
    );
    let later = Negotiation::new(&memory, 160);
    ensure!(later.settled().is_none(), "memory expires");
    // A connection that is lost right after ERR_VERS renews the memory.
    let mut memory = PeerMemory::new(60);
    let mut n = probing(&memory)?;
    hear(&mut n, Answer::Error(Version::One, vers(1, 1)), &mut memory)?;
    n.on_lost(&mut memory, 130);
    ensure!(
        memory.is_one_only(189),
        "memory renewed by a loss after ERR_VERS"
    );
    // A connection that is lost later does not change the memory.
    let mut memory = PeerMemory::new(60);
    let mut n = probing(&memory)?;
    hear(&mut n, Answer::Error(Version::One, vers(1, 1)), &mut memory)?;
    hear(&mut n, Answer::Reply(Version::One, 7), &mut memory)?;
    n.on_lost(&mut memory, 130);
    ensure!(
        !memory.is_one_only(160),
        "memory not renewed by a later loss"
    );
    // On another connection, the peer supports version two.
    ensure!(memory.is_one_only(101), "memory is valid");
    let mut n = probing(&PeerMemory::new(60))?;
    hear(&mut n, Answer::Reply(Version::Two, 7), &mut memory)?;
    ensure!(!memory.is_one_only(101), "memory cleared by a reply");
    Ok(())
}

//~ 5666-4.2-3 inclusive range of supported versions
//~ V2-5.2-5 not spoken, answered by ERR_VERS
//~ V2-5.3-1 replies use version of their calls
fn check_responder() -> Check {
    let (one, two) = (Version::One, Version::Two);
    ensure!(answer(1, one, two) == Ok(one), "asked in one");
    ensure!(answer(2, one, two) == Ok(two), "asked in two");
    ensure!(answer(2, one, one) == Err(vers(1, 1)), "one only");
    ensure!(answer(3, one, two) == Err(vers(1, 2)), "asked in three");
    ensure!(answer(1, two, two) == Err(vers(2, 2)), "two only");
    Ok(())
}
