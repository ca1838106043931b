// SPDX-License-Identifier: GPL-2.0

//! Prepares and posts calls.
//!
//! A call is usually prepared outside the send lock, when SUNRPC has just encoded it, and posted
//! once it holds that lock and a credit. A call is prepared under the send lock if there was no
//! connection before, or a different one, if the terms have changed, or if regions, space in the
//! DMA layer or a send buffer were lacking.
//!
//! The lock of the slot is held while a call is prepared, unless mapping memory may take long or
//! sleep on this device ([`Regions::slow`]). On such a device the task takes the contents out of
//! the slot, and leaves the slot in phase Preparing. No other context changes a slot in this phase:
//! other tasks find no regions to take back, and the sweep of a closed connection waits for the end
//! of the phase. Mapping allocates without I/O, so it never waits for a connection that the sweep
//! delays. On other devices mapping takes few instructions, and taking the lock twice would cost
//! more than it saves.
//!
//! [`Regions::slow`]: super::super::endpoint::Regions::slow

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{Arc, SpinLockGuard};
use kernel::time::{Delta, Instant};

use super::super::advice;
use super::super::endpoint::{tags, Endpoint};
use super::super::transport::{task_of, Client};
use super::marshal::marshal;
use super::slot::{Contents, Locked, Slot};
use super::SlotTable;
use crate::compat::code::{ENOBUFS, ENOTCONN};
use crate::conn;
use crate::mem::MemallocScope;
use crate::observe::stats::Stats;
use crate::observe::trace;
use crate::rdma::qp::PostError;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::SendError;
use crate::sunrpc::xprt::Xprt;
use crate::wire::EncodeError;

/// The maximum time for which a call, and the calls behind it, wait for space in the DMA layer.
const ROOM_PATIENCE: Delta = Delta::from_secs(60);

/// Why a call could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum PrepareError {
    /// There is no connection at the moment.
    NotConnected,
    /// No memory region is idle at the moment.
    NoRegions,
    /// The slot has no send buffer at the moment.
    NoBuffer,
    /// The DMA layer is temporarily out of space.
    NoMapping,
    /// This transport cannot carry the call: the call is too long, or its memory cannot be mapped.
    Impossible(Error),
}

impl PrepareError {
    /// Returns the (negative) errno that trace events show.
    pub(super) fn errno(self) -> i32 {
        match self {
            Self::NotConnected => ENOTCONN,
            Self::NoRegions => EAGAIN,
            Self::NoBuffer => ENOBUFS,
            Self::NoMapping => ENOMEM,
            Self::Impossible(error) => error,
        }
        .to_errno()
    }

    /// Translates the error of mapping memory for DMA.
    pub(super) fn of_mapping(error: Error) -> Self {
        match error {
            ENOMEM => Self::NoMapping,
            error => Self::Impossible(error),
        }
    }
}

impl From<EncodeError> for PrepareError {
    fn from(_: EncodeError) -> Self {
        Self::Impossible(EMSGSIZE)
    }
}

/// Prepares a call for the connection of its slot. A call in progress is left alone, and no reply
/// to it is accepted any more if the new encoding may expect another reply. Does not sleep, unless
/// the driver of the device does.
///
/// # Errors
///
/// See [`PrepareError`]. The slot is idle after any error but `NotConnected`.
#[inline(never)]
pub(in crate::client) fn prepare(
    rqst: &Rqst<'_, Client>,
    stats: &Stats,
) -> Result<(), PrepareError> {
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    if locked.is_sent(locked.epoch) {
        locked.stale = may_expect_another(rqst);
    }
    // ORDERING: a connection is marked as closed before its sweep takes this lock. Either the sweep
    // finds the phase Preparing, or this thread sees the mark.
    let ep = locked.ep.as_ref().filter(|ep| !ep.is_closed());
    let ep = ep.ok_or(PrepareError::NotConnected)?;
    if ep.regions.slow {
        let ep = ep.clone();
        return prepare_unlocked(&ep, (slot, locked), rqst, stats);
    }
    let Some((ep, contents)) = locked.begin_prepare() else {
        return Ok(());
    };
    marshal(ep, rqst, contents, stats)?;
    locked.set_prepared(slot);
    Ok(())
}

/// Returns whether the new encoding of a call may expect another reply: the head of a reply with
/// pages may have another length, and RPCSEC_GSS another sequence number.
#[cold]
fn may_expect_another(rqst: &Rqst<'_, Client>) -> bool {
    rqst.recv_buf().page_len() != 0 || rqst.data_touch()
}

/// Prepares a call without the lock of its slot. May sleep.
#[cold]
fn prepare_unlocked(
    ep: &Arc<Endpoint>,
    (slot, mut locked): (&Slot, SpinLockGuard<'_, Locked>),
    rqst: &Rqst<'_, Client>,
    stats: &Stats,
) -> Result<(), PrepareError> {
    let Some(mut contents) = locked.begin_preparing(slot) else {
        return Ok(());
    };
    drop(locked);
    let noio = MemallocScope::noio();
    contents.reset();
    let done = marshal(ep, rqst, &mut contents, stats);
    drop(noio);
    slot.end_preparing(contents, done.is_ok());
    done
}

/// Sends a call over the current connection.
///
/// # Errors
///
/// See [`SendError`]. After an error no work request has been posted, or the connection is being
/// closed.
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
    // Without a reply, the credit of the call would never be returned.
    if rqst.reply_expected() {
        Ok(())
    } else {
        Err(SendError::Dropped)
    }
}

/// Prepares the call unless that has been done, and posts registrations and Send in one chain.
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
        let full = || client.stats.send_queue_full.add(1);
        xprt.post_or_wait(&PostError::Full, full, || post_chain(ep, slot, contents))
    })?;
    report(ep, rqst, posted)
}

/// Posts registrations and Send. Notifies the session of the call if the terms that it was prepared
/// for say that it may be the first call.
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
    let (tag, signalled) = (tags::send(slot.index), false);
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
            ep.shared().force_close();
            Err(SendError::Dropped)
        }
    }
}

/// Prepares a call that could not be prepared when it was encoded, or was prepared for a different
/// connection or former terms. Returns its slot, locked; `None` if the call has failed permanently.
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

/// Prepares a call once. Returns `false` if the call has failed permanently.
fn prepare_once(
    client: &Client,
    xprt: &Xprt<Client>,
    rqst: &Rqst<'_, Client>,
) -> Result<bool, SendError> {
    let mut done = prepare(rqst, &client.stats);
    if done == Err(PrepareError::NoRegions) {
        endpoint(rqst)?.order_regions();
    }
    if let Err(PrepareError::NoRegions | PrepareError::NoMapping) = done {
        // The calls behind this one in SUNRPC's queue may have what is lacking.
        SlotTable::of(xprt).take_regions_back();
        done = prepare(rqst, &client.stats);
    }
    match done {
        Ok(()) => Ok(true),
        Err(PrepareError::NotConnected) => Err(SendError::NotConnected),
        Err(PrepareError::NoRegions | PrepareError::NoBuffer) => Err(wait(xprt, &endpoint(rqst)?)),
        // The shortage may be temporary. SUNRPC would report an error to the task that drains the
        // queue.
        Err(PrepareError::NoMapping) if !lacks_room(rqst) => Err(SendError::NoResources),
        Err(PrepareError::NoMapping) => {
            advice::log_no_space(xprt);
            fail(xprt, rqst, EIO).map(|()| false)
        }
        Err(PrepareError::Impossible(error)) => fail(xprt, rqst, error).map(|()| false),
    }
}

/// Records that the DMA layer has no space for a call. Returns whether the call has waited for
/// [`ROOM_PATIENCE`]: the pool of bounce buffers may be too small for it.
fn lacks_room(rqst: &Rqst<'_, Client>) -> bool {
    let mut locked = rqst.slot().data().lock();
    let call = (rqst.xid(), locked.epoch);
    let known = locked.unmapped.filter(|(known, _)| *known == call);
    let first = known.unwrap_or((call, Instant::now()));
    locked.unmapped.insert(first).1.elapsed() >= ROOM_PATIENCE
}

/// Returns the connection of the call's slot.
fn endpoint(rqst: &Rqst<'_, Client>) -> Result<Arc<Endpoint>, SendError> {
    let slot: &Slot = rqst.slot().data();
    slot.lock().ep.clone().ok_or(SendError::NotConnected)
}

/// Fails a call that can never be sent. SUNRPC would report an error to the task that drains the
/// queue, which may belong to a different call.
fn fail(xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>, error: Error) -> Result<(), SendError> {
    if !rqst.reply_expected() {
        return Err(SendError::Io);
    }
    // The completion worker may be holding the request, for a reply that has its XID.
    let found = xprt.find(rqst.xid()).ok_or(SendError::NoResources)?;
    found.fail(error);
    Ok(())
}

/// Makes SUNRPC retry when the worker that makes regions has run, which always happens; or after a
/// while, if the last attempt to make regions failed.
fn wait(xprt: &Xprt<Client>, ep: &Arc<Endpoint>) -> SendError {
    if ep.no_more_regions.load(Relaxed) {
        ep.order_regions();
        return SendError::NoResources;
    }
    xprt.wait_for_buffer_space();
    ep.order_regions();
    SendError::Again
}
