// SPDX-License-Identifier: GPL-2.0

//! The load: the pages of replies that devices have not sent yet, and the operations that wait for
//! the send queue.
//!
//! A requester decides how much it reads, and how fast its device takes that. Threads of the
//! service do not wait for devices, so without a bound a few requesters that take nothing could use
//! all memory. A connection whose replies have many pages therefore takes a further call only if it
//! leaves at least as many pages as it uses, of those that all replies may use. Its own completions
//! make it take calls again, so it waits for no other connection.
//!
//! Replies count once their threads have passed them on. Before that, their pages are those of
//! the threads.

use kernel::sync::atomic::{Atomic, Relaxed};

use super::in_flight::{QUIET, QUIET_PAGES};
use crate::work::{read_once, write_once};

/// The pages of a unit: at least twice as many as the replies have that no completion covers. A
/// connection with a unit therefore has a reply that a completion will cover.
// CAST: a small constant.
const UNIT: u32 = (2 * QUIET * QUIET_PAGES as u32).next_power_of_two();

/// The units that all connections have.
static TOTAL: Atomic<u32> = Atomic::new(0);

/// The 16 parked replies with which a connection takes no calls, as [`Load::word`] has them.
const MOST_PARKED: u32 = 16 << 1;

/// The load of one connection. Whoever changes it has the lock of the connection's operations.
pub(crate) struct Load {
    /// Whether operations are parked, in the lowest bit, and the number of replies among them, in
    /// the others of [`PARKED`]. The bits above are the units of the pages, so that a small load
    /// changes no memory that connections share.
    word: Atomic<u32>,
    /// The units that all connections may have.
    most: u32,
}

/// The bits for the parked operations. There are fewer replies, because of the limit of
/// `max_requests`.
const PARKED: u32 = u16::MAX as u32;
const UNITS_SHIFT: u32 = PARKED.count_ones();

/// The pages of one connection. Their owner has them under its lock.
#[derive(Default)]
pub(super) struct Pages {
    count: u32,
    /// The units of the load, as pages.
    published: u32,
}

impl Load {
    /// Makes the load of a connection without replies. All connections may have `most` pages.
    pub(super) fn new(most: usize) -> Self {
        Self {
            word: Atomic::new(0),
            most: u32::try_from(most).unwrap_or(u32::MAX) / UNIT,
        }
    }

    /// Returns whether the connection may take a further call. `busy` is the number of its calls
    /// that threads of the service have; SUNRPC asks again when that falls. Any context.
    #[inline(always)]
    pub(crate) fn has_room(&self, busy: u32) -> bool {
        // ORDERING: waking the connection has a barrier, and so has looking for room.
        let word = read_once(&self.word);
        (word < MOST_PARKED && !self.are_scarce()) || self.may_take(word, busy)
    }

    /// Returns whether all replies use as many units as they may. A connection without a unit then
    /// has two calls at a time, because threads take calls before the replies count.
    #[inline(always)]
    fn are_scarce(&self) -> bool {
        read_once(&TOTAL) >= self.most
    }

    #[cold]
    fn may_take(&self, word: u32, busy: u32) -> bool {
        word & PARKED < MOST_PARKED && self.leaves_enough() && (busy < 2 || !self.are_scarce())
    }

    /// Returns whether the connection leaves others as many units as it has. Any context.
    #[cold]
    #[inline(never)]
    pub(crate) fn leaves_enough(&self) -> bool {
        let own = read_once(&self.word) >> UNITS_SHIFT;
        own == 0 || own <= self.most.saturating_sub(read_once(&TOTAL))
    }

    /// Returns the pages of the units of the connection. Any context.
    pub(crate) fn pages(&self) -> usize {
        // CAST: a host has fewer pages than an address.
        (read_once(&self.word) >> UNITS_SHIFT) as usize * UNIT as usize
    }

    /// Returns whether operations are parked. Any context.
    pub(crate) fn has_parked(&self) -> bool {
        read_once(&self.word) & PARKED != 0
    }

    /// Sets whether operations are parked, and the number of replies among them.
    pub(super) fn set_parked(&self, any: bool, replies: u32) {
        let parked = replies << 1 | u32::from(any);
        write_once(&self.word, read_once(&self.word) & !PARKED | parked);
    }

    /// Sets the units of `pages`.
    #[cold]
    fn publish(&self, pages: &mut Pages) {
        let word = read_once(&self.word);
        let (old, new) = (word >> UNITS_SHIFT, (pages.count / UNIT).min(PARKED));
        pages.published = new * UNIT;
        write_once(&self.word, new << UNITS_SHIFT | word & PARKED);
        TOTAL.add(new.wrapping_sub(old), Relaxed);
    }
}

impl Drop for Load {
    /// Removes the units of replies that were dropped with the connection.
    fn drop(&mut self) {
        let units = read_once(&self.word) >> UNITS_SHIFT;
        TOTAL.add(units.wrapping_neg(), Relaxed);
    }
}

impl Pages {
    /// Adds the pages of a reply. They are published with the next one, so that those of a single
    /// long reply never are. Returns whether the connection has no room because of the others.
    #[inline(always)]
    pub(super) fn add(&mut self, load: &Load, count: usize) -> bool {
        let limited = self.count >= self.published + UNIT && {
            load.publish(self);
            !load.leaves_enough()
        };
        self.put_back(count);
        limited
    }

    /// Removes the pages of replies, unless [`Self::clear`] has. If half a unit less is left than
    /// was published, publishes that, and returns true: a connection without room may wait for it.
    #[inline(always)]
    pub(super) fn sub(&mut self, load: &Load, count: usize) -> bool {
        self.take_out(count);
        let fell = self.count + UNIT / 2 < self.published;
        if fell {
            load.publish(self);
        }
        fell
    }

    /// Removes the pages of a reply for a moment.
    #[inline(always)]
    pub(super) fn take_out(&mut self, count: usize) {
        // CAST: replies have few pages.
        self.count = self.count.saturating_sub(count as u32);
    }

    /// Adds the pages of a reply that were there a moment ago.
    #[inline(always)]
    pub(super) fn put_back(&mut self, count: usize) {
        // CAST: replies have few pages.
        self.count = self.count.wrapping_add(count as u32);
    }

    /// Removes the pages of all replies.
    pub(super) fn clear(&mut self, load: &Load) {
        self.count = 0;
        load.publish(self);
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_load)]
mod tests {
    use super::*;
    use crate::compat::casts::u32_as_usize;

    fn load(units: u32) -> (Load, Pages) {
        // No connection exists.
        (Load::new(u32_as_usize(units * UNIT)), Pages::default())
    }

    /// Adds a reply of `count` pages, and one of none.
    fn add((load, pages): &mut (Load, Pages), count: u32) {
        pages.add(load, u32_as_usize(count));
        pages.add(load, 0);
    }

    fn sub((load, pages): &mut (Load, Pages), count: u32) -> bool {
        pages.sub(load, u32_as_usize(count))
    }

    #[test]
    fn connection_leaves_as_much_as_it_uses() {
        let (mut one, mut other) = (load(8), load(8));
        add(&mut one, 4 * UNIT);
        assert!(one.0.has_room(2));
        add(&mut one, UNIT);
        assert!(!one.0.has_room(2));
        assert!(other.0.has_room(2));
        add(&mut other, 2 * UNIT);
        assert!(!other.0.has_room(2));
        assert!(sub(&mut one, 3 * UNIT));
        assert!(one.0.has_room(2) && other.0.has_room(3));
    }

    #[test]
    fn small_load_always_has_room() {
        let (mut greedy, mut modest) = (load(2), load(2));
        add(&mut greedy, 1000 * UNIT);
        add(&mut modest, UNIT - 1);
        assert!(!greedy.0.has_room(0));
        assert!(modest.0.has_room(1) && !modest.0.has_room(2));
        assert!(!sub(&mut modest, UNIT - 1));
    }

    #[test]
    fn pages_are_published_seldom() {
        let units = |c: &(Load, Pages)| c.0.word.load(Relaxed) >> UNITS_SHIFT;
        let mut connection = load(8);
        connection.1.add(&connection.0, u32_as_usize(UNIT));
        assert_eq!(units(&connection), 0);
        add(&mut connection, 0);
        assert_eq!(units(&connection), 1);
        assert!(!sub(&mut connection, UNIT / 2));
        assert_eq!(units(&connection), 1);
        assert!(sub(&mut connection, 1));
        add(&mut connection, UNIT / 2);
        assert_eq!(units(&connection), 0);
    }

    #[test]
    fn parked_replies_count_beside_pages() {
        let mut connection = load(8);
        connection.0.set_parked(true, 15);
        assert!(connection.0.has_room(2));
        add(&mut connection, UNIT);
        assert!(connection.0.has_room(2));
        connection.0.set_parked(true, 16);
        assert!(!connection.0.has_room(2));
        assert!(sub(&mut connection, UNIT));
        assert!(!connection.0.has_room(2) && connection.0.has_parked());
        connection.0.set_parked(false, 0);
        assert!(connection.0.has_room(2) && !connection.0.has_parked());
    }

    #[test]
    fn parked_calls_do_not_count() {
        let mut connection = load(8);
        connection.0.set_parked(true, 0);
        assert!(connection.0.has_room(2) && connection.0.has_parked());
        add(&mut connection, UNIT);
        assert!(connection.0.has_room(2) && connection.0.has_parked());
    }

    #[test]
    fn dropped_connection_leaves_nothing() {
        let before = TOTAL.load(Relaxed);
        let mut gone = load(2);
        add(&mut gone, 5 * UNIT + 1);
        assert_eq!(TOTAL.load(Relaxed), before + 5);
        drop(gone);
        assert_eq!(TOTAL.load(Relaxed), before);
    }
}
