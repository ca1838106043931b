// SPDX-License-Identifier: GPL-2.0

//! Messages from the peer.

use super::super::super::wire::message::{Body, ErrorBody};
use super::super::super::wire::{
    self, peek, DecodeError, Direction, Message, Receiver, Remedy, Version,
};
use super::super::version::{Answer, Progress};
use super::{Breach, Close, Control, Session, Side, Stage, Take, Verdict};

impl Verdict {
    /// The caller processes the message.
    pub(super) const fn deliver(grant: bool) -> Self {
        Self {
            take: Take::Deliver,
            grant,
            breach: None,
        }
    }

    /// The session has processed the message.
    pub(super) const fn done(breach: Option<Breach>) -> Self {
        Self {
            take: Take::Done,
            ..Self::dropped(breach)
        }
    }

    /// The message is dropped.
    pub const fn dropped(breach: Option<Breach>) -> Self {
        Self {
            take: Take::Drop,
            grant: false,
            breach,
        }
    }
}

impl Session {
    /// Handles a message that was decoded. A message in a version that a server does not serve is
    /// left to the caller, which answers with ERR_VERS; the message does not settle the version.
    pub(super) fn arrive(&mut self, message: &Message<'_>, now: u64) -> Verdict {
        if !self.serves(message.version()) {
            return Verdict::deliver(false);
        }
        let grant = self.takes_grant(message);
        let verdict = match *message.body() {
            Body::Error(error) => self.on_error(message, error, now),
            _ if self.is_other_version(message) => self.on_other_version(message),
            Body::Optional {
                opttype, optinfo, ..
            } => self.on_option(message, (opttype, optinfo), now),
            _ => self.on_rpc(message, now),
        };
        // The message that ends the negotiation may bring the first grant.
        let grant = grant || verdict.take == Take::Deliver && self.takes_grant(message);
        Verdict {
            grant: grant && verdict.take != Take::Drop,
            ..verdict
        }
    }

    /// Returns whether this end processes messages in a version. A client processes all versions.
    fn serves(&self, version: Version) -> bool {
        let (low, high) = self.config.versions;
        self.config.side == Side::Client || low <= version && version <= high
    }

    /// Returns whether the credits of a message are a grant that counts. A client is granted
    /// credits by replies, and a server by replies of the backward direction. Errors of a client
    /// are about operations.
    fn takes_grant(&self, message: &Message<'_>) -> bool {
        let is_error = matches!(message.body(), Body::Error(_));
        match &self.stage {
            Stage::Client(negotiation) => {
                is_reply(message, Direction::Reply) && negotiation.takes_grant(is_error)
            }
            Stage::Waiting | Stage::Pinned { .. } => {
                is_reply(message, Direction::Call) && !is_error
            }
        }
    }

    /// Returns whether the connection has another version than this message. Until the version is
    /// settled no message has another one.
    fn is_other_version(&self, message: &Message<'_>) -> bool {
        self.settled().is_some_and(|v| v != message.version())
    }

    /// Answers a call in another version than the connection's with ERR_VERS, which names the
    /// version of the connection. A reply is dropped.
    //= V2-5.3-2 first message settles the version
    fn on_other_version(&mut self, message: &Message<'_>) -> Verdict {
        let breach = Some(Breach::Version(message.version().number()));
        if self.config.side == Side::Client || is_reply(message, Direction::Call) {
            return Verdict::dropped(breach);
        }
        let (low, high) = self.versions();
        self.refuse(message, ErrorBody::Vers { low, high }, breach)
    }

    /// Handles a call or reply.
    fn on_rpc(&mut self, message: &Message<'_>, now: u64) -> Verdict {
        match (&self.stage, Answer::of(message)) {
            (Stage::Client(_), Some(answer)) => self.on_answer(message.xid(), answer, now),
            // The caller refuses another message.
            (Stage::Waiting, _) if message.check_whole().is_ok() => {
                self.pin(message.version());
                Verdict::deliver(false)
            }
            _ => Verdict::deliver(false),
        }
    }

    /// Pins the version of a server's connection: that of the first valid message.
    //= V2-5.3-2 first message settles the version
    fn pin(&mut self, version: Version) {
        self.stage = Stage::Pinned {
            version,
            replied: false,
        };
        self.news.settled = Some(version);
    }

    /// Handles an optional operation. A server's connection may begin with one, which then settles
    /// version two. The client waits for a message that is not an error and has the same XID. If
    /// the operation has no answer of its own, INIT_XCHAR is that message.
    //= V2-5.1-3 operation that begins a connection
    fn on_option(&mut self, message: &Message<'_>, option: (u32, &[u8]), now: u64) -> Verdict {
        if let Stage::Client(negotiation) = &mut self.stage {
            negotiation.on_version_two();
        }
        let verdict = self.on_optional(message, option);
        if self.stage == Stage::Waiting && verdict.take == Take::Done {
            self.pin(Version::Two);
            if self.queue.is_empty() {
                self.greet(message.xid(), now);
            }
            self.on_replied();
        }
        verdict
    }

    /// Answers an operation with the characteristics of this end.
    fn greet(&mut self, xid: u32, now: u64) {
        let own = super::Body::Init(self.own());
        let control = Control::reply(xid, Version::Two.number(), own);
        if self.answer(control) {
            self.on_own_sent(&control, now);
        }
    }

    /// Handles an error: about an operation of ours, about the first message, or about a call.
    fn on_error(&mut self, message: &Message<'_>, error: ErrorBody, now: u64) -> Verdict {
        if self.on_option_error(message.xid(), error) {
            return Verdict::done(None);
        }
        let answer = Answer::Error(message.version(), error);
        self.on_answer(message.xid(), answer, now)
    }

    /// Handles what may be the answer to a client's first message.
    fn on_answer(&mut self, xid: u32, answer: Answer, now: u64) -> Verdict {
        let Stage::Client(negotiation) = &mut self.stage else {
            return Verdict::deliver(false);
        };
        let progress = negotiation.on_answer(xid, answer);
        self.news.memory = progress.memory().or(self.news.memory);
        match progress {
            Progress::Unrelated => Verdict::deliver(false),
            Progress::Ignored => Verdict::dropped(Some(Breach::Reply)),
            Progress::Settled(version) => {
                self.settle(version);
                Verdict::deliver(false)
            }
            Progress::Fallback => {
                self.settle(Version::One);
                self.resend(xid, Version::One)
            }
            Progress::Again => {
                self.start_timer(now);
                self.resend(xid, Version::Two)
            }
            Progress::Failed => {
                self.answer_by = None;
                self.news.close = Some(Close::NoVersion);
                Verdict::deliver(false)
            }
            Progress::Refused => {
                self.news.close = Some(Close::NoVersion);
                Verdict::done(None)
            }
        }
    }

    fn settle(&mut self, version: Version) {
        self.answer_by = None;
        self.news.settled = Some(version);
    }

    fn resend(&mut self, xid: u32, version: Version) -> Verdict {
        self.news.resend = Some((xid, version));
        Verdict::done(None)
    }

    /// Handles a message that cannot be decoded, with the reason. The message may nevertheless
    /// answer the first message: later drafts have the same version number and another form.
    /// Otherwise a call is answered with an error.
    //= V2-5.2-8 an answer that does not decode
    pub fn on_undecodable(&mut self, bytes: &[u8], error: &DecodeError, now: u64) -> Verdict {
        let verdict = match (&self.stage, peek(bytes)) {
            (Stage::Client(negotiation), Ok(prefix))
                if negotiation.probing() == Some(prefix.xid) =>
            {
                self.on_answer(prefix.xid, Answer::Undecodable, now)
            }
            _ => self.answer_undecodable(bytes),
        };
        self.refresh();
        Verdict {
            breach: verdict.breach.or(Some(Breach::Undecodable(*error))),
            ..verdict
        }
    }

    fn answer_undecodable(&mut self, bytes: &[u8]) -> Verdict {
        let receiver = match self.config.side {
            Side::Client => Receiver::Requester,
            Side::Server => Receiver::Responder,
        };
        let Remedy::Answer {
            xid,
            version,
            error,
        } = wire::answer(bytes, receiver, self.versions())
        else {
            return Verdict::dropped(None);
        };
        let sent = self.answer(Control::reply(xid, version, super::Body::Error(error)));
        Verdict::dropped((!sent).then_some(Breach::TooMany))
    }
}

/// Returns whether a message is a reply, by its header or its RPC message. `default` is the
/// direction of a message that shows none.
fn is_reply(message: &Message<'_>, default: Direction) -> bool {
    let said = message
        .direction()
        .or_else(|| Direction::of_rpc(message.payload()));
    said.unwrap_or(default) == Direction::Reply
}
