// SPDX-License-Identifier: GPL-2.0

//! Receiving: what a thread of the service does with the oldest message.
//!
//! No value in a message is used before `proto::responder::intake` has checked it. Every path ends
//! with a receipt, and the Receive goes back to the device before the service works on the call.

use kernel::prelude::*;

use super::budget::{Budget, Permit};
use super::call::Call;
use super::endpoint::Endpoint;
use super::pulled::Shape;
use super::receiver::Receiver;
use super::responder::Arrival;
use super::{pull, refuse};
use crate::proto::responder::call;
use crate::proto::responder::grant::Excess;
use crate::proto::responder::intake::{self, Arrival as Taken};
use crate::rdma::recv::Held;
use crate::sunrpc::svc::receive::{Arriving, Incoming, Receipt};

/// Receives a call, if one is complete. Thread of the service; may sleep.
#[inline]
pub(super) fn receive<'a>(receiver: &Receiver<'_>, incoming: Incoming<'a, Call>) -> Receipt<'a> {
    let next = receiver.ep.role().next(|| incoming.mark_empty());
    let arriving = incoming.received();
    match next {
        Some(Arrival::Message(message)) => take(receiver, message, arriving),
        Some(Arrival::Whole(pull)) => pull::receive(receiver, pull, arriving),
        None => arriving.nothing(),
    }
}

/// Receives a call, or acts on a message that is none.
fn take<'a>(receiver: &Receiver<'_>, message: Held, arriving: Arriving<'a, Call>) -> Receipt<'a> {
    let pages = match intake::take(message.bytes(), receiver.ep.limits()) {
        Ok(Taken::Call(call)) if call.pulled() == 0 => {
            return begin(receiver, &call, None, arriving)
        }
        Ok(Taken::Call(call)) => {
            let pages = Shape::of(&call).pages();
            match Budget::take(&receiver.service.budget, pages) {
                Some(permit) => return begin(receiver, &call, Some(permit), arriving),
                None => pages,
            }
        }
        // A reply in the backward direction never comes here, and there are no optional operations
        // in version one.
        Ok(Taken::Reply(_) | Taken::Optional(_)) => return arriving.nothing(),
        Err(refusal) => {
            refuse::message(receiver.ep, &refusal);
            return arriving.nothing();
        }
    };
    // The message waits in its Receive, and with it all that come after it.
    receiver.ep.role().starve(message);
    receiver.service.budget.wait(pages, receiver.ep.clone());
    arriving.nothing()
}

/// Receives a call that is inline, or begins to fetch one that is not.
fn begin<'a>(
    receiver: &Receiver<'_>,
    call: &call::Call<'_>,
    permit: Option<Permit>,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let ep = receiver.ep;
    if count(ep, call.credits()).is_err() {
        ep.shared().force_close();
        return arriving.nothing();
    }
    let Ok(context) = receiver.contexts.get(call) else {
        ep.role().grant.lock().on_dropped();
        return arriving.nothing();
    };
    if let Some(permit) = permit {
        return fetch(receiver, call, context, permit, arriving);
    }
    match arriving.write_inline(call.inline()) {
        Ok(()) => receiver.deliver(arriving, None, context),
        Err(_) => receiver.give_up(arriving, context),
    }
}

/// Counts a call against the grant, and posts more Receives if the grant is to grow.
#[inline]
fn count(ep: &Endpoint, wanted: u32) -> Result<(), Excess> {
    let more = ep.role().grant.lock().on_call(wanted)?;
    if more != 0 {
        grow(ep, more);
    }
    Ok(())
}

/// Posts more Receives. Without memory the grant stays as it is.
#[cold]
fn grow(ep: &Endpoint, more: u32) {
    if let Ok(posted) = ep.qp().add_receives(more) {
        ep.role().grant.lock().on_posted(posted);
    }
}

/// Begins to fetch a call.
fn fetch<'a>(
    receiver: &Receiver<'_>,
    call: &call::Call<'_>,
    context: KBox<Call>,
    permit: Permit,
    arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let ep = receiver.ep;
    match pull::prepare(receiver, call, context, permit) {
        Ok(pull) => {
            if ep.role().flights.pull(ep.qp(), pull).is_err() {
                ep.shared().force_close();
            }
            arriving.nothing()
        }
        Err(context) => receiver.give_up(arriving, context),
    }
}
