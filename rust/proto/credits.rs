// SPDX-License-Identifier: GPL-2.0

//! Credits: how many RPCs a requester may have in flight.
//!
//! State: live.
//!
//! RFC 8166 section 3.3.1 (RFC 5666 section 3.3). A requester has one credit until the first
//! reply of a connection; afterwards the latest reply's grant counts. A responder never grants
//! zero; a peer that does is taken to have granted one, since zero would stop the connection for
//! ever. Each direction of a connection has its own credits. What a requester counts against them
//! is in [`super::requester::credits`].

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
    /// A new connection: one credit until the first reply.
    pub const fn new() -> Self {
        Self { limit: 1 }
    }

    /// Takes the grant of a reply, any number the peer likes, and bounds it to `1..=max`; `max` is
    /// what the local side has prepared Receives for, at least one. Returns whether the limit
    /// changed.
    #[inline]
    //= 5666-3.3-2 does not get stuck on zero
    //= 5666-3.3-7 grant may be larger or smaller
    pub fn on_reply(&mut self, grant: u32, max: u32) -> bool {
        let max = if max == 0 { 1 } else { max };
        // INVARIANT: the result lies within `1..=max`.
        let limit = grant.clamp(1, max);
        let changed = limit != self.limit;
        self.limit = limit;
        changed
    }

    /// The current limit of RPCs in flight, at least one.
    #[inline]
    pub const fn limit(&self) -> u32 {
        self.limit
    }
}

impl Default for Credits {
    fn default() -> Self {
        Self::new()
    }
}
