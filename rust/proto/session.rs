// SPDX-License-Identifier: GPL-2.0

//! A connection as both versions see it: its version, the messages that may be sent and received,
//! and the control messages that agree on it.
//!
//! A [`Session`] joins the negotiation of the version ([`super::version`]), the characteristics of
//! both peers and the size of the Receives ([`super::xchar`]). It serves either side of a
//! connection. It does no I/O: the caller reports events, and asks what to do.
//!
//! ```text
//!   on_message, on_undecodable, on_sent,        ┌─────────┐  poll ► Output: send, post,
//!   on_replied, on_timer, on_posting,        ──►│ Session │──►      void, resend, remember, close
//!   on_consumed, on_voided, want_..., ask       └─────────┘  terms ► Terms: limits, version
//! ```
//!
//! After each input the caller calls [`Session::poll`] until it returns `None`, reads
//! [`Session::terms`], and calls [`Session::on_timer`] every few seconds. All methods may be called
//! in any context. They change the session, so the caller locks.
//!
//! # The path of ordinary messages
//!
//! Calls and replies need the session only while [`Terms::watch`] is set: until the first reply.
//! The caller copies [`Terms`] when the generation has changed, and keeps the generation with each
//! call that it prepares. When the call is posted, [`Terms::voids`] says whether it must be
//! prepared again. The following messages always go to the session, even if `watch` is clear:
//!
//! - RDMA2_OPTIONAL, and RDMA_ERROR whose XID is not that of a call;
//! - messages of another version than [`Terms::version`], and messages that do not decode;
//! - an inline reply that is longer than [`Terms::expected`], to [`Session::on_long_reply`].
//!
//! # Order of a lower limit
//!
//! A side that asks the peer for smaller Receives must observe the smaller size at once. The
//! session therefore changes the terms first and returns [`Output::Void`]. It sends the request
//! after the caller has reported by [`Session::on_voided`] that every message posted from now on
//! observes the new terms.
//!
//! # Receives
//!
//! Each side posts [`SPARE_RECEIVES`] Receives beyond those for granted credits and expected
//! replies: one for an unsolicited message of the peer, one for the peer's answer to ours. A peer
//! whose private data do not promise the same may have only a Receive for each credit. An
//! unsolicited message then takes a credit: it waits for [`Session::on_room`], and
//! [`Output::Operated`] reports that it is posted. The session sends one unsolicited message at a
//! time: the next one waits for the answer, or for [`PAUSE_MS`] if no answer is due.

use super::super::wire::cm_private::Settings as PrivateData;
use super::super::wire::xchar::BackwardSupport;
use super::super::wire::{Message, Version};
use super::inline::Thresholds;
use super::version::{Cause, Memory, Negotiation};
use super::xchar::{NotSent, Peer, Receives};

mod arrival;
mod control;
mod operation;
mod output;
mod settings;
mod terms;

pub use control::{Body, Change, Control, Dispositions, Own};
pub use output::{Breach, Close, Output, Take, Verdict};
pub use terms::Terms;

use control::Queue;
use output::News;
use settings::Settings;

/// The number of Receives that each side of a version-two connection posts in addition to those for
/// calls and replies.
pub const SPARE_RECEIVES: u32 = 2;

/// How long the session waits after a control message that gets no answer before it sends the next
/// one, in milliseconds. By then the peer has reposted the Receive.
pub const PAUSE_MS: u64 = 1_000;

/// Returns the size of the Receives to post on a new connection on which version two may be used,
/// if `wanted` is the size that is set.
//= V2-2.3-1 inline threshold of 4096 bytes
pub const fn least_receive(may_use_two: bool, wanted: u32) -> u32 {
    let default = Version::Two.default_inline();
    if may_use_two && wanted < default {
        default
    } else {
        wanted
    }
}

/// The size of messages in bytes on a connection at work, if nobody has set a size: 4096 bytes of
/// data, and the headers of a READ or WRITE.
pub const AT_WORK: u32 = 8192;

/// Returns the size of messages to use if `set` is the setting. A setting that has its default
/// counts as not set, and then [`AT_WORK`] is used if `automatic` is set.
pub const fn size(set: u32, automatic: bool) -> u32 {
    if automatic && set == Version::Two.default_inline() {
        AT_WORK
    } else {
        set
    }
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that requested the connection: the requester of the forward direction.
    Client,
    /// The side that accepted the connection: the responder of the forward direction.
    Server,
}

/// The peer's announcement of version two in its private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The peer supports it.
    pub two: bool,
    /// The peer posts [`SPARE_RECEIVES`] for operations, besides those for calls and replies.
    pub spares: bool,
    /// The maximum number of bytes of the peer's Sends and of its Receives, if they hold in version
    /// two from the first message on. The peer then also understands the characteristic of ours.
    pub sizes: Option<(u32, u32)>,
}

impl Announced {
    /// Returns the announcement in private data, if there are any.
    pub fn of(peer: Option<&PrivateData>) -> Self {
        let sizes = peer.and_then(PrivateData::in_version_two);
        Self {
            two: peer.is_some_and(PrivateData::supports_two),
            spares: sizes.is_some(),
            sizes,
        }
    }
}

/// The initial values of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The side of this end.
    pub side: Side,
    /// Client: the version of the first message in both fields, as
    /// [`super::version::Setting::first_version`] returns it. Server: the lowest and the highest
    /// version that it serves.
    pub versions: (Version, Version),
    /// The thresholds of version one, by private data.
    pub one: Thresholds,
    /// The peer's announcement of version two in its private data.
    pub announced: Announced,
    /// The size of the posted Receives in bytes. Where version two may be used it is at least 4096:
    /// see [`least_receive`].
    pub receive: u32,
    /// The maximum number of bytes that this end sends in one message.
    pub send: u32,
    /// This end as a requester accepts remote invalidation.
    pub invalidation: bool,
    /// This end's support of backward-direction messages.
    pub backward: BackwardSupport,
    /// The XID of the first control message. A random number makes it unlikely that a call has the
    /// same XID.
    pub xid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A client negotiates, or has negotiated.
    Client(Negotiation),
    /// A server waits for the first message.
    Waiting,
    /// A server answers in the version of the first message. `replied`: the first reply was sent.
    Pinned { version: Version, replied: bool },
}

/// The session of one connection. See the [module](self) for its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    config: Config,
    stage: Stage,
    peer: Peer,
    receives: Receives,
    settings: Settings,
    /// The longest inline reply that the peer has sent, or the default.
    known: u32,
    queue: Queue,
    news: News,
    terms: Terms,
    /// The connection is lost.
    lost: bool,
    /// The time at which the first message counts as unanswered.
    answer_by: Option<u64>,
    /// Whether the peer has a Receive for an unsolicited message.
    room: Room,
}

/// Whether the peer has a Receive for an unsolicited message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// The peer always has a Receive.
    Always,
    /// The caller has not been asked to keep one free.
    Unknown,
    /// The caller has been asked, and has kept none free yet.
    Asked,
    /// The caller keeps one free.
    Kept,
}

impl Session {
    /// Starts the session of a new connection. A server always sends replies of up to 4096 bytes,
    /// since its clients may rely on that. With Receives of less than 4096 bytes only version one
    /// is used.
    //= V2-2.3-1 inline threshold of 4096 bytes
    pub fn new(mut config: Config) -> Self {
        let default = Version::Two.default_inline();
        if config.side == Side::Server {
            config.send = config.send.max(default);
        }
        if config.receive < default {
            config.versions = (Version::One, Version::One);
        }
        let stage = match config.side {
            Side::Client => {
                let (first, proven) = (config.versions.1, config.announced.two);
                Stage::Client(Negotiation::new(first, proven))
            }
            Side::Server => Stage::Waiting,
        };
        let mut session = Self {
            config,
            stage,
            peer: Peer::begin(config.announced.sizes),
            receives: Receives::new(config.receive),
            settings: Settings::new(&config),
            known: default,
            queue: Queue::new(config.xid),
            news: News::default(),
            terms: Terms::START,
            lost: false,
            answer_by: None,
            room: if config.announced.spares {
                Room::Always
            } else {
                Room::Unknown
            },
        };
        session.terms = session.compute(0, 0);
        session
    }

    /// Returns the effective terms.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the peer's characteristics, to show them.
    #[cfg(any(test, fuzzing))]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns this end's characteristics, to show them.
    pub fn own(&self) -> Own {
        Own {
            size: self.receives.announced(),
            invalidation: self.config.invalidation,
            backward: self.config.backward,
        }
    }

    /// Returns the version of the connection, once it is settled.
    pub const fn settled(&self) -> Option<Version> {
        match &self.stage {
            Stage::Client(negotiation) => negotiation.settled(),
            Stage::Waiting => None,
            Stage::Pinned { version, .. } => Some(*version),
        }
    }

    /// Returns the lowest and the highest version that ERR_VERS names: those among which the peer
    /// may choose for further messages on this connection (version two, section 5.2). Once the
    /// version is settled, it is the only one.
    //= 5666-4.2-3 inclusive range of supported versions
    //= V2-5.2-9 settled version is the only one
    pub fn versions(&self) -> (u32, u32) {
        let settled = self.settled().map(|settled| (settled, settled));
        let (low, high) = settled.unwrap_or(self.config.versions);
        (low.number(), high.number())
    }

    /// Records that a client has sent the call with this XID. Needed while [`Terms::settled`] is
    /// false.
    pub fn on_sent(&mut self, xid: u32, now: u64) {
        if let Stage::Client(negotiation) = &mut self.stage {
            if negotiation.on_sent(xid) {
                self.start_timer(now);
            }
        }
    }

    /// Records that a server has sent its first reply; further ones change nothing. Needed while
    /// [`Terms::watch`] is set.
    pub fn on_replied(&mut self) {
        if let Stage::Pinned { replied, .. } = &mut self.stage {
            *replied = true;
        }
        self.refresh();
    }

    /// Records an inline reply of `len` bytes, header included, that is longer than
    /// [`Terms::expected`]. From now on the requester may rely on replies of this length.
    pub fn on_long_reply(&mut self, len: u32) {
        self.known = self.known.max(len);
        self.refresh();
    }

    /// Handles that time has passed. The caller calls this regularly.
    pub fn on_timer(&mut self, now: u64) {
        if self.room == Room::Asked {
            self.room = Room::Unknown;
        }
        if self.answer_by.is_none_or(|by| now < by) {
            return;
        }
        self.answer_by = None;
        if let Stage::Client(negotiation) = &mut self.stage {
            if let Some(memory) = negotiation.on_timeout() {
                self.news.memory = Some(memory);
                self.news.close = Some(Close::Unanswered);
            }
        }
    }

    /// Records that the caller keeps a Receive of the peer free, as [`Output::Room`] requested.
    pub fn on_room(&mut self) {
        if self.room == Room::Asked {
            self.room = Room::Kept;
        }
    }

    /// Handles the loss of the connection, which ends the session. Returns the knowledge to keep
    /// about the peer. The terms remain, since messages that had arrived before are still handled.
    pub fn on_lost(&mut self, cause: Cause) -> Option<Memory> {
        self.lost = true;
        match &mut self.stage {
            Stage::Client(negotiation) => negotiation.on_lost(cause),
            Stage::Waiting | Stage::Pinned { .. } => None,
        }
    }

    /// Asks the server for Receives of `size` bytes. A smaller size bounds our own Sends from now
    /// on: see [`Output::Void`]. A server never asks: the client may have announced a larger size
    /// meanwhile, and the replies to calls in flight, which may have no reply chunk, would not fit.
    ///
    /// # Errors
    ///
    /// See [`NotSent`]. Before version two is settled it is [`NotSent::Busy`].
    pub fn ask(&mut self, size: u32) -> Result<(), NotSent> {
        if !self.may_control() {
            return Err(NotSent::Busy);
        }
        let xid = self.queue.next_xid();
        self.peer.try_request(xid, size)?;
        self.queue.ask(xid, size);
        self.refresh();
        if !self.news.void {
            self.queue.release();
        }
        Ok(())
    }

    /// Records that every message posted from now on observes the terms of `generation` or a later
    /// one.
    pub fn on_voided(&mut self, generation: u32) {
        if !self.terms.voids(generation) {
            self.queue.release();
        }
    }

    /// Records that all Receives posted from now on have `size` bytes, as [`Output::Post`]
    /// requested, while `smaller` of the posted ones have less.
    pub fn on_posting(&mut self, size: u32, smaller: u32) {
        self.news.posted = None;
        self.receives.on_posting(size, smaller);
        self.refresh();
    }

    /// Records that Receives of the size in [`Output::Post`] cannot be posted. The former size
    /// remains.
    pub fn on_post_failed(&mut self) {
        self.news.posted = None;
        self.receives.on_post_failed();
        self.refresh();
    }

    /// Records that `count` of the smaller Receives, which [`Session::on_posting`] has counted,
    /// have completed.
    pub fn on_consumed(&mut self, count: u32) {
        self.receives.on_consumed(count);
        self.refresh();
    }

    /// Returns whether control messages may be sent: version two is settled. A server sends its
    /// first reply before any control message, since a client expects nothing else.
    fn may_control(&self) -> bool {
        match &self.stage {
            Stage::Client(negotiation) => negotiation.settled() == Some(Version::Two),
            Stage::Waiting => false,
            Stage::Pinned { version, replied } => *version == Version::Two && *replied,
        }
    }

    /// Starts the time for the answer to the first message. A peer that has announced version two
    /// may take any time, as in version one: its silence says nothing about the version.
    fn start_timer(&mut self, now: u64) {
        if self.config.announced.two {
            return;
        }
        self.answer_by = Some(now.saturating_add(super::version::ANSWER_TIMEOUT_MS));
    }
}

impl Session {
    /// Handles a message that was decoded. See [`arrival`].
    pub fn on_message(&mut self, message: &Message<'_>, now: u64) -> Verdict {
        let verdict = self.arrive(message, now);
        self.refresh();
        verdict
    }
}
