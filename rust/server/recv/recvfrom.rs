// SPDX-License-Identifier: GPL-2.0

//! Receives calls: a thread of the service handles the oldest message.
//!
//! No value in a message is used before `proto::responder::intake` has checked it. Every path ends
//! with a receipt, and the Receive goes back to the device before the service works on the call.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::read::{self, Fetcher};
use crate::compat::code::ENOBUFS;
use crate::conn::traced;
use crate::observe::stats::RequesterBreach;
use crate::observe::{requester, trace};
use crate::proto::backward;
use crate::proto::responder::call::{self, Unfit};
use crate::proto::responder::intake::{self, Arrival, Reason, Refusal};
use crate::rdma::recv::Held;
use crate::server::call::context::{BeginError, Call, Shape};
use crate::server::call::in_flight::lane;
use crate::server::call::queue::Ready;
use crate::server::config::WAITED;
use crate::server::conn::endpoint::Endpoint;
use crate::server::conn::{endpoint, failure};
use crate::server::send;
use crate::sunrpc::svc::receive::{Arriving, Incoming, Payload, Receipt};

/// Receives a call, if one is complete. Thread of the service; may sleep.
pub(crate) fn receive<'a>(ep: &Endpoint, incoming: Incoming<'a, Call>) -> Receipt<'a> {
    let next = ep.role().ready.pop(|| incoming.mark_empty());
    let arriving = incoming.received();
    match next {
        Some(Ready::Message(message)) => take(ep, message, arriving),
        Some(Ready::Fetched(call)) => read::receive(ep, call, arriving),
        None => arriving.nothing(),
    }
}

/// Receives a call, or handles a message that is no call.
fn take<'a>(ep: &Endpoint, message: Held, arriving: Arriving<'a, Call>) -> Receipt<'a> {
    let bytes = message.bytes();
    // The result is large, and not moved.
    let arrival = intake::take(bytes, &ep.role().limits);
    let Ok(Arrival::Call(call)) = &arrival else {
        return take_other(ep, &message, &arrival, arriving);
    };
    let cid = traced::cid(ep.qp(), message.index());
    trace::server::decode_call(cid, bytes, call);
    if ep.role().quirks.takes(call) {
        send::answer_here(ep, call);
        return arriving.nothing();
    }
    if call.pulled() == 0 {
        return begin(ep, call, message.index(), arriving);
    }
    if let Err(lack) = fetch(ep, &message, call) {
        await_more(ep, message, lack);
    }
    arriving.nothing()
}

/// Handles a message that is no ordinary call.
#[cold]
fn take_other<'a>(
    ep: &Endpoint,
    message: &Held,
    arrival: &Result<Arrival<'_>, Refusal>,
    arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    if let Ok(Arrival::Reply(reply)) = arrival {
        // The completion worker takes a well-formed answer to a call of this host.
        if backward::message(reply, u32::MAX).is_err() {
            failure::report(ep.shared(), reply.xid(), RequesterBreach::BackwardForm);
        }
    }
    let (bytes, quirks) = (message.bytes(), &ep.role().quirks);
    let rest = (*arrival).and_then(|arrival| quirks.take(send::sender(ep), bytes, &arrival));
    match rest {
        Ok(None) => {}
        Ok(Some(bytes)) => return take_instead(ep, message, &bytes, arriving),
        Err(refusal) => refuse(ep, message, &refusal),
    }
    arriving.nothing()
}

/// Receives the ordinary message of these `bytes` in place of `message`.
#[cold]
fn take_instead<'a>(
    ep: &Endpoint,
    message: &Held,
    bytes: &[u8],
    arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    match &intake::take(bytes, &ep.role().limits) {
        Ok(Arrival::Call(call)) => {
            let cid = traced::cid(ep.qp(), message.index());
            trace::server::decode_call(cid, message.bytes(), call);
            // The call has no read chunks, so it needs no pages.
            begin(ep, call, message.index(), arriving)
        }
        Err(refusal) => {
            refuse(ep, message, refusal);
            arriving.nothing()
        }
        Ok(_) => arriving.nothing(),
    }
}

/// Receives a call that is inline. `receive` is the number of its Receive, for traces.
#[inline(always)]
fn begin<'a>(
    ep: &Endpoint,
    call: &call::Call<'_>,
    receive: u32,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let Some(context) = count(ep, call, receive) else {
        return arriving.nothing();
    };
    match arriving.write_inline(call.inline()) {
        Ok(()) => deliver(ep, arriving, None, context),
        Err(_) => give_up(ep, arriving, context),
    }
}

/// Passes a call to the service.
#[inline(always)]
pub(crate) fn deliver<'a>(
    ep: &Endpoint,
    arriving: Arriving<'a, Call>,
    payload: Option<Payload>,
    context: KBox<Call>,
) -> Receipt<'a> {
    match arriving.call(payload, context) {
        Ok(receipt) => receipt,
        Err((arriving, context, _)) => give_up(ep, arriving, context),
    }
}

/// Drops a call that cannot be received, and closes the connection. The requester repeats the call
/// over a new connection.
#[cold]
pub(crate) fn give_up<'a>(
    ep: &Endpoint,
    arriving: Arriving<'a, Call>,
    context: KBox<Call>,
) -> Receipt<'a> {
    ep.role().calls.put(context);
    ep.shared().force_close();
    arriving.nothing()
}

/// The resource that a call lacks. Its message stays in its Receive, and all later messages wait
/// behind it.
enum Lack {
    /// Pages, of this number.
    Pages(usize),
    /// Memory regions. Calls had returned regions this many times before the call found too few.
    Regions(u32),
}

/// Begins to fetch a call, refuses it, or closes the connection.
///
/// # Errors
///
/// See [`Lack`]. The call is not counted after an error.
#[cold]
fn fetch(ep: &Endpoint, message: &Held, call: &call::Call<'_>) -> Result<(), Lack> {
    let role = ep.role();
    let fetcher = Fetcher {
        role,
        qp: ep.qp(),
        gfp: GFP_KERNEL,
    };
    let shape = Shape::of(call);
    let (pages, ids) = (shape.pages(), (call.version().number(), call.xid()));
    let store = fetcher.store(role.calls.store(), pages);
    let Ok(store) = store.inspect_err(|error| send::give_up(ep, ids, *error)) else {
        return Ok(());
    };
    let store = store.ok_or_else(|| lack_pages(ep, call.xid(), pages))?;
    if role.quirks.forbids_reads() {
        let why = Reason::Chunks(Unfit::ReadWork);
        let refusal = intake::refuse(call.version(), call.xid(), why);
        refuse(ep, message, &refusal);
        return Ok(());
    }
    let Some(mut context) = count(ep, call, message.index()) else {
        return Ok(());
    };
    let returned = role.spare.returned();
    if let Err(error) = fetcher.prepare(call, &mut context, (shape, store)) {
        role.calls.put(context);
        if error == ENOBUFS && role.spare.may_have_regions() {
            return Err(Lack::Regions(returned));
        }
        // The oldest message may be waiting for the regions that this call has held.
        role.ready.resume();
        send::give_up(ep, ids, error);
        return Ok(());
    }
    if let (true, Some(read)) = (role.quirks.fences_reads(), &mut context.read) {
        read.store.sink.fence_reads();
    }
    endpoint::posted(ep.shared(), fetcher.start(context));
    Ok(())
}

/// Counts and traces that a call finds too few pages.
#[cold]
fn lack_pages(ep: &Endpoint, xid: u32, pages: usize) -> Lack {
    WAITED.add(lane(ep.qp()), 1);
    trace::server::pages_short(traced::peer(ep.shared().owner()), xid, pages * PAGE_SIZE);
    Lack::Pages(pages)
}

/// Keeps a message in its Receive, and all later messages behind it, until other calls return the
/// resource that its call lacks.
#[cold]
fn await_more(ep: &Endpoint, message: Held, lack: Lack) {
    let role = ep.role();
    role.ready.stall(message);
    match lack {
        Lack::Pages(pages) => {
            if role.wait_for_pages(pages).is_err() {
                // No event would wake the connection. The requester repeats the call over a new
                // connection.
                ep.shared().force_close();
            }
            if !role.ready.with_xprt(|_| ()) {
                // The connection may have been given up, and its queue removed, before the queue
                // was added.
                role.budget.forget(&role.ready);
            }
        }
        // A call that is received from now on finds that this message waits.
        Lack::Regions(returned) => {
            if role.spare.returned() != returned || !role.spare.uses_regions() {
                role.ready.resume();
            }
        }
    }
}

/// Counts, traces and answers a message that is not served.
#[cold]
fn refuse(ep: &Endpoint, message: &Held, refusal: &Refusal) {
    let peer = traced::peer(ep.shared().owner());
    let cid = traced::cid(ep.qp(), message.index());
    ep.shared().tally().breach();
    requester::refused(peer, cid, message.bytes(), &refusal.reason);
    send::refuse(ep, refusal);
}

/// Counts a call, and posts more Receives if the grant grows. `None` if the connection is being
/// closed.
#[inline(always)]
fn count(ep: &Endpoint, call: &call::Call<'_>, receive: u32) -> Option<KBox<Call>> {
    let begun = ep.role().calls.begin(call, receive);
    let (context, more) = begun.inspect_err(|why| not_begun(ep, call, why)).ok()?;
    if more != 0 {
        grow(ep, more);
    }
    Some(context)
}

/// Closes the connection because a call is not served.
#[cold]
fn not_begun(ep: &Endpoint, call: &call::Call<'_>, why: &BeginError) {
    match why {
        BeginError::Excess => failure::close(ep.shared(), call.xid(), RequesterBreach::Credits),
        // The requester would get no answer. It repeats the call over a new connection.
        BeginError::NoMemory => ep.shared().force_close(),
    }
}

/// Posts more Receives so that the grant can grow. Without memory the grant does not change.
#[cold]
fn grow(ep: &Endpoint, more: u32) {
    // Another thread may do the same. No more Receives are posted than the tables have room for.
    let receives = ep.qp().receives().1 + more;
    let grown = ep.role().grow_tables(receives);
    match grown.and_then(|()| ep.qp().add_receives(receives)) {
        Ok(posted) => ep.role().calls.on_posted(posted),
        Err(error) => {
            let peer = traced::peer(ep.shared().owner());
            trace::server::rq_post_err(peer, error.to_errno());
        }
    }
}
