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

use crate::compat::code::{ENOBUFS, ENOTCONN};
use crate::proto::legacy::done::Exposure;
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::{DataDirection, Memory, Mr, MrPool};
use crate::rdma::qp::{Completions, PostError, Qp};
use crate::rdma::scatter::Source;
use crate::server::call::budget::Permit;
use crate::server::call::in_flight::{lane, InFlight, INVALIDATION};
use crate::server::config::SQ_FULL;
use crate::sunrpc::time;
use crate::sunrpc::xdr_buf::XdrBuf;

/// The maximum number of replies of a connection that the requester may read at the same time.
const MOST: u32 = 8;
/// The maximum number of memory regions of a reply.
const SEGMENTS: usize = 8;
/// Seconds within which the RDMA_DONE for a reply must arrive.
const DEADLINE: usize = 30;

/// How far a reply is.
pub(super) enum Stage {
    /// The message, a buffer and a length, is to be posted. After a failure within the chain the
    /// requester may be able to reach some of the regions.
    Unsent(Option<(SendBuf, usize)>),
    /// The requester may read the reply.
    Exposed,
    /// The RDMA_DONE has arrived, and the invalidation of the regions is to be posted.
    Done,
    /// The invalidation was posted.
    Invalidating,
}

/// A reply that the requester may read.
pub(super) struct ReadChunkReply {
    pub(super) xid: u32,
    pub(super) regions: KVec<Mr>,
    /// The pages.
    pub(super) _source: Source,
    pub(super) permit: Permit,
    pub(super) stage: Stage,
    /// The time at which the reply was sent, or is to be sent, in seconds.
    pub(super) since: usize,
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
    /// Counts the replies in the list, and the places for others.
    record: Exposure,
    /// A reply leaves the list when its regions are invalidated, or the queue pair is drained.
    list: KVec<ReadChunkReply>,
}

/// A place in the list for a reply that is being prepared. Dropping the value gives it back; the
/// caller holds no lock.
pub(super) struct Place<'r>(&'r ReadChunkReplies);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state.lock().record.release();
    }
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

    /// Returns a place for a further reply, and the regions; `None` if no reply is permitted.
    pub(super) fn place(&self) -> Option<(Place<'_>, Arc<MrPool>)> {
        let mut state = self.state.lock();
        let pool = state.pool.clone()?;
        let exposed = state.record.try_expose();
        exposed.then(|| (Place(self), pool))
    }

    /// Returns the grant for a reply with a place that is sent with `credits` credits: a credit is
    /// reserved for each expected RDMA_DONE, that of this reply included.
    pub(super) fn grant(&self, credits: u32) -> u32 {
        self.state.lock().record.grant(credits)
    }

    /// Returns the number of pages of the budget that the replies use.
    pub(super) fn pages(&self) -> usize {
        let list = &self.state.lock().list;
        list.iter().map(|reply| reply.permit.pages).sum()
    }

    /// Adds a reply at its place. [`Self::resume`] posts its message.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: the connection was closed.
    pub(super) fn add(&self, place: Place<'_>, reply: ReadChunkReply) -> Result {
        // The list has room for every place, until the connection is closed.
        let added = self.state.lock().list.push_within_capacity(reply);
        added.map_err(|_| ENOTCONN)?;
        // The reply has the place from now on.
        core::mem::forget(place);
        Ok(())
    }

    /// Handles an RDMA_DONE. [`Self::resume`] posts the invalidation of the reply's regions.
    /// Returns the bytes that the requester could read; zero if there is no such reply.
    pub(super) fn done(&self, xid: u32) -> usize {
        let mut state = self.state.lock();
        let exposed = |r: &&mut ReadChunkReply| r.xid == xid && matches!(r.stage, Stage::Exposed);
        let Some(reply) = state.list.iter_mut().find(exposed) else {
            return 0;
        };
        reply.stage = Stage::Done;
        // CAST: `usize` has at least 32 bits.
        reply.regions.iter().map(|r| r.len() as usize).sum()
    }

    /// Posts messages and invalidations while there is space on the send queue. The lock is held
    /// meanwhile, so that an RDMA_DONE finds its reply.
    ///
    /// # Errors
    ///
    /// Those of posting: the connection must be closed.
    pub(super) fn resume<C: Completions>(
        &self,
        in_flight: &InFlight,
        qp: &Qp<C>,
    ) -> Result<(), PostError> {
        let list = &mut self.state.lock().list;
        let mut replies = list.iter_mut();
        let posted = replies.try_for_each(|reply| reply.post(in_flight, qp));
        if posted != Err(PostError::Full) {
            return posted;
        }
        SQ_FULL.add(lane(qp), 1);
        Ok(())
    }

    /// Frees the replies whose regions are invalidated.
    pub(super) fn reap(&self) {
        loop {
            let mut state = self.state.lock();
            let gone = state.list.iter_mut().position(ReadChunkReply::is_gone);
            let Some(_reply) = gone.and_then(|at| state.list.remove(at).ok()) else {
                return;
            };
            state.record.release();
            drop(state);
        }
    }

    /// Returns the XID of a reply whose RDMA_DONE is overdue.
    pub(super) fn overdue(&self) -> Option<u32> {
        let (now, state) = (time::seconds(), self.state.lock());
        let late = |r: &&ReadChunkReply| now.wrapping_sub(r.since) > DEADLINE && !r.is_done();
        state.list.iter().find(late).map(|reply| reply.xid)
    }

    /// Drops all replies and the regions, after the queue pair has been drained. May sleep.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let _dropped = (core::mem::take(&mut state.list), state.pool.take());
        drop(state);
    }
}

impl ReadChunkReply {
    /// Posts the message, or the invalidation of the regions, if it is due.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_send`] and [`Qp::post_invalidate`]. The stage stays.
    fn post<C: Completions>(&mut self, in_flight: &InFlight, qp: &Qp<C>) -> Result<(), PostError> {
        let regions = &mut self.regions;
        let next = match &mut self.stage {
            Stage::Unsent(message) => {
                in_flight.send_registering(qp, regions, message)?;
                Stage::Exposed
            }
            Stage::Done => {
                qp.post_invalidate(INVALIDATION, regions)?;
                Stage::Invalidating
            }
            Stage::Exposed | Stage::Invalidating => return Ok(()),
        };
        (self.stage, self.since) = (next, time::seconds());
        Ok(())
    }

    /// Returns whether the RDMA_DONE has arrived.
    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::Invalidating)
    }

    /// Returns whether the requester can no longer read the reply.
    fn is_gone(&mut self) -> bool {
        let invalidating = matches!(self.stage, Stage::Invalidating);
        invalidating && self.regions.iter_mut().all(Mr::invalidated)
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
