// SPDX-License-Identifier: GPL-2.0

//! Credits: how many RPCs a requester may have in flight.
//!
//! RFC 8166 section 3.3.1. A requester has one credit until the first reply of a connection.
//! Afterwards the grant of the latest reply counts. A responder must not grant zero. Each direction
//! of a connection has its own credits.

/// Returns the limit of RPCs in flight that follows from the grant of a reply, which may be any
/// number: at least one, since zero would stop the connection, and at most `max`, the number of
/// replies for which the local side has posted Receives.
//= 5666-3.3-2 does not get stuck on zero
//= 5666-3.3-7 grant may be larger or smaller
#[inline]
pub fn effective(grant: u32, max: u32) -> u32 {
    grant.clamp(1, max.max(1))
}

/// The credits of one direction of one connection, as the requester sees them. An RPC that was
/// aborted after it was sent occupies a credit until the responder answers it.
//= 8166-3.3.1-1 one credit before the first reply
//= 8166-3.3.1-2 calls do not exceed latest grant
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    limit: u32,
    /// The number of aborted RPCs that were not answered.
    unanswered: u32,
}

impl Credits {
    /// The credits of a new connection: one until the first reply.
    pub const FIRST: Self = Self {
        limit: 1,
        unanswered: 0,
    };

    /// Sets the limit of RPCs in flight, which [`effective`] has returned.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Returns the limit of RPCs in flight.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns how many aborted RPCs were not answered.
    pub const fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Records the abort of an RPC that was sent and not answered.
    pub fn given_up(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Records a reply that matches no RPC. If RPCs were aborted, the reply answers one of them.
    /// The caller must not pass the reply to an RPC that is being aborted: no [`Self::given_up`]
    /// follows for it. Returns whether RPCs were aborted.
    pub fn unmatched_reply(&mut self) -> bool {
        let expected = self.unanswered != 0;
        self.unanswered = self.unanswered.saturating_sub(1);
        expected
    }

    /// Returns how many RPCs may be in flight besides the aborted ones. If the result is zero, only
    /// a new connection helps.
    pub const fn left(&self) -> u32 {
        self.limit.saturating_sub(self.unanswered)
    }
}
