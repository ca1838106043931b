// SPDX-License-Identifier: GPL-2.0

//! Posting page lists: the RDMA Writes and the Send of a reply, and the RDMA Reads of a call.

use kernel::prelude::*;

use super::chain::Chain;
use super::{Completions, PostError, Qp, Tag};
use crate::raw as bindings;
use crate::rdma::scatter::requests::Requests;
use crate::rdma::scatter::{Sink, Source};
use crate::rdma::send::SendBuf;

impl<C: Completions> Qp<C> {
    /// Posts the RDMA Writes of `source`, if there are any, and a Send of the first `len` bytes of
    /// `buf` behind them, as one chain. With `invalidate`, the Send invalidates that R_key of the
    /// peer. Returns the position of the Send.
    ///
    /// From now on `source` and `buf` are in flight until the work request at that position has
    /// completed. With `signal`, [`Completions::sent`] reports the Send. Process context, never
    /// sleeps.
    ///
    /// # Errors
    ///
    /// See [`PostError`]. After [`PostError::Full`] the same chain can be posted again later. A
    /// chain that is longer than [`QpConfig`](super::QpConfig) says may never fit.
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
        let cqe = self.inner().tags.entry(tag)?;
        let mut writes = source.map(|source| &mut source.list().requests);
        let mut sge = self.sge(buf.buffer(), len)?;
        let mut send = reply(&mut sge, invalidate);
        send.__bindgen_anon_1.wr_cqe = cqe;

        let mut chain = Chain::new();
        if let Some(writes) = &mut writes {
            self.stage(writes, &mut chain, cqe)?;
        }
        chain.add(&raw mut send);
        // SAFETY: The list is borrowed exclusively, and with it its work requests; the Send and its
        // list are on the stack. The mappings of the list and the buffer stay while they are in
        // flight.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        if let Some(writes) = writes.filter(|writes| writes.count() != 0) {
            writes.note(posted, self.progress());
        }
        match posted {
            Err(PostError::Full | PostError::Invalid) => {}
            Err(PostError::Broken(_)) => buf.buffer().set_posted(self.progress(), u64::MAX),
            Ok(position) => buf.buffer().set_posted(self.progress(), position),
        }
        posted
    }

    /// Posts the RDMA Reads of `sink` as one chain, and returns the position of the last one.
    /// [`Completions::sent`] reports that all have completed. Until then `sink` is in flight.
    /// Process context, never sleeps.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::Invalid`] if there are none. After [`PostError::Full`] the
    /// same chain can be posted again later.
    #[inline(always)]
    pub(crate) fn post_reads(&self, tag: Tag, sink: &mut Sink) -> Result<u64, PostError> {
        let cqe = self.inner().tags.entry(tag)?;
        let reads = &mut sink.list().requests;
        if reads.count() == 0 {
            return Err(PostError::Invalid);
        }
        let mut chain = Chain::new();
        self.stage(reads, &mut chain, cqe)?;
        // SAFETY: The list is borrowed exclusively, and with it its work requests and those of its
        // regions. Its mappings and regions stay while it is in flight.
        let posted = unsafe { self.submit(&chain, tag, true) };
        reads.note(posted, self.progress());
        posted
    }

    /// Adds the work requests of a list to a chain.
    ///
    /// # Errors
    ///
    /// [`PostError::Invalid`] if the list was posted and not cleared, or is one of another
    /// protection domain.
    #[inline(always)]
    fn stage(
        &self,
        requests: &mut Requests,
        chain: &mut Chain,
        cqe: *mut bindings::ib_cqe,
    ) -> Result<(), PostError> {
        if !requests.is_ready(&self.inner().pd) {
            return Err(PostError::Invalid);
        }
        requests.chain(chain, cqe, self.progress());
        Ok(())
    }
}

/// Makes the Send of a reply, which may invalidate an R_key of the peer.
#[inline]
fn reply(sge: &mut bindings::ib_sge, invalidate: Option<u32>) -> bindings::ib_send_wr {
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
    send
}
