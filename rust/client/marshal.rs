// SPDX-License-Identifier: GPL-2.0

//! Prepares a call: plans its chunks, registers memory, encodes the header. No work request is
//! posted here.
//!
//! As a rule this happens outside the send lock, when SUNRPC has just encoded the call. It happens
//! under the send lock if there was no connection then, or a different one.

use kernel::prelude::*;

use super::assemble::{account, begin, copy_inline, MarshalError};
use super::endpoint::Endpoint;
use super::register::Registrar;
use super::request::{Offered, Phase, State};
use super::transport::Client;
use super::{padded, shape, single, traced, whole};
use crate::conn;
use crate::observe::stats::Stats;
use crate::observe::trace;
use crate::proto::requester::plan::{CallKind, Forms, Plan, ReplyKind, Rooms};
use crate::rdma::mr::DataDirection;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{ReadListWriter, ReadSegment, Segment};

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
    let measured = state.set_terms(ep.shared().now());
    let done = measured
        .ok_or(MarshalError::NoBuffer)
        .and_then(|()| marshal(ep, rqst, state));
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

/// Prepares a call for a slot that is idle.
#[inline(always)]
fn marshal(ep: &Endpoint, rqst: &Rqst<'_, Client>, state: &mut State) -> Result<(), MarshalError> {
    let forms = choose(rqst, &state.rooms)?;
    if forms.is_inline() {
        return marshal_inline(ep, rqst, state);
    }
    if single::marshal(ep, rqst, forms, state)? {
        return Ok(());
    }
    marshal_more(ep, rqst, forms, state)
}

/// Prepares a call with another chunk than one payload, or with several.
#[inline(never)]
fn marshal_more(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    state: &mut State,
) -> Result<(), MarshalError> {
    if whole::marshal(ep, rqst, forms, state)? {
        return Ok(());
    }
    marshal_any(ep, rqst, forms, state)
}

/// Chooses the forms of call and reply.
#[inline(always)]
fn choose(rqst: &Rqst<'_, Client>, rooms: &Rooms) -> Result<Forms, MarshalError> {
    let call = shape::call(&rqst.send_buf());
    let reply = shape::reply(&rqst.recv_buf());
    let forms = Forms::choose(&call, &reply, rooms, || rqst.data_touch());
    forms.map_err(|_| MarshalError::Impossible(EMSGSIZE))
}

/// Prepares a call without chunks.
#[inline(always)]
fn marshal_inline(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    state: &mut State,
) -> Result<(), MarshalError> {
    let forms = Forms {
        call: CallKind::Inline,
        reply: ReplyKind::Inline,
    };
    let call = rqst.send_buf();
    let header = match padded::place(rqst, state) {
        None => {
            let header = begin(ep, rqst, forms, state.terms.version(), &mut state.out)?.finish()?;
            copy_inline(forms.call, &call, header, state)?;
            header
        }
        Some(place) => {
            padded::write(ep, rqst, place, &call, state).map_err(MarshalError::Impossible)?
        }
    };
    account(forms, rqst, header, state);
    Ok(())
}

/// Prepares a call with any chunks.
#[inline(never)]
fn marshal_any(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    state: &mut State,
) -> Result<(), MarshalError> {
    let (call, reply) = (rqst.send_buf(), rqst.recv_buf());
    let plan = Plan::of(forms, &shape::call(&call), &shape::reply(&reply));
    let header = encode(ep, rqst, &plan, (&call, &reply), state)?;
    copy_inline(forms.call, &call, header, state)?;
    account(forms, rqst, header, state);
    Ok(())
}

/// Registers the chunks and writes the header. Returns the length of the header.
#[inline(always)]
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
        spare,
        offered,
        offer,
        terms,
        ..
    } = state;
    let mut registrar = Registrar {
        pools: &ep.pools,
        rqst,
        regions,
        spare,
    };
    let mut header = begin(ep, rqst, plan.forms(), terms.version(), out)?;
    encode_read_chunk(&mut registrar, plan, call, &mut header)?;
    encode_reply_room(&mut registrar, plan, reply, header, (offer, offered))
}

/// Registers the memory that the responder reads, and writes the read list.
#[inline(always)]
fn encode_read_chunk(
    registrar: &mut Registrar<'_>,
    plan: &Plan,
    call: &XdrBuf<'_>,
    header: &mut ReadListWriter<'_>,
) -> Result<(), MarshalError> {
    let Some(position) = read_position(plan) else {
        return Ok(());
    };
    let task = traced::task(registrar.rqst);
    registrar.chunk(call, &plan.read_chunk(), DataDirection::ToDevice, |m| {
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
            registrar.chunk(reply, &plan.write_chunk(), DataDirection::FromDevice, |m| {
                trace::chunk_write(task, &m.segment, m.region.nents(), m.last);
                note(m.segment)?;
                chunk.segment(m.segment).map_err(|_| EMSGSIZE)
            })?;
            Ok(chunk.end().finish()?)
        }
        ReplyKind::ReplyChunk => {
            *offer = Offered::ReplyChunk;
            let mut chunk = header.write_list()?.reply_chunk()?.chunk()?;
            registrar.chunk(reply, &plan.reply_chunk(), DataDirection::FromDevice, |m| {
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
