// SPDX-License-Identifier: GPL-2.0

//! Posts calls. The caller holds SUNRPC's send lock.
//!
//! As a rule [`super::marshal`] has prepared the call before. It is prepared here if there was no
//! connection then, or a different one, or if memory regions were lacking.

use kernel::prelude::*;
use kernel::sync::{Arc, SpinLockGuard};

use super::assemble::MarshalError;
use super::endpoint::Endpoint;
use super::request::{Locked, Phase, Request, State};
use super::spare::Spare;
use super::transport::Client;
use super::{marshal, preparing, replenish, session, traced};
use crate::conn;
use crate::observe::trace;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;

/// Sends a call over the current connection.
///
/// # Errors
///
/// See [`SendError`]. After an error no work request is posted, or the connection is being closed.
#[inline(always)]
pub(super) fn send(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<(), SendError> {
    if !xprt.take_credit(rqst) {
        return Err(SendError::NoCredit);
    }
    post_prepared(client, xprt, rqst)?;
    rqst.mark_sent();
    // Without a reply the credit of the call would not come back.
    if rqst.reply_expected() {
        Ok(())
    } else {
        Err(SendError::Dropped)
    }
}

/// Prepares the call if that has not been done, and posts registrations and Send in one chain.
#[inline(always)]
fn post_prepared(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<(), SendError> {
    let request: &Request = rqst.slot().data();
    let mut locked = request.lock();
    locked.forget_void();
    if locked.state.phase == Phase::Idle {
        drop(locked);
        match prepare_now(client, xprt, rqst)? {
            Some(prepared) => locked = prepared,
            None => return Ok(()),
        }
    }
    let Locked { ep, state } = &mut *locked;
    let Some(ep) = ep else {
        return Err(SendError::NotConnected);
    };
    // In other phases the call is under way, or is being given up. The peer counts credits, so no
    // call is sent twice over one connection: only a new connection can carry it again.
    if state.phase != Phase::Prepared {
        return Err(SendError::Dropped);
    }
    trace::mr_fastregs(traced::task(rqst), || {
        state.regions.iter().map(conn::traced::region)
    });
    let full = || client.stats().send_queue_full();
    let posted = xprt.post_or_wait(&PostError::Full, full, || post_chain(ep, request, state));
    report(ep, rqst, posted)
}

/// Posts registrations and Send.
#[inline(always)]
fn post_chain(ep: &Endpoint, request: &Request, state: &mut State) -> Result<u64, PostError> {
    let State {
        regions,
        out,
        out_len,
        phase,
        xid,
        terms,
        ..
    } = state;
    let Some(out) = out.as_mut() else {
        return Err(PostError::Invalid);
    };
    let (tag, signalled) = (request.send_tag(), false);
    let post = || ep.qp().post_send(tag, regions, out, *out_len, signalled);
    let posted = session::post(ep.shared(), (*xid, *terms), post);
    if matches!(posted, Ok(_) | Err(PostError::Broken(_))) {
        // After a failure within the chain as well: the peer may reach some of the regions.
        *phase = Phase::Sent;
    }
    posted
}

/// Traces the result of posting a call, and translates it for SUNRPC.
fn report(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    posted: Result<u64, PostError>,
) -> Result<(), SendError> {
    let (task, index) = (traced::task(rqst), rqst.slot().index());
    match posted {
        Ok(_) => {
            trace::post_send(conn::traced::cid(ep.qp(), index), task, 1, false);
            Ok(())
        }
        Err(PostError::Full) => Err(SendError::Again),
        Err(error) => {
            trace::post_send_err(ep.qp().cq_id(), task, Error::from(error).to_errno());
            Err(SendError::Dropped)
        }
    }
}

/// Prepares a call that could not be prepared when it was encoded, or was prepared for a different
/// connection or former terms. Returns the contents of its slot; `None` if the call has failed for
/// good.
#[cold]
fn prepare_now<'a>(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &'a Rqst<'_, Client>,
) -> Result<Option<SpinLockGuard<'a, Locked>>, SendError> {
    let request: &Request = rqst.slot().data();
    while prepare(client, xprt, rqst)? {
        let mut locked = request.lock();
        // The terms may have changed before the lock was taken again.
        locked.forget_void();
        if locked.state.phase != Phase::Idle {
            return Ok(Some(locked));
        }
    }
    Ok(None)
}

/// Prepares a call once. Returns `false` if the call has failed for good.
fn prepare(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<bool, SendError> {
    let (ep, mut done) = try_prepare(client, rqst)?;
    if done == Err(MarshalError::NoRegions) {
        replenish::order(&ep);
        take_regions_back(xprt);
        (_, done) = try_prepare(client, rqst)?;
    }
    match done {
        Ok(()) => Ok(true),
        Err(MarshalError::NoRegions | MarshalError::NoBuffer) => Err(wait(xprt, &ep)),
        // The lack may pass. SUNRPC would give an error to the task that drains the queue.
        Err(MarshalError::NoMapping) => Err(SendError::NoResources),
        Err(MarshalError::Impossible(error)) => fail(xprt, rqst, error).map(|()| false),
    }
}

/// Prepares a call for the current connection, if there is one.
#[inline(never)]
fn try_prepare(
    client: &Client,
    rqst: &Rqst<'_, Client>,
) -> Result<(Arc<Endpoint>, Result<(), MarshalError>), SendError> {
    let request: &Request = rqst.slot().data();
    let mut locked = request.lock();
    let Locked { ep, state } = &mut *locked;
    let Some(ep) = ep.as_ref().filter(|ep| !ep.is_closed()) else {
        return Err(SendError::NotConnected);
    };
    let ep = ep.clone();
    let done = if ep.pools.are_slow() {
        preparing::prepare(locked, rqst, client.stats())
    } else {
        marshal::prepare(&ep, rqst, state, client.stats())
    };
    Ok((ep, done))
}

/// Takes the memory regions back from all calls whose turn has not come. The call whose turn it is
/// would wait for these regions, and the other calls for their turn. Takes the spare regions of all
/// slots, too.
fn take_regions_back(xprt: &Xprt<Client>) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        let state = &mut request.lock().state;
        if state.phase == Phase::Prepared {
            state.reset();
        }
        state.spare = Spare::NONE;
    }
}

/// Fails one call that can never be sent. SUNRPC would give an error to the task that drains the
/// queue, which may belong to a different call.
fn fail(xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>, error: Error) -> Result<(), SendError> {
    if !rqst.reply_expected() {
        return Err(SendError::Io);
    }
    // The completion worker may hold the request just now, for a reply that has its XID.
    let found = xprt.find(rqst.xid()).ok_or(SendError::NoResources)?;
    found.fail(error);
    Ok(())
}

/// Has SUNRPC try again when [`replenish`] has run, which always happens; or after a while, if no
/// more regions could be made last time.
fn wait(xprt: &Xprt<Client>, ep: &Arc<Endpoint>) -> SendError {
    if ep.has_no_more_regions() {
        replenish::order(ep);
        return SendError::NoResources;
    }
    xprt.wait_for_buffer_space();
    replenish::order(ep);
    SendError::Again
}
