// SPDX-License-Identifier: GPL-2.0

//! What a requester counts against its [`Credits`].
//!
//! State: live.

use super::super::credits::Credits;

/// What is left of the credits for new RPCs when some were sent and then given up: these occupy
/// credits until the responder answers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= 8166-3.3.1-2 calls do not exceed latest grant
pub struct Account {
    limit: u32,
    /// RPCs given up and not answered.
    orphans: u32,
}

impl Account {
    /// A new connection.
    pub const fn new() -> Self {
        Self {
            limit: Credits::new().limit(),
            orphans: 0,
        }
    }

    /// The limit of RPCs in flight has changed.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// An RPC that was sent is given up.
    pub fn orphaned(&mut self) {
        self.orphans = self.orphans.saturating_add(1);
    }

    /// A reply has come for which there is no RPC any more: an orphan's, if there are any. The reply
    /// to an RPC that is being given up is not to be told here, since [`Self::orphaned`] will not be.
    pub fn unclaimed(&mut self) {
        self.orphans = self.orphans.saturating_sub(1);
    }

    /// RPCs of which nothing was given up that may be in flight. Zero: only a new connection helps.
    pub const fn left(&self) -> u32 {
        self.limit.saturating_sub(self.orphans)
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

/// Credits together with the number of messages in flight, for users without a congestion
/// window of their own: the backward direction, and version two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= 8167-4-3 each direction has its own credits
#[allow(dead_code, reason = "for the server")]
pub struct Flow {
    credits: Credits,
    in_flight: u32,
}

#[allow(dead_code, reason = "for the server")]
impl Flow {
    /// A new connection: nothing in flight, one credit.
    pub const fn new() -> Self {
        Self {
            credits: Credits::new(),
            in_flight: 0,
        }
    }

    /// Takes a credit for one message. `false`: wait for a reply first.
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

    /// A reply has come: one message fewer in flight, and a new limit, bounded by `max`.
    /// Returns whether a message may now be sent that had to wait before.
    pub fn on_reply(&mut self, grant: u32, max: u32) -> bool {
        let was_full = self.available() == 0;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.credits.on_reply(grant, max);
        was_full && self.available() > 0
    }

    /// A message in flight will never be answered, but no longer occupies the peer.
    pub fn on_unanswered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Messages that may be sent now. Zero also while a lowered limit is being worked off.
    //= 5666-4.1-4 not in excess of granted limit
    pub const fn available(&self) -> u32 {
        self.credits.limit().saturating_sub(self.in_flight)
    }

    /// Messages sent and not answered.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The limit itself.
    pub const fn credits(&self) -> &Credits {
        &self.credits
    }
}
