// SPDX-License-Identifier: GPL-2.0

//! Calls that are not all inline: RDMA Reads fetch the rest.
//!
//! The RDMA Reads are posted when the message has arrived. When they have completed, a thread
//! receives the call. The pages come from a pool and are exchanged for those of that thread, which
//! go to the pool.

use kernel::alloc::Flags;
use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::budget::{Budget, Permit, Waiter as _};
use super::call::Call;
use super::config::READS;
use super::endpoint::Endpoint;
use super::flights::{lane, Broken};
use super::pulled::{Pull, Shape};
use super::receiver::Receiver;
use super::responder::{unmapped, QueuePair, Responder};
use super::spare;
use crate::conn::traced;
use crate::mem::Page;
use crate::observe::trace;
use crate::observe::trace::server::Posted;
use crate::proto::responder::call;
use crate::proto::responder::placement::{Part, Source};
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Sink;
use crate::sunrpc::svc::receive::{Arriving, Receipt};
use crate::wire::Segment;

/// What fetching a call needs of its connection.
#[derive(Clone, Copy)]
pub(super) struct Fetcher<'f> {
    pub(super) role: &'f Responder,
    pub(super) qp: &'f QueuePair,
    pub(super) may_sleep: bool,
}

/// What a call needs that is not inline: how it lies in its pages, and these in the budget.
pub(super) type Needs = (Shape, Permit);

/// Takes the pages that a call needs, if it is not inline.
///
/// # Errors
///
/// Returns the number of pages if they are in use.
#[inline(always)]
pub(super) fn permit(role: &Responder, call: &call::Call<'_>) -> Result<Option<Needs>, usize> {
    if call.pulled() == 0 {
        return Ok(None);
    }
    let shape = Shape::of(call);
    let pages = shape.pages();
    let permit = Budget::take(&role.budget, pages, || role.pages_used());
    permit.map(|permit| Some((shape, permit))).ok_or(pages)
}

impl Fetcher<'_> {
    /// Returns how memory may be allocated.
    fn gfp(&self) -> Flags {
        if self.may_sleep {
            GFP_KERNEL
        } else {
            GFP_NOWAIT
        }
    }

    /// Prepares to fetch a call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOBUFS` if other calls use the memory regions; `EIO` if the device cannot map
    /// the memory.
    #[inline(always)]
    pub(super) fn prepare(
        &self,
        call: &call::Call<'_>,
        context: &mut Call,
        (shape, permit): Needs,
    ) -> Result {
        context.inline.clear();
        if matches!(shape, Shape::Payload(_)) {
            context
                .inline
                .extend_from_slice(call.inline(), self.gfp())?;
        }
        let mut sink = self.role.spare.sink(self.qp.pd(), self.gfp())?;
        let mut filled = self.fill(call, shape, &mut sink);
        while filled == Err(ENOBUFS) && self.may_sleep && self.role.spare.grow_regions().is_ok() {
            filled = self.fill(call, shape, &mut sink);
        }
        if let Err(error) = filled {
            put_back(self.role, sink);
            return Err(error);
        }
        context.pull = Some(Pull {
            sink,
            shape,
            permit,
            bytes: call.pulled(),
            reads: call.reads(),
            tag: u32::MAX,
            posted: Posted::NEVER,
        });
        Ok(())
    }

    /// Posts the RDMA Reads of a call that was prepared, or parks them. Returns whether operations
    /// were posted that had been parked. Does not sleep.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the call was dropped, and the connection is to be closed.
    #[inline(always)]
    pub(super) fn start(&self, call: KBox<Call>) -> Result<bool, Broken> {
        let reads = call.pull.as_ref().map_or(0, |pull| pull.reads);
        READS.add(lane(self.qp), reads.into());
        self.role.flights.pull(self.qp, call)
    }

    /// Gives the sink its pages and its RDMA Reads, and writes the bytes that are not read. May be
    /// called again after an error.
    ///
    /// The pages have been those of other calls, of any connection. What this call does not fill of
    /// them is cleared. They belong to the device once the first RDMA Read was added, so they are
    /// written before.
    fn fill(&self, call: &call::Call<'_>, shape: Shape, sink: &mut Sink) -> Result {
        let (first, len) = shape.range();
        let pages = sink.pages().ok_or(EBUSY)?;
        let more = shape.pages().saturating_sub(pages.len());
        self.role.pages.get_many(more, pages, self.gfp())?;
        clear_rest(pages, len);
        // CAST: `usize` has at least 32 bits.
        if len != call.pulled() as usize {
            write_others(pages, call, first, len)?;
        }
        match (call.only_read(), shape) {
            (Some(segment), Shape::Payload(_)) => self.read(sink, 0, segment),
            _ => self.read_parts(call, first, sink),
        }
    }

    /// Adds the RDMA Reads of any call, whose byte `first` is the first one in the pages.
    #[inline(never)]
    fn read_parts(&self, call: &call::Call<'_>, first: usize, sink: &mut Sink) -> Result {
        for part in call.parts() {
            let Source::Read { handle, offset } = part.source else {
                continue;
            };
            let at = place(&part, first).ok_or(EINVAL)?;
            let length = part.len;
            self.read(
                sink,
                at,
                Segment {
                    handle,
                    length,
                    offset,
                },
            )?;
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
        let (len, gfp) = (segment.length, self.gfp());
        let regions = spare.regions();
        let read = sink.read(at, len, from, limits.sges, regions.as_ref(), gfp);
        read.inspect_err(|error| unmapped(self.qp, from, len, *error))
    }
}

/// Clears what a call of `len` bytes leaves of its last page.
#[inline]
fn clear_rest(pages: &mut [Page], len: usize) {
    let (last, used) = (len / PAGE_SIZE, len % PAGE_SIZE);
    if used == 0 {
        return;
    }
    if let Some(rest) = pages
        .get_mut(last)
        .and_then(|page| page.bytes().get_mut(used..))
    {
        rest.fill(0);
    }
}

/// Returns where a part begins in the pages, whose first byte is byte `first` of the call.
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
pub(super) fn receive<'a>(
    receiver: &Receiver<'_>,
    mut call: KBox<Call>,
    mut arriving: Arriving<'a, Call>,
) -> Receipt<'a> {
    let Some(mut pull) = call.pull.take() else {
        return receiver.give_up(arriving, call);
    };
    trace::server::read_finished(traced::cid(receiver.ep.qp(), pull.tag));
    let placed = pull.exchange(&call.inline, &mut arriving);
    let payload = pull.payload();
    let role = receiver.ep.role();
    put_back(role, pull.sink);
    if role.spare.note_returned() {
        regions_returned(receiver.ep);
    }
    match placed {
        Ok(()) => receiver.deliver(arriving, payload, call),
        Err(_) => receiver.give_up(arriving, call),
    }
}

/// Gives the sink back to the connection, and its pages to the pool, except one for the next call.
#[inline(always)]
fn put_back(role: &Responder, mut sink: Sink) {
    if let Some(pages) = sink.pages() {
        role.pages.put_behind(spare::KEPT_PAGES, pages);
        role.spare.put_sink(sink);
    }
}

/// Lets messages be received again, if the oldest one may wait for regions that have come back.
#[cold]
fn regions_returned(ep: &Endpoint) {
    ep.pages_freed();
}
