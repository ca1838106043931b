// SPDX-License-Identifier: GPL-2.0

//! RDMA_DONE and its credits: RFC 5666 sections 3.8 and 11. RFC 8166 has no such message.
//!
//! A requester that has read the read chunks of a reply sends RDMA_DONE. It uses up a Receive at
//! the responder like a call, but is never answered. Its credit comes back with the reply to any
//! call that was sent after it, since Sends arrive in order.

/// The RDMA_DONEs that were sent before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

/// The RDMA_DONEs of a requester.
///
/// # Invariants
///
/// `received <= sent`, counted modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dones {
    sent: u32,
    /// The number of them that the responder is known to have received.
    received: u32,
    /// RDMA_DONEs that wait for a credit.
    due: u32,
}

impl Dones {
    /// Records that the read chunks of a reply have been read, so that an RDMA_DONE is due.
    //= 5666-3.5-1 after reading client sends RDMA_DONE
    pub fn on_due(&mut self) {
        self.due = self.due.saturating_add(1);
    }

    /// Takes a credit for an RDMA_DONE, with a grant of `limit` and `calls` calls in flight.
    /// Returns `false` if none is due, or if the caller must wait.
    #[must_use]
    //= 5666-3.8-1 client accounts for RDMA_DONE
    pub fn try_send(&mut self, limit: u32, calls: u32) -> bool {
        let used = calls.saturating_add(self.unconfirmed());
        if self.due == 0 || used >= limit {
            return false;
        }
        self.due = self.due.saturating_sub(1);
        // INVARIANT: only the number of those that were sent grows.
        self.sent = self.sent.wrapping_add(1);
        true
    }

    /// Returns the stamp of a call that is sent now, or that is in flight while no RDMA_DONE has
    /// been sent after it.
    pub const fn stamp(&self) -> Stamp {
        Stamp(self.sent)
    }

    /// Handles the reply to the call with this stamp: the responder has received every RDMA_DONE
    /// that was sent before the call, since Sends arrive in order.
    //= 5666-3.8-4 replenishes the credit RDMA_DONE took
    pub fn on_reply(&mut self, stamp: Stamp) {
        let news = stamp.0.wrapping_sub(self.received);
        if news <= self.unconfirmed() {
            // INVARIANT: at most `sent`, by the comparison.
            self.received = stamp.0;
        }
    }

    /// Returns how many RDMA_DONEs the responder may not have received yet.
    pub const fn unconfirmed(&self) -> u32 {
        self.sent.wrapping_sub(self.received)
    }
}

/// A responder's memory that is exposed until RDMA_DONEs of one requester arrive.
///
/// # Invariants
///
/// `outstanding <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    outstanding: u32,
    max: u32,
}

impl Exposure {
    /// Makes an empty record that permits at most `max` replies with read chunks at a time.
    pub const fn new(max: u32) -> Self {
        Self {
            outstanding: 0,
            max,
        }
    }

    /// Counts a reply with read chunks. Returns `false` if there are too many: the caller sends the
    /// reply in another way, or withholds it until an RDMA_DONE arrives.
    #[must_use]
    //= 5666-11-1 protect themselves against missing RDMA_DONEs
    pub fn try_expose(&mut self) -> bool {
        if self.outstanding >= self.max {
            return false;
        }
        self.outstanding = self.outstanding.saturating_add(1);
        true
    }

    /// Counts a reply no more: the requester can no longer reach its memory, after an RDMA_DONE or
    /// the end of the time for it, or never could. Returns `false` if no reply was counted. In that
    /// case an RDMA_DONE violates the protocol.
    //= 5666-3.8-2 server takes its memory back
    //= 5666-11-4 resources are recovered after time
    pub fn release(&mut self) -> bool {
        let any = self.outstanding > 0;
        self.outstanding = self.outstanding.saturating_sub(1);
        any
    }

    /// Returns the grant for the next reply: `credits` less one for each RDMA_DONE that is
    /// expected, and never zero (section 11).
    //= 5666-3.8-3 credits enough for RDMA_DONE
    //= 5666-11-2 may lower the grant
    //= 5666-11-3 grant does not fall to zero
    pub fn grant(&self, credits: u32) -> u32 {
        credits.saturating_sub(self.outstanding).max(1)
    }
}
