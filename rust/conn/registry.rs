// SPDX-License-Identifier: GPL-2.0

//! The connections of the module, for the file `connections` of debugfs.
//!
//! ```text
//!   transport's handle ──drop──► removes the entry
//!       │                            │
//!       ▼                            ▼
//!     Entry ◄────────────────── Registry ◄── reader
//!       │ under a mutex
//!       ▼
//!   connection in use, until the handle's `down`
//! ```
//!
//! An entry owns its connection from [`Registered::up`] until [`Registered::down`]. A reader uses
//! the connection under the entry's mutex, takes no reference to it, and copies the values that it
//! shows. So no reader sees a connection that is gone, no reader drops the last reference to one,
//! and `down` waits for one copy at most. The copy is formatted without a lock.

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::{Instant, Monotonic};

use super::millis;
use crate::mem::MemallocScope;
use crate::observe::connections::{Counts, History, Line, Loss, Role, Up};
use crate::observe::trace::Peer;

/// The time of the next attempt to connect if none is planned.
const NEVER: u64 = u64::MAX;

/// A connection with an entry in debugfs.
pub(crate) trait DebugInfo: Send + Sync {
    /// Returns the state of the connection. Process context; does not sleep.
    fn show(&self) -> Up;

    /// Returns the rare events of the connection. Any context.
    fn counts(&self) -> Counts;
}

/// The connections of the module.
#[pin_data]
pub(crate) struct Registry {
    /// The number of the latest entry.
    last: Atomic<u64>,
    /// The entries in any order. Their memory is allocated without I/O, because writeback may be
    /// waiting for the connection.
    #[pin]
    entries: Mutex<KVVec<Arc<Entry>>>,
}

#[pin_data]
struct Entry {
    id: u64,
    role: Role,
    net: u64,
    made: Instant<Monotonic>,
    /// The start of a client's next attempt to connect, in milliseconds since the entry was made,
    /// or [`NEVER`]. Not in the state: the context that plans the attempt must not sleep.
    planned: Atomic<u64>,
    #[pin]
    state: Mutex<State>,
}

struct State {
    peer: Peer,
    history: History,
    /// The time when the connection was made or lost.
    since: Instant<Monotonic>,
    /// The first failure since the last successful attempt.
    failing: Option<Instant<Monotonic>>,
    current: Option<Arc<dyn DebugInfo>>,
    /// The events of earlier connections.
    earlier: Counts,
}

impl State {
    /// Removes the connection, and adds its events to the earlier ones.
    fn take(&mut self) -> Option<Arc<dyn DebugInfo>> {
        let conn = self.current.take()?;
        self.earlier = self.earlier.plus(conn.counts());
        Some(conn)
    }

    /// Returns the events of all connections.
    fn counts(&self) -> Counts {
        let now = self.current.as_ref().map(|conn| conn.counts());
        self.earlier.plus(now.unwrap_or_default())
    }
}

/// The entry of a transport. Dropping this value removes the entry, and may sleep.
pub(crate) struct Registered {
    registry: Arc<Registry>,
    entry: Arc<Entry>,
}

impl Registry {
    /// Makes a registry without entries. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                last: Atomic::new(0),
                entries <- new_mutex!(KVVec::new(), "rpcrdma::Registry::entries"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a transport without a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register(
        self: &Arc<Self>,
        role: Role,
        net: u64,
        peer: Peer,
    ) -> Result<Registered> {
        let entry = Entry::new(self.last.fetch_add(1, Relaxed) + 1, role, net, peer)?;
        let noio = MemallocScope::noio();
        self.entries.lock().push(entry.clone(), GFP_KERNEL)?;
        drop(noio);
        Ok(Registered {
            registry: self.clone(),
            entry,
        })
    }

    /// Returns the entry with the lowest number above `id`.
    fn after(&self, id: u64) -> Option<Arc<Entry>> {
        let entries = self.entries.lock();
        let later = entries.iter().filter(|entry| entry.id > id);
        later.min_by_key(|entry| entry.id).cloned()
    }

    fn remove(&self, id: u64) {
        let mut entries = self.entries.lock();
        let place = entries.iter().position(|entry| entry.id == id);
        let _removed = place.and_then(|place| entries.remove(place).ok());
        drop(entries);
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut id = 0;
        while let Some(entry) = self.after(id) {
            entry.write(f)?;
            id = entry.id;
        }
        Ok(())
    }
}

impl Entry {
    fn new(id: u64, role: Role, net: u64, peer: Peer) -> Result<Arc<Self>> {
        let now = Instant::now();
        let state = State {
            peer,
            history: History::default(),
            since: now,
            failing: None,
            current: None,
            earlier: Counts::default(),
        };
        Arc::pin_init(
            pin_init!(Self {
                id,
                role,
                net,
                made: now,
                planned: Atomic::new(NEVER),
                state <- new_mutex!(state, "rpcrdma::Entry::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Writes the line of the entry, from a copy.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let line = Line {
            id: self.id,
            role: self.role,
            net: self.net,
            peer: state.peer,
            age: seconds(self.made),
            since: seconds(state.since),
            history: state.history,
            counts: state.counts(),
            failing: state.failing.map_or(0, seconds),
            next: self.next(),
            up: state.current.as_ref().map(|conn| conn.show()),
        };
        drop(state);
        f.write_fmt(fmt!("{line}"))
    }

    /// Returns the seconds until the next attempt; -1 if none is planned.
    fn next(&self) -> i64 {
        match self.planned.load(Relaxed) {
            NEVER => -1,
            // CAST: at most 2^64 / 1000.
            planned => planned.saturating_sub(millis(self.made)).div_ceil(1000) as i64,
        }
    }
}

impl Registered {
    /// Records that the transport has a connection to `peer`. Ends an earlier one. May sleep.
    pub(crate) fn up(&self, peer: Peer, conn: Arc<dyn DebugInfo>) {
        let mut state = self.entry.state.lock();
        state.peer = peer;
        state.since = Instant::now();
        state.history.connects = state.history.connects.saturating_add(1);
        state.history.failures = 0;
        state.history.error = 0;
        state.failing = None;
        self.entry.planned.store(NEVER, Relaxed);
        let _earlier = state.take();
        state.current = Some(conn);
        drop(state);
    }

    /// Records that the next attempt to connect begins in `delay` milliseconds. Any context.
    pub(crate) fn planned(&self, delay: u32) {
        let time = millis(self.entry.made).saturating_add(u64::from(delay));
        self.entry.planned.store(time, Relaxed);
    }

    /// Records that an attempt to connect to `peer` failed, with an errno. A later call of
    /// [`Self::planned`] plans the next attempt. May sleep.
    pub(crate) fn failed(&self, peer: Peer, error: i32) {
        let mut state = self.entry.state.lock();
        state.peer = peer;
        state.history.failures = state.history.failures.saturating_add(1);
        state.history.error = error;
        state.failing.get_or_insert_with(Instant::now);
        self.entry.planned.store(NEVER, Relaxed);
    }

    /// Records that the transport is losing its connection. No reader uses the connection when this
    /// returns. May sleep.
    pub(crate) fn down(&self, loss: Loss) {
        let mut state = self.entry.state.lock();
        let lost = state.take();
        if lost.is_some() {
            state.history.lost = loss;
            state.since = Instant::now();
        }
        // The connection is dropped without the lock.
        drop(state);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.remove(self.entry.id);
        // A reader may still have the entry.
        self.down(Loss::Closed);
    }
}

/// Returns the seconds since `begin`.
fn seconds(begin: Instant<Monotonic>) -> u64 {
    millis(begin) / 1000
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_registry)]
mod tests {
    use super::*;
    use crate::observe::connections::{Calls, Credits, Regions};
    use crate::proto::inline::Thresholds;
    use crate::text::StackString;

    /// A connection with this number of silent checks.
    struct Silent(u32);

    impl DebugInfo for Silent {
        fn show(&self) -> Up {
            Up {
                device: StackString::new(&"rxe0"),
                port: 1,
                thresholds: Thresholds::DEFAULT,
                generation: 0,
                backward: false,
                credits: Credits::default(),
                calls: Calls::default(),
                regions: Regions::default(),
                receives: (0, 0),
                send_queue: (0, 0),
                silent: self.0,
                transport: None,
            }
        }

        fn counts(&self) -> Counts {
            Counts {
                probes: u64::from(self.0),
                breaches: 1,
            }
        }
    }

    fn peer() -> Peer {
        Peer::new(&"192.0.2.1", 20049)
    }

    fn contains(registry: &Registry, text: &str) -> bool {
        let shown = StackString::<2048>::new(&fmt!("{}", registry));
        shown
            .as_bytes()
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }

    #[test]
    fn entry_exists_as_long_as_its_transport() -> Result {
        let registry = Registry::new()?;
        assert!(!contains(&registry, "id="));
        let first = registry.register(Role::Client, 1, peer())?;
        let second = registry.register(Role::Server, 1, peer())?;
        assert!(contains(
            &registry,
            "id=1 role=client net=1 peer=192.0.2.1:20049 state=down "
        ));
        drop(first);
        assert!(!contains(&registry, "id=1 ") && contains(&registry, "id=2 role=server "));
        drop(second);
        assert!(!contains(&registry, "id="));
        Ok(())
    }

    #[test]
    fn many_entries_are_shown_in_the_order_of_their_numbers() -> Result {
        let registry = Registry::new()?;
        let mut registered = KVec::new();
        const COUNT: usize = 33;
        for _ in 0..COUNT {
            registered.push(registry.register(Role::Server, 1, peer())?, GFP_KERNEL)?;
        }
        let (mut id, mut count) = (0, 0);
        while let Some(entry) = registry.after(id) {
            assert!(entry.id > id);
            (id, count) = (entry.id, count + 1);
        }
        assert_eq!(count, COUNT);
        drop(registered);
        assert!(registry.after(0).is_none());
        Ok(())
    }

    #[test]
    fn connection_is_shown_and_dropped_with_its_loss() -> Result {
        let registry = Registry::new()?;
        let registered = registry.register(Role::Client, 1, peer())?;
        let conn: Arc<dyn DebugInfo> = Arc::new(Silent(5), GFP_KERNEL)?;
        registered.up(peer(), conn.clone());
        assert!(contains(&registry, "state=up ") && contains(&registry, " silent=5\n"));
        registered.down(Loss::Device);
        assert!(contains(&registry, "state=down "));
        assert!(contains(
            &registry,
            " connects=1 lost=device failures=0 error=0 probes=5 breaches=1 failing_s=0 \
             next_attempt_s=-1\n"
        ));
        // Neither the entry nor a reader holds a reference.
        assert!(Arc::into_unique_or_drop(conn).is_some());
        Ok(())
    }

    #[test]
    fn failures_count_until_a_connection_is_made() -> Result {
        let registry = Registry::new()?;
        let registered = registry.register(Role::Client, 1, peer())?;
        registered.failed(peer(), -110);
        registered.failed(peer(), -111);
        assert!(contains(
            &registry,
            " failures=2 error=-111 probes=0 breaches=0 failing_s="
        ));
        registered.up(peer(), Arc::new(Silent(0), GFP_KERNEL)?);
        assert!(contains(
            &registry,
            " failures=0 error=0 probes=0 breaches=1 device=rxe0 "
        ));
        // The transport closes itself once, and the second call has no effect.
        registered.down(Loss::Peer);
        registered.down(Loss::Closed);
        assert!(contains(&registry, " lost=peer "));
        Ok(())
    }

    #[test]
    fn next_attempt_is_shown_until_it_has_ended() -> Result {
        let registry = Registry::new()?;
        let registered = registry.register(Role::Client, 1, peer())?;
        assert!(contains(&registry, " failing_s=0 next_attempt_s=-1\n"));
        registered.failed(peer(), -111);
        registered.planned(3_600_000);
        assert!(contains(&registry, " next_attempt_s=3600\n"));
        // The attempt is due.
        registered.planned(0);
        assert!(contains(&registry, " next_attempt_s=0\n"));
        registered.failed(peer(), -111);
        assert!(contains(&registry, " next_attempt_s=-1\n"));
        registered.planned(3_600_000);
        registered.up(peer(), Arc::new(Silent(0), GFP_KERNEL)?);
        assert!(!contains(&registry, "next_attempt_s="));
        registered.down(Loss::Peer);
        assert!(contains(&registry, " failing_s=0 next_attempt_s=-1\n"));
        Ok(())
    }

    #[test]
    fn events_of_all_connections_are_added() -> Result {
        let registry = Registry::new()?;
        let registered = registry.register(Role::Client, 1, peer())?;
        registered.up(peer(), Arc::new(Silent(5), GFP_KERNEL)?);
        registered.down(Loss::Forced);
        registered.up(peer(), Arc::new(Silent(2), GFP_KERNEL)?);
        assert!(contains(&registry, " probes=7 breaches=2 device="));
        // The new connection replaces the old one.
        registered.up(peer(), Arc::new(Silent(1), GFP_KERNEL)?);
        registered.down(Loss::Closed);
        assert!(contains(&registry, " probes=8 breaches=3 failing_s="));
        Ok(())
    }
}
