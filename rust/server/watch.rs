// SPDX-License-Identifier: GPL-2.0

//! The watch over all connections: it finds the requesters that do not answer.
//!
//! A device reports a requester that acknowledges nothing. It does not report one that never posts
//! a Receive, if the requester has asked for unlimited retries, nor one that has vanished while
//! nothing is sent to it. Where work requests are outstanding, or nothing has arrived for long, the
//! watch sends an RDMA Write of no bytes, which the device at the other end has to acknowledge. A
//! connection on which nothing completes for longer is closed.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// Milliseconds from one look to the next.
pub(super) const INTERVAL_MS: u32 = 10_000;
/// The look that closes a connection on which nothing has completed since the look before the
/// first.
const PATIENCE: u32 = 4;
/// The same, of a connection that has pages for which others wait.
const PATIENCE_IF_SHORT: u32 = 1;
/// The look that probes a requester from which nothing has arrived since the look before the first.
const SILENCE: u32 = 6;

/// What the watch has seen of a connection.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The position up to which work requests had completed.
    retired: u64,
    /// Looks in a row that found work requests outstanding and none completed.
    stuck: u32,
    /// Looks in a row before which no message had arrived.
    silent: u32,
}

/// What is done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Nothing,
    Probe,
    Close,
}

impl Seen {
    /// Returns the looks in a row before which no message had arrived.
    pub(super) fn silent(&self) -> u32 {
        self.silent
    }

    /// Decides about a connection. `retired` is the position up to which work requests have
    /// completed, `outstanding` says whether there are more, and `heard` whether a message has
    /// arrived since the last look. `hoards` says whether the connection has pages for which others
    /// wait.
    pub(super) fn look(
        &mut self,
        retired: u64,
        outstanding: bool,
        heard: bool,
        hoards: bool,
    ) -> Measure {
        let stuck = outstanding && retired == self.retired;
        self.stuck = if stuck { self.stuck + 1 } else { 0 };
        self.silent = if heard { 0 } else { self.silent + 1 };
        self.retired = retired;
        // The last Sends may not be signalled, so that they are known to have completed only after
        // a probe.
        match (self.stuck, self.silent) {
            (PATIENCE.., _) => Measure::Close,
            (PATIENCE_IF_SHORT.., _) if hoards => Measure::Close,
            (1, _) => Measure::Probe,
            (0, SILENCE..) => {
                self.silent = 0;
                Measure::Probe
            }
            _ => Measure::Nothing,
        }
    }
}

/// A connection that is watched.
pub(super) trait Watched: Send + Sync {
    /// Looks whether the requester still answers, and at the settings. May sleep.
    fn look(&self);
}

/// The connections that are watched.
#[pin_data]
pub(super) struct Watch {
    #[pin]
    connections: SpinLock<KVec<Arc<dyn Watched>>>,
}

impl Watch {
    /// Makes a watch over no connection.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            connections <- new_spinlock!(KVec::new(), "rpcrdma::Watch::connections"),
        })
    }

    /// Watches a connection until [`Self::remove`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(&self, ep: Arc<dyn Watched>) -> Result {
        loop {
            let mut connections = self.connections.lock();
            if connections.len() < connections.capacity() {
                // There is room.
                let _ = connections.push_within_capacity(ep);
                return Ok(());
            }
            let more = connections.len() + 16;
            drop(connections);
            self.grow(more)?;
        }
    }

    /// Makes room for `room` connections. May sleep.
    fn grow(&self, room: usize) -> Result {
        let mut larger = KVec::with_capacity(room, GFP_KERNEL)?;
        let mut connections = self.connections.lock();
        if connections.len() < larger.capacity() {
            for ep in connections.drain_all() {
                // There is room.
                let _ = larger.push_within_capacity(ep);
            }
            core::mem::swap(&mut *connections, &mut larger);
        }
        drop(connections);
        drop(larger);
        Ok(())
    }

    /// Ends watching a connection.
    pub(super) fn remove(&self, ep: &dyn Watched) {
        let mut connections = self.connections.lock();
        let same = |other: &Arc<dyn Watched>| core::ptr::addr_eq(&**other, ep);
        let place = connections.iter().position(same);
        let removed = place.map(|place| connections.remove(place));
        drop(connections);
        drop(removed);
    }

    /// Looks at all connections. May sleep.
    pub(super) fn look(&self) {
        let mut place = 0;
        while let Some(ep) = self.get(place) {
            ep.look();
            place += 1;
        }
    }

    fn get(&self, place: usize) -> Option<Arc<dyn Watched>> {
        self.connections.lock().get(place).cloned()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_watch)]
mod tests {
    use super::*;

    #[test]
    fn connection_on_which_nothing_completes_is_probed_and_closed() {
        let mut seen = Seen::default();
        assert_eq!(seen.look(7, true, true, false), Measure::Nothing);
        assert_eq!(seen.look(7, true, true, false), Measure::Probe);
        assert_eq!(seen.look(7, true, true, false), Measure::Nothing);
        assert_eq!(seen.look(7, true, true, false), Measure::Nothing);
        assert_eq!(seen.look(7, true, true, false), Measure::Close);
    }

    #[test]
    fn connection_that_keeps_others_waiting_is_closed_sooner() {
        let mut seen = Seen::default();
        assert_eq!(seen.look(7, true, true, true), Measure::Nothing);
        assert_eq!(seen.look(8, true, true, true), Measure::Nothing);
        assert_eq!(seen.look(8, true, true, true), Measure::Close);
    }

    #[test]
    fn progress_restarts_the_count() {
        let mut seen = Seen::default();
        for retired in 1..20 {
            assert_eq!(seen.look(retired, true, true, false), Measure::Nothing);
            assert_eq!(seen.look(retired, true, true, false), Measure::Probe);
        }
    }

    #[test]
    fn silent_requester_is_probed_each_minute() {
        let mut seen = Seen::default();
        for _ in 0..3 {
            for _ in 1..SILENCE {
                assert_eq!(seen.look(0, false, false, false), Measure::Nothing);
            }
            assert_eq!(seen.look(0, false, false, false), Measure::Probe);
        }
        assert_eq!(seen.look(0, false, true, false), Measure::Nothing);
    }
}
