// SPDX-License-Identifier: GPL-2.0

//! Decides when to retry to connect to an unreachable peer.
//!
//! Most peers return within seconds, and a refused attempt to connect costs little. The first
//! attempts therefore follow each other quickly. Later the pause grows with the length of the
//! outage: a peer that returns is found within an eighth of that length, and within [`LONGEST_MS`]
//! at most. Up to half of each pause is random, because all clients of a server lose it at the same
//! time, and should not reconnect at the same time.
//!
//! When a failure is reported to RPCs that wait, SUNRPC makes them wait for three seconds before
//! they ask for a connection again (`call_connect_status()`). No attempt is made in that time.
//! Therefore, for a while after RPCs have requested a connection, a failure is not reported, and
//! the attempt is repeated.

/// Longest time between two attempts at the beginning of an outage, in milliseconds.
pub const SHORTEST_MS: u32 = 500;
/// Longest time between two attempts in a long outage, in milliseconds.
pub const LONGEST_MS: u32 = 15_000;
/// The pause is at most the length of the outage divided by this number.
const PART: u32 = 8;
/// Random part of the time for which RPCs wait, in milliseconds.
const SPREAD_MS: u32 = 500;

/// The time for which a peer has been unreachable. All times are in milliseconds since the first
/// attempt to reach it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The current time.
    pub now: u32,
    /// When the latest attempt began.
    pub attempt: u32,
    /// When RPCs requested the latest attempt.
    pub asked: u32,
}

impl Outage {
    /// Returns the longest pause at this time. The shortest is half of it.
    fn pause(&self) -> u32 {
        (self.now / PART).clamp(SHORTEST_MS, LONGEST_MS)
    }

    /// Returns when the next attempt should begin, which may be in the past. `random` is a random
    /// number.
    pub fn next(&self, random: u32) -> u32 {
        let most = self.pause();
        // The result is at most half of the pause. The divisor is never 0.
        let off = random.checked_rem((most / 2).saturating_add(1));
        let pause = most.saturating_sub(off.unwrap_or(0));
        self.attempt.saturating_add(pause)
    }

    /// Returns, after a failed attempt, when to retry before the failure is reported to RPCs.
    /// `None` means that the failure must be reported now. RPCs wait for `wait` milliseconds, and
    /// up to 500 more. Attempts are at least half the longest pause apart.
    pub fn again(&self, wait: u32, random: u32) -> Option<u32> {
        let spread = (random >> 16) % SPREAD_MS;
        let end = self.asked.saturating_add(wait).saturating_add(spread);
        let first = self.attempt.saturating_add(self.pause() / 2);
        (self.now < end && first <= end).then(|| self.next(random).min(end))
    }
}
