// SPDX-License-Identifier: GPL-2.0

//! Credits: how many RPCs a requester may have in flight.
//!
//! RFC 8166 section 3.3.1. A requester has one credit until the first reply of a connection.
//! Afterwards the grant of the latest reply counts. A responder must not grant zero. A grant of
//! zero counts as one, since zero would stop the connection. Each direction of a connection has its
//! own credits. [`super::requester::credits`] counts the calls of a requester against them.

/// The credit limit of one direction of one connection, as the requester sees it.
///
/// # Invariants
///
/// `1 <= limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    limit: u32,
}

//= 8166-3.3.1-1 one credit before the first reply
impl Credits {
    /// Makes the credits of a new connection: one until the first reply.
    pub const fn new() -> Self {
        Self { limit: 1 }
    }

    /// Takes the grant of a reply, which may be any number, and bounds it to `1..=max`. `max` is
    /// the number of replies for which the local side has posted Receives, at least one. Returns
    /// whether the limit changed.
    //= 5666-3.3-2 does not get stuck on zero
    //= 5666-3.3-7 grant may be larger or smaller
    pub fn on_reply(&mut self, grant: u32, max: u32) -> bool {
        // INVARIANT: the result lies within `1..=max`.
        let limit = grant.clamp(1, max.max(1));
        let changed = limit != self.limit;
        self.limit = limit;
        changed
    }

    /// Returns the current limit of RPCs in flight, at least one.
    pub const fn limit(&self) -> u32 {
        self.limit
    }
}

impl Default for Credits {
    fn default() -> Self {
        Self::new()
    }
}
