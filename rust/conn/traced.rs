// SPDX-License-Identifier: GPL-2.0

//! How trace events name a peer, a work request, a memory region.
//!
//! A function that returns a [`Lazy`] value looks nothing up unless the event is enabled.

use super::role::XprtRef;
use crate::observe::trace::server::SendQueue;
use crate::observe::trace::{Cid, Lazy, Peer, Region, WcStatus};
use crate::rdma::mr::Mr;
use crate::rdma::qp::{Completions, Qp, WcError};
use crate::wire::Segment;

/// Returns the peer of a transport.
#[inline(always)]
pub(crate) fn peer<O: XprtRef>(owner: &O) -> Lazy<impl FnOnce() -> Peer + Copy + use<'_, O>> {
    Lazy(|| owner.peer())
}

/// Returns the name of a work request: its queue, and the number of its request slot, buffer or
/// memory region.
#[inline(always)]
pub(crate) fn cid<C: Completions>(
    qp: &Qp<C>,
    id: u32,
) -> Lazy<impl FnOnce() -> Cid + Copy + use<'_, C>> {
    Lazy(move || Cid {
        cq_id: qp.cq_id(),
        completion_id: id,
    })
}

/// Returns the entries of the send queue.
#[inline(always)]
pub(crate) fn send_queue<C: Completions>(
    qp: &Qp<C>,
) -> Lazy<impl FnOnce() -> SendQueue + Copy + use<'_, C>> {
    Lazy(|| {
        let (free, depth) = qp.send_queue();
        SendQueue { free, depth }
    })
}

/// Returns the memory region and what it maps.
#[inline(always)]
pub(crate) fn region(region: &Mr) -> Lazy<impl FnOnce() -> Region + Copy + use<'_>> {
    Lazy(|| Region {
        mr_id: region.id(),
        nents: region.nents(),
        segment: segment(region),
        direction: region.direction(),
    })
}

/// Returns the memory region as a segment for the peer.
pub(crate) fn segment(region: &Mr) -> Segment {
    Segment {
        handle: region.rkey(),
        length: region.len(),
        offset: region.iova(),
    }
}

/// Returns the status of a work request that has failed.
pub(crate) fn status(error: &WcError) -> WcStatus {
    WcStatus {
        status: error.status,
        vendor_err: error.vendor,
    }
}
