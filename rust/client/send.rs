// SPDX-License-Identifier: GPL-2.0

//! Posting a call. The caller holds SUNRPC's send lock.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::endpoint::Endpoint;
use super::marshal::{self, MarshalError};
use super::request::{Phase, Request, Seat, State};
use super::transport::Client;
use super::{names, supply};
use crate::observe::trace;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;

/// Sends a call over the current connection.
///
/// # Errors
///
/// See [`SendError`]; nothing was posted then, or the connection is on its way down.
pub(super) fn send(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<(), SendError> {
    if !xprt.is_connected() {
        return Err(SendError::NotConnected);
    }
    if !xprt.take_credit(rqst) {
        return Err(SendError::NoCredit);
    }
    post(client, xprt, rqst)?;
    rqst.mark_sent();
    // Without a reply the peer's credits would never come back.
    if rqst.reply_expected() {
        Ok(())
    } else {
        Err(SendError::Dropped)
    }
}

/// Posts registrations and Send in one chain.
fn post(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) -> Result<(), SendError> {
    let request: &Request = rqst.slot().data();
    let mut seat = request.lock();
    if seat.state.phase == Phase::Idle {
        drop(seat);
        if !make_up(client, xprt, rqst)? {
            return Ok(());
        }
        seat = request.lock();
    }
    let Seat { ep, state } = &mut *seat;
    let Some(ep) = ep.as_ref().filter(|ep| !ep.is_closed()) else {
        return Err(SendError::NotConnected);
    };
    // Still on its way, or being fenced. The peer counts credits, so the same RPC must not be
    // sent twice over one connection: only a new one can carry it again.
    if state.phase != Phase::Prepared {
        return Err(SendError::Dropped);
    }
    for region in &state.regions {
        trace::mr_fastreg(names::task(rqst), names::region(region));
    }
    let mut posted = launch(ep, request, state);
    if posted == Err(PostError::Full) {
        // Announced first and tried again, so that no word of room is missed in between.
        client.stats().send_queue_full();
        xprt.wait_for_buffer_space();
        posted = launch(ep, request, state);
        if posted.is_ok() {
            xprt.wake_write_space();
        }
    }
    conclude(ep, rqst, posted)
}

/// Hands registrations and Send to the device.
fn launch(ep: &Endpoint, request: &Request, state: &mut State) -> Result<u64, PostError> {
    let State {
        regions,
        out,
        out_len,
        phase,
        ..
    } = state;
    let Some(out) = out.as_mut() else {
        return Err(PostError::Invalid);
    };
    let posted = ep
        .qp
        .post_send(request.send_tag(), regions, out, *out_len, false);
    if matches!(posted, Ok(_) | Err(PostError::Broken(_))) {
        // After a failure half-way, too: the peer may reach some of the regions.
        *phase = Phase::Sent;
    }
    posted
}

/// Traces what has become of a call, and says it in SUNRPC's terms.
fn conclude(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    posted: Result<u64, PostError>,
) -> Result<(), SendError> {
    let (task, index) = (names::task(rqst), rqst.slot().index());
    match posted {
        Ok(_) => {
            trace::post_send(names::cid(&ep.qp, index), task, 1, false);
            Ok(())
        }
        Err(PostError::Full) => Err(SendError::Again),
        Err(error) => {
            trace::post_send_err(ep.qp.cq_id(), task, Error::from(error).to_errno());
            Err(SendError::Dropped)
        }
    }
}

/// Prepares a call that could not be prepared when it was encoded, or was for another connection.
/// `false`: it has failed for good.
fn make_up(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<bool, SendError> {
    let (ep, mut done) = prepare(client, rqst)?;
    if done == Err(MarshalError::NoRegions) {
        supply::order(&ep);
        recall(xprt);
        (_, done) = prepare(client, rqst)?;
    }
    match done {
        Ok(()) => Ok(true),
        Err(MarshalError::NoRegions | MarshalError::NoBuffer) => Err(wait(xprt, &ep)),
        // It may pass, and an error would be given to whoever drains the queue.
        Err(MarshalError::NoMapping) => Err(SendError::NoResources),
        Err(MarshalError::Impossible(error)) => fail(xprt, rqst, error).map(|()| false),
    }
}

/// Tries to prepare a call for the connection that there is.
fn prepare(
    client: &Client,
    rqst: &Rqst<'_, Client>,
) -> Result<(Arc<Endpoint>, Result<(), MarshalError>), SendError> {
    let request: &Request = rqst.slot().data();
    let mut seat = request.lock();
    let Seat { ep, state } = &mut *seat;
    let Some(ep) = ep.as_ref().filter(|ep| !ep.is_closed()) else {
        return Err(SendError::NotConnected);
    };
    let done = marshal::prepare(ep, rqst, state, client.stats());
    Ok((ep.clone(), done))
}

/// Takes back the memory regions of calls whose turn has not come: the one whose turn it is would wait
/// for them, and they for it.
fn recall(xprt: &Xprt<Client>) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        let state = &mut request.lock().state;
        if state.phase == Phase::Prepared {
            state.reset();
        }
    }
}

/// Fails a call that can never be sent, and it alone: SUNRPC would give an error to whoever drains the
/// queue.
fn fail(xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>, error: Error) -> Result<(), SendError> {
    if !rqst.reply_expected() {
        return Err(SendError::Io);
    }
    // Unless somebody looks at it just now, taking a reply for its own.
    let found = xprt.find(rqst.xid()).ok_or(SendError::NoResources)?;
    found.fail(error);
    Ok(())
}

/// Has SUNRPC try again after the next delivery of [`supply`], which always comes; or after a while,
/// if the last one brought nothing.
fn wait(xprt: &Xprt<Client>, ep: &Arc<Endpoint>) -> SendError {
    if ep.is_dry() {
        supply::order(ep);
        return SendError::NoResources;
    }
    xprt.wait_for_buffer_space();
    supply::order(ep);
    SendError::Again
}
