// SPDX-License-Identifier: GPL-2.0

//! Calls that are not all inline: RDMA Reads fetch the rest.
//!
//! The thread that takes the message out of its queue posts the RDMA Reads and receives nothing.
//! When they have completed, a thread receives the call. The pages come from a pool and are
//! exchanged for those of that thread, which go to the pool.

use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::budget::Permit;
use super::call::Call;
use super::endpoint::Endpoint;
use super::pulled::{Pull, Shape};
use super::receiver::Receiver;
use super::service::Service;
use crate::conn::traced;
use crate::mem::Page;
use crate::observe::trace;
use crate::observe::trace::server::Posted;
use crate::proto::responder::call;
use crate::proto::responder::placement::{Part, Source};
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Sink;
use crate::sunrpc::svc::receive::{Arriving, Receipt};

/// Prepares to fetch a call. May sleep.
///
/// # Errors
///
/// Returns the context if there is no memory, or the device cannot map it.
pub(super) fn prepare(
    receiver: &Receiver<'_>,
    call: &call::Call<'_>,
    context: KBox<Call>,
    permit: Permit,
) -> Result<Pull, KBox<Call>> {
    let Receiver { service, ep, .. } = *receiver;
    let shape = Shape::of(call);
    let Ok(mut sink) = ep.role().spare.sink(ep.pd()) else {
        return Err(context);
    };
    let mut filled = fill(service, ep, call, shape, &mut sink);
    if filled == Err(ENOBUFS) && ep.grow_regions().is_ok() {
        filled = fill(service, ep, call, shape, &mut sink);
    }
    let mut pull = Pull {
        sink,
        call: context,
        shape,
        _permit: permit,
        bytes: call.pulled(),
        tag: u32::MAX,
        posted: Posted::NEVER,
    };
    if filled.and_then(|()| keep_inline(call, &mut pull)).is_err() {
        put_back(service, ep, pull.sink);
        return Err(pull.call);
    }
    Ok(pull)
}

/// Copies the inline part to the context, if it is not in the pages.
fn keep_inline(call: &call::Call<'_>, pull: &mut Pull) -> Result {
    pull.call.inline.clear();
    if matches!(pull.shape, Shape::Payload(_)) {
        pull.call
            .inline
            .extend_from_slice(call.inline(), GFP_KERNEL)?;
    }
    Ok(())
}

/// Gives the sink its pages and its RDMA Reads, and writes the bytes that are not read. May be
/// called again after an error.
///
/// The pages belong to the device once the first RDMA Read was added, so they are written before.
fn fill(
    service: &Service,
    ep: &Endpoint,
    call: &call::Call<'_>,
    shape: Shape,
    sink: &mut Sink,
) -> Result {
    let (first, len) = shape.range();
    let pages = sink.pages().ok_or(EBUSY)?;
    service
        .pages
        .get_many(shape.pages().saturating_sub(pages.len()), pages)?;
    for part in call.parts() {
        // The inline part around a payload is not in the pages.
        if let Some(at) = offset(&part, first).filter(|at| *at < len) {
            write(pages, at, &part, call.inline())?;
        }
    }
    for part in call.parts() {
        let Source::Read {
            handle,
            offset: addr,
        } = part.source
        else {
            continue;
        };
        let at = offset(&part, first).ok_or(EINVAL)?;
        ep.read(sink, at, part.len, Remote { addr, rkey: handle })?;
    }
    Ok(())
}

/// Returns where a part begins in the pages, whose first byte is byte `first` of the call.
fn offset(part: &Part, first: usize) -> Option<usize> {
    // CAST: `usize` has at least 32 bits.
    (part.at as usize).checked_sub(first)
}

/// Writes a part that is not read to the pages, from byte `at` on.
fn write(pages: &mut [Page], at: usize, part: &Part, inline: &[u8]) -> Result {
    // CAST: `usize` has at least 32 bits.
    let len = part.len as usize;
    match part.source {
        Source::Read { .. } => Ok(()),
        Source::Inline { start } => {
            // CAST: `usize` has at least 32 bits.
            let bytes = inline.iter().skip(start as usize).take(len);
            write_bytes(pages, at, bytes.copied())
        }
        Source::RoundUp => write_bytes(pages, at, core::iter::repeat_n(0, len)),
    }
}

/// Writes bytes to the pages, from byte `at` on.
fn write_bytes(pages: &mut [Page], at: usize, bytes: impl Iterator<Item = u8>) -> Result {
    for (at, byte) in (at..).zip(bytes) {
        let page = pages.get_mut(at / PAGE_SIZE).ok_or(EINVAL)?;
        *page.bytes().get_mut(at % PAGE_SIZE).ok_or(EINVAL)? = byte;
    }
    Ok(())
}

/// Receives a call that has been fetched. May sleep.
pub(super) fn receive<'a>(
    receiver: &Receiver<'_>,
    mut pull: Pull,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    trace::server::read_finished(traced::cid(receiver.ep.qp(), pull.tag));
    let placed = pull.exchange(&mut arriving);
    let payload = pull.payload();
    let Pull { sink, call, .. } = pull;
    put_back(receiver.service, receiver.ep, sink);
    match placed {
        Ok(()) => receiver.deliver(arriving, payload, call),
        Err(_) => receiver.give_up(arriving, call),
    }
}

/// Gives the pages of a sink back to the pool, and the sink to the connection.
fn put_back(service: &Service, ep: &Endpoint, mut sink: Sink) {
    if let Some(pages) = sink.pages() {
        service.pages.put_all(core::iter::from_fn(|| pages.pop()));
    }
    ep.role().spare.put_sink(sink);
}
