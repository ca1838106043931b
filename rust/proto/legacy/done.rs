// SPDX-License-Identifier: GPL-2.0

//! RDMA_DONE and its credits: RFC 5666 sections 3.8 and 11. RFC 8166 has no such message.
//!
//! State: RFC 5666 only.
//!
//! A requester that has read the read chunks of a reply sends RDMA_DONE. It uses up a Receive at
//! the responder like a call, but is never answered. Its credit comes back with the reply to any
//! call that was sent after it, since Sends arrive in order.

use super::super::credits::Credits;

/// The RDMA_DONEs that were sent before a call. The caller passes it back with the call's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

/// Credits of a requester that sends calls and RDMA_DONEs.
///
/// # Invariants
///
/// `dones_received <= dones_sent`, counted modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    credits: Credits,
    /// Calls sent and not answered.
    calls: u32,
    /// RDMA_DONEs sent so far.
    dones_sent: u32,
    /// How many RDMA_DONEs the responder is known to have received.
    dones_received: u32,
    /// RDMA_DONEs that wait for a credit.
    dones_due: u32,
}

impl Window {
    /// Makes the account of a new connection.
    pub const fn new() -> Self {
        Self {
            credits: Credits::new(),
            calls: 0,
            dones_sent: 0,
            dones_received: 0,
            dones_due: 0,
        }
    }

    /// Returns how many calls may be sent now.
    ///
    /// A responder always keeps a Receive for a requester without an outstanding call (section
    /// 3.3). With no call in flight one may therefore be sent, whether the RDMA_DONEs have arrived
    /// or not. Otherwise both would wait for ever, since only a reply to a later call confirms
    /// them.
    //= 5666-3.3-5 always has at least one credit
    pub fn available(&self) -> u32 {
        match (self.calls, self.left()) {
            (0, 0) => 1,
            (_, left) => left,
        }
    }

    /// Returns how many credits no message uses: neither a call nor an RDMA_DONE that the responder
    /// may not have received.
    fn left(&self) -> u32 {
        let used = self.calls.saturating_add(self.unconfirmed());
        self.credits.limit().saturating_sub(used)
    }

    /// Takes a credit for a call. Returns `None` if the caller has to wait. RDMA_DONEs go first
    /// where there are credits, since they free memory at the responder.
    #[must_use]
    pub fn try_call(&mut self) -> Option<Stamp> {
        if self.dones_due > 0 && self.left() > 0 || self.available() == 0 {
            return None;
        }
        self.calls = self.calls.saturating_add(1);
        Some(Stamp(self.dones_sent))
    }

    /// Notes that the read chunks of a reply have been read, so that an RDMA_DONE has to be sent.
    //= 5666-3.5-1 after reading client sends RDMA_DONE
    pub fn done_due(&mut self) {
        self.dones_due = self.dones_due.saturating_add(1);
    }

    /// Takes a credit for an RDMA_DONE. Returns `false` if none has to be sent, or if the caller
    /// has to wait.
    #[must_use]
    //= 5666-3.8-1 client accounts for RDMA_DONE
    pub fn try_done(&mut self) -> bool {
        if self.dones_due == 0 || self.left() == 0 {
            return false;
        }
        self.dones_due = self.dones_due.saturating_sub(1);
        self.dones_sent = self.dones_sent.wrapping_add(1);
        true
    }

    /// Handles the reply to the call with this stamp. Its grant, bounded by `max`, is the new
    /// limit. The responder has received every RDMA_DONE that was sent before the call.
    //= 5666-3.8-4 replenishes the credit RDMA_DONE took
    pub fn on_reply(&mut self, stamp: Stamp, grant: u32, max: u32) {
        self.calls = self.calls.saturating_sub(1);
        self.credits.on_reply(grant, max);
        let news = stamp.0.wrapping_sub(self.dones_received);
        if news <= self.unconfirmed() {
            // INVARIANT: at most `dones_sent`, by the comparison.
            self.dones_received = stamp.0;
        }
    }

    /// Returns how many RDMA_DONEs the responder may not have received yet.
    pub const fn unconfirmed(&self) -> u32 {
        self.dones_sent.wrapping_sub(self.dones_received)
    }

    /// Returns the calls in flight.
    pub const fn calls(&self) -> u32 {
        self.calls
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
    /// Makes an empty record that allows at most `max` replies with read chunks at a time.
    pub const fn new(max: u32) -> Self {
        Self {
            outstanding: 0,
            max,
        }
    }

    /// Counts a reply with read chunks. Returns `false` if there are too many: the caller sends the
    /// reply in another way, or withholds it until an RDMA_DONE has come.
    #[must_use]
    //= 5666-11-1 protect themselves against missing RDMA_DONEs
    pub fn try_expose(&mut self) -> bool {
        if self.outstanding >= self.max {
            return false;
        }
        self.outstanding = self.outstanding.saturating_add(1);
        true
    }

    /// Handles an RDMA_DONE, or the end of the time that the requester has for it: the memory may
    /// be taken back. Returns `false` if nothing was exposed. An RDMA_DONE then violates the
    /// protocol.
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
