// SPDX-License-Identifier: GPL-2.0

//! Sends calls to the requester. The caller holds SUNRPC's send lock.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::super::endpoint::Endpoint;
use super::super::flights::BACKWARD;
use super::callback::Callback;
use crate::conn::backward::{write, Unposted};
use crate::proto::backward;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;
use crate::wire::Direction;

/// Returns the length of a buffer for calls over a connection, in bytes.
pub(super) fn buffer_len(ep: &Endpoint) -> usize {
    // CAST: `usize` has at least 32 bits.
    (ep.thresholds().server_to_client as usize).min(PAGE_SIZE)
}

/// Returns whether a call is short enough for the requester, which takes calls at all.
//= V2-4.2.2-1 backward direction operation is supported
pub(super) fn fits(ep: &Endpoint, rqst: &Rqst<'_, Callback>) -> bool {
    // CAST: a page is small.
    let max = backward::max_call(&ep.thresholds(), PAGE_SIZE as u32);
    ep.shared().now().permits_backward() && rqst.send_buf().len() <= max
}

/// Sends a call. Does not sleep.
///
/// # Errors
///
/// See [`SendError`]. After an error the call was not sent, or the connection is being closed.
pub(super) fn send(xprt: &Xprt<Callback>, rqst: &Rqst<'_, Callback>) -> Result<(), SendError> {
    let callback = xprt.data();
    let ep = callback.endpoint().ok_or(SendError::NotConnected)?;
    // Without an answer the credit of the call would not come back.
    if !rqst.reply_expected() {
        return Err(SendError::Io);
    }
    if !xprt.take_credit(rqst) {
        return Err(SendError::NoCredit);
    }
    let slot = rqst.slot().data();
    // The answer may arrive before the call counts as posted. A call is not sent twice over one
    // connection, because the requester counts its credits.
    if !slot.begin(rqst.xid()) {
        return Err(SendError::Dropped);
    }
    let requested = callback.credits().requested();
    let posted = xprt.post_or_wait(&SendError::Again, || {}, || post(&ep, rqst, requested));
    match posted {
        Ok(()) => rqst.mark_sent(),
        Err(_) => slot.revoke(),
    }
    posted
}

/// Writes a call into a buffer that the device is not reading, and posts it.
fn post(ep: &Endpoint, rqst: &Rqst<'_, Callback>, credits: u32) -> Result<(), SendError> {
    let message = rqst.send_buf();
    // CAST: `usize` has at least 32 bits.
    let len = message.len() as usize;
    let version = ep.shared().version();
    let header = |out: &mut [u8]| version.inline(out, rqst.xid(), credits, Direction::Call);
    let posted = ep.post_backward(BACKWARD, |out| {
        write(out, header, len, |out| message.copy_to(0, out))
    });
    posted.map_err(|unposted| match unposted {
        Unposted::NoBuffer | Unposted::Refused(PostError::Full) => SendError::Again,
        Unposted::Unwritten | Unposted::Refused(_) => SendError::Dropped,
    })
}
