// SPDX-License-Identifier: GPL-2.0

//! Posting Sends with the registrations before them, and local invalidations.
//!
//! Posting is possible in process context and in atomic context; it never allocates and never
//! sleeps.

use kernel::error::code;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::chain::{Chain, RegionChain};
use super::{Completions, Qp, Tag};
use crate::raw as bindings;
use crate::rdma::buffer::Buffer;
use crate::rdma::mr::region::State;
use crate::rdma::mr::Mr;
use crate::rdma::send::SendBuf;

/// Why a chain was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The queue has no room at the moment. Nothing was posted, and regions and buffers are as
    /// before. [`Completions::room`] is called when there is room again.
    Full,
    /// The queue pair has failed or has been drained. A part of the chain may have been posted, so
    /// regions count as live, and buffers as in flight, until the queue pair has been drained.
    Broken(Error),
    /// The arguments are not valid: a tag or a length is too large, a length is 0, a region is in
    /// the wrong state, something belongs to another protection domain, or there is nothing to do.
    /// Nothing was posted.
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
    /// Posts the registrations of `regions`, all of which have just been mapped, and a Send of the
    /// first `len` bytes of `buf`, as one chain. Returns the position of the Send.
    ///
    /// From now on the regions are live, and `buf` is in flight until the work request at that
    /// position has completed. With `signal`, [`Completions::sent`] reports the Send.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    #[inline]
    pub(crate) fn post_send<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
        buf: &mut SendBuf,
        len: usize,
        signal: bool,
    ) -> Result<u64, PostError> {
        self.post_chain(tag, regions, buf, len, None, signal)
    }

    /// Implements [`Self::post_send`] and [`Self::post_send_invalidate`].
    #[inline(always)]
    fn post_chain<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
        buf: &mut SendBuf,
        len: usize,
        invalidated: Option<u32>,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.inner().tags.entry(tag)?;
        let mut sge = self.sge(buf.buffer(), len)?;
        let mut send = bindings::ib_send_wr {
            sg_list: &raw mut sge,
            num_sge: 1,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            ..pin_init::zeroed()
        };
        if let Some(rkey) = invalidated {
            send.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            send.ex.invalidate_rkey = rkey;
        }
        send.__bindgen_anon_1.wr_cqe = cqe;

        let mut registrations = RegionChain::new();
        for region in regions {
            if region.state() != State::Mapped || !region.is_of(&self.inner().pd) {
                registrations.set_state(State::Mapped);
                return Err(PostError::Invalid);
            }
            let region = region.region();
            region.set_posted(self.progress());
            registrations.add(region, cqe);
        }
        let mut chain = registrations.as_chain();
        chain.add(&raw mut send);

        // SAFETY: `registrations` borrows the regions exclusively, and with them their work
        // requests; the Send and its list are on the stack. The regions and the buffer are not
        // freed before the work requests have completed or the queue pair has been drained.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        match posted {
            Err(PostError::Full | PostError::Invalid) => {
                registrations.set_state(State::Mapped);
            }
            Err(PostError::Broken(_)) => buf.buffer().set_posted(self.progress(), u64::MAX),
            Ok(position) => buf.buffer().set_posted(self.progress(), position),
        }
        posted
    }

    /// Posts local invalidations of those of `regions` that are posted; the others are skipped.
    /// Returns the position of the last one. [`Completions::sent`] reports that all have completed.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::Invalid`] if no region is posted.
    #[inline]
    pub(crate) fn post_invalidate<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
    ) -> Result<u64, PostError> {
        let cqe = self.inner().tags.entry(tag)?;
        let mut invalidations = RegionChain::new();
        for region in regions {
            if !region.is_posted_on(self.progress()) {
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
        // requests. A region is not freed before its queue pair has been drained.
        let position = unsafe { self.submit(&invalidations.as_chain(), tag, true) }?;
        // Work requests complete in order, so all have completed when the last one has.
        invalidations.set_state(State::Invalidating(position));
        Ok(position)
    }

    /// Posts a Send of the first `len` bytes of `buf`, which invalidates the R_key `invalidated` of
    /// the peer, if there is one. Returns its position. With `signal`, [`Completions::sent`]
    /// reports it.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    #[inline]
    pub(crate) fn post_send_invalidate(
        &self,
        tag: Tag,
        buf: &mut SendBuf,
        len: usize,
        invalidated: Option<u32>,
        signal: bool,
    ) -> Result<u64, PostError> {
        self.post_chain(tag, [], buf, len, invalidated, signal)
    }

    /// Posts one work request for the first `len` bytes of `buffer`, and returns its position.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(super) fn post_one(
        &self,
        tag: Tag,
        wr: &mut bindings::ib_rdma_wr,
        buffer: &mut Buffer,
        len: usize,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.inner().tags.entry(tag)?;
        let mut sge = self.sge(buffer, len)?;
        wr.wr.__bindgen_anon_1.wr_cqe = cqe;
        wr.wr.sg_list = &raw mut sge;
        wr.wr.num_sge = 1;
        let mut chain = Chain::new();
        chain.add(&raw mut wr.wr);
        // SAFETY: The work request is borrowed exclusively, and its list is on the stack. A buffer
        // is not freed while it is in flight.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        match posted {
            Err(PostError::Full | PostError::Invalid) => {}
            Err(PostError::Broken(_)) => buffer.set_posted(self.progress(), u64::MAX),
            Ok(position) => buffer.set_posted(self.progress(), position),
        }
        posted
    }

    /// Describes the first `len` bytes of a buffer for a work request, and makes them visible to
    /// the device.
    #[inline]
    pub(super) fn sge(&self, buffer: &Buffer, len: usize) -> Result<bindings::ib_sge, PostError> {
        // Some devices take a length of 0 for the largest possible one.
        if len == 0 || len > buffer.len() || !Arc::ptr_eq(buffer.pd(), &self.inner().pd) {
            return Err(PostError::Invalid);
        }
        buffer.sync_for_device(len);
        Ok(bindings::ib_sge {
            addr: buffer.addr(),
            // CAST: `len` is at most the length of the buffer, which fits.
            length: len as u32,
            lkey: self.inner().lkey,
        })
    }
}
