// SPDX-License-Identifier: GPL-2.0

//! Calls with padding, RDMA_MSGP, for a server that has asked for it.
//!
//! Only a call that is inline, and whose payload lies in pages, is sent like this. Its threshold is
//! chosen such that only the payload has padding before it.

use kernel::prelude::*;

use super::endpoint::Endpoint;
use super::request::State;
use super::traced;
use super::transport::Client;
use crate::observe::trace;
use crate::proto::legacy::padded::{room, Room};
use crate::proto::legacy::padding::Padding;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::v1::begin_padded;

/// Returns the padding of a call without chunks, if it gets any.
#[inline(always)]
pub(super) fn place(rqst: &Rqst<'_, Client>, state: &State) -> Option<Room> {
    match state.rooms.align() {
        0 => None,
        align => find(rqst, state, align),
    }
}

#[cold]
fn find(rqst: &Rqst<'_, Client>, state: &State, align: u32) -> Option<Room> {
    let padding = Padding::new(align, align).ok()?;
    let call = rqst.send_buf();
    if call.page_len() == 0 {
        return None;
    }
    let lens = (call.head_len(), call.page_len(), call.tail_len());
    if rqst.data_touch() || !call.may_write() || !begins_payload(&call) {
        return None;
    }
    room(&padding, lens, &state.thresholds()?)
}

/// Returns whether the head ends with the length of the payload: then the pages are opaque data.
fn begins_payload(call: &XdrBuf<'_>) -> bool {
    let mut len = [0; 4];
    let at = call.head_len().checked_sub(4);
    at.is_some_and(|at| call.copy_to(at, &mut len).is_ok())
        && u32::from_be_bytes(len) == call.page_len()
}

/// Writes a call with padding to the send buffer. Returns the length of what stands before the RPC
/// message.
///
/// # Errors
///
/// `EMSGSIZE`, `ENOBUFS`.
#[cold]
pub(super) fn write(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    room: Room,
    call: &XdrBuf<'_>,
    state: &mut State,
) -> Result<usize> {
    let out = state.out.as_mut().ok_or(ENOBUFS)?.as_mut_slice();
    let credits = ep.requester().credits.requested();
    let header = begin_padded(out, rqst.xid(), credits, room.align, room.thresh);
    let at = header
        .and_then(|header| header.finish())
        .map_err(|_| EMSGSIZE)?;
    // CAST: `usize` has at least 32 bits, here and below.
    let head = at + call.head_len() as usize;
    let data = head + room.pad as usize;
    let end = data + (call.page_len() + call.tail_len()) as usize;
    call.copy_to(0, out.get_mut(at..head).ok_or(EMSGSIZE)?)?;
    out.get_mut(head..data).ok_or(EMSGSIZE)?.fill(0);
    call.copy_to(call.head_len(), out.get_mut(data..end).ok_or(EMSGSIZE)?)?;
    state.out_len = end;
    trace::padded_call(traced::task(rqst), rqst.xid(), room.align, room.pad);
    Ok(at)
}
