// SPDX-License-Identifier: GPL-2.0

//! The calls that a requester counts against its [`Credits`].
//!
//! State: live.

use super::super::credits::Credits;

/// The credits that are left for new RPCs. An RPC that was sent and then given up occupies a credit
/// until the responder answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= 8166-3.3.1-2 calls do not exceed latest grant
pub struct Account {
    limit: u32,
    /// Number of RPCs that were given up and not answered.
    unanswered: u32,
}

impl Account {
    /// Makes the account of a new connection.
    pub const fn new() -> Self {
        Self {
            limit: Credits::new().limit(),
            unanswered: 0,
        }
    }

    /// Sets the limit of RPCs in flight.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Returns the limit of RPCs in flight.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns how many RPCs were given up and not answered.
    pub const fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Notes that an RPC is given up which was sent and not answered.
    pub fn given_up(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Notes a reply that matches no RPC. If RPCs were given up, it answers one of them. The caller
    /// must not pass the reply to an RPC that is just being given up: no [`Self::given_up`] follows
    /// for it. Returns whether RPCs were given up.
    pub fn unmatched_reply(&mut self) -> bool {
        let expected = self.unanswered != 0;
        self.unanswered = self.unanswered.saturating_sub(1);
        expected
    }

    /// Returns how many RPCs may be in flight besides those that were given up. If it is zero, only
    /// a new connection helps.
    pub const fn left(&self) -> u32 {
        self.limit.saturating_sub(self.unanswered)
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

/// Credits together with the number of messages in flight, for users without a congestion window:
/// the server's backward direction, and version two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= 8167-4-3 each direction has its own credits
#[allow(dead_code, reason = "for the server's backward direction")]
pub struct Flow {
    credits: Credits,
    in_flight: u32,
}

#[allow(dead_code, reason = "for the server's backward direction")]
impl Flow {
    /// Makes the flow of a new connection: nothing in flight, one credit.
    pub const fn new() -> Self {
        Self {
            credits: Credits::new(),
            in_flight: 0,
        }
    }

    /// Takes a credit for one message. Returns `false` if the caller has to wait for a reply first.
    ///
    /// RDMA_DONE takes a credit too, and returns it with [`Flow::on_unanswered`] when the
    /// responder has shown by a later reply that it has received it (RFC 5666 section 3.8).
    #[must_use]
    //= 5666-3.3-3 unanswered calls do not exceed granted
    //= 8166-3.3.1-2 calls do not exceed latest grant
    pub fn try_take(&mut self) -> bool {
        if self.in_flight >= self.credits.limit() {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(1);
        true
    }

    /// Handles a reply: one message fewer is in flight, and the grant, bounded by `max`, is the new
    /// limit. Returns whether a message that had to wait may now be sent.
    pub fn on_reply(&mut self, grant: u32, max: u32) -> bool {
        let was_full = self.available() == 0;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.credits.on_reply(grant, max);
        was_full && self.available() > 0
    }

    /// Takes the grant of a message that answers none of ours, such as UPD_XCHAR. No message fewer
    /// is in flight. Returns whether a message that had to wait may now be sent.
    pub fn on_grant(&mut self, grant: u32, max: u32) -> bool {
        let was_full = self.available() == 0;
        self.credits.on_reply(grant, max);
        was_full && self.available() > 0
    }

    /// Returns the credit of a message that will never be answered and no longer occupies the peer.
    pub fn on_unanswered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Returns how many messages may be sent now. It is zero while more messages are in flight than
    /// a lowered limit allows.
    //= 5666-4.1-4 not in excess of granted limit
    pub const fn available(&self) -> u32 {
        self.credits.limit().saturating_sub(self.in_flight)
    }

    /// Returns how many messages were sent and not answered.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the credits.
    pub const fn credits(&self) -> &Credits {
        &self.credits
    }
}
