// SPDX-License-Identifier: GPL-2.0

//! Completes an RPC whose memory is out of the peer's reach.

use kernel::prelude::*;

use super::request::Status;
use super::transport::Client;
use super::{shape, traced};
use crate::observe::trace::{self, Lazy};
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::Xprt;

/// Copies an inline reply into the buffers of the RPC. `chunk` is the number of bytes that came
/// through the write chunk, if it was used. Does not sleep.
#[inline(always)]
pub(super) fn place(
    xprt: &Xprt<Client>,
    rqst: &mut Pinned<'_, Client>,
    message: &[u8],
    chunk: Option<u32>,
) -> Status {
    let placed = rqst.place_reply(message, chunk);
    xprt.data().stats().fixup(placed.copied);
    trace::fixup(
        traced::task(rqst),
        placed.copied,
        Lazy(|| shape::reply(&rqst.recv_buf())),
    );
    Status::Length(placed.len)
}

/// Completes the RPC. Does not sleep.
#[inline(always)]
pub(super) fn complete(rqst: Pinned<'_, Client>, status: Status) {
    match status {
        Status::Length(len) => rqst.complete(len),
        Status::Failed => rqst.fail(EIO),
    }
}
