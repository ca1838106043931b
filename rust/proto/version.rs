// SPDX-License-Identifier: GPL-2.0

//! Determines which version of the protocol to use with a peer: version two, section 5.
//!
//! ```text
//!                   on_sent          non-error reply in version two
//!   new ──► Probe ─────────► Probing ──────────────────────────────► Settled(Two)
//!    │                       │  ▲ │
//!    │                       │  └─┤ first error in version two: once more in version two
//!    │                       │    │ any other answer: once more in version one
//!    │                       │    └────────────────────────────────► Settled(One)
//!    │                       │  ERR_VERS without version one            ▲
//!    │                       └──────────────────────────► Failed        │
//!    └──────────────────────────────────────────────────────────────────┘
//!       version one is set, or the peer is known to support version one only
//! ```
//!
//! The requester's first message is in version two. It has at most 1024 bytes, since the peer may
//! support version one only, and no other message follows until it is answered. After any other
//! answer of the peer, version one is used, so that the mount succeeds. [`Memory`] is the knowledge
//! for the next connection to the same peer; [`super::peers`] keeps it.

use super::super::wire::message::{Body, ErrorBody};
use super::super::wire::{Direction, Message, Version};

/// How long a requester waits for the answer to its first message, in milliseconds.
pub const ANSWER_TIMEOUT_MS: u64 = 5_000;

/// The administrator's setting: the version that a requester uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    /// Version two with servers that announce it, version one with others.
    #[default]
    Auto,
    /// Version one.
    One,
    /// Version two first, with any server that is not known to support version one only.
    Two,
}

impl Setting {
    /// Returns the version of the first message on a new connection. `peer_knows_two`: the peer's
    /// private data say that it supports version two. `one_only`: [`super::peers`] knows the peer
    /// as one that supports version one only.
    pub const fn first_version(self, peer_knows_two: bool, one_only: bool) -> Version {
        match self {
            Self::Auto if peer_knows_two && !one_only => Version::Two,
            Self::Two if !one_only => Version::Two,
            Self::Auto | Self::One | Self::Two => Version::One,
        }
    }

    /// Returns whether version two may be used on a connection that is about to be made. Its
    /// Receives are posted before the peer's private data are known.
    pub const fn may_use_two(self) -> bool {
        !matches!(self, Self::One)
    }
}

/// Knowledge about a peer for the next connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The peer supports version one only.
    OneOnly,
    /// The peer has shown that it knows version two, but the negotiation did not end. If the next
    /// one does not end either, version one must be used.
    Doubt,
    /// The peer supports version two: remove its entry.
    Forget,
}

/// Why a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer closed it, or the queue pair has failed.
    Peer,
    /// The local side closed it, because the peer was silent or broke the protocol.
    Forced,
    /// The local side ended it for another reason: the mount is gone or SUNRPC has closed it, the
    /// device was removed, or an address has changed.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was sent; the first message is in version two.
    Probe,
    /// The message with this XID is unanswered.
    Probing { xid: u32 },
    /// The version for the rest of the connection.
    Settled(Version),
    /// There is no version in common.
    Failed,
}

/// A message from the responder, as the negotiation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply in this version. The RPC message behind the header agrees with it.
    Reply(Version),
    /// A reply in version two whose RPC message is missing, or is not a reply with the same XID.
    Invalid,
    /// An error in this version.
    Error(Version, ErrorBody),
    /// A message that cannot be decoded.
    Undecodable,
}

impl Answer {
    /// Classifies a decoded message. `None`: it is not an answer but a call, or an optional
    /// operation.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        match *message.body() {
            Body::Error(error) => Some(Self::Error(message.version(), error)),
            Body::Msg { .. } | Body::Nomsg { .. } => Self::of_reply(message),
            Body::Msgp { .. } | Body::Done | Body::Optional { .. } => None,
        }
    }

    //= V2-5-3 valid reply settles
    fn of_reply(message: &Message<'_>) -> Option<Self> {
        match message.check_whole() {
            Ok(Some(Direction::Call)) => None,
            Ok(_) => Some(Self::Reply(message.version())),
            Err(_) if message.direction() == Some(Direction::Call) => None,
            Err(_) => Some(Self::Invalid),
        }
    }
}

/// The effect of an answer on the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None: the negotiation has ended already, or the message does not answer the first message.
    Unrelated,
    /// The message must be dropped. The first message remains unanswered.
    Ignored,
    /// The version is settled by a reply, which is processed as any other.
    Settled(Version),
    /// Version one is settled. The first message must be sent again in version one, with the same
    /// XID.
    Fallback,
    /// The first message must be sent again in version two, with the same XID.
    Again,
    /// There is no version in common: close the connection.
    Failed,
    /// The peer refuses version one, to which the connection fell back: close the connection. The
    /// calls are sent again over the next connection, which begins in version one.
    Refused,
}

impl Progress {
    /// Returns the knowledge to keep about the peer from now on.
    pub const fn memory(self) -> Option<Memory> {
        match self {
            Self::Settled(Version::Two) => Some(Memory::Forget),
            // Without a version in common the next connection uses version one, whose error reaches
            // the RPC. Otherwise each connection would negotiate, endlessly.
            Self::Settled(Version::One) | Self::Fallback | Self::Failed => Some(Memory::OneOnly),
            // The fallback has left its knowledge.
            Self::Unrelated | Self::Ignored | Self::Again | Self::Refused => None,
        }
    }
}

/// The negotiation on one connection, as the requester sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    state: State,
    /// The peer has shown that it knows version two.
    proven: bool,
    /// The first message was sent in version two for the second time.
    retried: bool,
    /// Version one was settled without a reply, and no reply in version one has arrived yet.
    unconfirmed: bool,
    /// A non-error reply arrived.
    heard: bool,
}

impl Negotiation {
    /// Starts the negotiation on a new connection. `first` is the version of the first message, as
    /// [`Setting::first_version`] returns it. `proven`: the peer's private data say that it
    /// supports version two.
    pub const fn new(first: Version, proven: bool) -> Self {
        let state = match first {
            Version::One => State::Settled(Version::One),
            Version::Two => State::Probe,
        };
        Self {
            state,
            proven,
            retried: false,
            unconfirmed: false,
            heard: false,
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

    /// Returns whether replies still matter to the negotiation: it has not ended, or no non-error
    /// reply has followed it.
    pub const fn is_open(&self) -> bool {
        !self.heard
    }

    /// Returns the XID of the first message, while it is unanswered.
    pub const fn probing(&self) -> Option<u32> {
        match self.state {
            State::Probing { xid } => Some(xid),
            State::Probe | State::Settled(_) | State::Failed => None,
        }
    }

    /// Records that a message was sent. Returns whether it is the first message, which starts a
    /// timer.
    pub fn on_sent(&mut self, xid: u32) -> bool {
        let first = self.state == State::Probe;
        if first {
            self.state = State::Probing { xid };
        }
        first
    }

    /// Handles an answer of the peer with this XID.
    //= V2-5.1-1 non-error reply settles version two
    pub fn on_answer(&mut self, xid: u32, answer: Answer) -> Progress {
        if self.probing() == Some(xid) {
            return self.on_first_answer(answer);
        }
        match answer {
            Answer::Error(_, ErrorBody::Vers { .. }) if self.unconfirmed => Progress::Refused,
            Answer::Reply(_) if self.settled().is_some() => {
                self.heard = true;
                self.unconfirmed = false;
                Progress::Unrelated
            }
            _ => Progress::Unrelated,
        }
    }

    //= V2-5.2-7 error in version one settles
    fn on_first_answer(&mut self, answer: Answer) -> Progress {
        match answer {
            // The peer may have processed a call although its header names version two.
            Answer::Reply(version) => {
                self.state = State::Settled(version);
                self.heard = true;
                Progress::Settled(version)
            }
            Answer::Invalid => Progress::Ignored,
            Answer::Error(_, ErrorBody::Vers { low, high }) => self.on_range(low, high),
            Answer::Error(Version::Two, _) => self.on_refusal(),
            Answer::Error(Version::One, _) | Answer::Undecodable => self.fall_back(),
        }
    }

    /// Handles ERR_VERS: the peer supports `low` to `high`. A range with version two and without
    /// version one contradicts the error, which then counts as an unrelated error.
    //= V2-5.2-6 requester picks a version of the range
    fn on_range(&mut self, low: u32, high: u32) -> Progress {
        let has = |version: Version| (low..=high).contains(&version.number());
        if has(Version::One) {
            return self.fall_back();
        }
        if has(Version::Two) && !self.retried {
            return self.on_refusal();
        }
        self.state = State::Failed;
        Progress::Failed
    }

    /// Handles another error in version two. The peer knows version two, and may accept the message
    /// when it is sent again. The second error ends the attempt.
    fn on_refusal(&mut self) -> Progress {
        if self.retried {
            return self.fall_back();
        }
        self.proven = true;
        self.retried = true;
        Progress::Again
    }

    fn fall_back(&mut self) -> Progress {
        self.state = State::Settled(Version::One);
        self.unconfirmed = true;
        Progress::Fallback
    }

    /// Handles an optional operation in version two, which a peer that supports version one only
    /// never sends.
    pub fn on_version_two(&mut self) {
        self.proven = true;
    }

    /// Returns whether the credits of a message count as a grant, which `is_error` or not. Before
    /// the first non-error reply those of errors do not (section 5).
    //= V2-5-1 one message at a time
    pub const fn takes_grant(&self, is_error: bool) -> bool {
        self.heard || !is_error && self.settled().is_some()
    }

    /// Handles the timeout of the first message. Returns the knowledge to keep about the peer, if
    /// the connection must be closed.
    //= V2-5.2-2 drops the first message
    pub fn on_timeout(&mut self) -> Option<Memory> {
        self.probing()?;
        let memory = self.doubt();
        self.state = State::Failed;
        Some(memory)
    }

    /// Handles the loss of the connection. Returns the knowledge to keep about the peer. Only a
    /// loss during the negotiation, or right after version one was settled, counts, and only if the
    /// peer has caused it. A peer that does not know version two may be silent; if the peer has
    /// shown that it knows version two, its silence says nothing about the version. The next
    /// connection starts with [`Negotiation::new`].
    //= V2-5.2-1 connection lost right after refusing
    //= V2-5.2-2 drops the first message
    pub fn on_lost(&mut self, cause: Cause) -> Option<Memory> {
        let open = self.probing().is_some() || self.unconfirmed;
        let counts = match cause {
            Cause::Peer => true,
            Cause::Forced => !self.proven,
            Cause::Local => false,
        };
        let memory = (open && counts).then(|| self.doubt());
        self.state = State::Failed;
        self.unconfirmed = false;
        memory
    }

    /// Returns what an unfinished negotiation means for the next one.
    const fn doubt(&self) -> Memory {
        if self.proven && !self.unconfirmed {
            Memory::Doubt
        } else {
            Memory::OneOnly
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
