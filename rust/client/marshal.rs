// SPDX-License-Identifier: GPL-2.0

//! Prepares a call: plans its chunks, registers memory, encodes the header. No work request is
//! posted here.
//!
//! As a rule this happens outside the send lock, when SUNRPC has just encoded the call. It happens
//! under the send lock if there was no connection then, or a different one.

use kernel::prelude::*;

use super::config::MAX_SEGMENTS;
use super::endpoint::Endpoint;
use super::register::{RegisterError, Registrar};
use super::request::{Offered, Phase, State};
use super::transport::Client;
use super::{padded, shape, traced};
use crate::conn;
use crate::observe::stats::Stats;
use crate::observe::trace::{self, Lazy};
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallKind, Conditions, Extents, Plan, ReplyKind};
use crate::rdma::mr::Direction;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{
    Direction as MessageDirection, EncodeError, ReadListWriter, ReadSegment, Segment, Version,
};

/// Why a call could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarshalError {
    /// No memory region is idle at the moment.
    NoRegions,
    /// The request has no send buffer at the moment.
    NoBuffer,
    /// The DMA layer has no room at the moment.
    NoMapping,
    /// This transport cannot carry the call: it is too long, or its memory cannot be mapped.
    Impossible(Error),
}

impl MarshalError {
    /// Returns the (negative) errno that trace events show.
    fn errno(self) -> i32 {
        match self {
            Self::NoRegions => EAGAIN,
            Self::NoBuffer => ENOBUFS,
            Self::NoMapping => ENOMEM,
            Self::Impossible(error) => error,
        }
        .to_errno()
    }
}

impl From<RegisterError> for MarshalError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::NoRegions => Self::NoRegions,
            RegisterError::TooManySegments => Self::Impossible(EMSGSIZE),
            RegisterError::Map(ENOMEM) => Self::NoMapping,
            RegisterError::Map(error) => Self::Impossible(error),
        }
    }
}

impl From<EncodeError> for MarshalError {
    fn from(_: EncodeError) -> Self {
        Self::Impossible(EMSGSIZE)
    }
}

/// Prepares a call for a connection. A call that is under way is left alone. Does not sleep, unless
/// the driver of the device does ([`super::preparing`]).
///
/// # Errors
///
/// See [`MarshalError`]. The slot is idle after an error.
#[inline(never)]
pub(super) fn prepare(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    state: &mut State,
    stats: &Stats,
) -> Result<(), MarshalError> {
    match state.phase {
        Phase::Idle => {}
        // SUNRPC has encoded the call anew, and its memory may have moved.
        Phase::Prepared => state.take_back(),
        Phase::Preparing | Phase::Sent | Phase::Fencing | Phase::Abandoned | Phase::Withdrawn => {
            return Ok(())
        }
    }
    state.xid = rqst.xid();
    // A change after this makes the call void.
    state.terms = ep.shared().now();
    let done = marshal(ep, rqst, state);
    match done {
        Ok(()) => {
            state.phase = Phase::Prepared;
            rqst.slot().data().begin_use();
        }
        Err(error) => failed(ep, rqst, state, stats, error),
    }
    done
}

/// Makes the slot idle again after a failure, and counts and traces it.
#[cold]
fn failed(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    state: &mut State,
    stats: &Stats,
    error: MarshalError,
) {
    state.reset();
    trace::marshal_failed(traced::task(rqst), rqst.xid(), error.errno());
    if error == MarshalError::NoRegions {
        trace::nomrs_err(traced::task(rqst), conn::traced::peer(ep.shared().owner()));
    }
    stats.failed_marshal();
}

#[inline(always)]
fn marshal(ep: &Endpoint, rqst: &Rqst<'_, Client>, state: &mut State) -> Result<(), MarshalError> {
    let (call, reply) = (rqst.send_buf(), rqst.recv_buf());
    let thresholds = thresholds(state);
    let plan = plan(&thresholds, rqst, &call, &reply)?;
    let header = match padded::place(ep, (&plan, &thresholds), rqst, &call) {
        None => encode_and_copy(
            ep,
            rqst,
            (&plan, thresholds.version),
            (&call, &reply),
            state,
        )?,
        Some(place) => {
            padded::write(ep, rqst, place, &call, state).map_err(MarshalError::Impossible)?
        }
    };
    account(&plan, rqst, header, (&call, state));
    Ok(())
}

/// Registers the chunks, writes the header, and copies what goes inline. Returns the length of the
/// header.
#[inline(always)]
fn encode_and_copy(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    (plan, version): (&Plan, Version),
    (call, reply): (&XdrBuf<'_>, &XdrBuf<'_>),
    state: &mut State,
) -> Result<usize, MarshalError> {
    let header = encode(ep, rqst, (plan, version), (call, reply), state)?;
    let out = state.out.as_mut().ok_or(MarshalError::NoBuffer)?;
    state.out_len = header + copy_inline(plan, call, out.as_mut_slice(), header)?;
    Ok(header)
}

/// Returns the thresholds for a call. A larger buffer may not have reached the slot yet.
#[inline(always)]
fn thresholds(state: &State) -> Thresholds {
    let mut thresholds = state.terms.thresholds();
    if thresholds.version == Version::Two {
        let capacity = state.out.as_ref().map_or(0, SendBuf::capacity);
        // CAST: a buffer's length fits.
        thresholds.client_to_server = thresholds.client_to_server.min(capacity as u32);
    }
    thresholds
}

/// Chooses the chunks.
#[inline(always)]
fn plan(
    thresholds: &Thresholds,
    rqst: &Rqst<'_, Client>,
    call: &XdrBuf<'_>,
    reply: &XdrBuf<'_>,
) -> Result<Plan, MarshalError> {
    let (call, reply) = (shape::call(call), shape::reply(reply));
    let conditions = Conditions {
        thresholds: *thresholds,
        // It matters for a payload in pages only.
        data_touch: (call.payload_in_pages || reply.payload_in_pages) && rqst.data_touch(),
        max_segs: MAX_SEGMENTS,
        pad_write_chunks: false,
    };
    Plan::new(&call, &reply, &conditions).map_err(|_| MarshalError::Impossible(EMSGSIZE))
}

/// Registers the chunks and writes the header. Returns the length of the header.
#[inline(always)]
fn encode(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    (plan, version): (&Plan, Version),
    (call, reply): (&XdrBuf<'_>, &XdrBuf<'_>),
    state: &mut State,
) -> Result<usize, MarshalError> {
    let State {
        out,
        regions,
        spare,
        offered,
        offer,
        ..
    } = state;
    let xid = rqst.xid();
    let mut registrar = Registrar {
        pools: &ep.pools,
        rqst,
        regions,
        spare,
    };
    let buf = out.as_mut().ok_or(MarshalError::NoBuffer)?.as_mut_slice();
    let credits = ep.requester().credits.requested();
    let call_direction = MessageDirection::Call;
    let mut header = version.begin(buf, xid, credits, call_direction, plan.proc())?;
    encode_read_chunk(ep, &mut registrar, plan, call, &mut header)?;
    encode_reply_room(&mut registrar, plan, reply, header, (offer, offered))
}

/// Registers the memory that the responder reads, and writes the read list.
#[inline(always)]
fn encode_read_chunk(
    ep: &Endpoint,
    registrar: &mut Registrar<'_>,
    plan: &Plan,
    call: &XdrBuf<'_>,
    header: &mut ReadListWriter<'_>,
) -> Result<(), MarshalError> {
    let Some(position) = read_position(plan) else {
        return Ok(());
    };
    if !ep.requester().legacy.may_offer_read_chunks() {
        return Err(MarshalError::Impossible(EMSGSIZE));
    }
    let task = traced::task(registrar.rqst);
    registrar.chunk(call, &plan.read_chunk(), Direction::ToPeer, |m| {
        let entry = ReadSegment {
            position,
            segment: m.segment,
        };
        trace::chunk_read(task, &entry, m.region.nents(), m.last);
        header.segment(position, m.segment).map_err(|_| EMSGSIZE)
    })?;
    Ok(())
}

/// Registers the memory that the responder writes, and writes the rest of the header. Returns the
/// length of the header.
#[inline(always)]
fn encode_reply_room(
    registrar: &mut Registrar<'_>,
    plan: &Plan,
    reply: &XdrBuf<'_>,
    header: ReadListWriter<'_>,
    (offer, offered): (&mut Offered, &mut KVec<Segment>),
) -> Result<usize, MarshalError> {
    let task = traced::task(registrar.rqst);
    let mut note = |segment| offered.push_within_capacity(segment).map_err(|_| EMSGSIZE);
    match plan.reply() {
        ReplyKind::Inline => Ok(header.finish()?),
        ReplyKind::WriteChunk { .. } => {
            *offer = Offered::WriteChunk;
            let mut chunk = header.write_list()?.chunk()?;
            registrar.chunk(reply, &plan.write_chunk(), Direction::FromPeer, |m| {
                trace::chunk_write(task, &m.segment, m.region.nents(), m.last);
                note(m.segment)?;
                chunk.segment(m.segment).map_err(|_| EMSGSIZE)
            })?;
            Ok(chunk.end().finish()?)
        }
        ReplyKind::ReplyChunk => {
            *offer = Offered::ReplyChunk;
            let mut chunk = header.write_list()?.reply_chunk()?.chunk()?;
            registrar.chunk(reply, &plan.reply_chunk(), Direction::FromPeer, |m| {
                trace::chunk_reply(task, &m.segment, m.region.nents(), m.last);
                note(m.segment)?;
                chunk.segment(m.segment).map_err(|_| EMSGSIZE)
            })?;
            Ok(chunk.finish())
        }
    }
}

/// Returns the position of the read chunk, if there is one.
fn read_position(plan: &Plan) -> Option<u32> {
    match plan.call() {
        CallKind::Inline => None,
        CallKind::ReadChunk { position } => Some(position),
        CallKind::PositionZero => Some(0),
    }
}

/// Copies the inline part of the RPC message behind the header. Returns its length.
#[inline(always)]
fn copy_inline(
    plan: &Plan,
    call: &XdrBuf<'_>,
    out: &mut [u8],
    header: usize,
) -> Result<usize, MarshalError> {
    let room = out
        .get_mut(header..)
        .ok_or(MarshalError::Impossible(EMSGSIZE))?;
    let parts = plan.inline_call();
    // CAST: `usize` has at least 32 bits.
    let len = match plan.call() {
        CallKind::Inline => parts.len() as usize,
        CallKind::PositionZero => return Ok(0),
        CallKind::ReadChunk { .. } => parts.head() as usize,
    };
    let (dest, rest) = room
        .split_at_mut_checked(len)
        .ok_or(MarshalError::Impossible(EMSGSIZE))?;
    call.copy_to(0, dest).map_err(MarshalError::Impossible)?;
    match plan.call() {
        CallKind::ReadChunk { .. } if parts.tail().1 != 0 => {
            Ok(len + copy_tail(&parts, call, rest)?)
        }
        _ => Ok(len),
    }
}

/// Copies what is inline of the tail. Returns its length.
#[cold]
fn copy_tail(parts: &Extents, call: &XdrBuf<'_>, room: &mut [u8]) -> Result<usize, MarshalError> {
    let (start, len) = parts.tail();
    // CAST: `usize` has at least 32 bits.
    let dest = room
        .get_mut(..len as usize)
        .ok_or(MarshalError::Impossible(EMSGSIZE))?;
    call.copy_to(call.head_len() + call.page_len() + start, dest)
        .map_err(MarshalError::Impossible)?;
    Ok(len as usize)
}

/// Counts and traces the prepared call.
#[inline(always)]
fn account(
    plan: &Plan,
    rqst: &Rqst<'_, Client>,
    header: usize,
    (call, state): (&XdrBuf<'_>, &mut State),
) {
    let (offered, all) = (state.offered.len(), state.regions.len());
    let stats = &mut state.counts;
    match plan.call() {
        CallKind::Inline => {}
        CallKind::ReadChunk { .. } => stats.read_chunk(all.wrapping_sub(offered)),
        CallKind::PositionZero => {
            stats.read_chunk(all.wrapping_sub(offered));
            stats.nomsg_call();
        }
    }
    match plan.reply() {
        ReplyKind::Inline => {}
        ReplyKind::WriteChunk { .. } => stats.write_chunk(offered, plan.write_chunk().len()),
        ReplyKind::ReplyChunk => stats.reply_chunk(offered, plan.reply_chunk().len()),
    }
    stats.pullup(state.out_len.wrapping_sub(header));
    trace::marshal(
        traced::task(rqst),
        rqst.xid(),
        header,
        Lazy(|| shape::call(call)),
        plan.call(),
        plan.reply(),
    );
}
