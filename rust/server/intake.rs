// SPDX-License-Identifier: GPL-2.0

//! Receiving: what a thread of the service does with the oldest message.
//!
//! No value in a message is used before `proto::responder::intake` has checked it. Every path ends
//! with a receipt, and the Receive goes back to the device before the service works on the call.

use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SHIFT;
use kernel::prelude::*;

use super::breach;
use super::budget::Waiter as _;
use super::call::Call;
use super::calls::Unbegun;
use super::endpoint::Endpoint;
use super::padded::Failed;
use super::pull::{Fetcher, Needs};
use super::receiver::Receiver;
use super::responder::Arrival;
use super::{conf, done, log, padded, pull, refuse, release};
use crate::conn::traced;
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::proto::legacy::service::Reads;
use crate::proto::responder::call::{self, Unfit};
use crate::proto::responder::intake::{self, Arrival as Taken, Reason, Refusal};
use crate::rdma::recv::Held;
use crate::sunrpc::svc::receive::{Arriving, Incoming, Receipt};
use crate::wire::{Message, Version};

/// Receives a call, if one is complete. Thread of the service; may sleep.
#[inline]
pub(super) fn receive<'a>(receiver: &Receiver<'_>, incoming: Incoming<'a, Call>) -> Receipt<'a> {
    let next = receiver.ep.role().next(|| incoming.mark_empty());
    let arriving = incoming.received();
    match next {
        Some(Arrival::Message(message)) => take(receiver, message, arriving),
        Some(Arrival::Whole(call)) => pull::receive(receiver, call, arriving),
        None => arriving.nothing(),
    }
}

/// Receives a call, or acts on a message that is none.
#[inline]
fn take<'a>(receiver: &Receiver<'_>, message: Held, arriving: Arriving<'a, Call>) -> Receipt<'a> {
    let (ep, bytes) = (receiver.ep, message.bytes());
    let cid = traced::cid(ep.qp(), message.index());
    // The result is large, and not moved.
    let taken = intake::take(bytes, ep.limits());
    let pages = match &taken {
        Ok(Taken::Call(call)) => {
            trace::server::decode_call(cid, bytes, call);
            if conf::concerns(call) {
                conf::answer(ep, call);
                return arriving.nothing();
            }
            match pull::permit(ep.role(), call) {
                Ok(None) => return begin(receiver, call, message.index(), arriving),
                Ok(Some(_)) if ep.role().configured.allowed() == Reads::Forbidden => {
                    let why = Reason::Chunks(Unfit::ReadWork);
                    refused(
                        ep,
                        &message,
                        &intake::refuse(call.version(), call.xid(), why),
                    );
                    return arriving.nothing();
                }
                Ok(Some(needs)) => match fetch(ep, call, (needs, message.index())) {
                    Ok(()) => return arriving.nothing(),
                    Err(returned) => {
                        await_regions(ep, message, returned);
                        return arriving.nothing();
                    }
                },
                Err(pages) => pages,
            }
        }
        // A reply in the backward direction never comes here, and there are no optional operations
        // in version one.
        Ok(Taken::Reply(_) | Taken::Optional(_)) => return arriving.nothing(),
        Ok(Taken::Padded(header)) => return take_padded(receiver, &message, header, arriving),
        Ok(Taken::Done(xid)) => {
            done::received(ep.shared(), ep.qp(), *xid);
            return arriving.nothing();
        }
        Err(refusal) => {
            refused(ep, &message, refusal);
            return arriving.nothing();
        }
    };
    // The message waits in its Receive, and with it all that come after it.
    ep.role().starve(message);
    log::memory_used_up(ep.role().budget.total() >> (20 - PAGE_SHIFT));
    let used = || ep.role().pages_used();
    if ep.role().budget.wait(pages, used, ep.clone()).is_err() {
        // Nothing would wake the connection. Over a new one the requester asks again.
        ep.shared().force_close();
    }
    if ep.is_closed() {
        // The worker that closes the connection may have looked before it waited.
        ep.role().budget.forget(&**ep);
    }
    arriving.nothing()
}

/// Receives a call with padding.
#[cold]
fn take_padded<'a>(
    receiver: &Receiver<'_>,
    message: &Held,
    header: &Message<'_>,
    arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let (ep, bytes) = (receiver.ep, message.bytes());
    let plain = match padded::without_padding(ep.qp(), bytes, header) {
        Ok(plain) => plain,
        Err(Failed::Unfit(why)) => {
            let why = Reason::Padding(why.text());
            refused(
                ep,
                message,
                &intake::refuse(Version::One, header.xid(), why),
            );
            return arriving.nothing();
        }
        // Without an answer the requester would wait; over a new connection it asks again.
        Err(Failed::NoMemory) => {
            ep.shared().force_close();
            return arriving.nothing();
        }
    };
    let padding = bytes.len() - plain.len();
    let peer = traced::peer(ep.shared().owner());
    trace::server::padded_call(peer, header.xid(), padding);
    match &intake::take(&plain, ep.limits()) {
        Ok(Taken::Call(call)) => {
            trace::server::decode_call(traced::cid(ep.qp(), message.index()), bytes, call);
            // It has no read chunks, so it needs no pages.
            begin(receiver, call, message.index(), arriving)
        }
        Err(refusal) => {
            refused(ep, message, refusal);
            arriving.nothing()
        }
        // What was made is an RDMA_MSG with a call.
        Ok(_) => arriving.nothing(),
    }
}

/// Counts, traces and answers a message that is not served.
#[cold]
fn refused(ep: &Endpoint, message: &Held, refusal: &Refusal) {
    let peer = traced::peer(ep.shared().owner());
    let cid = traced::cid(ep.qp(), message.index());
    ep.shared().tally().breach();
    requester::refused(peer, cid, message.bytes(), &refusal.reason);
    refuse::message(ep, refusal);
}

/// Keeps a message in its Receive, and with it all that come after it, until other calls of the
/// connection give back memory regions. `returned` is how often calls had given some back before
/// this one found too few.
#[cold]
fn await_regions(ep: &Endpoint, message: Held, returned: u32) {
    let role = ep.role();
    role.starve(message);
    // A call that is received from now on sees that this one waits.
    if role.spare.returned() != returned || !role.spare.uses_regions() {
        ep.pages_freed();
    }
}

/// Receives a call that is inline. `receive` is the number of its Receive, for traces.
#[inline]
fn begin<'a>(
    receiver: &Receiver<'_>,
    call: &call::Call<'_>,
    receive: u32,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let Some(context) = count(receiver.ep, call, receive) else {
        return arriving.nothing();
    };
    match arriving.write_inline(call.inline()) {
        Ok(()) => receiver.deliver(arriving, None, context),
        Err(_) => receiver.give_up(arriving, context),
    }
}

/// Counts a call, and posts more Receives if the grant is to grow. `None` if the connection is
/// being closed.
#[inline]
fn count(ep: &Endpoint, call: &call::Call<'_>, receive: u32) -> Option<KBox<Call>> {
    let (context, more) = match ep.role().calls.begin(call, receive) {
        Ok(begun) => begun,
        Err(why) => {
            unbegun(ep, call, &why);
            return None;
        }
    };
    if more != 0 {
        grow(ep, more);
    }
    Some(context)
}

/// Closes the connection because a call is not begun.
#[cold]
fn unbegun(ep: &Endpoint, call: &call::Call<'_>, why: &Unbegun) {
    match why {
        Unbegun::Excess => breach::close(ep.shared(), call.xid(), RequesterBreach::Credits),
        // Without an answer the requester would wait; over a new connection it asks again.
        Unbegun::NoMemory => ep.shared().force_close(),
    }
}

/// Posts more Receives, because the grant is to grow. Without memory the grant stays as it is.
#[cold]
fn grow(ep: &Endpoint, more: u32) {
    match ep.qp().add_receives(more) {
        Ok(posted) => ep.role().calls.on_posted(posted),
        Err(error) => {
            let peer = traced::peer(ep.shared().owner());
            trace::server::rq_post_err(peer, error.to_errno());
        }
    }
}

/// Begins to fetch a call, or closes the connection. `receive` is the number of its Receive.
///
/// # Errors
///
/// Other calls of the connection use the memory regions that it needs: how often some had been
/// given back before. The call is not counted then.
#[cold]
fn fetch(ep: &Endpoint, call: &call::Call<'_>, (needs, receive): (Needs, u32)) -> Result<(), u32> {
    let Some(mut context) = count(ep, call, receive) else {
        return Ok(());
    };
    let role = ep.role();
    let fetcher = Fetcher {
        role,
        qp: ep.qp(),
        may_sleep: true,
    };
    let returned = role.spare.returned();
    if let Err(error) = fetcher.prepare(call, &mut context, needs) {
        role.calls.put(context);
        if error == ENOBUFS && role.spare.may_have_regions() {
            return Err(returned);
        }
        ep.shared().force_close();
        return Ok(());
    }
    if let (Reads::Single, Some(pull)) = (role.configured.allowed(), &mut context.pull) {
        pull.sink.fence_reads();
    }
    release::posted(ep.shared(), fetcher.start(context));
    Ok(())
}
