// SPDX-License-Identifier: GPL-2.0

//! Calls whose only chunk is a whole message, and fits in one memory region: the usual READDIR,
//! whose reply comes in the reply chunk, and a long call. Most devices map all of it in one region
//! only if the region supports gaps, or if the message is in one piece.

use super::assemble::{account, begin, copy_inline, MarshalError};
use super::endpoint::Endpoint;
use super::request::{Offered, State};
use super::single::{map_memory, offer};
use super::traced;
use super::transport::Client;
use crate::observe::trace;
use crate::proto::requester::plan::{Forms, WholeMessage};
use crate::rdma::mr::{Direction, Kind};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{ReadSegment, Segment};

/// Prepares a call whose only chunk is a whole message, if one region takes it. Returns whether it
/// did; otherwise nothing was done. After a failure the caller gives the region back.
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
    let Some(message) = forms.whole_message() else {
        return Ok(false);
    };
    let Some((segment, nents)) = map(ep, rqst, message, state)? else {
        return Ok(false);
    };
    let header = begin(ep, rqst, forms, state.terms.version(), &mut state.out)?;
    let header = match message {
        WholeMessage::Call => {
            trace_read(rqst, segment, nents);
            let mut header = header;
            header.segment(0, segment)?;
            header.finish()?
        }
        WholeMessage::Reply => {
            trace::chunk_reply(traced::task(rqst), &segment, nents, true);
            let mut chunk = header.write_list()?.reply_chunk()?.chunk()?;
            chunk.segment(segment)?;
            let len = chunk.finish();
            offer(Offered::ReplyChunk, segment, state)?;
            len
        }
    };
    copy_inline(forms.call, &rqst.send_buf(), header, state)?;
    account(forms, rqst, header, state);
    Ok(true)
}

/// Traces the read chunk of a long call.
#[inline(always)]
fn trace_read(rqst: &Rqst<'_, Client>, segment: Segment, nents: u32) {
    let entry = ReadSegment {
        position: 0,
        segment,
    };
    trace::chunk_read(traced::task(rqst), &entry, nents, true);
}

/// Maps the memory of a whole message. Returns the segment, and the number of pieces that it has.
/// `None`: nothing was mapped.
#[inline(always)]
fn map(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    message: WholeMessage,
    state: &mut State,
) -> Result<Option<(Segment, u32)>, MarshalError> {
    let (buf, direction) = match message {
        WholeMessage::Call if !ep.requester().legacy.may_offer_read_chunks() => return Ok(None),
        WholeMessage::Call => (rqst.send_buf(), Direction::ToPeer),
        WholeMessage::Reply => (rqst.recv_buf(), Direction::FromPeer),
    };
    let (memory, kind) = (buf.sections(), ep.pools.widest());
    if kind == Kind::Plain && !memory.is_single() {
        return Ok(None);
    }
    map_memory(ep, rqst, (memory, kind), direction, state)
}
