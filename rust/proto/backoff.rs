// SPDX-License-Identifier: GPL-2.0

//! How long to wait before the next attempt to connect.

/// A delay that doubles with each failed attempt. Units are the caller's (jiffies, seconds).
///
/// # Invariants
///
/// `min <= max`, and `next` is zero or within `min..=max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: u64,
    max: u64,
    /// Delay before the next attempt; zero before the first failure.
    next: u64,
}

impl Backoff {
    /// No failure yet. `max` is raised to `min` if it is less. The field's customary values are
    /// 5 and 60 seconds.
    pub const fn new(min: u64, max: u64) -> Self {
        Self {
            min,
            max: if max < min { min } else { max },
            next: 0,
        }
    }

    /// The delay before the next attempt: zero unless an attempt has failed since the last reply.
    pub const fn delay(&self) -> u64 {
        self.next
    }

    /// An attempt has failed, or a connection was lost before any reply: the delay becomes the
    /// minimum, or doubles up to the maximum. Returns the new delay.
    pub fn on_failure(&mut self) -> u64 {
        // INVARIANT: at least `min`, at most `max`.
        self.next = match self.next {
            0 => self.min,
            n => n.saturating_mul(2).min(self.max),
        };
        self.next
    }

    /// Any reply on a connection proves the peer alive.
    pub fn on_reply(&mut self) {
        self.next = 0;
    }

    /// The delay with up to a quarter taken off by `random`, any number the caller has drawn, so
    /// that clients of one server do not come back in step.
    pub const fn delay_jittered(&self, random: u32) -> u64 {
        // CAST: widening; `From` is not const.
        match (random as u64).checked_rem((self.next / 4).saturating_add(1)) {
            Some(off) => self.next.saturating_sub(off),
            None => self.next,
        }
    }
}
