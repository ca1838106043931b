// SPDX-License-Identifier: GPL-2.0

//! A call that RDMA Reads fetch, and how it comes to the pages of a thread of the service.
//!
//! A call with one read chunk behind an inline part is the usual one: its payload begins a page,
//! as direct I/O needs it. The parts of any other call are put together in one run of pages. So are
//! those of a call
//!
//! - whose arguments are wrapped for integrity or privacy: they are one item, which the service
//!   unwraps in place;
//! - whose chunk has less than a page: it may lie within an item, and the service's decoder takes
//!   an item that lies in two places, but not in three.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::budget::Permit;
use crate::conn::traced;
use crate::observe::trace;
use crate::observe::trace::server::Posted;
use crate::proto::responder::call;
use crate::rdma::qp::{Completions, PostError, Qp, Tag};
use crate::rdma::scatter::Sink;
use crate::sunrpc::svc::receive::{Arriving, Payload};

/// What is being fetched of a call.
pub(super) struct Pull {
    pub(super) sink: Sink,
    pub(super) shape: Shape,
    /// The pages in the budget of all connections.
    pub(super) permit: Permit,
    /// The bytes that RDMA Reads fetch.
    pub(super) bytes: u32,
    /// The segments that they have in the requester's memory.
    pub(super) reads: u32,
    /// The tag of the RDMA Reads, once they are posted.
    pub(super) tag: u32,
    /// The time at which the RDMA Reads were posted.
    pub(super) posted: Posted,
}

/// How a call lies in the pages of its sink.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// The pages have the payload, and the context the inline part.
    Payload(Payload),
    /// The pages have the whole call, of this length.
    Whole(usize),
}

impl Shape {
    /// Chooses the shape of a call.
    pub(super) fn of(call: &call::Call<'_>) -> Self {
        // CAST: `usize` has at least 32 bits.
        let (len, inline) = (call.total_len() as usize, call.inline().len());
        let item = call.item().filter(|_| inline <= PAGE_SIZE);
        match (item, len - inline) {
            // CAST: `usize` has at least 32 bits.
            (Some(at), len @ PAGE_SIZE..) => Self::Payload(Payload {
                at: at as usize,
                len,
            }),
            _ => Self::Whole(len),
        }
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.range().1.div_ceil(PAGE_SIZE)
    }

    /// Returns the first byte of the call that lies in the pages, and the number of bytes there.
    pub(super) fn range(&self) -> (usize, usize) {
        match *self {
            Self::Payload(Payload { at, len }) => (at, len),
            Self::Whole(len) => (0, len),
        }
    }
}

impl Pull {
    /// Returns the payload that lies outside the inline part.
    pub(super) fn payload(&self) -> Option<Payload> {
        match self.shape {
            Shape::Payload(payload) => Some(payload),
            Shape::Whole(_) => None,
        }
    }

    /// Posts the RDMA Reads.
    ///
    /// # Errors
    ///
    /// Those of [`Qp::post_reads`].
    #[inline(always)]
    pub(super) fn post<C: Completions>(&mut self, qp: &Qp<C>, tag: Tag) -> Result<(), PostError> {
        qp.post_reads(tag, &mut self.sink)?;
        self.tag = tag.get();
        self.posted = Posted::now();
        let cid = traced::cid(qp, self.tag);
        trace::server::post_read_chunk(cid, self.sink.work_requests());
        Ok(())
    }

    /// Moves the bytes of the call to the pages of the thread. `inline` is the part that is not in
    /// the pages. The sink gets the thread's pages.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE`, `EINVAL` if the thread has too few pages; `EIO` if the RDMA Reads have not
    /// completed.
    pub(super) fn exchange<X>(&mut self, inline: &[u8], arriving: &mut Arriving<'_, X>) -> Result {
        let pages = self.sink.pages().ok_or(EIO)?;
        match self.shape {
            Shape::Payload(_) => {
                arriving.write_inline(inline)?;
                arriving.exchange_all(1, pages)
            }
            Shape::Whole(len) => {
                arriving.exchange_all(0, pages)?;
                arriving.set_inline(len)
            }
        }
    }
}
