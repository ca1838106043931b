// SPDX-License-Identifier: GPL-2.0

//! Which version of the protocol to use with a peer: version two, section 5.
//!
//! State: for version two.
//!
//! ```text
//!                    sent            reply in version two
//!   new ──► Probe ─────────► Probing ─────────────────────► Settled(Two)
//!    │        ▲                 │  │  ERR_VERS, range has one
//!    │        └─────────────────┘  ├──────────────────────► Settled(One)
//!    │          any other error    │                            ▲
//!    │                             └──► Failed                  │
//!    └──────────────────────────────────────────────────────────┘
//!       the memory says that the peer supports version one only
//! ```
//!
//! The requester's first message is in version two. It has at most 1024 bytes, since the peer may
//! support version one only, and no other message follows until it is answered. If the connection
//! is lost before the answer, or no answer comes, version one is used with this peer for a while: a
//! peer of version one may drop a message that it does not understand, and further attempts would
//! not end.

use super::super::wire::message::{Body, ErrorBody};
use super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::wire::{Direction, Message, Version};
use super::inline::Thresholds;

/// Knowledge of one peer from earlier connections.
///
/// The caller chooses the clock and its unit; it has to be monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    ttl: u64,
    one_only_until: Option<u64>,
}

impl PeerMemory {
    /// Makes an empty memory. Later knowledge is valid for `ttl`.
    pub const fn new(ttl: u64) -> Self {
        Self {
            ttl,
            one_only_until: None,
        }
    }

    /// Returns whether version one has to be used with the peer.
    pub fn is_one_only(&self, now: u64) -> bool {
        self.one_only_until.is_some_and(|until| now < until)
    }

    fn assume_one(&mut self, now: u64) {
        self.one_only_until = Some(now.saturating_add(self.ttl));
    }

    fn forget(&mut self) {
        self.one_only_until = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is outstanding; the next message is in version two.
    Probe,
    /// The message with this XID is unanswered.
    Probing { xid: u32 },
    /// The version for the rest of the connection.
    Settled(Version),
    /// There is no version in common, or the peer has answered in another version than the call's.
    Failed,
}

/// Why a message may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The first message was not answered yet.
    Unanswered,
    /// The first message must not be longer than 1024 bytes.
    TooLong,
    /// There is no version in common: close the connection.
    NoVersion,
}

/// The effect of a received message on the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None: the negotiation has ended already, or the message does not answer the first one.
    Unrelated,
    /// The version is settled. After ERR_VERS the first message has to be sent again in this
    /// version.
    Settled(Version),
    /// The first message was refused for another reason; one more may be sent in version two.
    Again,
    /// There is no version in common.
    Failed,
}

/// The negotiation on one connection, as the requester sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    state: State,
    /// ERR_VERS has settled version one, and the peer has not answered in version one yet.
    refused: bool,
}

impl Negotiation {
    /// Starts the negotiation on a new connection. It begins with version two, unless the peer is
    /// known to support version one only.
    pub fn new(memory: &PeerMemory, now: u64) -> Self {
        let state = if memory.is_one_only(now) {
            State::Settled(Version::One)
        } else {
            State::Probe
        };
        Self {
            state,
            refused: false,
        }
    }

    /// Returns the version of the next message to be sent.
    pub const fn version(&self) -> Version {
        match self.state {
            State::Settled(version) => version,
            State::Probe | State::Probing { .. } | State::Failed => Version::Two,
        }
    }

    /// Returns the version for the rest of the connection, once it is settled.
    pub const fn settled(&self) -> Option<Version> {
        match self.state {
            State::Settled(version) => Some(version),
            State::Probe | State::Probing { .. } | State::Failed => None,
        }
    }

    /// Checks whether a message of `len` bytes, header included, may be sent now. Credits are not
    /// considered.
    ///
    /// # Errors
    ///
    /// See [`Blocked`].
    //= V2-5-1 one message at a time
    //= V2-5-2 first message at most 1024 bytes
    pub fn may_send(&self, len: usize) -> Result<(), Blocked> {
        match self.state {
            State::Settled(_) => Ok(()),
            State::Probing { .. } => Err(Blocked::Unanswered),
            State::Failed => Err(Blocked::NoVersion),
            State::Probe if u32::try_from(len).is_ok_and(|n| n <= FIRST_MESSAGE_MAX) => Ok(()),
            State::Probe => Err(Blocked::TooLong),
        }
    }

    /// Notes that a message was sent which [`Negotiation::may_send`] has allowed.
    pub fn on_sent(&mut self, xid: u32) {
        if self.state == State::Probe {
            self.state = State::Probing { xid };
        }
    }

    /// Handles a received message.
    //= V2-5.1-1 non-error reply settles version two
    pub fn on_message(&mut self, m: &Message<'_>, memory: &mut PeerMemory, now: u64) -> Progress {
        let State::Probing { xid } = self.state else {
            self.on_settled_message(m);
            return Progress::Unrelated;
        };
        if m.xid() != xid || m.direction() == Some(Direction::Call) {
            return Progress::Unrelated;
        }
        match *m.body() {
            Body::Error(ErrorBody::Vers { low, high }) => self.on_range(low, high, memory, now),
            Body::Error(ErrorBody::BadHeader | ErrorBody::InvalidOption) => {
                self.state = State::Probe;
                Progress::Again
            }
            // A responder answers in the version of the call.
            _ if m.version() != Version::Two => self.fail(),
            _ => {
                memory.forget();
                self.settle(Version::Two)
            }
        }
    }

    fn on_settled_message(&mut self, m: &Message<'_>) {
        if m.version() == Version::One && !matches!(m.body(), Body::Error(_)) {
            self.refused = false;
        }
    }

    /// Handles ERR_VERS: the peer supports `low` to `high`.
    //= V2-5.2-6 requester picks a version of the range
    fn on_range(&mut self, low: u32, high: u32, memory: &mut PeerMemory, now: u64) -> Progress {
        if !(low..=high).contains(&Version::One.number()) {
            return self.fail();
        }
        // This knowledge is certain until the peer's software changes.
        memory.assume_one(now);
        self.refused = true;
        self.settle(Version::One)
    }

    fn settle(&mut self, version: Version) -> Progress {
        self.state = State::Settled(version);
        Progress::Settled(version)
    }

    fn fail(&mut self) -> Progress {
        self.state = State::Failed;
        Progress::Failed
    }

    /// Handles the loss of the connection, or a first message that was not answered in time. If
    /// that happens during the negotiation or right after ERR_VERS, version one is used with the
    /// peer for a while. The next connection starts with [`Negotiation::new`].
    //= V2-5.2-1 connection lost right after refusing
    //= V2-5.2-2 drops the first message
    pub fn on_lost(&mut self, memory: &mut PeerMemory, now: u64) {
        if matches!(self.state, State::Probing { .. }) || self.refused {
            memory.assume_one(now);
        }
        self.state = State::Failed;
        self.refused = false;
    }

    /// Returns the thresholds in this state. During the negotiation they are those that every
    /// version-one peer supports. Then they are the default of version two, or `agreed`, the
    /// thresholds of version one by private data. They change without the connection being lost
    /// (section 5.2).
    //= V2-5.1-2 default threshold of version two
    //= V2-5.2-3 threshold is that of the version
    //= V2-5.2-4 thresholds change without connection being lost
    pub const fn thresholds(&self, agreed: &Thresholds) -> Thresholds {
        match self.state {
            State::Settled(Version::One) => *agreed,
            State::Settled(Version::Two) => Thresholds::VERSION_TWO,
            State::Probe | State::Probing { .. } | State::Failed => Thresholds {
                version: Version::Two,
                ..Thresholds::DEFAULT
            },
        }
    }
}

/// Decides what a responder that supports `low` to `high` does with a message of version `asked`:
/// it processes the message and answers in the same version (section 5.3), or refuses it (RFC 8166
/// section 4.5.1).
///
/// # Errors
///
/// The error to answer with.
//= 5666-4.2-3 inclusive range of supported versions
//= V2-5.2-5 not spoken, answered by ERR_VERS
//= V2-5.3-1 replies use version of their calls
pub fn answer(asked: u32, low: Version, high: Version) -> Result<Version, ErrorBody> {
    match Version::from_u32(asked) {
        Some(version) if low <= version && version <= high => Ok(version),
        _ => Err(ErrorBody::Vers {
            low: low.number(),
            high: high.number(),
        }),
    }
}
