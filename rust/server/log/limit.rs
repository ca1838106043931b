// SPDX-License-Identifier: GPL-2.0

//! Limits the rate of lines in the log.

use kernel::sync::atomic::{Atomic, Relaxed};

/// Bits of the count of lines.
const COUNT_BITS: u32 = 16;

/// The lines of one kind.
///
/// # Invariants
///
/// The value is the number of a period, and in its low [`COUNT_BITS`] bits the number of lines that
/// were asked for in that period.
pub(super) struct Limit {
    value: Atomic<u64>,
    /// The most lines in a period.
    burst: u64,
    /// The length of a period in seconds.
    period: usize,
}

impl Limit {
    /// Makes the usual limit, ten lines in five seconds, under which nothing was logged.
    pub(super) const fn new() -> Self {
        Self::of(10, 5)
    }

    /// Makes a limit of so many lines in a period of so many seconds.
    pub(super) const fn of(burst: u64, period: usize) -> Self {
        assert!(period > 0 && burst < MOST);
        // INVARIANT: no line in period 0.
        Self {
            value: Atomic::new(0),
            burst,
            period,
        }
    }

    /// Returns whether a line may be logged at a time in seconds: `Some` with the number of lines
    /// that were left out in the latest period, or `None`.
    pub(super) fn allow(&self, seconds: usize) -> Option<u64> {
        // CAST: `u64` has at least as many bits.
        let period = (seconds / self.period) as u64;
        let mut old = self.value.load(Relaxed);
        loop {
            let (then, lines) = (old >> COUNT_BITS, old & MOST);
            let same = then == period & (u64::MAX >> COUNT_BITS);
            let lines_now = if same { MOST.min(lines + 1) } else { 1 };
            // INVARIANT: the count fits its bits.
            let new = period << COUNT_BITS | lines_now;
            match self.value.cmpxchg(old, new, Relaxed) {
                Ok(_) if !same => return Some(lines.saturating_sub(self.burst)),
                Ok(_) => return (lines < self.burst).then_some(0),
                Err(other) => old = other,
            }
        }
    }
}

/// The largest count of lines.
const MOST: u64 = (1 << COUNT_BITS) - 1;

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_log_limit)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_logged_and_the_rest_is_counted() {
        let limit = Limit::new();
        for _ in 0..10 {
            assert!(limit.allow(1000) == Some(0));
        }
        for _ in 0..3 {
            assert!(limit.allow(1004).is_none());
        }
        assert!(limit.allow(1005) == Some(3));
        assert!(limit.allow(1006) == Some(0));
        assert!(limit.allow(2000) == Some(0));
    }

    #[test]
    fn a_rare_line_is_logged_once_in_its_period() {
        let limit = Limit::of(1, 60);
        assert!(limit.allow(60) == Some(0) && limit.allow(61).is_none());
        assert!(limit.allow(119).is_none() && limit.allow(120) == Some(2));
    }

    #[test]
    fn a_count_stays_within_its_bits() {
        let limit = Limit::new();
        for _ in 0..=2 * MOST {
            let _ = limit.allow(10);
        }
        assert!(limit.allow(15) == Some(MOST - 10));
    }
}
