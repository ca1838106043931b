// SPDX-License-Identifier: GPL-2.0

//! Calls with padding, RDMA_MSGP, for a server that has asked for it: RFC 5666 section 3.9.
//!
//! Only a call that is inline, and whose payload lies in pages, is sent like this. Its threshold is
//! chosen such that only the payload has padding before it.

use kernel::prelude::*;

use crate::proto::inline::Thresholds;
use crate::proto::legacy::padded::{room, Room};
use crate::proto::legacy::padding::Padding;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::v1::begin_padded;

/// The place of an aligned payload in a message.
pub(in crate::client) type Place = Room;

/// Returns the place of the payload of an inline call over a connection with these thresholds.
/// `None`: the call has no payload, or there is no space for the padding.
pub(in crate::client) fn align(
    align: u32,
    call: &XdrBuf<'_>,
    data_touch: impl Fn() -> bool,
    thresholds: &Thresholds,
) -> Option<Place> {
    let padding = Padding::new(align, align).ok()?;
    if call.page_len() == 0 || data_touch() || !call.may_write() || !begins_payload(call) {
        return None;
    }
    let lens = (call.head_len(), call.page_len(), call.tail_len());
    room(&padding, lens, thresholds)
}

/// Returns whether the head ends with the length of the payload: then the pages are opaque data.
fn begins_payload(call: &XdrBuf<'_>) -> bool {
    let mut len = [0; 4];
    let at = call.head_len().checked_sub(4);
    at.is_some_and(|at| call.copy_to(at, &mut len).is_ok())
        && u32::from_be_bytes(len) == call.page_len()
}

/// Writes a call with its payload at `place`. Returns the length of header and message.
///
/// # Errors
///
/// `EMSGSIZE`.
pub(in crate::client) fn write_aligned(
    place: &Place,
    (xid, credits): (u32, u32),
    call: &XdrBuf<'_>,
    out: &mut [u8],
) -> Result<(usize, usize)> {
    let header = begin_padded(out, xid, credits, place.align, place.thresh);
    let at = header
        .and_then(|header| header.finish())
        .map_err(|_| EMSGSIZE)?;
    // CAST: `usize` has at least 32 bits, here and below.
    let head = at + call.head_len() as usize;
    let data = head + place.pad as usize;
    let end = data + (call.page_len() + call.tail_len()) as usize;
    call.copy_to(0, out.get_mut(at..head).ok_or(EMSGSIZE)?)?;
    out.get_mut(head..data).ok_or(EMSGSIZE)?.fill(0);
    call.copy_to(call.head_len(), out.get_mut(data..end).ok_or(EMSGSIZE)?)?;
    Ok((at, end))
}
