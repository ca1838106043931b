// SPDX-License-Identifier: GPL-2.0

//! Replies with read chunks that are being read, and the RDMA_DONEs that follow: RFC 5666.

use kernel::alloc::kvec::PushError;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::config::MAX_PAYLOAD_PAGES;
use crate::mem::PagePool;
use crate::proto::legacy::done::{Dones, Stamp};
use crate::rdma::qp::Tag;
use crate::rdma::scatter::Sink;

/// Replies that are read at the same time.
pub(super) const MOST: u32 = 4;
/// Work requests that the RDMA Reads of all of them may have. Each is for a page, and the longest
/// reply has [`MAX_PAYLOAD_PAGES`], with head and tail.
pub(super) const WORK_REQUESTS: u32 = 2 * (MAX_PAYLOAD_PAGES + READS);
/// The most read segments of a reply.
pub(super) const READS: u32 = 64;

/// Free pages that a connection keeps.
const FREE_PAGES: usize = 32;

/// A reply that is being read.
pub(super) struct Pull {
    pub(super) xid: u32,
    /// The message as it has arrived.
    pub(super) message: KVVec<u8>,
    /// The length of the RPC message that the read chunks are a part of.
    pub(super) len: u32,
    /// The longest RPC message that fits the RPC.
    pub(super) max: u32,
    pub(super) sink: Sink,
}

/// The replies of one connection that are being read.
#[pin_data]
pub(super) struct Pulls {
    enabled: AtomicFlag,
    #[pin]
    state: SpinLock<State>,
}

/// What [`Pulls`]'s lock protects.
#[derive(Default)]
pub(super) struct State {
    /// The replies whose RDMA Reads are posted, by the number of their tag.
    flights: [Option<Pull>; MOST as usize],
    /// Those that wait.
    waiting: KVVec<Pull>,
    /// Work requests of the RDMA Reads that are posted.
    posted: u32,
    pub(super) dones: Dones,
    /// The XIDs for which RDMA_DONE has to be sent.
    due: KVVec<u32>,
    /// The calls that were in flight when an RDMA_DONE was sent after them, with their stamps.
    marks: KVVec<(u32, Stamp)>,
    /// The tag of the first reply that is read.
    first_tag: u32,
    /// Pages for the replies.
    pool: Option<Arc<PagePool>>,
}

impl Pulls {
    /// Makes the state of a connection whose replies have no read chunks.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            enabled: AtomicFlag::new(false),
            state <- new_spinlock!(State::default(), "rpcrdma::Pulls::state"),
        })
    }

    /// Allows read chunks in the replies to `slots` calls. The tags from `first_tag` on are for
    /// their RDMA Reads. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn enable(&self, slots: u32, first_tag: u32) -> Result {
        // CAST: `usize` has at least 32 bits.
        let slots = slots as usize;
        let fresh = State {
            waiting: KVVec::with_capacity(slots, GFP_KERNEL)?,
            due: KVVec::with_capacity(slots, GFP_KERNEL)?,
            marks: KVVec::with_capacity(slots, GFP_KERNEL)?,
            first_tag,
            pool: Some(PagePool::new(FREE_PAGES)?),
            ..State::default()
        };
        let old = core::mem::replace(&mut *self.state.lock(), fresh);
        drop(old);
        self.enabled.store(true, Relaxed);
        Ok(())
    }

    /// Returns whether replies may have read chunks.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Calls `act` with the state. It must not sleep.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock())
    }
}

impl State {
    /// Returns the pool of pages.
    pub(super) fn pages(&self) -> Option<Arc<PagePool>> {
        self.pool.clone()
    }

    /// Puts the pages of a reply back that has been read.
    pub(super) fn put_back(&self, sink: &mut Sink) {
        if let (Some(pool), Some(pages)) = (&self.pool, sink.pages()) {
            pool.put_all(pages);
        }
    }

    /// Returns whether the reply with this XID is being read.
    pub(super) fn has(&self, xid: u32) -> bool {
        let posted = self.flights.iter().flatten().any(|pull| pull.xid == xid);
        posted || self.waiting.iter().any(|pull| pull.xid == xid)
    }

    /// Adds a reply. Returns it if there is no room.
    pub(super) fn add(&mut self, pull: Pull) -> Result<(), Pull> {
        self.waiting
            .push_within_capacity(pull)
            .map_err(|PushError(pull)| pull)
    }

    /// Starts the oldest reply that waits, by `post`, if there is room.
    pub(super) fn start(&mut self, post: impl FnOnce(Tag, &mut Sink) -> Result) -> Result<bool> {
        let Some(slot) = self.flights.iter().position(Option::is_none) else {
            return Ok(false);
        };
        let Some(next) = self.waiting.first_mut() else {
            return Ok(false);
        };
        let more = next.sink.work_requests();
        if self.posted != 0 && self.posted + more > WORK_REQUESTS {
            return Ok(false);
        }
        // A reply that cannot be posted stays: it is not dropped while a lock is held. CAST: less
        // than `MOST`.
        post(Tag::new(self.first_tag + slot as u32), &mut next.sink)?;
        self.posted += more;
        let pull = self.waiting.remove(0).map_err(|_| EINVAL)?;
        if let Some(place) = self.flights.get_mut(slot) {
            *place = Some(pull);
        }
        Ok(true)
    }

    /// Removes and returns the reply of a tag, whose RDMA Reads have completed.
    pub(super) fn finish(&mut self, tag: Tag) -> Option<Pull> {
        let slot = tag.get().checked_sub(self.first_tag)?;
        // CAST: `usize` has at least 32 bits.
        let pull = self.flights.get_mut(slot as usize)?.take()?;
        self.posted = self.posted.saturating_sub(pull.sink.work_requests());
        Some(pull)
    }

    /// Notes that an RDMA_DONE has to be sent for this XID.
    pub(super) fn owe(&mut self, xid: u32) {
        // There is room: a call has one reply.
        if self.due.push_within_capacity(xid).is_ok() {
            self.dones.on_due();
        }
    }

    /// Takes a credit for the next RDMA_DONE, if `limit` allows it. `each` calls its argument with
    /// the XID of each call in flight. Returns the XID of the RDMA_DONE if it is to be sent.
    pub(super) fn next_done(
        &mut self,
        limit: u32,
        each: impl Fn(&mut dyn FnMut(u32)),
    ) -> Option<u32> {
        let before = self.dones.stamp();
        let mut calls = 0;
        each(&mut |_| calls += 1);
        if self.due.is_empty() || !self.dones.try_send(limit, calls) {
            return None;
        }
        let marks = &mut self.marks;
        each(&mut |xid| {
            if !marks.iter().any(|(marked, _)| *marked == xid) {
                // There is room for each slot.
                let full = marks.push_within_capacity((xid, before));
                debug_assert!(full.is_ok());
            }
        });
        self.due.remove(0).ok()
    }

    /// Takes back that an RDMA_DONE for this XID was sent. `before` was the account then.
    pub(super) fn not_sent(&mut self, xid: u32, before: Dones) {
        self.dones = before;
        // The place that it has left is free.
        let full = self.due.insert_within_capacity(0, xid);
        debug_assert!(full.is_ok());
    }

    /// Handles the reply to the call with this XID, as far as RDMA_DONEs are concerned.
    pub(super) fn on_reply(&mut self, xid: u32) {
        let at = self.marks.iter().position(|(marked, _)| *marked == xid);
        let mark = at.and_then(|at| self.marks.remove(at).ok());
        let stamp = mark.map_or(self.dones.stamp(), |(_, stamp)| stamp);
        self.dones.on_reply(stamp);
    }
}
