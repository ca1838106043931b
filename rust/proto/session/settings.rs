// SPDX-License-Identifier: GPL-2.0

//! Settings of both ends that change while the connection lasts, and their effect on it.
//!
//! The client has a setting for the size of calls and one for replies, the server one setting for
//! both. The lesser size of both ends becomes effective, in whatever order the settings change:
//!
//! - The server announces the threshold that it prefers, if the client's private data say that the
//!   client understands the announcement.
//! - The client requests Receives of the resulting size of its calls. A request that must wait for
//!   the end of an earlier one, or that another change supersedes, is made later.
//! - The client plans with replies of the resulting size, once it has announced Receives of that
//!   size to the server. Sends arrive in order, so the server knows of these Receives when it takes
//!   the call.

use super::super::super::wire::cm_private::Size;
use super::super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::super::wire::xchar::Characteristic;
use super::super::super::wire::Version;
use super::super::xchar::NotSent;
use super::{Change, Config, Control, Room, Session, Side};

/// The settings of this end, and those that were announced to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The size of our Receives that is set now. Those that are posted may be larger.
    pub(super) receive: u32,
    /// The size of our Receives that the latest message to the peer announces.
    pub(super) heard: u32,
    /// The preferred threshold that the peer knows.
    pub(super) told: u32,
    /// A setting has changed, which the peer's Receives must follow.
    follows: bool,
    /// The peer's Receives were not compared with the settings since the latest change.
    due: bool,
}

impl Settings {
    /// Makes the settings of a new connection, which our private data have announced.
    pub(super) const fn new(config: &Config) -> Self {
        Self {
            receive: config.receive,
            heard: Size::from_bytes(config.receive).bytes(),
            told: config.receive,
            follows: false,
            due: false,
        }
    }
}

impl Session {
    /// Returns the longest inline reply on which a requester may rely, once version two is settled.
    /// Without the peer's promise it has the default length, or that of the longest reply so far,
    /// since the peer may ignore our characteristics (section 4.1).
    //= V2-5.1-2 default threshold of version two
    //= XC-4.1-1 does not assume characteristics were noted
    pub(super) fn expected(&self) -> u32 {
        let settings = &self.settings;
        let preferred = self.peer.preferred();
        let sent = preferred.map_or(self.known, |size| size.min(settings.heard));
        sent.min(self.receives.announced()).min(settings.receive)
    }

    /// Applies the settings of this end, if they have changed: see [`Self::want_receive`] and
    /// [`Self::want_send`]. Does nothing before version two is settled: the sizes of version one
    /// hold until the connection ends (RFC 8797 section 4).
    pub fn follow(&mut self, receive: u32, send: u32) {
        if self.settled() != Some(Version::Two) {
            return;
        }
        if self.settings.receive != receive {
            self.want_receive(receive);
        }
        if self.config.send != send {
            self.want_send(send);
        }
    }

    /// Requests Receives of `size` bytes, because a setting has changed. A larger size is announced
    /// when all smaller Receives are gone. A smaller size has no effect on the posted Receives:
    /// only the peer may reduce them.
    //= V2-5.2-4 thresholds change without connection being lost
    pub fn want_receive(&mut self, size: u32) {
        self.settings.receive = size;
        self.receives.want(size);
        self.refresh();
    }

    /// Changes the maximum size of the messages that this end sends, because a setting has changed.
    /// A client requests Receives of this size. A server does not send less than before, since a
    /// client may rely on replies of the length that it has received so far.
    pub fn want_send(&mut self, size: u32) {
        match self.config.side {
            Side::Client => {
                self.config.send = size;
                self.peer_follows();
            }
            Side::Server => self.config.send = self.config.send.max(size),
        }
        self.refresh();
    }

    fn peer_follows(&mut self) {
        self.settings.follows = self.config.side == Side::Client;
        self.settings.due = self.settings.follows;
    }

    /// Records that the peer has announced characteristics, or a change of this one.
    pub(super) fn on_announced(&mut self, now: Option<&Characteristic<'_>>) {
        let is_setting = matches!(now, Some(Characteristic::PreferredThreshold(_)));
        if is_setting && self.peer.preferred().is_some() {
            self.peer_follows();
        }
        self.settings.due = self.settings.follows;
    }

    /// Asks the peer for Receives that fit the settings of both ends, if one of them has changed.
    /// If an earlier request is unanswered or pending, the new request is made later.
    pub(super) fn ask_as_set(&mut self) {
        if !self.settings.due {
            return;
        }
        let preferred = self.peer.preferred().unwrap_or(u32::MAX);
        let size = self.config.send.min(preferred).max(FIRST_MESSAGE_MAX);
        let fits = self.peer.request().is_none() && self.peer.send_limit() == size;
        let done = fits || self.ask(size) != Err(NotSent::Busy);
        self.settings.due = !done;
    }

    /// Returns the threshold that a server prefers, if it must be announced to the client. It is no
    /// more than the server sends.
    pub(super) fn preferred_news(&self) -> Option<Change> {
        let preferred = self.settings.receive.min(self.config.send);
        let tells = self.config.side == Side::Server && self.peer.preferred().is_some();
        let news = tells && preferred != self.settings.told;
        news.then_some(Change::Threshold(preferred))
    }

    /// Records that the message that [`Session::poll`] returned last is posted.
    pub fn on_posted(&mut self, control: &Control) {
        if self.room == Room::Kept && !control.is_answer() {
            self.room = Room::Unknown;
            self.news.operated = true;
        }
        match self.queue.told {
            Some(size) if self.queue.is_empty() => self.settings.heard = size,
            // A waiting answer may be the one that announces the size.
            _ => return,
        }
        self.refresh();
    }
}
