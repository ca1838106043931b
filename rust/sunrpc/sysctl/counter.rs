// SPDX-License-Identifier: GPL-2.0

//! Counters that the administrator reads, and sets to zero by writing anything to them.

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use super::line::{self, File, Line};

/// The number of lanes of a counter, a power of two.
const LANES: usize = 16;

/// A part of a counter. It has a cache line of its own, so that processors that count in different
/// lanes do not wait for each other.
#[repr(align(64))]
struct Lane(Atomic<u64>);

/// A number of events.
///
/// It is divided into lanes, whose sum it is. Whoever counts names a lane by any number, and by the
/// same number whenever that is likely to happen on the same processor: the number of a connection,
/// for example. The lanes are accessed with relaxed ordering: a reader may see them as of different
/// moments.
pub(crate) struct Counter {
    name: &'static CStr,
    lanes: [Lane; LANES],
}

impl Counter {
    /// Makes a counter of zero with this name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            lanes: [const { Lane(Atomic::new(0)) }; LANES],
        }
    }

    /// Counts `n` events in a lane. Any context.
    #[inline]
    pub(crate) fn add(&self, lane: usize, n: u64) {
        if let Some(Lane(count)) = self.lanes.get(lane % LANES) {
            count.add(n, Relaxed);
        }
    }

    /// Returns the number of events.
    fn get(&self) -> u64 {
        let count = |sum: u64, Lane(lane): &Lane| sum.wrapping_add(lane.load(Relaxed));
        self.lanes.iter().fold(0, count)
    }

    /// Sets the counter to zero. An event that is counted meanwhile may be lost.
    fn reset(&self) {
        self.lanes
            .iter()
            .for_each(|Lane(lane)| lane.store(0, Relaxed));
    }

    /// Returns the C description.
    pub(super) fn table(&'static self) -> k::ctl_table {
        line::table(self)
    }
}

impl File for Counter {
    fn name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the number and a newline.
    fn line(&self) -> Line {
        Line::new(&fmt!("{}\n", self.get()))
    }

    /// Sets the counter to zero, whatever is written.
    fn write(&self, _text: &[u8]) -> Result {
        self.reset();
        Ok(())
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_counter)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_the_sum_of_its_lanes() {
        let counter = Counter::new(c"test");
        for lane in 0..3 * LANES {
            counter.add(lane, 2);
        }
        counter.add(usize::MAX, 1);
        assert_eq!(counter.get(), 6 * LANES as u64 + 1);
        counter.reset();
        assert_eq!(counter.get(), 0);
    }

    #[test]
    fn the_largest_number_fits_a_line() {
        let counter = Counter::new(c"test");
        counter.add(0, u64::MAX);
        assert_eq!(counter.line().as_bytes(), b"18446744073709551615\n");
    }
}
