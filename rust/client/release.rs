// SPDX-License-Identifier: GPL-2.0

//! Gives up a call that may be under way.
//!
//! A server that has not answered a call may be about to write its result, or may be writing. If
//! the memory is invalidated then, the device refuses the server's access, which ends the
//! connection for every call. (rxe even continues a write that it has begun: its LOCAL_INV does not
//! stop one.) So the task waits for the reply for a short time. The reply shows that the server has
//! finished.

use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;

use super::arrived::Arrived;
use super::endpoint::Endpoint;
use super::request::{Locked, Phase, Request, State, FOREVER};
use super::requester::Conn;
use super::transport::Client;
use super::{fence, probe, traced};
use crate::observe::trace::{self, Source};
use crate::proto::requester::invalidate::{self, Invalidated};
use crate::rdma::mr::Mr;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;

/// How long a task waits for the reply to a call that it gives up, in milliseconds.
const LINGER_MS: u32 = 2_000;
/// How long a LOCAL_INV may take before the connection is closed, in milliseconds.
const FENCE_MS: u32 = 2_000;

/// Takes note of a reply to a call that SUNRPC has dequeued and not yet released, or that was
/// answered before. Returns whether there is such a call. Completion worker; does not sleep.
///
/// The peer may have invalidated an R_key of that call, as with every other reply.
pub(super) fn answered_late(conn: &Conn, xid: u32, arrived: Arrived<'_, '_>) -> bool {
    conn.owner().slots().any(|slot| {
        let request: &Request = slot.data();
        let state = &mut request.lock().state;
        if state.xid != xid || state.epoch != conn.epoch() {
            return false;
        }
        match state.phase {
            Phase::Sent => {
                mark_answered(conn, state, arrived);
                request.wake();
            }
            Phase::Fencing => {}
            Phase::Idle
            | Phase::Preparing
            | Phase::Prepared
            | Phase::Abandoned
            | Phase::Withdrawn => return false,
        }
        true
    })
}

/// Marks a call as answered for which no RPC waits any more.
fn mark_answered(conn: &Conn, state: &mut State, arrived: Arrived<'_, '_>) {
    state.answered = true;
    let Some((msg, rkey)) = arrived.invalidated() else {
        return;
    };
    let handles = state.regions.iter().map(Mr::rkey);
    let permitted = conn.now().remote_invalidation();
    // `reply::check_unmatched_rkey` looks at a key that is not the call's own.
    if let Invalidated::Match(index) = invalidate::match_rkey(handles, Some(rkey), permitted) {
        if let Some(region) = state.regions.get_mut(index) {
            region.remotely_invalidated(msg);
        }
    }
}

/// Gives a request up for SUNRPC: waits until its memory is out of the peer's reach. May sleep.
#[inline]
pub(super) fn release(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    // Most RPCs were completed.
    if rqst.slot().data().is_in_use() {
        release_used(client, xprt, rqst);
    }
}

/// Implements [`release`] for a slot that may not be idle.
#[inline(never)]
fn release_used(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let locked = request.lock();
    if locked.state.phase == Phase::Idle {
        return;
    }
    let (sent, linger) = (locked.state.phase == Phase::Sent, may_be_answered(&locked));
    drop(locked);
    if linger {
        request.wait_while(msecs_to_jiffies(LINGER_MS), is_awaited);
    }
    if sent {
        let answered = request.lock().state.answered;
        trace::given_up(traced::task(rqst), rqst.xid(), linger, answered);
    }
    abandon(client, xprt, rqst);
}

/// Returns whether the server may be using the memory of a call: it has not answered.
fn is_awaited(state: &State) -> bool {
    state.phase == Phase::Sent && !state.answered && state.is_exposed()
}

/// Returns whether the answer to a call may still come.
fn may_be_answered(locked: &Locked) -> bool {
    let Some(ep) = locked.ep.as_ref().filter(|_| is_awaited(&locked.state)) else {
        return false;
    };
    !ep.is_closed() && !ep.qp().is_broken() && !probe::is_silent(ep)
}

/// Invalidates the memory of a request, and waits until that is done. If the server has not
/// answered, the credit of the call stays taken until it does. May sleep.
fn abandon(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let mut locked = request.lock();
    let state = &mut locked.state;
    match state.phase {
        // SUNRPC gives no call up that is being prepared.
        Phase::Idle | Phase::Preparing => return,
        Phase::Prepared | Phase::Withdrawn => return state.reset(),
        Phase::Sent | Phase::Fencing | Phase::Abandoned => {}
    }
    let Some(ep) = client.endpoint().filter(|ep| ep.epoch() == state.epoch) else {
        // The connection is being closed. Its sweep will take this request, or is waiting for the
        // lock that is held here.
        state.phase = Phase::Abandoned;
        drop(locked);
        return await_invalidation(request, None);
    };
    if !state.answered {
        ep.requester().credits.given_up(ep.shared());
    }
    if state.is_exposed() {
        trace::mrs_zap(traced::task(rqst));
        let live = state.regions.iter().filter(|region| region.is_live());
        state.counts.local_inv(live.count());
        state.phase = Phase::Abandoned;
        if fence::post(ep.qp(), request, state, traced::task(rqst).get()).is_err() {
            fence::order_close(&ep);
        }
        drop(locked);
        await_invalidation(request, Some(&ep));
    } else if state.answered {
        // The message has arrived, so the device does not read the send buffer any more.
        state.reset();
    } else {
        let old = state.out.take();
        state.reset();
        drop(locked);
        replace_buffer(&ep, xprt, request, old);
    }
}

/// Waits until an abandoned request is idle. Sleeps.
///
/// A LOCAL_INV over `ep`, the request's connection, waits until the Sends before it are
/// acknowledged. If that takes long, the server's device is not there. Closing the connection is
/// then quicker than waiting until our device gives up.
fn await_invalidation(request: &Request, ep: Option<&Arc<Endpoint>>) {
    let abandoned = |state: &State| state.phase == Phase::Abandoned;
    if let Some(ep) = ep {
        if request.wait_while(msecs_to_jiffies(FENCE_MS), abandoned) {
            return;
        }
        fence::order_close(ep);
    }
    request.wait_while(FOREVER, abandoned);
}

/// Takes back a call that SUNRPC is about to encode anew: waits until its memory is out of the
/// peer's reach. A call that was sent is not sent again over the same connection. May sleep.
pub(super) fn withdraw(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let (phase, epoch) = {
        let locked = request.lock();
        (locked.state.phase, locked.state.epoch)
    };
    abandon(client, xprt, rqst);
    if matches!(phase, Phase::Idle | Phase::Prepared) {
        return;
    }
    let mut locked = request.lock();
    // A slot that was swept in the meantime is free for the next connection.
    if locked.ep.is_some() && locked.state.epoch == epoch {
        // INVARIANT: `abandon` has left no regions.
        locked.state.phase = Phase::Withdrawn;
        // The lock is held, so this concerns the call's own connection.
        xprt.force_disconnect();
    }
}

/// Takes the send buffer away from a request whose Send the device may not have finished with.
fn replace_buffer(ep: &Endpoint, xprt: &Xprt<Client>, request: &Request, old: Option<SendBuf>) {
    match old.map(|buf| ep.exchange(buf)) {
        Some(Ok(buf)) => request.replace_buffer(buf, ep),
        // The slot gets a buffer with the next connection.
        Some(Err(_)) => {
            let locked = request.lock();
            if locked.ep.is_some() && locked.state.epoch == ep.epoch() {
                xprt.force_disconnect();
            }
        }
        None => {}
    }
}
