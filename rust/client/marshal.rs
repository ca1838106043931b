// SPDX-License-Identifier: GPL-2.0

//! Preparing a call: plan, register, encode. Nothing is posted here.
//!
//! Happens outside the send lock as a rule, when SUNRPC has just encoded the call; under it when
//! there was no connection then, or another one.

use kernel::prelude::*;

use super::config::MAX_SEGMENTS;
use super::endpoint::Endpoint;
use super::register::{RegisterError, Registrar};
use super::request::{Offered, Phase, State};
use super::transport::Client;
use super::{names, reply};
use crate::observe::stats::Stats;
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::plan::{CallKind, CallShape, Conditions, Plan, ReplyKind, Section};
use crate::rdma::mr::Direction;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{self, EncodeError, ReadListWriter, ReadSegment, Segment};

/// Why a call could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarshalError {
    /// No memory region is free at the moment.
    NoRegions,
    /// The request has no send buffer at the moment.
    NoBuffer,
    /// The DMA layer has no room at the moment.
    NoMapping,
    /// The call cannot be sent over this transport at all: too long, or its memory cannot be mapped.
    Impossible(Error),
}

impl MarshalError {
    /// The (negative) errno that trace events show.
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

/// Prepares a call for a connection, unless it is prepared for it or on its way already. Does not
/// sleep.
///
/// # Errors
///
/// See [`MarshalError`]. The request is idle then.
pub(super) fn prepare(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    state: &mut State,
    stats: &Stats,
) -> Result<(), MarshalError> {
    match state.phase {
        Phase::Idle => {}
        // Encoded anew: what was mapped may have moved.
        Phase::Prepared => state.reset(),
        Phase::Sent | Phase::Fencing | Phase::Abandoned | Phase::Withdrawn => return Ok(()),
    }
    state.xid = rqst.xid();
    let done = marshal(ep, rqst, state, stats);
    match done {
        Ok(()) => state.phase = Phase::Prepared,
        Err(error) => {
            state.reset();
            trace::marshal_failed(names::task(rqst), rqst.xid(), error.errno());
            if error == MarshalError::NoRegions {
                trace::nomrs_err(names::task(rqst), names::peer(ep.link.xprt()));
            }
            stats.failed_marshal();
        }
    }
    done
}

fn marshal(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    state: &mut State,
    stats: &Stats,
) -> Result<(), MarshalError> {
    let (call, reply) = (rqst.send_buf(), rqst.recv_buf());
    let plan = plan(ep, rqst, &call, &reply)?;
    let header = encode(ep, rqst, &plan, (&call, &reply), state)?;
    let out = state.out.as_mut().ok_or(MarshalError::NoBuffer)?;
    state.out_len = header + copy_inline(&plan, &call, out.as_mut_slice(), header)?;
    account(&plan, rqst, header, (&call, state), stats);
    Ok(())
}

/// Chooses the chunks.
fn plan(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    call: &XdrBuf<'_>,
    reply: &XdrBuf<'_>,
) -> Result<Plan, MarshalError> {
    let call = shape(call);
    let reply = reply::shape(reply);
    let conditions = Conditions {
        thresholds: ep.thresholds,
        data_touch: rqst.data_touch(),
        max_segs: MAX_SEGMENTS,
        pad_write_chunks: false,
    };
    Plan::new(&call, &reply, &conditions).map_err(|_| MarshalError::Impossible(EMSGSIZE))
}

/// Registers the chunks and writes the header. Returns its length.
fn encode(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    plan: &Plan,
    (call, reply): (&XdrBuf<'_>, &XdrBuf<'_>),
    state: &mut State,
) -> Result<usize, MarshalError> {
    let State {
        out,
        regions,
        offered,
        offer,
        ..
    } = state;
    let xid = rqst.xid();
    let mut registrar = Registrar {
        pools: &ep.pools,
        rqst,
        regions,
    };
    let buf = out.as_mut().ok_or(MarshalError::NoBuffer)?.as_mut_slice();
    let version = ep.link.version();
    let mut header = version.begin(
        buf,
        xid,
        ep.sizing.credits,
        wire::Direction::Call,
        plan.proc(),
    )?;
    encode_read_chunk(&mut registrar, plan, call, &mut header)?;
    encode_reply_room(&mut registrar, plan, reply, header, (offer, offered))
}

/// Registers what the responder is to read, and lists it.
fn encode_read_chunk(
    registrar: &mut Registrar<'_>,
    plan: &Plan,
    call: &XdrBuf<'_>,
    header: &mut ReadListWriter<'_>,
) -> Result<(), MarshalError> {
    let Some(position) = read_position(plan) else {
        return Ok(());
    };
    let task = names::task(registrar.rqst);
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

/// Registers what the responder is to write, and ends the header with it. Returns its length.
fn encode_reply_room(
    registrar: &mut Registrar<'_>,
    plan: &Plan,
    reply: &XdrBuf<'_>,
    header: ReadListWriter<'_>,
    (offer, offered): (&mut Offered, &mut KVec<Segment>),
) -> Result<usize, MarshalError> {
    let task = names::task(registrar.rqst);
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

/// The read chunk's position, if there is one.
fn read_position(plan: &Plan) -> Option<u32> {
    match plan.call() {
        CallKind::InlineCopied | CallKind::InlineGathered => None,
        CallKind::ReadChunk { position } => Some(position),
        CallKind::PositionZero => Some(0),
    }
}

/// Copies what of the RPC message goes inline behind the header. Returns its length.
fn copy_inline(
    plan: &Plan,
    call: &XdrBuf<'_>,
    out: &mut [u8],
    header: usize,
) -> Result<usize, MarshalError> {
    let mut room = out
        .get_mut(header..)
        .ok_or(MarshalError::Impossible(EMSGSIZE))?;
    let whole = match plan.call() {
        CallKind::InlineCopied | CallKind::InlineGathered => Some(plan.inline_call().len()),
        CallKind::PositionZero => Some(0),
        CallKind::ReadChunk { .. } => None,
    };
    if let Some(len) = whole {
        // CAST: `usize` has at least 32 bits.
        let len = len as usize;
        let dest = room
            .get_mut(..len)
            .ok_or(MarshalError::Impossible(EMSGSIZE))?;
        call.copy_to(0, dest).map_err(MarshalError::Impossible)?;
        return Ok(len);
    }
    let mut copied = 0;
    for extent in plan.inline_call().iter() {
        let base = match extent.section {
            Section::Head => 0,
            Section::Pages => call.head_len(),
            Section::Tail => call.head_len() + call.page_len(),
        };
        // CAST: `usize` has at least 32 bits.
        let len = extent.len as usize;
        let (dest, rest) = room
            .split_at_mut_checked(len)
            .ok_or(MarshalError::Impossible(EMSGSIZE))?;
        call.copy_to(base + extent.start, dest)
            .map_err(MarshalError::Impossible)?;
        room = rest;
        copied += len;
    }
    Ok(copied)
}

/// Counts and traces what was prepared.
fn account(
    plan: &Plan,
    rqst: &Rqst<'_, Client>,
    header: usize,
    (call, state): (&XdrBuf<'_>, &State),
    stats: &Stats,
) {
    let offered = state.offered.len();
    match plan.call() {
        CallKind::InlineCopied | CallKind::InlineGathered => {}
        CallKind::ReadChunk { .. } => stats.read_chunk(state.regions.len() - offered),
        CallKind::PositionZero => {
            stats.read_chunk(state.regions.len() - offered);
            stats.nomsg_call();
        }
    }
    match plan.reply() {
        ReplyKind::Inline => {}
        ReplyKind::WriteChunk { .. } => stats.write_chunk(offered, plan.write_chunk().len()),
        ReplyKind::ReplyChunk => stats.reply_chunk(offered, plan.reply_chunk().len()),
    }
    stats.pullup(state.out_len - header);
    trace::marshal(
        names::task(rqst),
        rqst.xid(),
        header,
        Lazy(|| shape(call)),
        plan.call(),
        plan.reply(),
    );
}

/// Lengths of a call as encoded.
fn shape(call: &XdrBuf<'_>) -> CallShape {
    CallShape {
        head_len: call.head_len(),
        page_len: call.page_len(),
        tail_len: call.tail_len(),
        payload_in_pages: call.may_write(),
        // Whatever goes inline is copied, and not longer than a threshold.
        pullup_max: u32::MAX,
        sges_needed: 1,
        sges_max: 1,
    }
}
