// SPDX-License-Identifier: GPL-2.0

//! RDMA_DONE and its credits: RFC 5666 sections 3.8 and 11. RFC 8166 has no such message.
//!
//! State: RFC 5666 only.
//!
//! A requester that has read the read chunks of a reply says so by RDMA_DONE, which takes up
//! a Receive at the responder like a call but is never answered. Its credit comes back with the
//! reply to any call that was sent after it: Sends arrive in order.

use super::super::credits::Credits;

/// Marks the moment at which a call was sent; goes back in with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

/// Credits of a requester that sends calls and RDMA_DONEs.
///
/// # Invariants
///
/// `dones_heard <= dones_sent`, counted modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    credits: Credits,
    /// Calls sent and not answered.
    calls: u32,
    /// RDMA_DONEs sent so far.
    dones_sent: u32,
    /// How many of them the responder is known to have received.
    dones_heard: u32,
    /// RDMA_DONEs that are due and wait for a credit.
    dones_due: u32,
}

impl Window {
    /// A new connection.
    pub const fn new() -> Self {
        Self {
            credits: Credits::new(),
            calls: 0,
            dones_sent: 0,
            dones_heard: 0,
            dones_due: 0,
        }
    }

    /// Messages that may be sent now.
    ///
    /// A responder always keeps a Receive for a requester of whom no call is outstanding
    /// (section 3.3), so with no call in flight there is at least one credit, whatever became of
    /// the RDMA_DONEs: otherwise both would wait for ever.
    //= 5666-3.3-5 always has at least one credit
    pub fn available(&self) -> u32 {
        let used = self.calls.saturating_add(self.unheard());
        let left = self.credits.limit().saturating_sub(used);
        if self.calls == 0 {
            left.max(1)
        } else {
            left
        }
    }

    /// Takes a credit for a call. `None`: wait. Due RDMA_DONEs go first, since they free memory
    /// at the responder.
    #[must_use]
    pub fn try_call(&mut self) -> Option<Stamp> {
        if self.dones_due > 0 || self.available() == 0 {
            return None;
        }
        self.calls = self.calls.saturating_add(1);
        Some(Stamp(self.dones_sent))
    }

    /// A reply whose read chunks have been read: an RDMA_DONE is due.
    //= 5666-3.5-1 after reading client sends RDMA_DONE
    pub fn done_due(&mut self) {
        self.dones_due = self.dones_due.saturating_add(1);
    }

    /// Takes a credit for a due RDMA_DONE. `false`: none is due, or wait.
    #[must_use]
    //= 5666-3.8-1 client accounts for RDMA_DONE
    pub fn try_done(&mut self) -> bool {
        if self.dones_due == 0 || self.available() == 0 {
            return false;
        }
        self.dones_due = self.dones_due.saturating_sub(1);
        self.dones_sent = self.dones_sent.wrapping_add(1);
        true
    }

    /// The reply to the call with this stamp: its grant counts, bounded by `max`, and the
    /// responder has received every RDMA_DONE sent before the call.
    //= 5666-3.8-4 replenishes the credit RDMA_DONE took
    pub fn on_reply(&mut self, stamp: Stamp, grant: u32, max: u32) {
        self.calls = self.calls.saturating_sub(1);
        self.credits.on_reply(grant, max);
        let news = stamp.0.wrapping_sub(self.dones_heard);
        if news <= self.unheard() {
            // INVARIANT: at most `dones_sent`, by the comparison.
            self.dones_heard = stamp.0;
        }
    }

    /// RDMA_DONEs that the responder may not have received yet.
    pub const fn unheard(&self) -> u32 {
        self.dones_sent.wrapping_sub(self.dones_heard)
    }

    /// Calls in flight.
    pub const fn calls(&self) -> u32 {
        self.calls
    }
}

/// A responder's memory that waits for RDMA_DONEs of one requester.
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
    /// Nothing is exposed; at most `max` replies with read chunks may be at a time.
    pub const fn new(max: u32) -> Self {
        Self {
            outstanding: 0,
            max,
        }
    }

    /// Takes a place for a reply with read chunks. `false`: send the reply some other way, or
    /// withhold it until an RDMA_DONE has come.
    #[must_use]
    //= 5666-11-1 protect themselves against missing RDMA_DONEs
    pub fn try_expose(&mut self) -> bool {
        if self.outstanding >= self.max {
            return false;
        }
        self.outstanding = self.outstanding.saturating_add(1);
        true
    }

    /// An RDMA_DONE has come, or the time that the requester was given is over: the memory may be
    /// taken back. `false`: nothing was exposed, which for an RDMA_DONE is a protocol violation.
    //= 5666-3.8-2 server takes its memory back
    //= 5666-11-4 resources are recovered after time
    pub fn release(&mut self) -> bool {
        let any = self.outstanding > 0;
        self.outstanding = self.outstanding.saturating_sub(1);
        any
    }

    /// The grant for the next reply when `credits` would be given otherwise: less one for each
    /// RDMA_DONE that is to come, and never zero (section 11).
    //= 5666-3.8-3 credits enough for RDMA_DONE
    //= 5666-11-2 may lower the grant
    //= 5666-11-3 grant does not fall to zero
    pub fn grant(&self, credits: u32) -> u32 {
        credits.saturating_sub(self.outstanding).max(1)
    }
}
