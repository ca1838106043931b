// SPDX-License-Identifier: GPL-2.0

//! The actions that a session requests from its caller, in the order of their execution.

use super::super::super::wire::xchar::OpType;
use super::super::super::wire::{DecodeError, Direction, Version};
use super::super::version::Memory;
use super::super::xchar::Fault;
use super::{Body, Change, Control, Room, Session, Side, Stage};

/// An order of the session to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Close the connection. No further output follows.
    Close(Close),
    /// Keep this knowledge about the peer for later connections.
    Remember(Memory),
    /// The version of the connection is settled.
    Settled(Version),
    /// Send the first call again, with the same XID, in this version. The RPC has not failed.
    Resend {
        /// The XID.
        xid: u32,
        /// The version.
        version: Version,
    },
    /// Messages that were prepared under an earlier generation than `before` have to be prepared
    /// again ([`super::Terms::voids`]). When no such message can be posted, call
    /// [`super::Session::on_voided`] with the generation of the terms.
    Void {
        /// The generation.
        before: u32,
    },
    /// Post Receives of this size from now on, and call [`super::Session::on_posting`] or
    /// [`super::Session::on_post_failed`]. A size that is smaller than before may be ignored.
    Post {
        /// The size in bytes.
        size: u32,
    },
    /// Keep a Receive of the peer free for a message of the session, and call
    /// [`super::Session::on_room`]. If there is none, [`super::Session::on_timer`] requests it
    /// again.
    Room,
    /// The message for which [`Output::Room`] reserved a Receive is posted. It occupies the Receive
    /// until a later message of ours is answered.
    Operated,
    /// Send this control message.
    Send(Control),
}

/// Why a connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The first message was not answered in time.
    Unanswered,
    /// The peers have no version in common.
    NoVersion,
    /// The peer has sent more operations than can be answered.
    TooMany,
}

/// The treatment of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who processes the message.
    pub take: Take,
    /// The message's credits count as a grant. The message ends no call unless it is delivered.
    pub grant: bool,
    /// The rule that the peer has broken, to be counted.
    pub breach: Option<Breach>,
}

/// Who processes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The caller processes it as any call, reply or error.
    Deliver,
    /// The session has processed it.
    Done,
    /// The message is dropped.
    Drop,
}

/// A rule that the peer has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A message in another version than the connection's.
    Version(u32),
    /// A message that cannot be decoded.
    Undecodable(DecodeError),
    /// A first reply whose RPC message is missing, or is not a reply with the same XID.
    Reply,
    /// An RPC message behind an operation that has none; an operation in the wrong direction, or an
    /// RPC message in another direction than the header says.
    Form,
    /// The values of an operation, or an answer to no request.
    Operation(Fault),
    /// More messages than the session keeps answers for.
    TooMany,
}

/// The outputs that wait for [`super::Session::poll`], besides control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) close: Option<Close>,
    /// [`Output::Close`] was returned.
    pub(super) closed: bool,
    pub(super) memory: Option<Memory>,
    pub(super) settled: Option<Version>,
    pub(super) resend: Option<(u32, Version)>,
    pub(super) void: bool,
    /// [`Output::Operated`] is due.
    pub(super) operated: bool,
    /// The size of the latest [`Output::Post`].
    pub(super) posted: Option<u32>,
}

impl Session {
    /// Returns the next output, or `None` if there is none now.
    pub fn poll(&mut self, now: u64) -> Option<Output> {
        if let Some(memory) = self.news.memory.take() {
            return Some(Output::Remember(memory));
        }
        if let Some(close) = self.news.close {
            let told = core::mem::replace(&mut self.news.closed, true);
            return (!told).then_some(Output::Close(close));
        }
        self.ask_as_set();
        self.take_settled()
            .or_else(|| self.take_void())
            .or_else(|| self.take_post())
            .or_else(|| core::mem::take(&mut self.news.operated).then_some(Output::Operated))
            .or_else(|| self.take_answer().map(Output::Send))
            .or_else(|| self.take_own(now))
    }

    fn take_settled(&mut self) -> Option<Output> {
        if let Some(version) = self.news.settled.take() {
            return Some(Output::Settled(version));
        }
        let (xid, version) = self.news.resend.take()?;
        Some(Output::Resend { xid, version })
    }

    fn take_post(&mut self) -> Option<Output> {
        let size = self.receives.wanted();
        if self.news.close.is_some() || self.news.posted == size {
            return None;
        }
        self.news.posted = size;
        Some(Output::Post { size: size? })
    }

    /// Takes an answer to the peer. A client answers nothing before the version is settled.
    fn take_answer(&mut self) -> Option<Control> {
        let open = match &self.stage {
            Stage::Client(_) => self.may_control(),
            Stage::Waiting | Stage::Pinned { .. } => true,
        };
        if !open {
            return None;
        }
        self.queue.take_answer()
    }

    /// Takes an unsolicited message, or requests a Receive for it.
    fn take_own(&mut self, now: u64) -> Option<Output> {
        if !self.may_control() || now < self.queue.ready_at {
            return None;
        }
        let (xid, body) = self.own_body()?;
        match self.room {
            Room::Always | Room::Kept => {}
            Room::Asked => return None,
            Room::Unknown => {
                self.room = Room::Asked;
                return Some(Output::Room);
            }
        }
        let control = Control {
            xid: xid.unwrap_or_else(|| self.queue.next_xid()),
            version: Version::Two.number(),
            direction: self.own_direction(&body),
            body,
        };
        self.on_own_sent(&control, now);
        Some(Output::Send(control))
    }

    /// Returns the next unsolicited message: INIT_XCHAR first, then the request, then changes since
    /// the last announcement. A request has its XID already.
    //= XC-4.4-2 unrequested change may be announced
    //= XC-4.4-3 XID unrelated to any request
    fn own_body(&self) -> Option<(Option<u32>, Body)> {
        let Some(told) = self.queue.told else {
            return Some((None, Body::Init(self.own())));
        };
        if let Some((xid, want)) = self.queue.released() {
            return Some((Some(xid), Body::Request(want)));
        }
        if !self.peer.supports(OpType::Update) {
            return None;
        }
        let (size, pending_cleared) = (self.receives.announced(), self.receives.has_cleared());
        let now = if pending_cleared || size != told {
            Change::Size(size)
        } else {
            self.preferred_news()?
        };
        let body = Body::Update {
            now,
            pending_cleared,
        };
        Some((None, body))
    }

    /// Returns the direction of an operation without an RPC message. A request is a call of either
    /// side. Otherwise a client is the requester, and a server the responder.
    //= V2-4.2.2-5 without an RPC message
    fn own_direction(&self, body: &Body) -> Direction {
        match (body, self.config.side) {
            (Body::Request(_), _) | (_, Side::Client) => Direction::Call,
            (_, Side::Server) => Direction::Reply,
        }
    }

    pub(super) fn on_own_sent(&mut self, control: &Control, now: u64) {
        self.queue.on_sent(control, now);
        match control.body {
            Body::Init(own) => self.on_told(Change::Size(own.size)),
            Body::Update { now, .. } => self.on_told(now),
            Body::Request(_) | Body::Response(_) | Body::Error(_) => {}
        }
        self.refresh();
    }

    /// Records that an announcement of one value of this end is sent.
    fn on_told(&mut self, now: Change) {
        match now {
            Change::Size(size) => {
                self.queue.told = Some(size);
                self.receives.on_told();
            }
            Change::Threshold(preferred) => self.settings.told = preferred,
        }
    }
}
