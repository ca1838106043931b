// SPDX-License-Identifier: GPL-2.0

//! Calls whose only chunk is one payload in pages, and fits in one memory region: the usual READ
//! and WRITE. [`super::whole`] has those whose only chunk is a whole message, and
//! [`super::marshal`] the way of any other call.

use kernel::prelude::*;

use super::assemble::{account, begin, copy_inline, MarshalError};
use super::endpoint::Endpoint;
use super::register::RegisterError;
use super::request::{Offered, State};
use super::traced;
use super::transport::Client;
use crate::conn;
use crate::observe::trace;
use crate::proto::requester::plan::{Forms, SingleChunk};
use crate::rdma::mr::{Direction, Kind, Memory, Mr};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{ReadSegment, Segment};

/// Prepares a call whose only chunk is a payload, if one region takes it. Returns whether it did;
/// otherwise nothing was done. After a failure the caller gives the region back.
///
/// # Errors
///
/// See [`MarshalError`].
#[inline(always)]
pub(super) fn marshal(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    state: &mut State,
) -> Result<bool, MarshalError> {
    let Some(chunk) = forms.single_chunk() else {
        return Ok(false);
    };
    let Some((segment, nents)) = map(ep, rqst, chunk, state)? else {
        return Ok(false);
    };
    let task = traced::task(rqst);
    let header = begin(ep, rqst, forms, state.terms.version(), &mut state.out)?;
    let header = match chunk {
        SingleChunk::Read { position } => {
            let entry = ReadSegment { position, segment };
            trace::chunk_read(task, &entry, nents, true);
            let mut header = header;
            header.segment(position, segment)?;
            header.finish()?
        }
        SingleChunk::Write => {
            trace::chunk_write(task, &segment, nents, true);
            let mut chunk = header.write_list()?.chunk()?;
            chunk.segment(segment)?;
            let len = chunk.end().finish()?;
            offer(Offered::WriteChunk, segment, state)?;
            len
        }
    };
    copy_inline(forms.call, &rqst.send_buf(), header, state)?;
    account(forms, rqst, header, state);
    Ok(true)
}

/// Notes the only segment that the call offers for its reply.
#[inline(always)]
pub(super) fn offer(
    what: Offered,
    segment: Segment,
    state: &mut State,
) -> Result<(), MarshalError> {
    state.offer = what;
    let noted = state.offered.push_within_capacity(segment);
    noted.map_err(|_| MarshalError::Impossible(EMSGSIZE))
}

/// Maps the payload of a call. Returns the segment, and the number of pieces that it has. `None`:
/// nothing was mapped.
#[inline(always)]
fn map(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    chunk: SingleChunk,
    state: &mut State,
) -> Result<Option<(Segment, u32)>, MarshalError> {
    let (memory, direction) = match chunk {
        SingleChunk::Read { .. } if !ep.requester().legacy.may_offer_read_chunks() => {
            return Ok(None)
        }
        SingleChunk::Read { .. } => (rqst.send_buf(), Direction::ToPeer),
        SingleChunk::Write => (rqst.recv_buf(), Direction::FromPeer),
    };
    map_memory(ep, rqst, (memory.payload(), Kind::Plain), direction, state)
}

/// Maps memory in one region of this kind. Returns the segment, and the number of pieces that it
/// has. `None`: nothing was mapped, since one region does not take all of the memory, or there is
/// no region.
#[inline(always)]
pub(super) fn map_memory(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    (mut memory, kind): (impl Memory, Kind),
    direction: Direction,
    state: &mut State,
) -> Result<Option<(Segment, u32)>, MarshalError> {
    let Some(mut region) = take(ep, state, &memory, kind) else {
        return Ok(None);
    };
    let done = region
        .map(&mut memory, direction, rqst.xid())
        .inspect(|_| trace::mr_map(traced::task(rqst), conn::traced::region(&region)));
    let mapped = (conn::traced::segment(&region), region.nents());
    let kept = state.regions.push_within_capacity(region);
    kept.map_err(|_| MarshalError::Impossible(EMSGSIZE))?;
    done.map_err(RegisterError::Map)?;
    Ok(Some(mapped))
}

/// Takes an idle region that can map all of `memory`, if there is one.
#[inline(always)]
fn take(ep: &Endpoint, state: &mut State, memory: &impl Memory, kind: Kind) -> Option<Mr> {
    let spare = state.spare.take(kind);
    let region = spare.or_else(|| ep.pools.get(kind))?;
    if region.takes(memory) {
        return Some(region);
    }
    drop(state.spare.keep(region));
    None
}
