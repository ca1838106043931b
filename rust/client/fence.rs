// SPDX-License-Identifier: GPL-2.0

//! No memory a peer can still reach goes back to its owner.
//!
//! Three occasions: a reply came and regions are left that the peer has not invalidated; SUNRPC
//! gives up an RPC whose reply has not come, or frees pages of a call in order to encode it anew; the
//! connection is gone. In the first two a chain of LOCAL_INV is posted, the last of which completes
//! after everything before it on the send queue, the call's Send included. In the third the queue
//! pair is dead, and with it every way to the memory.
//!
//! A server that has not answered a call may be about to write its result, or be at it. If the memory
//! is fenced then, the device refuses the server's access, which ends the connection for every call.
//! (rxe even goes on with a write that it has begun: its LOCAL_INV does not stop one.) So the reply to
//! a call that is given up is waited for a moment, as it says that the server is done.
//!
//! A connection may fail while one of these chains is under way. Who waits for it cannot wait for the
//! transport's own close then: that needs the send lock, and the waiter may be who holds it. (A task
//! that finds its call transmitted by another just as it is given the lock sleeps with it until the
//! reply comes.) So a chain that fails has the connection closed by a worker.

use kernel::prelude::*;
use kernel::sync::{Arc, SpinLockGuard};
use kernel::time::{msecs_to_jiffies, Jiffies};
use kernel::workqueue::WorkItem;

use super::endpoint::{Endpoint, CLOSING};
use super::link::Link;
use super::request::{Phase, Request, Seat, State};
use super::transport::Client;
use super::{names, reply};
use crate::observe::trace::{self, Source, Task, WcStatus};
use crate::proto::requester::invalidate::{self, Invalidated};
use crate::rdma::mr::Mr;
use crate::rdma::qp::Qp;
use crate::rdma::recv::Received;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;

/// How long the reply to a call is waited for that SUNRPC has given up, in milliseconds.
const LINGER_MS: u32 = 2_000;
/// How long a LOCAL_INV may take before the connection is closed, in milliseconds.
const FENCE_MS: u32 = 2_000;
/// For ever (`MAX_SCHEDULE_TIMEOUT`). CAST: it is the largest `long`.
const FOREVER: Jiffies = isize::MAX as Jiffies;

/// Fences what is left of a request whose reply has come; [`invalidated`] will complete the RPC.
/// Should posting fail, closing the connection will. Completion worker; does not sleep.
pub(super) fn before_completion(
    link: &Link,
    qp: &Qp<Link>,
    request: &Request,
    mut seat: SpinLockGuard<'_, Seat>,
    rqst: Pinned<'_, Client>,
) {
    let task = names::task(&rqst).get();
    let Seat { ep, state } = &mut *seat;
    // INVARIANT: the phase becomes Fencing as the pin is parked.
    state.phase = Phase::Fencing;
    state.parked = Some(rqst.park());
    let live = state.regions.iter().filter(|region| region.is_live());
    link.xprt().data().stats().local_inv(live.count());
    if post(qp, request, state, task).is_err() {
        if let Some(ep) = ep {
            order_close(ep);
        }
    }
}

/// A LOCAL_INV has failed, and the connection with it. Completion worker; does not sleep.
pub(super) fn cut_off(link: &Link, request: &Request) {
    let seat = request.lock();
    if let Some(ep) = seat.ep.as_ref().filter(|ep| ep.epoch == link.epoch) {
        order_close(ep);
    }
}

/// Has a connection closed whose fences cannot be completed, or the fences looked at once more if it
/// is closed already. Any context; `ep` is not the last reference.
fn order_close(ep: &Arc<Endpoint>) {
    if !ep.is_closed() {
        ep.link.give_up();
    }
    // Refused only when it is queued already.
    let _ = ep.link.xprt().queue().enqueue::<_, CLOSING>(ep.clone());
}

impl WorkItem<CLOSING> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.close();
        settle_fenced(this.link.xprt(), this.epoch);
    }
}

/// Ends the fences of connection number `epoch`, which is drained. The rest is for [`sweep`].
fn settle_fenced(xprt: &Xprt<Client>, epoch: u32) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        let seat = request.lock();
        let fenced = matches!(seat.state.phase, Phase::Fencing | Phase::Abandoned);
        if fenced && seat.state.epoch == epoch {
            settle_drained(xprt, request, seat);
        }
    }
}

/// The last LOCAL_INV of a request has completed. Completion worker; does not sleep.
pub(super) fn invalidated(link: &Link, qp: &Qp<Link>, request: &Request) {
    let seat = request.lock();
    // Swept meanwhile?
    if seat.state.epoch != link.epoch {
        return;
    }
    let cid = names::cid(qp, seat.state.last_fenced().map_or(u32::MAX, Mr::id));
    match seat.state.phase {
        Phase::Fencing => trace::wc_li_done(cid, WcStatus::SUCCESS),
        Phase::Abandoned => trace::wc_li_wake(cid, WcStatus::SUCCESS),
        Phase::Idle | Phase::Prepared | Phase::Sent | Phase::Withdrawn => return,
    }
    if !settle(link.xprt(), request, seat) {
        // The completion was for less than the chain: only closing the connection fences the rest.
        cut_off(link, request);
    }
}

/// Ends a request whose memory nobody can reach any more: completes its RPC, or wakes the task that
/// waits for that. `false`: a region is still live, and nothing has been done.
fn settle(xprt: &Xprt<Client>, request: &Request, mut seat: SpinLockGuard<'_, Seat>) -> bool {
    let state = &mut seat.state;
    state.fenced();
    if state.exposed() {
        return false;
    }
    let (parked, verdict, late) = (state.parked.take(), state.verdict, state.late.take());
    state.reset();
    drop(seat);
    let Some(parked) = parked else {
        request.wake();
        return true;
    };
    let mut rqst = parked.resume(xprt);
    let verdict = match late {
        Some(late) => reply::place(xprt, &mut rqst, &late.message, late.chunk),
        None => verdict,
    };
    reply::complete(rqst, verdict);
    true
}

/// Takes note of a reply to a call that SUNRPC has dequeued and not yet released, or that has been
/// answered before. `false` if there is no such call. Completion worker; does not sleep.
///
/// The peer may have invalidated an R_key of that call, as it does for one that is waited for.
pub(super) fn answered_late(link: &Link, xid: u32, msg: &Received<'_, Link>) -> bool {
    link.xprt().slots().any(|slot| {
        let request: &Request = slot.data();
        let state = &mut request.lock().state;
        if state.xid != xid || state.epoch != link.epoch {
            return false;
        }
        match state.phase {
            Phase::Sent => {
                note_answer(link, state, msg);
                request.wake();
            }
            Phase::Fencing => {}
            Phase::Idle | Phase::Prepared | Phase::Abandoned | Phase::Withdrawn => return false,
        }
        true
    })
}

/// Marks a call as answered that nobody waits for.
fn note_answer(link: &Link, state: &mut State, msg: &Received<'_, Link>) {
    state.answered = true;
    let handles = state.regions.iter().map(Mr::rkey);
    // A key that is not the call's own is left to `reply::stray_key`.
    if let Invalidated::Match(index) =
        invalidate::match_rkey(handles, msg.invalidated(), link.may_invalidate())
    {
        if let Some(region) = state.regions.get_mut(index) {
            region.remotely_invalidated(msg);
        }
    }
}

/// Fences a request that SUNRPC gives up, and waits until that is done. May sleep.
pub(super) fn release(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let seat = request.lock();
    // The RPC was completed, as most are.
    if seat.state.phase == Phase::Idle {
        return;
    }
    let (sent, linger) = (seat.state.phase == Phase::Sent, may_be_answered(&seat));
    drop(seat);
    if linger {
        request.wait_while(msecs_to_jiffies(LINGER_MS), is_awaited);
    }
    if sent {
        let answered = request.lock().state.answered;
        trace::given_up(names::task(rqst), rqst.xid(), linger, answered);
    }
    abandon(client, xprt, rqst);
}

/// Whether the server may be using the memory of a call: it has not answered.
fn is_awaited(state: &State) -> bool {
    state.phase == Phase::Sent && !state.answered && state.exposed()
}

/// Whether it is worth while to wait for the answer.
fn may_be_answered(seat: &Seat) -> bool {
    let Some(ep) = seat.ep.as_ref().filter(|_| is_awaited(&seat.state)) else {
        return false;
    };
    !ep.is_closed() && !ep.qp.is_broken() && !ep.link.vigil.is_quiet()
}

/// Fences a request, and waits until that is done. If the server has not answered, its credit stays
/// taken until it does. May sleep.
fn abandon(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let mut seat = request.lock();
    let state = &mut seat.state;
    match state.phase {
        Phase::Idle => return,
        Phase::Prepared | Phase::Withdrawn => return state.reset(),
        Phase::Sent | Phase::Fencing | Phase::Abandoned => {}
    }
    let Some(ep) = client.endpoint().filter(|ep| ep.epoch == state.epoch) else {
        // The connection is being closed: its sweep comes by, or has just been waiting for us.
        state.phase = Phase::Abandoned;
        drop(seat);
        return await_fence(request, None);
    };
    if !state.answered {
        ep.link.orphaned();
    }
    if state.exposed() {
        trace::mrs_zap(names::task(rqst));
        let live = state.regions.iter().filter(|region| region.is_live());
        client.stats().local_inv(live.count());
        state.phase = Phase::Abandoned;
        if post(&ep.qp, request, state, names::task(rqst).get()).is_err() {
            order_close(&ep);
        }
        drop(seat);
        await_fence(request, Some(&ep));
    } else if state.answered {
        // The device has no use for the send buffer: its message has arrived.
        state.reset();
    } else {
        let old = state.out.take();
        state.reset();
        drop(seat);
        replace_buffer(&ep, xprt, request, old);
    }
}

/// Waits until an abandoned request is idle. Over `ep`, its connection, a LOCAL_INV waits for the Sends
/// before it to be acknowledged; if that takes long, the server's device is not there, and closing the
/// connection is quicker than waiting until our device gives up. Sleeps.
fn await_fence(request: &Request, ep: Option<&Arc<Endpoint>>) {
    let fencing = |state: &State| state.phase == Phase::Abandoned;
    if let Some(ep) = ep {
        if request.wait_while(msecs_to_jiffies(FENCE_MS), fencing) {
            return;
        }
        order_close(ep);
    }
    request.wait_while(FOREVER, fencing);
}

/// Fences a call that is being encoded anew, and waits until that is done. If it was sent, its
/// connection will not carry it again. May sleep.
pub(super) fn withdraw(client: &Client, xprt: &Xprt<Client>, rqst: &Rqst<'_, Client>) {
    let request: &Request = rqst.slot().data();
    let (phase, epoch) = {
        let seat = request.lock();
        (seat.state.phase, seat.state.epoch)
    };
    abandon(client, xprt, rqst);
    if matches!(phase, Phase::Idle | Phase::Prepared) {
        return;
    }
    let mut seat = request.lock();
    // Swept meanwhile? Then it is free for the next connection.
    if seat.ep.is_some() && seat.state.epoch == epoch {
        // INVARIANT: `abandon` has left no regions.
        seat.state.phase = Phase::Withdrawn;
        // Under the lock, so that it is this connection.
        xprt.force_disconnect();
    }
}

/// Takes the send buffer away from a request whose Send the device may not have finished with.
fn replace_buffer(ep: &Endpoint, xprt: &Xprt<Client>, request: &Request, old: Option<SendBuf>) {
    match old.map(|buf| ep.exchange(buf)) {
        Some(Ok(buf)) => request.refit(buf, ep),
        // The next connection has one again.
        Some(Err(_)) => {
            let seat = request.lock();
            if seat.ep.is_some() && seat.state.epoch == ep.epoch {
                xprt.force_disconnect();
            }
        }
        None => {}
    }
}

/// Posts a chain of LOCAL_INV for all regions that are left.
fn post(qp: &Qp<Link>, request: &Request, state: &mut State, task: Task) -> Result {
    for region in state.regions.iter().filter(|region| region.is_live()) {
        trace::mr_localinv(task, names::region(region));
    }
    match qp.post_invalidate(request.fence_tag(), &mut state.regions) {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = Error::from(error);
            trace::post_linv_err(task, error.to_errno());
            Err(error)
        }
    }
}

/// Takes every request of connection number `epoch`, which is closed and drained or has never been
/// up, back to Idle. May sleep.
pub(super) fn sweep(xprt: &Xprt<Client>, epoch: u32) {
    for slot in xprt.slots() {
        let request: &Request = slot.data();
        let mut seat = request.lock();
        if seat.state.epoch != epoch {
            continue;
        }
        let gone = (seat.state.out.take(), seat.ep.take());
        settle_drained(xprt, request, seat);
        // Unmapped outside the lock, and perhaps the last to go.
        drop(gone);
    }
}

/// Ends a request whose connection is drained, so that no region of it can be live.
fn settle_drained(xprt: &Xprt<Client>, request: &Request, seat: SpinLockGuard<'_, Seat>) {
    if !settle(xprt, request, seat) {
        // Better a call that hangs than memory that a peer writes to.
        kernel::pr_warn_once!("a memory region is live on a connection that was drained\n");
    }
}
