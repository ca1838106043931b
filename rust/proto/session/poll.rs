// SPDX-License-Identifier: GPL-2.0

//! The outputs of a session, in the order in which they have to be carried out.

use super::super::super::wire::xchar::OpType;
use super::super::super::wire::{Direction, Version};
use super::super::xchar::Known;
use super::{Body, Control, Output, Room, Session, Side, Stage};

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
            .or_else(|| self.take_operated())
            .or_else(|| self.take_answer().map(Output::Send))
            .or_else(|| self.take_own(now))
    }

    fn take_operated(&mut self) -> Option<Output> {
        core::mem::take(&mut self.news.operated).then_some(Output::Operated)
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
        if !self.may_control() || now < self.queue.ready_at() {
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
            xid: match xid {
                Some(xid) => xid,
                None => self.queue.next_xid(),
            },
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
        let (size, cleared) = (self.receives.announced(), self.receives.has_cleared());
        let now = if cleared || size != told {
            Known::ReceiveBufferSize(size)
        } else {
            self.preferred_news()?
        };
        let body = Body::Update {
            now,
            pending_cleared: cleared,
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
            Body::Init(own) => {
                self.queue.told = Some(own.size);
                self.receives.on_told();
            }
            Body::Update { now, .. } => self.on_told(now),
            Body::Request(_) | Body::Response(_) | Body::Error(_) => {}
        }
        self.refresh();
    }

    /// Notes that the peer is told of one value of this end.
    fn on_told(&mut self, now: Known) {
        match now {
            Known::ReceiveBufferSize(size) => {
                self.queue.told = Some(size);
                self.receives.on_told();
            }
            Known::PreferredThreshold(preferred) => self.settings.told = preferred,
            Known::RemoteInvalidation(_) | Known::BackwardSupport(_) => {}
        }
    }
}
