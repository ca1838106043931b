// SPDX-License-Identifier: GPL-2.0

//! A requester that sends as many messages as its credits allow, for other cases.

use super::super::credits::{effective, Credits};

/// The limit and the number of messages in flight. In the module SUNRPC counts the calls in
/// flight, in its congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    limit: u32,
    in_flight: u32,
}

impl Flow {
    /// Makes the flow of a new connection: nothing in flight, one credit.
    pub const fn new() -> Self {
        Self {
            limit: Credits::FIRST.limit(),
            in_flight: 0,
        }
    }

    /// Takes a credit for one message. Returns `false` if the caller must wait for a reply first.
    ///
    /// RDMA_DONE also takes a credit. [`Flow::on_unanswered`] returns it when a later reply shows
    /// that the responder has received the RDMA_DONE (RFC 5666 section 3.8).
    #[must_use]
    pub fn try_take(&mut self) -> bool {
        if self.in_flight >= self.limit {
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
        self.limit = effective(grant, max);
        was_full && self.available() > 0
    }

    /// Takes the grant of a message that answers none of ours, such as UPD_XCHAR. No message fewer
    /// is in flight. Returns whether a message that had to wait may now be sent.
    pub fn on_grant(&mut self, grant: u32, max: u32) -> bool {
        let was_full = self.available() == 0;
        self.limit = effective(grant, max);
        was_full && self.available() > 0
    }

    /// Returns the credit of a message that will never be answered and no longer occupies the peer.
    pub fn on_unanswered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Returns how many messages may be sent now. It is zero while more messages are in flight than
    /// a lowered limit allows.
    pub const fn available(&self) -> u32 {
        self.limit.saturating_sub(self.in_flight)
    }

    /// Returns how many messages were sent and not answered.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the limit.
    pub const fn limit(&self) -> u32 {
        self.limit
    }
}
