// SPDX-License-Identifier: GPL-2.0

//! The calls that a requester counts against its [`Credits`].

use super::super::credits::Credits;

/// The credits that are left for new RPCs. An RPC that was aborted after it was sent occupies a
/// credit until the responder answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= 8166-3.3.1-2 calls do not exceed latest grant
pub struct Account {
    limit: u32,
    /// Number of aborted RPCs that were not answered.
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

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}
