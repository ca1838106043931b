// SPDX-License-Identifier: GPL-2.0

//! Posting chains of work requests: Sends with registrations or RDMA Writes before them, local
//! invalidations, RDMA Reads, and probes.
//!
//! Posting is possible in process context, also with spinlocks held. It neither allocates nor
//! sleeps.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::chain::{Chain, RegionChain};
use super::{Completions, Qp, Tag};
use crate::compat::code;
use crate::raw as bindings;
use crate::rdma::buffer::{Buffer, SendBuf};
use crate::rdma::mr::region::MrState;
use crate::rdma::mr::Mr;
use crate::rdma::scatter::{Sink, Source};

/// The reason why a chain was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The queue is full. Nothing was posted, and the same chain can be posted later.
    /// [`Completions::room`] is called when there is space again.
    Full,
    /// The queue pair has failed or was drained. A part of the chain may have been posted, so
    /// regions count as live, and buffers and page lists as in flight, until the queue pair has
    /// been drained.
    Broken(Error),
    /// The arguments are not valid: a tag or a length is too large, a length is 0, a region or a
    /// page list is in the wrong state, something belongs to another protection domain, or there is
    /// nothing to do. Nothing was posted.
    Invalid,
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Full => code::ENOBUFS,
            PostError::Broken(error) => error,
            PostError::Invalid => code::EINVAL,
        }
    }
}

impl<C: Completions> Qp<C> {
    /// Posts the registrations of `regions`, all of which were just mapped, and a Send of the first
    /// `len` bytes of `buf`, as one chain. Returns the position of the Send.
    ///
    /// From now on the regions are live, and `buf` is in flight until the work request at that
    /// position has completed. With `signal`, [`Completions::sent`] reports the Send.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_send<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
        buf: &mut SendBuf,
        len: usize,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.tags.entry(tag)?;
        let mut sge = self.sge(buf.buffer(), len)?;
        let mut send = send_request(&mut sge, cqe, None);
        let mut registrations = RegionChain::new();
        for region in regions {
            if region.state() != MrState::Mapped || !region.is_of(&self.pd) {
                registrations.set_state(MrState::Mapped);
                return Err(PostError::Invalid);
            }
            let region = region.region();
            region.set_posted(&self.progress);
            registrations.add(region, cqe);
        }
        let mut chain = registrations.as_chain();
        chain.add(&raw mut send);
        // SAFETY: `registrations` borrows the regions exclusively, and with them their work
        // requests; the Send and its list are on the stack. The regions and the buffer are not
        // freed before the work requests have completed or the queue pair was drained.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        if let Err(PostError::Full | PostError::Invalid) = posted {
            registrations.set_state(MrState::Mapped);
        }
        self.note_sent(buf, posted)
    }

    /// Posts the RDMA Writes of `source`, if there are any, and a Send of the first `len` bytes of
    /// `buf` behind them, as one chain. With `invalidate`, the Send invalidates that R_key of the
    /// peer. Returns the position of the Send.
    ///
    /// From now on `source` and `buf` are in flight until the work request at that position has
    /// completed. With `signal`, [`Completions::sent`] reports the Send.
    ///
    /// # Errors
    ///
    /// See [`PostError`]. A chain that is longer than [`QpConfig`](super::QpConfig) says may never
    /// fit.
    #[inline(always)]
    pub(crate) fn post_reply(
        &self,
        tag: Tag,
        source: Option<&mut Source>,
        buf: &mut SendBuf,
        len: usize,
        invalidate: Option<u32>,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.tags.entry(tag)?;
        let mut writes = source.map(|source| &mut source.list().requests);
        let mut sge = self.sge(buf.buffer(), len)?;
        let mut send = send_request(&mut sge, cqe, invalidate);
        let mut chain = Chain::new();
        if let Some(writes) = &mut writes {
            writes.add_to(&mut chain, &self.pd, cqe, &self.progress)?;
        }
        chain.add(&raw mut send);
        // SAFETY: The list is borrowed exclusively, and with it its work requests; the Send and its
        // list are on the stack. The mappings of the list and the buffer stay while they are in
        // flight.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        if let Some(writes) = writes.filter(|writes| writes.count() != 0) {
            writes.note(posted, &self.progress);
        }
        self.note_sent(buf, posted)
    }

    /// Posts the RDMA Reads of `sink` as one chain, and returns the position of the last one.
    /// [`Completions::sent`] reports that all have completed. Until then `sink` is in flight.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::Invalid`] if there are no RDMA Reads.
    #[inline(always)]
    pub(crate) fn post_reads(&self, tag: Tag, sink: &mut Sink) -> Result<u64, PostError> {
        let cqe = self.tags.entry(tag)?;
        let reads = &mut sink.list().requests;
        if reads.count() == 0 {
            return Err(PostError::Invalid);
        }
        let mut chain = Chain::new();
        reads.add_to(&mut chain, &self.pd, cqe, &self.progress)?;
        // SAFETY: The list is borrowed exclusively, and with it its work requests and those of its
        // regions. Its mappings and regions stay while it is in flight.
        let posted = unsafe { self.submit(&chain, tag, true) };
        reads.note(posted, &self.progress);
        posted
    }

    /// Posts local invalidations of those of `regions` that are posted; other regions are skipped.
    /// Returns the position of the last one. [`Completions::sent`] reports that all have completed.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::Invalid`] if no region is posted.
    pub(crate) fn post_invalidate<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
    ) -> Result<u64, PostError> {
        let cqe = self.tags.entry(tag)?;
        let mut invalidations = RegionChain::new();
        for region in regions {
            if !region.is_posted_on(&self.progress) {
                continue;
            }
            let region = region.region();
            region.prepare_invalidation();
            invalidations.add(region, cqe);
        }
        if invalidations.is_empty() {
            return Err(PostError::Invalid);
        }
        // SAFETY: `invalidations` borrows the regions exclusively, and with them their work
        // requests. A region is not freed before its queue pair was drained.
        let position = unsafe { self.submit(&invalidations.as_chain(), tag, true) }?;
        // Work requests complete in order, so all have completed when the last one has.
        invalidations.set_state(MrState::Invalidating(position));
        Ok(position)
    }

    /// Posts an RDMA Write of zero bytes, signalled, and returns its position.
    ///
    /// Over InfiniBand and RoCE it completes only if the peer's end of the connection acknowledges
    /// it. It needs no memory of the peer, because R_key and address of a Write of zero bytes are
    /// not checked (InfiniBand Architecture, C9-88), and consumes none of its Receives. Over iWARP,
    /// where peers may start a connection with such a Write (RFC 6581), its completion only shows
    /// that it was sent.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_probe(&self, tag: Tag) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.__bindgen_anon_1.wr_cqe = self.tags.entry(tag)?;
        let mut chain = Chain::new();
        chain.add(&raw mut wr.wr);
        // SAFETY: The work request is on the stack during the call, and refers to no memory.
        unsafe { self.submit(&chain, tag, true) }
    }

    /// Describes the first `len` bytes of a buffer for a work request, and makes them visible to
    /// the device.
    fn sge(&self, buffer: &Buffer, len: usize) -> Result<bindings::ib_sge, PostError> {
        // Some devices interpret a length of 0 as the largest possible length.
        if len == 0 || len > buffer.len() || !Arc::ptr_eq(buffer.pd(), &self.pd) {
            return Err(PostError::Invalid);
        }
        buffer.sync_for_device(len);
        Ok(bindings::ib_sge {
            addr: buffer.addr(),
            // CAST: `len` is at most the length of the buffer, which fits.
            length: len as u32,
            lkey: self.lkey,
        })
    }

    /// Records in the buffer of a Send how posting it ended, and returns that result.
    #[inline(always)]
    fn note_sent(
        &self,
        buf: &mut SendBuf,
        posted: Result<u64, PostError>,
    ) -> Result<u64, PostError> {
        match posted {
            Err(PostError::Full | PostError::Invalid) => {}
            // A part may have been posted: only draining ends it.
            Err(PostError::Broken(_)) => buf.buffer().last_use.set(&self.progress, u64::MAX),
            Ok(position) => buf.buffer().last_use.set(&self.progress, position),
        }
        posted
    }
}

/// Returns a Send, which may invalidate an R_key of the peer.
#[inline]
fn send_request(
    sge: &mut bindings::ib_sge,
    cqe: *mut bindings::ib_cqe,
    invalidate: Option<u32>,
) -> bindings::ib_send_wr {
    let mut send = bindings::ib_send_wr {
        sg_list: sge,
        num_sge: 1,
        opcode: bindings::ib_wr_opcode_IB_WR_SEND,
        ..pin_init::zeroed()
    };
    if let Some(rkey) = invalidate {
        send.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
        send.ex.invalidate_rkey = rkey;
    }
    send.__bindgen_anon_1.wr_cqe = cqe;
    send
}
