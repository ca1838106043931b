// SPDX-License-Identifier: GPL-2.0

//! Replies that are exposed as read chunks, until the requester's RDMA_DONE comes: RFC 5666.
//!
//! Only a requester that has sent no private data gets such replies, and only if a setting allows
//! it. The pages of the reply stay registered until the RDMA_DONE has come and their regions are
//! invalidated. A connection whose RDMA_DONEs do not come is closed.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::budget::Permit;
use crate::proto::legacy::done::Exposure;
use crate::rdma::mr::{Mr, MrPool};
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::scatter::Source;
use crate::sunrpc::time;

/// Replies that may be exposed at the same time, over one connection.
pub(super) const MOST: u32 = 8;
/// The most memory regions of a reply.
pub(super) const SEGMENTS: usize = 8;
/// Memory regions that a connection has.
pub(super) const REGIONS: u32 = 32;
/// Seconds within which the RDMA_DONE for a reply has to come.
const DEADLINE: usize = 30;

/// A reply that the requester may read.
pub(super) struct Exposed {
    pub(super) xid: u32,
    pub(super) regions: KVec<Mr>,
    /// It holds the pages.
    pub(super) _source: Source,
    pub(super) permit: Permit,
}

/// An exposed reply in its list.
struct Entry {
    reply: Exposed,
    /// The time at which it was exposed, in seconds.
    since: usize,
    /// The RDMA_DONE has come, and the invalidation of the regions was posted.
    done: bool,
}

/// The exposed replies of one connection.
#[pin_data]
pub(super) struct Exposures {
    #[pin]
    state: SpinLock<State>,
}

struct State {
    /// The regions; none if replies are not exposed.
    pool: Option<Arc<MrPool>>,
    record: Exposure,
    list: KVec<Entry>,
}

impl Exposures {
    /// Makes the state of a connection that exposes nothing.
    pub(super) fn new() -> impl PinInit<Self> {
        let state = State {
            pool: None,
            record: Exposure::new(MOST),
            list: KVec::new(),
        };
        pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::Exposures::state"),
        })
    }

    /// Allows replies to be exposed, with the regions of this pool. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn enable(&self, pool: Arc<MrPool>) -> Result {
        // CAST: `usize` has at least 32 bits.
        let list = KVec::with_capacity(MOST as usize, GFP_KERNEL)?;
        let mut state = self.state.lock();
        state.list = list;
        state.pool = Some(pool);
        Ok(())
    }

    /// Returns the regions, if one more reply may be exposed.
    pub(super) fn room(&self) -> Option<Arc<MrPool>> {
        let state = self.state.lock();
        // CAST: `usize` has at least 32 bits.
        let room = state.list.len() < MOST as usize;
        state.pool.clone().filter(|_| room)
    }

    /// Returns the grant for a reply that is sent with so many credits: those for the RDMA_DONEs
    /// that are to come are kept back, and one for that of this reply.
    pub(super) fn grant(&self, credits: u32) -> u32 {
        let record = &self.state.lock().record;
        record.grant(credits).saturating_sub(1).max(1)
    }

    /// Returns the number of pages of the budget that the replies use.
    pub(super) fn pages(&self) -> usize {
        let list = &self.state.lock().list;
        list.iter().map(|entry| entry.reply.permit.pages()).sum()
    }

    /// Adds a reply, and posts it by `post`. The lock is held meanwhile, so that its RDMA_DONE
    /// finds it.
    ///
    /// # Errors
    ///
    /// Those of `post`; `EBUSY` if there are too many. The regions are not live then, or the
    /// connection has failed.
    pub(super) fn add(
        &self,
        mut reply: Exposed,
        post: impl FnOnce(&mut KVec<Mr>) -> Result<u64, PostError>,
    ) -> Result {
        let mut state = self.state.lock();
        if !state.record.try_expose() {
            return Err(EBUSY);
        }
        let posted = post(&mut reply.regions);
        if matches!(posted, Err(PostError::Full | PostError::Invalid)) {
            state.record.release();
            return posted.map(drop).map_err(Error::from);
        }
        // After a failure within the chain the requester may reach some of the regions.
        let entry = Entry {
            reply,
            since: time::seconds(),
            done: false,
        };
        // The record bounds the list, which has room for as many.
        let refused = state.list.push_within_capacity(entry);
        drop(state);
        drop(refused);
        posted.map(drop).map_err(Error::from)
    }

    /// Handles an RDMA_DONE: posts the invalidation of the reply's regions, with this tag. Returns
    /// how many bytes the reply has exposed; zero if there is no such reply.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_invalidate`]: the connection is to be closed.
    pub(super) fn done<C: Completions>(
        &self,
        qp: &Qp<C>,
        tag: Tag,
        xid: u32,
    ) -> Result<usize, PostError> {
        let mut state = self.state.lock();
        let State { record, list, .. } = &mut *state;
        let mut waiting = list.iter_mut().filter(|entry| !entry.done);
        let Some(entry) = waiting.find(|entry| entry.reply.xid == xid) else {
            return Ok(0);
        };
        entry.done = true;
        record.release();
        // CAST: `usize` has at least 32 bits.
        let exposed = entry
            .reply
            .regions
            .iter()
            .map(|region| region.len() as usize);
        let exposed = exposed.sum();
        qp.post_invalidate(tag, &mut entry.reply.regions)?;
        Ok(exposed)
    }

    /// Takes back the memory of the replies whose regions are invalidated.
    pub(super) fn reap(&self) {
        loop {
            let mut state = self.state.lock();
            let gone = state.list.iter_mut().position(Entry::is_gone);
            let entry = gone.and_then(|at| state.list.remove(at).ok());
            drop(state);
            if entry.is_none() {
                return;
            }
        }
    }

    /// Returns the XID of a reply whose RDMA_DONE has not come in time.
    pub(super) fn overdue(&self) -> Option<u32> {
        let (now, state) = (time::seconds(), self.state.lock());
        let mut waiting = state.list.iter().filter(|entry| !entry.done);
        let late = waiting.find(|entry| now.wrapping_sub(entry.since) > DEADLINE);
        late.map(|entry| entry.reply.xid)
    }

    /// Drops all replies, and the regions: the queue pair is drained. May sleep.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let dropped = (core::mem::take(&mut state.list), state.pool.take());
        drop(state);
        drop(dropped);
    }
}

impl Entry {
    /// Returns whether the requester can no longer read the reply.
    fn is_gone(&mut self) -> bool {
        // Every region is asked, so that each one becomes idle.
        let live = self
            .reply
            .regions
            .iter_mut()
            .filter_map(|region| (!region.invalidated()).then_some(()));
        self.done && live.count() == 0
    }
}
