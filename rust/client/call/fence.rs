// SPDX-License-Identifier: GPL-2.0

//! Invalidates memory before its owner gets it back.
//!
//! This happens in three cases: a reply arrives and the peer has not invalidated all regions of the
//! call; SUNRPC aborts a call whose reply has not arrived, or frees the pages of a call in order to
//! encode it again; or the connection is closed. In the first two cases a chain of LOCAL_INV is
//! posted. Its last LOCAL_INV completes after everything before it on the send queue, the call's
//! Send included. In the third case the queue pair is drained, after which no peer can reach the
//! memory.
//!
//! A server that has not answered a call may be writing its result, or be about to. If the memory
//! is invalidated then, the device refuses the server's access, which ends the connection for every
//! call. (rxe even completes a LOCAL_INV while it copies the data of a packet.) A task that aborts
//! a call therefore waits a short time for the reply. The reply shows that the server has finished.
//!
//! A connection may fail while a chain is in progress. The task that waits for the chain must not
//! wait for the transport's own close: that close needs the send lock, which the task may hold. (A
//! task that gets the send lock, and finds that another task has transmitted its call, sleeps with
//! the lock until the reply arrives.) A worker therefore closes the connection after a chain has
//! failed.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{Arc, SpinLockGuard};
use kernel::time::msecs_to_jiffies;

use super::super::endpoint::{tags, Conn, Endpoint, QueuePair, CLOSE};
use super::super::transport::{task_of, Client};
use super::marshal::reply_shape;
use super::slot::{Locked, Slot, FOREVER};
use super::SlotTable;
use crate::conn;
use crate::observe::trace::{self, Lazy, Source, Task, WcStatus};
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::Mr;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;

/// How long a task waits for the reply to a call that it aborts, in milliseconds.
const LINGER_MS: u32 = 2_000;
/// How long a LOCAL_INV may take before the connection is closed, in milliseconds.
const FENCE_MS: u32 = 2_000;

/// How an RPC ends: with a reply of this length in bytes, chunks included; or with `EIO`, because
/// the responder could not process the call or its reply was not acceptable.
pub(super) type Status = Result<u32>;

/// How an RPC ends once its memory is invalidated.
pub(super) enum Ending {
    /// The RPC ends with this status; the reply, if any, is in place.
    With(Status),
    /// The RPC ends with a reply whose inline part has yet to be copied into place. The reply
    /// arrived while the peer could still reach the memory where it belongs. The DMA layer may also
    /// have a bounce buffer for that memory, whose contents would overwrite the reply.
    Copy {
        /// May be `vmalloc()` memory, so it is not dropped while a spinlock is held.
        message: KVVec<u8>,
        /// The number of bytes that arrived through the write chunk, if it was used.
        chunk: Option<u32>,
    },
}

/// Copies an inline reply into the buffers of the RPC. `chunk` is the number of bytes that arrived
/// through the write chunk, if it was used. Does not sleep.
#[inline(always)]
pub(super) fn place(
    xprt: &Xprt<Client>,
    rqst: &mut Pinned<'_, Client>,
    message: &[u8],
    chunk: Option<u32>,
) -> Status {
    let placed = rqst.place_reply(message, chunk);
    xprt.data().stats.fixup(placed.copied);
    let shape = Lazy(|| reply_shape(&rqst.recv_buf()));
    trace::fixup(task_of(rqst), placed.copied, shape);
    Ok(placed.len)
}

/// Completes an RPC whose memory the peer can no longer reach. Does not sleep.
#[inline(always)]
pub(super) fn complete(rqst: Pinned<'_, Client>, status: Status) {
    match status {
        Ok(len) => rqst.complete(len),
        Err(error) => rqst.fail(error),
    }
}

/// Invalidates the remaining regions of a call whose reply has arrived. [`invalidated`] then
/// completes the RPC, which ends as `ending` says. If posting fails, closing the connection
/// completes the RPC. Completion worker; does not sleep.
pub(super) fn before_completion(
    qp: &QueuePair,
    slot: &Slot,
    mut locked: SpinLockGuard<'_, Locked>,
    rqst: Pinned<'_, Client>,
    ending: Ending,
) {
    let task = task_of(&rqst).get();
    locked.begin_fencing(rqst.park(), ending);
    if post(qp, slot, &mut locked, task).is_err() {
        if let Some(ep) = &locked.ep {
            order_close(ep);
        }
    }
}

/// Counts and posts a chain of LOCAL_INV for all regions that are live.
///
/// # Errors
///
/// The peer may still reach the regions: the caller must have the connection closed.
pub(super) fn post(qp: &QueuePair, slot: &Slot, locked: &mut Locked, task: Task) -> Result {
    let contents = &mut locked.contents;
    let mut live = 0;
    for region in contents.live() {
        trace::mr_localinv(task, conn::traced::region(region));
        live += 1;
    }
    contents.counts.local_inv(live);
    let posted = qp.post_invalidate(tags::invalidation(slot.index), &mut contents.regions);
    let posted = posted.map(drop).map_err(Error::from);
    posted.inspect_err(|error| trace::post_linv_err(task, error.to_errno()))
}

/// Handles the failure of a LOCAL_INV: queues the close of the connection. Completion worker; does
/// not sleep.
pub(in crate::client) fn failed(conn: &Conn, slot: &Slot) {
    let locked = slot.lock();
    if let Some(ep) = locked.ep.as_ref().filter(|ep| ep.epoch() == conn.epoch()) {
        order_close(ep);
    }
}

/// Returns the number of the region of the last LOCAL_INV of a slot's chain, for trace events.
pub(in crate::client) fn last_region(slot: &Slot) -> u32 {
    region_id(&slot.lock())
}

fn region_id(locked: &Locked) -> u32 {
    locked.contents.last_invalidating().map_or(u32::MAX, Mr::id)
}

/// Queues the work item that closes the connection, since its chains of LOCAL_INV cannot complete.
/// If the connection is closed already, the worker finishes the calls of these chains. Process
/// context; does not sleep. `ep` is not the last reference.
pub(in crate::client) fn order_close(ep: &Arc<Endpoint>) {
    let conn = ep.shared();
    if !ep.is_closed() {
        conn.force_close();
    }
    // The queue refuses an item that is queued already. That item suffices.
    let _ = conn.owner().queue().enqueue::<_, CLOSE>(ep.clone());
}

/// Finishes the calls that wait for a chain of LOCAL_INV over a connection that has been closed.
/// [`sweep`] takes care of the other calls.
pub(in crate::client) fn finish_closed(ep: &Endpoint) {
    let xprt = ep.shared().owner();
    SlotTable::of(xprt).each_fencing(ep.epoch(), |slot, locked| {
        finish_drained(xprt, slot, locked);
    });
}

/// Handles the completion of the last LOCAL_INV of a call. Completion worker; does not sleep.
pub(in crate::client) fn invalidated(conn: &Conn, qp: &QueuePair, slot: &Slot) {
    let locked = slot.lock();
    let cid = Lazy(|| conn::traced::cid(qp, region_id(&locked)).get());
    match locked.fencing(conn.epoch()) {
        Some(true) => trace::wc_li_done(cid, WcStatus::SUCCESS),
        Some(false) => trace::wc_li_wake(cid, WcStatus::SUCCESS),
        // The slot may have been swept meanwhile.
        None => return,
    }
    if !finish(conn.owner(), slot, locked) {
        // The completion did not cover the whole chain. Only a close invalidates the rest.
        failed(conn, slot);
    }
}

/// Finishes a call whose memory the peer can no longer reach: completes its RPC, or wakes the task
/// that waits. Returns `false`, and does neither, if a region is still live.
fn finish(xprt: &Xprt<Client>, slot: &Slot, mut locked: SpinLockGuard<'_, Locked>) -> bool {
    if !locked.contents.mark_invalidated() {
        return false;
    }
    let parked = slot.end_fencing(&mut locked);
    drop(locked);
    let Some((rqst, ending)) = parked else {
        slot.wake();
        return true;
    };
    let mut rqst = rqst.resume(xprt);
    let status = match ending {
        Ending::Copy { message, chunk } => place(xprt, &mut rqst, &message, chunk),
        Ending::With(status) => status,
    };
    complete(rqst, status);
    true
}

/// Takes every slot of connection number `epoch` back to Idle. The connection is closed and
/// drained, or was never established. May sleep.
pub(in crate::client) fn sweep(xprt: &Xprt<Client>, epoch: u32) {
    SlotTable::of(xprt).sweep(epoch, |slot, locked| finish_drained(xprt, slot, locked));
}

/// Finishes a call whose connection is drained, so that none of its regions can be live.
fn finish_drained(xprt: &Xprt<Client>, slot: &Slot, locked: SpinLockGuard<'_, Locked>) {
    if !finish(xprt, slot, locked) {
        // A hanging call does less harm than memory that a peer can still write.
        kernel::pr_warn_once!("a memory region is live on a connection that was drained\n");
    }
}

/// Aborts a call for SUNRPC: waits until the peer can no longer reach its memory. May sleep.
pub(in crate::client) fn release(client: &Client, rqst: &Rqst<'_, Client>) {
    // Most RPCs are complete by now.
    if rqst.slot().data().is_in_use() {
        release_used(client, rqst);
    }
}

/// Implements [`release`] for a slot that may not be idle.
#[inline(never)]
fn release_used(client: &Client, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let locked = slot.lock();
    if locked.is_idle() {
        return;
    }
    let (sent, linger) = (locked.is_sent(locked.epoch), may_be_answered(&locked));
    drop(locked);
    if linger {
        client.lingering.store(slot.index, Relaxed);
        slot.wait_while(msecs_to_jiffies(LINGER_MS), Locked::is_awaited);
    }
    if sent {
        let answered = Lazy(|| slot.lock().answered);
        trace::given_up(task_of(rqst), rqst.xid(), linger, answered);
    }
    abandon(client, rqst);
}

/// Returns whether the answer to a call may still arrive.
fn may_be_answered(locked: &Locked) -> bool {
    let works = |ep: &Arc<Endpoint>| !ep.is_closed() && !ep.qp().is_broken() && !ep.is_silent();
    locked.is_awaited() && locked.ep.as_ref().is_some_and(works)
}

/// Invalidates the memory of a call, and waits until that is done. If the server has not answered,
/// the call keeps its credit until the server does. May sleep.
fn abandon(client: &Client, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    if locked.drop_unsent() {
        return;
    }
    let Some(ep) = client.endpoint().filter(|ep| locked.epoch == ep.epoch()) else {
        // The connection is being closed. Its sweep will take this slot, or is waiting for the lock
        // that is held here.
        locked.abandon();
        drop(locked);
        return await_invalidation(slot, None);
    };
    if !locked.answered {
        ep.requester().credits.given_up(ep.shared());
    }
    if locked.contents.is_exposed() {
        trace::mrs_zap(task_of(rqst));
        locked.abandon();
        if post(ep.qp(), slot, &mut locked, task_of(rqst).get()).is_err() {
            order_close(&ep);
        }
        drop(locked);
        await_invalidation(slot, Some(&ep));
    } else if locked.answered {
        // The message has arrived, so the device no longer reads the send buffer.
        locked.reset();
    } else {
        let old = locked.contents.out.take();
        locked.reset();
        drop(locked);
        replace_buffer(&ep, slot, old);
    }
}

/// Waits until an abandoned slot is idle. Sleeps.
///
/// A LOCAL_INV over `ep`, the slot's connection, waits until the Sends before it are acknowledged.
/// If that takes long, the server's device is gone. Closing the connection is then quicker than
/// waiting until our device reports a failure.
fn await_invalidation(slot: &Slot, ep: Option<&Arc<Endpoint>>) {
    if let Some(ep) = ep {
        if slot.wait_while(msecs_to_jiffies(FENCE_MS), Locked::is_abandoned) {
            return;
        }
        order_close(ep);
    }
    slot.wait_while(FOREVER, Locked::is_abandoned);
}

/// Handles a timeout of a call that does not end with it: orders the close of the connection over
/// which the call was sent.
///
/// The slot is idle if the connection was closed already, or if the call was answered. SUNRPC may
/// have refused that answer, and then waits for another one, which no server sends over the same
/// connection. (RFC 2203 section 5.3.3.1: a reply with a wrong checksum is dropped.) The call keeps
/// its credit meanwhile.
pub(in crate::client) fn timed_out(xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let locked = slot.lock();
    if !locked.is_idle() {
        return locked.order_close();
    }
    let epoch = locked.epoch;
    drop(locked);
    // ORDERING: the slot comes first. A thread that handles a reply claims the request before it
    // empties the slot, and ends the claim when SUNRPC no longer waits. A sweep empties the slot
    // when the connection is no longer the present one.
    if xprt.awaits_reply(rqst) {
        let locked = slot.lock();
        if locked.epoch == epoch {
            locked.order_close();
        }
    }
}

/// Takes back a call that SUNRPC is about to encode again: waits until the peer can no longer reach
/// its memory. A call that has been sent is not sent again over the same connection. May sleep.
pub(in crate::client) fn withdraw(client: &Client, rqst: &Rqst<'_, Client>) {
    let slot: &Slot = rqst.slot().data();
    let used = slot.lock().used_epoch();
    abandon(client, rqst);
    // A slot that was swept meanwhile is free for the next connection.
    let mut locked = slot.lock();
    // INVARIANT: `abandon` has left no regions.
    if used.is_some_and(|epoch| locked.withdraw(epoch)) {
        locked.order_close();
    }
}

/// Replaces the send buffer of a slot whose Send the device may not have finished.
fn replace_buffer(ep: &Endpoint, slot: &Slot, old: Option<SendBuf>) {
    match old.map(|buf| ep.exchange(buf)) {
        Some(Ok(buf)) => slot.replace_buffer(buf, ep),
        // The slot gets a buffer with the next connection.
        Some(Err(_)) => ep.shared().force_close(),
        None => {}
    }
}
