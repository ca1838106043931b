// SPDX-License-Identifier: GPL-2.0

//! Registering the memory of one chunk.

use kernel::prelude::*;

use super::config::MAX_SEGMENTS;
use super::names;
use super::pools::Pools;
use super::transport::Client;
use crate::observe::trace;
use crate::proto::requester::plan::{Extents, Section};
use crate::rdma::mr::{Direction, Mr};
use crate::sunrpc::xdr_buf::{Pieces, XdrBuf};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::Segment;

/// Why memory could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterError {
    /// No memory region is free; there will be again.
    NoRegions,
    /// The memory is so scattered that a chunk would take more than [`MAX_SEGMENTS`] segments.
    TooManySegments,
    /// The memory could not be mapped for DMA; `ENOMEM`: not at the moment.
    Map(Error),
}

/// The memory of a chunk, in order. What makes up a chunk follows each other in the message.
#[inline]
fn pieces<'a>(buf: &'a XdrBuf<'_>, chunk: &Extents) -> Pieces<'a> {
    let start = match chunk.begins() {
        Section::Head => 0,
        Section::Pages => buf.head_len(),
        Section::Tail => buf.head_len() + buf.page_len(),
    };
    buf.pieces(start, chunk.len())
}

/// A segment that has been mapped, for the header and the trace.
pub(super) struct Mapped<'a> {
    pub(super) region: &'a Mr,
    pub(super) segment: Segment,
    /// No other segment of the chunk follows.
    pub(super) last: bool,
}

/// What registering for one call takes.
pub(super) struct Registrar<'a> {
    pub(super) pools: &'a Pools,
    /// The call; its XID is part of the addresses that the peer is given.
    pub(super) rqst: &'a Rqst<'a, Client>,
    /// Where the regions go, within its capacity.
    pub(super) regions: &'a mut KVec<Mr>,
}

impl Registrar<'_> {
    /// Maps what `chunk` takes of `buf`, in as many memory regions as it needs, and hands each to
    /// `encode`. After a failure the regions are the caller's to give back.
    ///
    /// # Errors
    ///
    /// See [`RegisterError`]; also whatever `encode` returns, as [`RegisterError::Map`].
    pub(super) fn chunk(
        &mut self,
        buf: &XdrBuf<'_>,
        chunk: &Extents,
        direction: Direction,
        mut encode: impl FnMut(Mapped<'_>) -> Result,
    ) -> Result<(), RegisterError> {
        let (xid, mut pieces) = (self.rqst.xid(), pieces(buf, chunk).peekable());
        let mut segments = 0;
        while pieces.peek().is_some() {
            if segments == MAX_SEGMENTS {
                return Err(RegisterError::TooManySegments);
            }
            segments += 1;
            let mut region = self.pools.get(chunk).ok_or(RegisterError::NoRegions)?;
            let mapped = region.map(&mut pieces, direction, xid);
            let done = mapped.and_then(|_| {
                trace::mr_map(names::task(self.rqst), names::region(&region));
                encode(Mapped {
                    segment: names::segment(&region),
                    last: pieces.peek().is_none(),
                    region: &region,
                })
            });
            if self.regions.push_within_capacity(region).is_err() {
                return Err(RegisterError::TooManySegments);
            }
            done.map_err(RegisterError::Map)?;
        }
        Ok(())
    }
}
