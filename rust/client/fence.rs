// SPDX-License-Identifier: GPL-2.0

//! Invalidates memory before its owner gets it back.
//!
//! There are three occasions. A reply has come, and the peer has not invalidated all regions of the
//! call. SUNRPC gives up a call whose reply has not come, or frees the pages of a call in order to
//! encode it anew ([`super::release`]). Or the connection is closed. On the first two, a chain of
//! LOCAL_INV is posted. Its last one completes after everything before it on the send queue, the
//! call's Send included. On the third, the queue pair is drained, and no peer reaches the memory
//! any more.
//!
//! A connection may fail while a chain is under way. A task that waits for the chain must not wait
//! for the transport's own close then: that close needs the send lock, which the task may hold. (A
//! task that is given the send lock, and finds that another task has transmitted its call, sleeps
//! with the lock until the reply comes.) So a worker closes the connection after a chain has
//! failed.

use kernel::prelude::*;
use kernel::sync::{Arc, SpinLockGuard};
use kernel::workqueue::WorkItem;

use super::endpoint::{Endpoint, CLOSE};
use super::request::{Locked, Phase, Request, State};
use super::requester::{Conn, QueuePair};
use super::transport::Client;
use super::{complete, traced};
use crate::conn;
use crate::observe::trace::{self, Source, Task, WcStatus};
use crate::rdma::mr::Mr;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::Xprt;

/// Invalidates the regions that are left of a request whose reply has come. [`invalidated`]
/// completes the RPC; should posting fail, the close does. Completion worker; does not sleep.
pub(super) fn before_completion(
    qp: &QueuePair,
    request: &Request,
    mut locked: SpinLockGuard<'_, Locked>,
    rqst: Pinned<'_, Client>,
) {
    let task = traced::task(&rqst).get();
    let Locked { ep, state } = &mut *locked;
    // INVARIANT: the phase becomes Fencing as the pin is parked.
    state.phase = Phase::Fencing;
    state.parked = Some(rqst.park());
    let live = state.regions.iter().filter(|region| region.is_live());
    state.counts.local_inv(live.count());
    if post(qp, request, state, task).is_err() {
        if let Some(ep) = ep {
            order_close(ep);
        }
    }
}

/// Posts a chain of LOCAL_INV for all regions that are live.
///
/// # Errors
///
/// The peer may still reach the regions: the caller has to have the connection closed.
pub(super) fn post(qp: &QueuePair, request: &Request, state: &mut State, task: Task) -> Result {
    for region in state.regions.iter().filter(|region| region.is_live()) {
        trace::mr_localinv(task, conn::traced::region(region));
    }
    match qp.post_invalidate(request.invalidation_tag(), &mut state.regions) {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = Error::from(error);
            trace::post_linv_err(task, error.to_errno());
            Err(error)
        }
    }
}

/// Has the connection closed after a LOCAL_INV has failed. Completion worker; does not sleep.
pub(super) fn failed(conn: &Conn, request: &Request) {
    let locked = request.lock();
    if let Some(ep) = locked.ep.as_ref().filter(|ep| ep.epoch() == conn.epoch()) {
        order_close(ep);
    }
}

/// Has a worker close the connection, since its chains of LOCAL_INV cannot complete. If it is
/// closed already, the worker finishes their requests. Any context; `ep` is not the last reference.
pub(super) fn order_close(ep: &Arc<Endpoint>) {
    let conn = ep.shared();
    if !ep.is_closed() {
        conn.force_close();
    }
    // The queue refuses an item that is queued already, and that one suffices.
    let _ = conn.owner().queue().enqueue::<_, CLOSE>(ep.clone());
}

impl WorkItem<CLOSE> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.close();
        finish_fenced(this.shared().owner(), this.epoch());
    }
}

/// Finishes the requests that wait for a chain of LOCAL_INV on connection number `epoch`, which is
/// drained. [`sweep`] takes care of the others.
fn finish_fenced(xprt: &Xprt<Client>, epoch: u32) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        let locked = request.lock();
        let fenced = matches!(locked.state.phase, Phase::Fencing | Phase::Abandoned);
        if fenced && locked.state.epoch == epoch {
            finish_drained(xprt, request, locked);
        }
    }
}

/// Handles the completion of the last LOCAL_INV of a request. Completion worker; does not sleep.
pub(super) fn invalidated(conn: &Conn, qp: &QueuePair, request: &Request) {
    let locked = request.lock();
    // The slot may have been swept in the meantime.
    if locked.state.epoch != conn.epoch() {
        return;
    }
    let region = locked.state.last_invalidating().map_or(u32::MAX, Mr::id);
    let cid = conn::traced::cid(qp, region);
    match locked.state.phase {
        Phase::Fencing => trace::wc_li_done(cid, WcStatus::SUCCESS),
        Phase::Abandoned => trace::wc_li_wake(cid, WcStatus::SUCCESS),
        Phase::Idle | Phase::Preparing | Phase::Prepared | Phase::Sent | Phase::Withdrawn => {
            return;
        }
    }
    if !finish(conn.owner(), request, locked) {
        // The completion was not that of the whole chain. Only a close invalidates the rest.
        failed(conn, request);
    }
}

/// Finishes a request whose memory is out of the peer's reach: completes its RPC, or wakes the task
/// that waits. Returns `false`, and does neither, if a region is still live.
fn finish(xprt: &Xprt<Client>, request: &Request, mut locked: SpinLockGuard<'_, Locked>) -> bool {
    let state = &mut locked.state;
    state.mark_invalidated();
    if state.is_exposed() {
        return false;
    }
    let (parked, status) = (state.parked.take(), state.status);
    let deferred = state.deferred.take();
    state.reset();
    drop(locked);
    let Some(parked) = parked else {
        request.wake();
        return true;
    };
    let mut rqst = parked.resume(xprt);
    let status = match deferred {
        Some(reply) => complete::place(xprt, &mut rqst, &reply.message, reply.chunk),
        None => status,
    };
    complete::complete(rqst, status);
    true
}

/// Takes every request of connection number `epoch` back to Idle. The connection is closed and
/// drained, or was never established. May sleep.
pub(super) fn sweep(xprt: &Xprt<Client>, epoch: u32) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        request.wait_for_preparing();
        let mut locked = request.lock();
        if locked.state.epoch != epoch {
            continue;
        }
        let taken = (locked.state.out.take(), locked.ep.take());
        finish_drained(xprt, request, locked);
        request.drop_spare();
        // The buffer is unmapped outside the lock. The reference may be the last one.
        drop(taken);
    }
}

/// Finishes a request whose connection is drained, so that no region of it can be live.
fn finish_drained(xprt: &Xprt<Client>, request: &Request, locked: SpinLockGuard<'_, Locked>) {
    if !finish(xprt, request, locked) {
        // A call that hangs does less harm than memory that a peer writes to.
        kernel::pr_warn_once!("a memory region is live on a connection that was drained\n");
    }
}
