// SPDX-License-Identifier: GPL-2.0

//! What is known about peers from earlier connections: which of them support version one only.
//!
//! All connections share one table, which outlives them. An entry expires, since a peer's software
//! may change. A table has a fixed number of entries; a new one takes the place of the entry that
//! was not used for the longest time. The administrator can list and clear it.

use super::version::Memory;

/// The number of peers that a table can have.
pub const CAPACITY: usize = 16;

/// How long an entry is valid, in milliseconds: ten minutes.
pub const TTL_MS: u64 = 600_000;

/// The name of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The network namespace.
    pub net: u64,
    /// The address. An IPv4 address is mapped into IPv6.
    pub address: [u8; 16],
    /// The port.
    pub port: u16,
}

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The peer.
    pub key: Key,
    /// The time when the entry expires.
    pub until: u64,
    /// Version one has to be used with the peer. Otherwise one negotiation did not end, and a
    /// second one will be tried.
    pub one_only: bool,
    /// The time of the last use.
    used: u64,
}

/// The table. The caller chooses the clock and its unit; it has to be monotonic.
#[derive(Clone, Debug)]
pub struct Peers {
    entries: [Option<Entry>; CAPACITY],
}

impl Peers {
    /// Makes an empty table.
    pub const fn new() -> Self {
        Self {
            entries: [None; CAPACITY],
        }
    }

    /// Returns whether version one has to be used with a peer.
    pub fn is_one_only(&mut self, key: &Key, now: u64) -> bool {
        self.expire(now);
        match self.find(key) {
            Some(entry) => {
                entry.used = now;
                entry.one_only
            }
            None => false,
        }
    }

    /// Notes what a connection has shown about a peer. The knowledge is valid for `ttl`.
    //= V2-5.2-1 connection lost right after refusing
    pub fn note(&mut self, key: &Key, memory: Memory, now: u64, ttl: u64) {
        self.expire(now);
        let one_only = match memory {
            Memory::Forget => return self.forget(key),
            Memory::OneOnly => true,
            // The second negotiation that did not end.
            Memory::Doubt => self.find(key).is_some(),
        };
        self.put(Entry {
            key: *key,
            until: now.saturating_add(ttl),
            one_only,
            used: now,
        });
    }

    /// Forgets a peer.
    pub fn forget(&mut self, key: &Key) {
        self.retain(|entry| entry.key != *key);
    }

    /// Forgets all peers.
    pub fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Lists the entries that are valid.
    pub fn entries(&self, now: u64) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .flatten()
            .filter(move |entry| now < entry.until)
    }

    fn expire(&mut self, now: u64) {
        self.retain(|entry| now < entry.until);
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        for slot in &mut self.entries {
            if slot.as_ref().is_some_and(|entry| !keep(entry)) {
                *slot = None;
            }
        }
    }

    fn find(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.iter_mut().flatten().find(|e| e.key == *key)
    }

    /// Stores an entry: in the place of the peer's own one, or of a free one, or of the one that
    /// was not used for the longest time.
    fn put(&mut self, entry: Entry) {
        let rank = |slot: &Option<Entry>| match slot {
            Some(other) if other.key == entry.key => (0, 0),
            None => (1, 0),
            Some(other) => (2, other.used),
        };
        if let Some(slot) = self.entries.iter_mut().min_by_key(|slot| rank(slot)) {
            *slot = Some(entry);
        }
    }
}

impl Default for Peers {
    fn default() -> Self {
        Self::new()
    }
}
