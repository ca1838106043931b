// SPDX-License-Identifier: GPL-2.0

//! When to look again for a peer that is gone.
//!
//! State: live.
//!
//! Most peers that go come back within seconds, and an attempt to connect that is refused costs
//! little: so the first attempts follow each other quickly. Later the pause grows with the time that
//! the peer has been gone, so that a peer that returns is found within an eighth of that time, and
//! after [`LONGEST_MS`] at most. Up to half of each pause is left to chance: the clients of one server
//! lose it at the same time, and are not to come back at the same time.
//!
//! RPCs that wait are told of a failure, and come back when SUNRPC lets them, which is three seconds
//! later (`call_connect_status()`). Nobody looks for the peer in the meantime. So for a while after
//! they have asked, a failure is kept from them and the attempt repeated.

/// Longest time from one attempt to the next while a peer has just gone, in milliseconds.
pub const SHORTEST_MS: u32 = 500;
/// The same when it has been gone for long.
pub const LONGEST_MS: u32 = 15_000;
/// The pause is at most this part of the time that the peer has been gone.
const PART: u32 = 8;
/// Share of the time for which RPCs are kept waiting that is left to chance, in milliseconds.
const SPREAD_MS: u32 = 500;

/// A peer that is gone. All times are in milliseconds since the first attempt to reach it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The present.
    pub now: u32,
    /// When the latest attempt began.
    pub attempt: u32,
    /// When RPCs asked for it.
    pub asked: u32,
}

impl Outage {
    /// Longest pause at present. The shortest is half of it.
    const fn pause(&self) -> u32 {
        let part = self.now / PART;
        if part < SHORTEST_MS {
            SHORTEST_MS
        } else if part > LONGEST_MS {
            LONGEST_MS
        } else {
            part
        }
    }

    /// When the next attempt is to begin; that may have passed. `random` is any number that the
    /// caller has drawn.
    pub const fn next(&self, random: u32) -> u32 {
        let most = self.pause();
        // At most half, and never a division by 0.
        let off = match random.checked_rem((most / 2).saturating_add(1)) {
            Some(off) => off,
            None => 0,
        };
        self.attempt.saturating_add(most.saturating_sub(off))
    }

    /// After an attempt that has failed: when to make another one before RPCs are told. `None`: they
    /// are to be told now. They are kept waiting for `hold` milliseconds, and up to 500 more, and
    /// attempts come no closer together than half the longest pause.
    pub const fn again(&self, hold: u32, random: u32) -> Option<u32> {
        let spread = (random >> 16) % SPREAD_MS;
        let end = self.asked.saturating_add(hold).saturating_add(spread);
        let (next, first) = (
            self.next(random),
            self.attempt.saturating_add(self.pause() / 2),
        );
        if self.now >= end || first > end {
            None
        } else if next <= end {
            Some(next)
        } else {
            Some(end)
        }
    }
}
