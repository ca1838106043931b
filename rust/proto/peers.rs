// SPDX-License-Identifier: GPL-2.0

//! The peers that support version one only, as earlier connections have shown.
//!
//! All connections share one table, which outlives them: a mount with several connections, or one
//! that is made again, tries version two once. One incident may end the negotiations of several
//! connections, so doubts that closely follow each other count once. An entry expires, since a
//! peer's software may change. The table has a fixed number of entries; a new one replaces the
//! entry that expires first. The administrator can list and clear it.

use super::version::Memory;

/// The number of peers that a table can have.
pub const CAPACITY: usize = 16;

/// The validity of an entry in milliseconds: ten minutes.
pub const TTL_MS: u64 = 600_000;

/// The least time between two doubts about a peer that count as two, in milliseconds.
pub const APART_MS: u64 = 10_000;

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

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The peer.
    pub key: Key,
    /// The time when the entry expires.
    pub until: u64,
    /// Version one must be used with the peer. Otherwise one negotiation did not end, and a second
    /// one will be tried.
    pub one_only: bool,
}

/// The table. The caller chooses the clock, which is monotonic and counts milliseconds.
#[derive(Debug)]
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

    /// Returns whether version one must be used with a peer.
    pub fn is_one_only(&self, key: &Key, now: u64) -> bool {
        self.entries(now).any(|e| e.key == *key && e.one_only)
    }

    /// Stores the knowledge that a connection has gained about a peer. It is valid for `ttl`.
    //= V2-5.2-1 connection lost right after refusing
    pub fn note(&mut self, key: &Key, memory: Memory, now: u64, ttl: u64) {
        let known = self.entries(now).find(|entry| entry.key == *key).copied();
        let noted = |entry: &Entry| entry.until.saturating_sub(ttl);
        let is_recent = |entry: &Entry| now < noted(entry).saturating_add(APART_MS);
        let one_only = match memory {
            Memory::Forget => None,
            Memory::OneOnly => Some(true),
            // Both may be of one incident.
            Memory::Doubt if known.as_ref().is_some_and(is_recent) => return,
            // The second negotiation that did not end.
            Memory::Doubt => Some(known.is_some()),
        };
        // The peer's own entry, or a free one, or the one that expires first.
        let rank = |slot: &Option<Entry>| match slot {
            Some(entry) if entry.key == *key => (0, 0),
            other => (1, other.map_or(0, |entry| entry.until)),
        };
        let slot = self.entries.iter_mut().min_by_key(|slot| rank(slot));
        if let Some(slot) = slot.filter(|_| known.is_some() || one_only.is_some()) {
            *slot = one_only.map(|one_only| Entry {
                key: *key,
                until: now.saturating_add(ttl),
                one_only,
            });
        }
    }

    /// Removes all peers.
    pub fn clear(&mut self) {
        self.entries = [None; CAPACITY];
    }

    /// Lists the entries that are valid.
    pub fn entries(&self, now: u64) -> impl Iterator<Item = &Entry> {
        let all = self.entries.iter().flatten();
        all.filter(move |entry| now < entry.until)
    }
}
