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

use super::super::endpoint::Endpoint;
use super::super::transport::{task_of, Client};
use super::fence;
use super::slot::{Locked, Slot, FOREVER};
use crate::observe::trace::{self, Source};
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;

/// How long a task waits for the reply to a call that it gives up, in milliseconds.
const LINGER_MS: u32 = 2_000;
/// How long a LOCAL_INV may take before the connection is closed, in milliseconds.
const FENCE_MS: u32 = 2_000;

/// Gives a call up for SUNRPC: waits until its memory is out of the peer's reach. May sleep.
pub(in crate::client) fn release(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    // Most RPCs were completed.
    if rqst.slot().data().is_in_use() {
        release_used(client, xprt, rqst);
    }
}

/// Implements [`release`] for a slot that may not be idle.
#[inline(never)]
fn release_used(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let locked = slot.lock();
    if locked.is_idle() {
        return;
    }
    let (sent, linger) = (locked.was_sent(), may_be_answered(&locked));
    drop(locked);
    if linger {
        slot.wait_while(msecs_to_jiffies(LINGER_MS), Locked::is_awaited);
    }
    if sent {
        let answered = slot.lock().is_answered();
        trace::given_up(task_of(rqst), rqst.xid(), linger, answered);
    }
    abandon(client, xprt, rqst);
}

/// Returns whether the answer to a call may still arrive.
fn may_be_answered(locked: &Locked) -> bool {
    let Some(ep) = locked.ep.as_ref().filter(|_| locked.is_awaited()) else {
        return false;
    };
    !ep.is_closed() && !ep.qp().is_broken() && !ep.is_silent()
}

/// Invalidates the memory of a call, and waits until that is done. If the server has not answered,
/// the credit of the call stays taken until it does. May sleep.
fn abandon(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    if locked.drop_unsent() {
        return;
    }
    let Some(ep) = client.endpoint().filter(|ep| locked.has_epoch(ep.epoch())) else {
        // The connection is being closed. Its sweep will take this slot, or is waiting for the lock
        // that is held here.
        locked.abandon();
        drop(locked);
        return await_invalidation(slot, None);
    };
    if !locked.is_answered() {
        ep.requester().credits.given_up(ep.shared());
    }
    if locked.contents.is_exposed() {
        trace::mrs_zap(task_of(rqst));
        locked.abandon();
        if fence::post(ep.qp(), slot, &mut locked, task_of(rqst).get()).is_err() {
            fence::order_close(&ep);
        }
        drop(locked);
        await_invalidation(slot, Some(&ep));
    } else if locked.is_answered() {
        // The message has arrived, so the device does not read the send buffer any more.
        locked.reset();
    } else {
        let old = locked.contents.out.take();
        locked.reset();
        drop(locked);
        replace_buffer(&ep, xprt, slot, old);
    }
}

/// Waits until an abandoned slot is idle. Sleeps.
///
/// A LOCAL_INV over `ep`, the slot's connection, waits until the Sends before it are acknowledged.
/// If that takes long, the server's device is not there. Closing the connection is then quicker
/// than waiting until our device reports a failure.
fn await_invalidation(slot: &Slot, ep: Option<&Arc<Endpoint>>) {
    if let Some(ep) = ep {
        if slot.wait_while(msecs_to_jiffies(FENCE_MS), Locked::is_abandoned) {
            return;
        }
        fence::order_close(ep);
    }
    slot.wait_while(FOREVER, Locked::is_abandoned);
}

/// Takes back a call that SUNRPC is about to encode again: waits until its memory is out of the
/// peer's reach. A call that was sent is not sent again over the same connection. May sleep.
pub(in crate::client) fn withdraw(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let used = slot.lock().used_epoch();
    abandon(client, xprt, rqst);
    // A slot that was swept in the meantime is free for the next connection.
    let mut locked = slot.lock();
    // INVARIANT: `abandon` has left no regions.
    if used.is_some_and(|epoch| locked.withdraw(epoch)) {
        // The lock is held, so this concerns the call's own connection.
        xprt.force_disconnect();
    }
}

/// Takes the send buffer away from a slot whose Send the device may not have finished with.
fn replace_buffer(ep: &Endpoint, xprt: &Xprt<Client>, slot: &Slot, old: Option<SendBuf>) {
    match old.map(|buf| ep.exchange(buf)) {
        Some(Ok(buf)) => slot.replace_buffer(buf, ep),
        // The slot gets a buffer with the next connection.
        Some(Err(_)) => {
            let locked = slot.lock();
            if locked.belongs_to(ep.epoch()) {
                xprt.force_disconnect();
            }
        }
        None => {}
    }
}
