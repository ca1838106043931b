// SPDX-License-Identifier: GPL-2.0

//! Posts calls. The caller holds SUNRPC's send lock.
//!
//! As a rule [`super::prepare`] has prepared the call before. The call is prepared here if there
//! was no connection then, or a different one, or if memory regions were lacking.

use kernel::prelude::*;
use kernel::sync::{Arc, SpinLockGuard};

use super::super::endpoint::Endpoint;
use super::super::transport::{task_of, Client};
use super::contents::Contents;
use super::prepare::{prepare, PrepareError};
use super::slot::{Locked, Slot};
use super::table::SlotTable;
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
pub(in crate::client) fn send(
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
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    locked.drop_void();
    if locked.is_idle() {
        drop(locked);
        match prepare_now(client, xprt, rqst)? {
            Some(prepared) => locked = prepared,
            None => return Ok(()),
        }
    }
    let (ep, posted) = locked.post(|ep, contents| {
        trace::mr_fastregs(task_of(rqst), || {
            contents.regions.iter().map(conn::traced::region)
        });
        let full = || client.stats().send_queue_full();
        xprt.post_or_wait(&PostError::Full, full, || post_chain(ep, slot, contents))
    })?;
    report(ep, rqst, posted)
}

/// Posts registrations and Send, and tells the session of the call if that may be the first one, as
/// the terms that it was prepared for say.
#[inline(always)]
fn post_chain(ep: &Endpoint, slot: &Slot, contents: &mut Contents) -> Result<u64, PostError> {
    let Contents {
        regions,
        out,
        out_len,
        xid,
        terms,
        ..
    } = contents;
    let Some(out) = out.as_mut() else {
        return Err(PostError::Invalid);
    };
    let (tag, signalled) = (slot.send_tag(), false);
    let post = || ep.qp().post_send(tag, regions, out, *out_len, signalled);
    let conn = ep.shared();
    conn.post_noted(terms.is_watched(), post, |posted, session, now| {
        if posted.is_ok() {
            session.on_sent(*xid, now);
        }
    })
}

/// Traces the result of posting a call, and translates it for SUNRPC.
fn report(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    posted: Result<u64, PostError>,
) -> Result<(), SendError> {
    let (task, index) = (task_of(rqst), rqst.slot().index());
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
    let slot: &Slot = rqst.slot().data();
    while prepare_once(client, xprt, rqst)? {
        let mut locked = slot.lock();
        // The terms may have changed before the lock was taken again.
        locked.drop_void();
        if !locked.is_idle() {
            return Ok(Some(locked));
        }
    }
    Ok(None)
}

/// Prepares a call once. Returns `false` if the call has failed for good.
fn prepare_once(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<bool, SendError> {
    let mut done = prepare(rqst, client.stats());
    if done == Err(PrepareError::NoRegions) {
        endpoint(rqst)?.order_regions();
        SlotTable::of(xprt).take_regions_back();
        done = prepare(rqst, client.stats());
    }
    match done {
        Ok(()) => Ok(true),
        Err(PrepareError::NotConnected) => Err(SendError::NotConnected),
        Err(PrepareError::NoRegions | PrepareError::NoBuffer) => Err(wait(xprt, &endpoint(rqst)?)),
        // The lack may pass. SUNRPC would give an error to the task that drains the queue.
        Err(PrepareError::NoMapping) => Err(SendError::NoResources),
        Err(PrepareError::Impossible(error)) => fail(xprt, rqst, error).map(|()| false),
    }
}

/// Returns the connection of the call's slot.
fn endpoint(rqst: &Rqst<'_, Client>) -> Result<Arc<Endpoint>, SendError> {
    let slot: &Slot = rqst.slot().data();
    slot.lock().ep.clone().ok_or(SendError::NotConnected)
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

/// Has SUNRPC try again when the worker that makes regions has run, which always happens; or after
/// a while, if no more regions could be made last time.
fn wait(xprt: &Xprt<Client>, ep: &Arc<Endpoint>) -> SendError {
    if ep.has_no_more_regions() {
        ep.order_regions();
        return SendError::NoResources;
    }
    xprt.wait_for_buffer_space();
    ep.order_regions();
    SendError::Again
}
