// SPDX-License-Identifier: GPL-2.0

//! Calls that are not entirely inline: RDMA Reads fetch the rest.
//!
//! The completion worker posts the RDMA Reads of a call when its message arrives. The service is
//! woken once, when they have completed. The worker never sleeps. If a resource is short, or if the
//! message must be refused, a thread of the service receives the message and posts the Reads.
//!
//! The connection keeps the pages of earlier calls. A thread that receives a fetched call exchanges
//! them for its own, which are kept for the next call.

use kernel::alloc::Flags;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::recvfrom;
use crate::compat::code::ENOBUFS;
use crate::conn::traced;
use crate::mem::Page;
use crate::observe::trace;
use crate::observe::trace::server::Posted;
use crate::proto::responder::call;
use crate::proto::responder::intake::{self, Arrival};
use crate::proto::responder::reassembly::{Part, Source};
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Sink;
use crate::server::call::context::{Call, ReadCtxt, Shape};
use crate::server::call::in_flight::{lane, Broken, Operation};
use crate::server::call::memory::{pause, Store, MAPPING_PAUSES};
use crate::server::config::READS;
use crate::server::conn::endpoint::{
    self, unmapped, Conn, Endpoint, Incoming, QueuePair, Responder,
};
use crate::sunrpc::svc::receive::{Arriving, Receipt};
use crate::wire::{self, Segment};

/// The connection whose calls are fetched.
#[derive(Clone, Copy)]
pub(crate) struct Fetcher<'f> {
    pub(crate) role: &'f Responder,
    pub(crate) qp: &'f QueuePair,
    /// `GFP_KERNEL` if the caller may sleep, or `GFP_NOWAIT`.
    pub(crate) gfp: Flags,
}

/// Begins to fetch the call in a message, if there is a call and all resources are available.
/// Otherwise a thread of the service must receive the message. Returns whether the call is fetched.
/// Completion worker.
pub(crate) fn fetch_early(conn: &Conn, qp: &QueuePair, message: &Incoming<'_>) -> bool {
    let role = conn.role();
    if !wire::has_read_list(message.bytes()) {
        return false;
    }
    let gfp = GFP_NOWAIT;
    let fetcher = Fetcher { role, qp, gfp };
    let Some(call) = prepare_early(&fetcher, message) else {
        return false;
    };
    endpoint::posted(conn, fetcher.start(call));
    true
}

/// Prepares to fetch the call in a message.
#[inline(always)]
fn prepare_early(fetcher: &Fetcher<'_>, message: &Incoming<'_>) -> Option<KBox<Call>> {
    let role = fetcher.role;
    // Calls that wait for pages are first, and only a thread observes the limits of the client.
    if role.ready.threads_fetch() {
        return None;
    }
    let bytes = message.bytes();
    let Ok(Arrival::Call(call)) = &intake::take_read(bytes, &role.limits) else {
        return None;
    };
    if call.pulled() == 0 {
        return None;
    }
    let shape = Shape::of(call);
    let (mut context, spare) = role.calls.begin_now(call, message.index())?;
    let store = fetcher.store(spare, shape.pages()).ok().flatten();
    let prepared = store.map(|store| fetcher.prepare(call, &mut context, (shape, store)));
    if !matches!(prepared, Some(Ok(()))) {
        role.calls.put(context);
        // A thread may have found no regions because this call held some. Queueing the message
        // wakes a thread.
        role.ready.unstall();
        return None;
    }
    trace::server::decode_call(traced::cid(fetcher.qp, message.index()), bytes, call);
    Some(context)
}

impl Fetcher<'_> {
    /// Returns `spare`, or else a new page list, with at least `pages` pages of the budget; `None`
    /// if these are in use. May sleep if the value permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn store(
        &self,
        spare: Option<KBox<Store>>,
        pages: usize,
    ) -> Result<Option<KBox<Store>>> {
        let new = || Store::new(self.qp.pd(), self.role.permit(), self.gfp);
        let mut store = spare.map_or_else(new, Ok)?;
        if self.role.grow(&mut store.permit, pages) {
            return Ok(Some(store));
        }
        self.role.calls.keep_empty(store);
        Ok(None)
    }

    /// Prepares to fetch a call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the DMA layer has no space; `ENOBUFS` if other calls use the memory
    /// regions; `EIO` if the device cannot map the memory in a region.
    #[inline(always)]
    pub(crate) fn prepare(
        &self,
        call: &call::Call<'_>,
        context: &mut Call,
        (shape, mut store): (Shape, KBox<Store>),
    ) -> Result {
        context.inline.clear();
        if matches!(shape, Shape::Payload(_)) {
            context.inline.extend_from_slice(call.inline(), self.gfp)?;
        }
        let mut filled = self.fill(call, shape, &mut store.sink);
        let mut pauses = MAPPING_PAUSES;
        while let (Err(lack), true) = (filled, self.gfp == GFP_KERNEL) {
            if !self.provide(lack, &mut pauses) {
                break;
            }
            filled = self.fill(call, shape, &mut store.sink);
        }
        if let Err(error) = filled {
            self.role.calls.keep(store);
            return Err(error);
        }
        let read = ReadCtxt {
            store,
            shape,
            bytes: call.pulled(),
            segments: call.reads(),
            number: u32::MAX,
            posted: Posted::NEVER,
        };
        // A context that was not in use has no part to fetch, so nothing needs to be dropped.
        core::mem::forget(context.read.replace(read));
        Ok(())
    }

    /// Allocates more regions, or waits until other calls may have left space in the DMA layer.
    /// Returns whether the call may now find the missing resource. May sleep.
    #[cold]
    fn provide(&self, lack: Error, pauses: &mut u32) -> bool {
        let over = self.role.lifecycle.has_ended() || self.qp.is_broken();
        match lack {
            ENOBUFS => self.role.spare.grow_regions().is_ok(),
            ENOMEM if *pauses != 0 && !over => {
                *pauses -= 1;
                pause();
                true
            }
            _ => false,
        }
    }

    /// Posts the RDMA Reads of a prepared call, or parks them. Returns whether parked operations
    /// were posted. Does not sleep.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the call was dropped, and the connection must be closed.
    #[inline(always)]
    pub(crate) fn start(&self, call: KBox<Call>) -> Result<bool, Broken> {
        let segments = call.read.as_ref().map_or(0, |read| read.segments);
        READS.add(lane(self.qp), segments.into());
        self.role.in_flight.start(self.qp, Operation::Read(call))
    }

    /// Gives the sink its pages and its RDMA Reads, and writes the bytes that are not read. May be
    /// called again after an error.
    ///
    /// The pages may come from earlier calls, so the bytes that this call does not fill are
    /// cleared. The pages belong to the device once the first RDMA Read is added, so they are
    /// written before that.
    fn fill(&self, call: &call::Call<'_>, shape: Shape, sink: &mut Sink) -> Result {
        let (first, len) = shape.range();
        let pages = sink.pages().ok_or(EBUSY)?;
        if pages.len() < shape.pages() {
            Page::fill(pages, shape.pages(), self.gfp)?;
        }
        clear_rest(pages, len);
        // CAST: `usize` has at least 32 bits.
        if len != call.pulled() as usize {
            write_others(pages, call, first, len)?;
        }
        let Some(read) = call.lists().only_read() else {
            return self.read_parts(call, first, sink);
        };
        // CAST: `usize` has at least 32 bits.
        let at = (read.position as usize).checked_sub(first).ok_or(EINVAL)?;
        self.read(sink, at, read.segment)
    }

    /// Adds the RDMA Reads of any call, whose byte `first` is the first one in the pages.
    #[inline(never)]
    fn read_parts(&self, call: &call::Call<'_>, first: usize, sink: &mut Sink) -> Result {
        for part in call.parts() {
            let Source::Read { handle, offset } = part.source else {
                continue;
            };
            let at = place(&part, first).ok_or(EINVAL)?;
            let segment = Segment {
                handle,
                length: part.len,
                offset,
            };
            self.read(sink, at, segment)?;
        }
        Ok(())
    }

    /// Adds an RDMA Read of a segment to a sink, for byte `at` of its pages.
    ///
    /// # Errors
    ///
    /// Those of [`Sink::read`].
    #[inline(always)]
    fn read(&self, sink: &mut Sink, at: usize, segment: Segment) -> Result {
        let Responder { limits, spare, .. } = self.role;
        let from = Remote {
            addr: segment.offset,
            rkey: segment.handle,
        };
        let (len, gfp) = (segment.length, self.gfp);
        let regions = spare.regions();
        let read = sink.read(at, len, from, limits.sges, regions.as_ref(), gfp);
        read.inspect_err(|error| unmapped(self.qp, from, len, *error))
    }
}

/// Clears the bytes behind a call of `len` bytes in its last page.
fn clear_rest(pages: &mut [Page], len: usize) {
    let (last, used) = (len / PAGE_SIZE, len % PAGE_SIZE);
    let page = pages.get_mut(last).filter(|_| used != 0);
    if let Some(rest) = page.and_then(|page| page.bytes().get_mut(used..)) {
        rest.fill(0);
    }
}

/// Returns the offset of a part in the pages, whose first byte is byte `first` of the call.
fn place(part: &Part, first: usize) -> Option<usize> {
    // CAST: `usize` has at least 32 bits.
    (part.at as usize).checked_sub(first)
}

/// Writes the parts of a call that are not read to the pages, which have `len` bytes from byte
/// `first` of the call on.
#[inline(never)]
fn write_others(pages: &mut [Page], call: &call::Call<'_>, first: usize, len: usize) -> Result {
    for part in call.parts() {
        // The inline part around a payload is not in the pages.
        if let Some(at) = place(&part, first).filter(|at| *at < len) {
            write(pages, at, &part, call.inline())?;
        }
    }
    Ok(())
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
pub(crate) fn receive<'a>(
    ep: &Endpoint,
    mut call: KBox<Call>,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let Call { inline, read, .. } = &mut *call;
    let Some(fetched) = read else {
        return recvfrom::give_up(ep, arriving, call);
    };
    trace::server::read_finished(traced::cid(ep.qp(), fetched.number));
    let placed = fetched.exchange(inline, &mut arriving);
    let payload = fetched.payload();
    let role = ep.role();
    if let (Some(ReadCtxt { store, .. }), Ok(())) = (read.take(), placed) {
        role.calls.keep(store);
    }
    if role.spare.note_returned() {
        // The oldest message may be waiting for the regions that are now free.
        role.ready.resume();
    }
    match placed {
        Ok(()) => recvfrom::deliver(ep, arriving, payload, call),
        Err(_) => recvfrom::give_up(ep, arriving, call),
    }
}
