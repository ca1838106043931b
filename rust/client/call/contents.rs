// SPDX-License-Identifier: GPL-2.0

//! The contents of a request slot: what one call owns on the RDMA side.

use kernel::prelude::*;

use super::super::config::MAX_SEGMENTS;
use super::super::endpoint::regions::Spare;
use crate::conn::terms::TermsSnapshot;
use crate::conn::traced;
use crate::observe::stats::CallCounts;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::{CallOptions, InlineSpace};
use crate::proto::requester::reply::Offer;
use crate::rdma::mr::Mr;
use crate::rdma::send::SendBuf;
use crate::wire::{Segment, Version};

/// How the call takes its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// Inline only.
    Nothing,
    /// Through a write chunk of the segments in [`Contents::offered`].
    WriteChunk,
    /// Through a reply chunk of the segments in [`Contents::offered`].
    ReplyChunk,
}

/// The memory of a call and its reply, and the terms for which the call is prepared.
///
/// # Invariants
///
/// The contents of `regions`, `spare` and `out` belong to the connection of the slot.
pub(super) struct Contents {
    /// The XID of the call that was prepared last.
    pub(super) xid: u32,
    /// The terms that the call was prepared under.
    pub(super) terms: TermsSnapshot,
    /// The longest messages under these terms, and with this send buffer.
    pub(super) space: InlineSpace,
    /// The buffer in which the message is assembled; none without a connection.
    pub(super) out: Option<SendBuf>,
    /// The bytes of `out` to send.
    pub(super) out_len: usize,
    /// The registered memory of call and reply. Room for the most regions was allocated with the
    /// slot.
    pub(super) regions: KVec<Mr>,
    /// Idle regions, which earlier calls have left for the next ones.
    pub(super) spare: Spare,
    /// The segments that the call offers for the reply, as encoded.
    pub(super) offered: KVec<Segment>,
    pub(super) offer: Offered,
    /// The slot's part of the transport's counters, of all connections.
    pub(super) counts: CallCounts,
}

impl Contents {
    /// Makes the contents of a new slot. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        // A chunk for the call and one for the reply.
        let regions = 2 * MAX_SEGMENTS as usize;
        Ok(Self {
            regions: KVec::with_capacity(regions, GFP_KERNEL)?,
            offered: KVec::with_capacity(MAX_SEGMENTS as usize, GFP_KERNEL)?,
            ..Self::empty(CallCounts::default())
        })
    }

    /// Returns contents for the time in which a task has these, and prepares a call.
    pub(super) fn placeholder(&self) -> Self {
        Self::empty(self.counts)
    }

    fn empty(counts: CallCounts) -> Self {
        Self {
            xid: 0,
            terms: TermsSnapshot::NEVER,
            space: InlineSpace::new(&Thresholds::DEFAULT, MAX_SEGMENTS, CallOptions::DEFAULT),
            out: None,
            out_len: 0,
            regions: KVec::new(),
            spare: Spare::NONE,
            offered: KVec::new(),
            offer: Offered::Nothing,
            counts,
        }
    }

    /// Sets the send buffer, while no call is prepared. Returns the previous one.
    pub(super) fn set_buffer(&mut self, buf: SendBuf) -> Option<SendBuf> {
        // The next call computes the space for this buffer.
        self.terms = TermsSnapshot::NEVER;
        self.out.replace(buf)
    }

    /// Returns whether there is a send buffer, of less than `len` bytes.
    pub(super) fn has_shorter_buffer(&self, len: usize) -> bool {
        self.out.as_ref().is_some_and(|out| out.capacity() < len)
    }

    /// Returns the message to send, if there is a send buffer.
    pub(super) fn message(&mut self) -> Option<&[u8]> {
        let len = self.out_len;
        self.out.as_mut()?.as_mut_slice().get(..len)
    }

    /// Sets the terms under which a call is prepared. `None`: there is no send buffer.
    #[inline(always)]
    pub(super) fn set_terms(&mut self, now: TermsSnapshot) -> Option<()> {
        if self.terms == now {
            return Some(());
        }
        self.change_terms(now)
    }

    #[cold]
    fn change_terms(&mut self, now: TermsSnapshot) -> Option<()> {
        self.terms = now;
        let measured = self.thresholds();
        match measured {
            Some(thresholds) => {
                self.space = InlineSpace::new(&thresholds, MAX_SEGMENTS, now.options())
            }
            None => self.terms = TermsSnapshot::NEVER,
        }
        measured.map(drop)
    }

    /// Returns the thresholds for a call, if there is a send buffer. A larger buffer may not have
    /// reached the slot yet.
    pub(super) fn thresholds(&self) -> Option<Thresholds> {
        let capacity = self.out.as_ref()?.capacity();
        let mut thresholds = self.terms.thresholds();
        if thresholds.version == Version::Two {
            // CAST: a buffer's length fits.
            thresholds.client_to_server = thresholds.client_to_server.min(capacity as u32);
        }
        Some(thresholds)
    }

    /// Returns the chunks that the call offers for its reply.
    pub(super) fn offer(&self) -> Offer<'_> {
        let segments = Some(&self.offered[..]);
        match self.offer {
            Offered::Nothing => Offer::default(),
            Offered::WriteChunk => Offer {
                write_chunk: segments,
                reply_chunk: None,
            },
            Offered::ReplyChunk => Offer {
                write_chunk: None,
                reply_chunk: segments,
            },
        }
    }

    /// Returns the regions that the peer can reach.
    pub(super) fn live(&self) -> impl Iterator<Item = &Mr> {
        self.regions.iter().filter(|region| region.is_live())
    }

    /// Returns whether the peer can reach a region.
    pub(super) fn is_exposed(&self) -> bool {
        self.regions.iter().any(Mr::is_live)
    }

    /// Marks the regions whose LOCAL_INV has completed, or whose queue pair is drained: the peer
    /// cannot reach them any more.
    pub(super) fn mark_invalidated(&mut self) {
        for region in self.regions.iter_mut().filter(|region| region.is_live()) {
            region.invalidated();
        }
    }

    /// Returns the region that the last LOCAL_INV of the chain was posted for, if there is a chain.
    pub(super) fn last_invalidating(&self) -> Option<&Mr> {
        let mut from_last = self.regions.iter().rev();
        from_last.find(|region| region.is_being_invalidated())
    }

    /// Gives the regions back, which no peer can reach.
    #[inline]
    pub(super) fn reset(&mut self) {
        trace::mr_unmaps(|| self.regions.iter().map(traced::region));
        self.keep_spare();
        if !self.regions.is_empty() {
            self.regions.clear();
        }
        self.offered.clear();
        self.offer = Offered::Nothing;
        self.out_len = 0;
    }

    /// Keeps the last region for the next call, if it is idle and there is none of its kind.
    #[inline]
    fn keep_spare(&mut self) {
        let idle = self.regions.last().filter(|region| region.is_idle());
        if let Some(place) = idle.and_then(|region| self.spare.vacant(region.kind())) {
            *place = self.regions.pop();
        }
    }
}
