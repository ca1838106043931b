// SPDX-License-Identifier: GPL-2.0

//! Makes a connection for a request, and accepts it.
//!
//! A worker makes queue pair and buffers, which takes long. A thread of the service then only
//! accepts, so that a flood of requests delays no other connection.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::chosen::Chosen;
use super::endpoint::Endpoint;
use super::flights;
use super::owner::Owner;
use super::responder::{Conn, Responder};
use super::service::Service;
use super::sizes::Sizes;
use crate::conn::connection::{self, Parts};
use crate::conn::lifecycle::Lifecycle;
use crate::conn::owner::Owner as _;
use crate::conn::{handshake, removal};
use crate::mem::SockAddr;
use crate::rdma::listen::Request;
use crate::rdma::mr::{Kind, MrPool};
use crate::rdma::pd::Pd;
use crate::sunrpc::svc::xprt::{Connected, Handle};

/// The most pages of a region for an RDMA Read.
const REGION_PAGES: u32 = 256;
/// The number of every connection: a responder's transport has only one.
const EPOCH: u32 = 1;

/// A connection that is ready to be accepted. Dropping it refuses the connection.
pub(crate) struct Prepared {
    endpoint: Arc<Endpoint>,
    owner: Owner,
    service: Arc<Service>,
    /// The RDMA Reads that may be outstanding.
    reads: u8,
    chosen: Chosen,
    /// The most calls in progress.
    calls: u32,
}

impl Prepared {
    /// Makes a connection for `request`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is going away or too small, `EPROTO` if the requester does not let us
    /// read its memory, `ENOMEM`, or another error of the device. The request is refused then.
    pub(super) fn new(service: &Arc<Service>, chosen: Chosen, request: Request) -> Result<Self> {
        let reads = handshake::read_depth(&request).ok_or(EPROTO)?;
        let owner = Owner::new(request.local_addr(), request.peer_addr())?;
        let lifecycle = Lifecycle::answering(owner.clone(), &request);
        let lifecycle = Arc::pin_init(lifecycle, GFP_KERNEL)?;
        let terms = handshake::responder_terms(&owner, &lifecycle, &chosen.announce());
        let device = request.device().ok_or(ENODEV)?;
        let mut sizes = Sizes::new(&chosen, &device.limits()).ok_or(ENODEV)?;
        sizes.limits.remote_invalidation = terms.remote_invalidation;
        let needs_regions = device.limits().reads_need_regions;
        let lease = removal::lease(&service.devices, &device, owner.clone(), &lifecycle)?;
        let cm = request.adopt(lifecycle.clone())?;
        let pd = Pd::new(lease)?;
        let shared = Conn::new(
            EPOCH,
            owner.clone(),
            Responder::new(&sizes, lifecycle.clone())?,
        )?;
        // CAST: `usize` has at least 32 bits.
        let receive_size = chosen.inline as usize;
        let tags = (flights::tags(sizes.operations), receive_size);
        let qp = connection::queue_pair(&cm, &pd, &sizes.queues, tags, shared.clone())?;
        connection::post_receives(&owner, &qp, &sizes.queues)?;
        shared.set_terms(&terms);
        let sinks = if needs_regions {
            Some(regions(&pd, reads)?)
        } else {
            None
        };
        let parts = Parts {
            terms,
            qp,
            pd,
            cm,
            lifecycle,
            shared,
            calls: chosen.backward,
        };
        Ok(Self {
            endpoint: Endpoint::new(parts, sinks, sizes.limits)?,
            owner,
            service: service.clone(),
            reads,
            chosen,
            calls: sizes.queues.credits,
        })
    }

    /// Returns the address at which the requester has reached this host.
    pub(super) fn local(&self) -> SockAddr {
        self.owner.local()
    }

    /// Returns the requester's address. Its port is 0, because a requester that connects again has
    /// another one.
    pub(super) fn remote(&self) -> SockAddr {
        self.owner.address().without_port()
    }

    /// Returns what all connections share.
    pub(super) fn service(&self) -> Arc<Service> {
        self.service.clone()
    }

    /// Returns the most calls that may be in progress.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Accepts the connection for a transport. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the requester or the device has gone meanwhile, or another error of the
    /// connection manager. Nothing of the connection is left then.
    pub(super) fn accept(self, xprt: Handle<Connected>) -> Result<Arc<Endpoint>> {
        self.owner.set_xprt(xprt);
        self.service.watch.add(self.endpoint.clone())?;
        let accepted = self.endpoint.accept(self.chosen.announce(), self.reads);
        if accepted.is_err() {
            self.service.watch.remove(&*self.endpoint);
        }
        accepted?;
        self.endpoint.shared().begin_use();
        Ok(self.endpoint)
    }
}

/// Makes regions for the RDMA Reads that may be outstanding. May sleep.
fn regions(pd: &Arc<Pd>, reads: u8) -> Result<Arc<MrPool>> {
    let depth = pd.limits().max_frmr_depth.min(REGION_PAGES);
    MrPool::new(pd.clone(), depth, Kind::Plain, reads.into())
}
