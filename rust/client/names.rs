// SPDX-License-Identifier: GPL-2.0

//! How trace events name what they are about.

use super::link::Link;
use super::transport::Client;
use crate::observe::trace::{Access, Cid, Lazy, Peer, Region, Task, WcStatus};
use crate::rdma::mr::{Direction, Mr};
use crate::rdma::qp::{Qp, WcError};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::Xprt;
use crate::wire::Segment;

/// The task of an RPC.
#[inline(always)]
pub(super) fn task<'a, 'b>(
    rqst: &'a Rqst<'b, Client>,
) -> Lazy<impl FnOnce() -> Task + Copy + use<'a, 'b>> {
    Lazy(|| Task {
        task_id: rqst.task_id(),
        client_id: rqst.client_id(),
    })
}

/// The peer of a transport.
#[inline(always)]
pub(super) fn peer(xprt: &Xprt<Client>) -> Lazy<impl FnOnce() -> Peer + Copy + use<'_>> {
    Lazy(|| shown(xprt))
}

#[cold]
fn shown(xprt: &Xprt<Client>) -> Peer {
    let shown = xprt.shown();
    Peer::new(&shown.addr, shown.port)
}

/// A work request: by request slot, and a LOCAL_INV by memory region.
#[inline(always)]
pub(super) fn cid(qp: &Qp<Link>, id: u32) -> Lazy<impl FnOnce() -> Cid + Copy + use<'_>> {
    Lazy(move || Cid {
        cq_id: qp.cq_id(),
        completion_id: id,
    })
}

/// A memory region and what it maps.
#[inline(always)]
pub(super) fn region(region: &Mr) -> Lazy<impl FnOnce() -> Region + Copy + use<'_>> {
    Lazy(|| Region {
        mr_id: region.id(),
        nents: region.nents(),
        segment: segment(region),
        access: match region.direction() {
            Direction::ToPeer => Access::PeerReads,
            Direction::FromPeer => Access::PeerWrites,
        },
    })
}

/// A memory region as the peer knows it.
#[inline]
pub(super) fn segment(region: &Mr) -> Segment {
    Segment {
        handle: region.rkey(),
        length: region.len(),
        offset: region.iova(),
    }
}

/// How a work request failed.
pub(super) fn status(error: &WcError) -> WcStatus {
    WcStatus {
        status: error.status,
        vendor_err: error.vendor,
    }
}
