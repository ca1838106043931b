// SPDX-License-Identifier: GPL-2.0

//! Registers the memory of one chunk.

use kernel::prelude::*;

use super::config::MAX_SEGMENTS;
use super::pools::Pools;
use super::spare::Spare;
use super::traced;
use super::transport::Client;
use crate::conn;
use crate::observe::trace;
use crate::proto::requester::plan::Extents;
use crate::rdma::mr::{DataDirection, Kind, Memory, Mr, Parts};
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::Segment;

/// Why memory could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterError {
    /// No memory region is idle. Regions come back as RPCs complete.
    NoRegions,
    /// The memory is so scattered that a chunk would take more than [`MAX_SEGMENTS`] segments.
    TooManySegments,
    /// The memory could not be mapped for DMA. `ENOMEM` means that it may succeed later.
    Map(Error),
}

/// A memory region that has been mapped, for the header and the trace.
pub(super) struct Mapped<'a> {
    pub(super) region: &'a Mr,
    pub(super) segment: Segment,
    /// No other segment of the chunk follows.
    pub(super) last: bool,
}

/// Registers memory for one call.
pub(super) struct Registrar<'a> {
    pub(super) pools: &'a Pools,
    /// The call. Its XID is part of the addresses that the peer gets.
    pub(super) rqst: &'a Rqst<'a, Client>,
    /// Receives the regions, within its capacity.
    pub(super) regions: &'a mut KVec<Mr>,
    /// Idle regions, which are used first.
    pub(super) spare: &'a mut Spare,
}

impl Registrar<'_> {
    /// Maps the part of `buf` that `chunk` takes, its payload or all of it, in as many memory
    /// regions as it needs, and calls `encode` for each. After a failure the caller gives the
    /// regions back. Does not sleep.
    ///
    /// # Errors
    ///
    /// See [`RegisterError`]. An error of `encode` becomes [`RegisterError::Map`].
    #[inline(always)]
    pub(super) fn chunk(
        &mut self,
        buf: &XdrBuf<'_>,
        chunk: &Extents,
        direction: DataDirection,
        encode: impl FnMut(Mapped<'_>) -> Result,
    ) -> Result<(), RegisterError> {
        let (memory, kind) = if chunk.is_payload() {
            (Parts::Payload(buf.payload()), Kind::Plain)
        } else {
            (Parts::Sections(buf.sections()), Kind::Gapped)
        };
        self.map(memory, kind, direction, encode)
    }

    /// Takes an idle region of this kind.
    #[inline]
    fn take(&mut self, kind: Kind) -> Option<Mr> {
        self.spare.take(kind).or_else(|| self.pools.get(kind))
    }

    /// Maps `memory` in regions of the given kind, if there are such.
    #[inline(always)]
    fn map(
        &mut self,
        mut memory: impl Memory,
        kind: Kind,
        direction: DataDirection,
        mut encode: impl FnMut(Mapped<'_>) -> Result,
    ) -> Result<(), RegisterError> {
        for _ in 0..MAX_SEGMENTS {
            let mut region = self.take(kind).ok_or(RegisterError::NoRegions)?;
            let done = match region.map(&mut memory, direction, self.rqst.xid()) {
                Ok(_) => {
                    trace::mr_map(traced::task(self.rqst), conn::traced::region(&region));
                    encode(Mapped {
                        segment: conn::traced::segment(&region),
                        last: memory.is_empty(),
                        region: &region,
                    })
                }
                Err(error) => Err(error),
            };
            if self.regions.push_within_capacity(region).is_err() {
                return Err(RegisterError::TooManySegments);
            }
            done.map_err(RegisterError::Map)?;
            if memory.is_empty() {
                return Ok(());
            }
        }
        Err(RegisterError::TooManySegments)
    }
}
