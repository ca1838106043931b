// SPDX-License-Identifier: GPL-2.0

//! Replies as read chunks: RFC 5666 sections 3.8 and 5.2.
//!
//! A requester of RFC 8166 gets an error if a reply fits neither inline nor the chunks that its
//! call offers. A requester of RFC 5666 reads such a reply, and sends RDMA_DONE. Only a requester
//! without private data gets such a reply, and only if a setting permits that. The pages of the
//! reply stay registered until the RDMA_DONE has arrived and their regions are invalidated. A
//! connection on which an RDMA_DONE is overdue is closed.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::compat::code::ENOBUFS;
use crate::proto::legacy::done::Exposure;
use crate::rdma::mr::{DataDirection, Memory, Mr, MrPool};
use crate::rdma::qp::{Completions, PostError, Qp};
use crate::rdma::scatter::Source;
use crate::server::call::budget::Permit;
use crate::server::call::in_flight::INVALIDATION;
use crate::sunrpc::time;
use crate::sunrpc::xdr_buf::XdrBuf;

/// The maximum number of replies of a connection that the requester may read at the same time.
const MOST: u32 = 8;
/// The maximum number of memory regions of a reply.
const SEGMENTS: usize = 8;
/// Seconds within which the RDMA_DONE for a reply must arrive.
const DEADLINE: usize = 30;

/// A reply that the requester may read.
pub(super) struct ReadChunkReply {
    pub(super) xid: u32,
    pub(super) regions: KVec<Mr>,
    /// The pages.
    pub(super) _source: Source,
    pub(super) permit: Permit,
}

/// A reply in the list.
struct Listed {
    reply: ReadChunkReply,
    /// The time at which the reply was sent, in seconds.
    since: usize,
    /// The RDMA_DONE has arrived, and the invalidation of the regions was posted.
    done: bool,
}

/// The replies of one connection that the requester may read.
#[pin_data]
pub(super) struct ReadChunkReplies {
    #[pin]
    state: SpinLock<RepliesState>,
}

struct RepliesState {
    /// The regions; `None` if no reply may be a read chunk.
    pool: Option<Arc<MrPool>>,
    record: Exposure,
    list: KVec<Listed>,
}

impl ReadChunkReplies {
    /// Makes the state of a connection that permits no such replies.
    pub(super) fn new() -> impl PinInit<Self> {
        let state = RepliesState {
            pool: None,
            record: Exposure::new(MOST),
            list: KVec::new(),
        };
        pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::ReadChunkReplies::state"),
        })
    }

    /// Permits such replies, with the regions of `pool`. May sleep.
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

    /// Returns the regions, if a further reply is permitted.
    pub(super) fn pool(&self) -> Option<Arc<MrPool>> {
        let state = self.state.lock();
        // CAST: `usize` has at least 32 bits.
        let allowed = state.list.len() < MOST as usize;
        state.pool.clone().filter(|_| allowed)
    }

    /// Returns the grant for a reply that is sent with `credits` credits: a credit is reserved for
    /// each expected RDMA_DONE, that of this reply included.
    pub(super) fn grant(&self, credits: u32) -> u32 {
        let record = &self.state.lock().record;
        record.grant(credits).saturating_sub(1).max(1)
    }

    /// Returns the number of pages of the budget that the replies use.
    pub(super) fn pages(&self) -> usize {
        let list = &self.state.lock().list;
        list.iter().map(|entry| entry.reply.permit.pages).sum()
    }

    /// Adds a reply, and posts it by `post`. The lock is held meanwhile, so that the RDMA_DONE
    /// finds the reply.
    ///
    /// # Errors
    ///
    /// Those of `post`; `EBUSY` if there are too many replies. After an error the regions are not
    /// live, or the connection has failed.
    pub(super) fn add(
        &self,
        mut reply: ReadChunkReply,
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
        let entry = Listed {
            reply,
            since: time::seconds(),
            done: false,
        };
        // The record bounds the list, whose capacity is the bound.
        let refused = state.list.push_within_capacity(entry);
        drop(state);
        drop(refused);
        posted.map(drop).map_err(Error::from)
    }

    /// Handles an RDMA_DONE: posts the invalidation of the reply's regions. Returns the bytes that
    /// the requester could read; zero if there is no such reply.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_invalidate`]: the connection must be closed.
    pub(super) fn done<C: Completions>(&self, qp: &Qp<C>, xid: u32) -> Result<usize, PostError> {
        let mut state = self.state.lock();
        let RepliesState { record, list, .. } = &mut *state;
        let mut waiting = list.iter_mut().filter(|entry| !entry.done);
        let Some(entry) = waiting.find(|entry| entry.reply.xid == xid) else {
            return Ok(0);
        };
        entry.done = true;
        record.release();
        // CAST: `usize` has at least 32 bits.
        let bytes = entry
            .reply
            .regions
            .iter()
            .map(|region| region.len() as usize);
        let bytes = bytes.sum();
        qp.post_invalidate(INVALIDATION, &mut entry.reply.regions)?;
        Ok(bytes)
    }

    /// Frees the replies whose regions are invalidated.
    pub(super) fn reap(&self) {
        loop {
            let mut state = self.state.lock();
            let gone = state.list.iter_mut().position(Listed::is_gone);
            let entry = gone.and_then(|at| state.list.remove(at).ok());
            drop(state);
            if entry.is_none() {
                return;
            }
        }
    }

    /// Returns the XID of a reply whose RDMA_DONE is overdue.
    pub(super) fn overdue(&self) -> Option<u32> {
        let (now, state) = (time::seconds(), self.state.lock());
        let mut waiting = state.list.iter().filter(|entry| !entry.done);
        let late = waiting.find(|entry| now.wrapping_sub(entry.since) > DEADLINE);
        late.map(|entry| entry.reply.xid)
    }

    /// Drops all replies and the regions, after the queue pair has been drained. May sleep.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let dropped = (core::mem::take(&mut state.list), state.pool.take());
        drop(state);
        drop(dropped);
    }
}

impl Listed {
    /// Returns whether the requester can no longer read the reply.
    fn is_gone(&mut self) -> bool {
        // Every region is checked, so that each becomes idle.
        let live = self
            .reply
            .regions
            .iter_mut()
            .filter_map(|region| (!region.invalidated()).then_some(()));
        self.done && live.count() == 0
    }
}

/// Maps a reply for the requester to read.
///
/// # Errors
///
/// `ENOBUFS`: there are too few regions; `EMSGSIZE`: the reply takes too many; another error if the
/// device cannot map the reply.
pub(super) fn map(pool: &Arc<MrPool>, message: &XdrBuf<'_>, xid: u32) -> Result<KVec<Mr>> {
    let mut regions = KVec::with_capacity(SEGMENTS, GFP_KERNEL)?;
    let mut pieces = message.pieces(0, message.len()).peekable();
    while !Memory::is_empty(&mut pieces) {
        let mut region = pool.get().ok_or(ENOBUFS)?;
        region.map(&mut pieces, DataDirection::ToDevice, xid)?;
        regions.push_within_capacity(region).map_err(|_| EMSGSIZE)?;
    }
    Ok(regions)
}
