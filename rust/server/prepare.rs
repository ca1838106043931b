// SPDX-License-Identifier: GPL-2.0

//! Makes a connection for a request, and accepts it.
//!
//! A worker makes queue pair and buffers, which takes long. A thread of the service then only
//! accepts, so that a flood of requests delays no other connection.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::accepted::Accepted;
use super::calls::Calls;
use super::chosen::Chosen;
use super::endpoint::Endpoint;
use super::failure::{Failure, Step};
use super::fit::{Base, REGION_PAGES};
use super::owner::{Gate, Owner, Place as _};
use super::responder::{Conn, QueuePair};
use super::service::Service;
use super::sizes::Sizes;
use super::{config, exposed, session};
use crate::conn::connection::Parts;
use crate::conn::lifecycle::Lifecycle;
use crate::conn::owner::Owner as _;
use crate::conn::{handshake, removal, traced};
use crate::mem::SockAddr;
use crate::observe::connections::Role;
use crate::observe::trace;
use crate::rdma::device::Device;
use crate::rdma::listen::Request;
use crate::rdma::mr::{Kind, MrPool};
use crate::rdma::pd::Pd;
use crate::sunrpc::svc::xprt::{Connected, Handle};
use crate::wire::cm_private::Settings;

/// A connection that is ready to be accepted. Dropping it refuses the connection.
pub(crate) struct Prepared {
    endpoint: Arc<Endpoint>,
    owner: Owner,
    accepted: Arc<Accepted>,
    /// The RDMA Reads that may be outstanding.
    reads: u8,
    /// The requester's RDMA Reads that may be outstanding: for replies that are exposed.
    served: u8,
    /// What is announced to the requester.
    settings: Settings,
    calls: Arc<Calls>,
}

impl Prepared {
    /// Makes a connection for `request`, which will wait at `gate`. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Failure`]. The request is refused then.
    pub(super) fn new(
        service: &Arc<Service>,
        gate: Arc<dyn Gate>,
        chosen: Chosen,
        request: Request,
    ) -> Result<Self, Failure> {
        let device = request
            .device()
            .ok_or(Failure::Step(Step::Device, ENODEV))?;
        let reads = reads(&request, device)?;
        let sizes = sizes(&chosen, device)?;
        let accepted = Accepted::new(service).map_err(Step::State.failed())?;
        let settings = chosen.announce(&device.limits());
        let wanted = request.responder_resources();
        let addresses = (request.local_addr(), request.peer_addr());
        let owner = Owner::new(addresses, gate, accepted.clone()).map_err(Step::State.failed())?;
        let lifecycle = Lifecycle::answering(owner.clone(), &request);
        let lifecycle = Arc::pin_init(lifecycle, GFP_KERNEL).map_err(Step::State.failed())?;
        let terms = handshake::responder_terms(&owner, &lifecycle, &settings);
        let lease = removal::lease(&service.devices, device, owner.clone(), &lifecycle)
            .map_err(Step::Device.failed())?;
        let device = device.name();
        let cm = request
            .adopt(lifecycle.clone())
            .map_err(Step::Identifier.failed())?;
        let pd = Pd::new(lease, None).map_err(Step::Pd.failed())?;
        let base = Base {
            service,
            chosen: &chosen,
            owner: &owner,
            lifecycle: &lifecycle,
            cm: &cm,
            pd: &pd,
            device,
            reads,
        };
        let (shared, qp, receives) = base.queue_pair(sizes)?;
        post_receives(&qp, receives)?;
        let served = served(&shared, &pd, wanted).map_err(Step::Regions.failed())?;
        session::begin(&shared, &pd, &chosen, terms).map_err(Step::State.failed())?;
        shared.role().configured.set(chosen.inline, reads);
        let calls = shared.role().calls.clone();
        let parts = Parts {
            qp,
            pd,
            cm,
            lifecycle,
            shared,
            calls: chosen.backward,
        };
        Ok(Self {
            endpoint: Endpoint::new(parts).map_err(Step::State.failed())?,
            owner,
            accepted,
            reads,
            served,
            settings,
            calls,
        })
    }

    /// Returns whether the requester or the device has gone.
    pub(super) fn has_gone(&self) -> bool {
        self.endpoint.role().lifecycle.has_ended()
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

    /// Returns the calls of the connection.
    pub(super) fn calls(&self) -> Arc<Calls> {
        self.calls.clone()
    }

    /// Shows the connection in debugfs until it is closed, if there is memory. May sleep.
    fn enrol(&self, net: u64) {
        let peer = self.owner.peer();
        let connections = &self.accepted.service().connections;
        if let Ok(enrolled) = connections.enrol(Role::Server, net, peer) {
            enrolled.up(peer, self.endpoint.clone());
            self.endpoint.set_enrolled(enrolled);
        }
    }

    /// Accepts the connection for a transport in the namespace `net`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the requester or the device has gone meanwhile, or another error of the
    /// connection manager. Nothing of the connection is left then.
    pub(super) fn accept(self, xprt: Handle<Connected>, net: u64) -> Result<Arc<Accepted>> {
        self.owner.set_xprt(xprt);
        // A connection that ends from now on finds the transport, which is then closed.
        if self.has_gone() {
            trace::server::accept_err(traced::peer(&self.owner), ENOTCONN.to_errno());
            return Err(ENOTCONN);
        }
        let watch = &self.accepted.service().watch;
        watch.add(self.endpoint.clone())?;
        let reads = (self.reads, self.served);
        let accepted = self.endpoint.accept(self.settings, reads);
        if let Err(error) = accepted {
            watch.remove(&*self.endpoint);
            trace::server::accept_err(traced::peer(&self.owner), error.to_errno());
            return Err(error);
        }
        self.endpoint.shared().begin_use();
        self.enrol(net);
        self.accepted.set(self.endpoint.clone());
        // The removal of the device may have found no connection.
        if self.has_gone() {
            self.accepted.give_up();
        }
        Ok(self.accepted)
    }
}

/// Returns how many RDMA Reads may be outstanding on the connection that `request` asks for.
fn reads(request: &Request, device: &Device) -> Result<u8, Failure> {
    handshake::read_depth(request).ok_or_else(|| match request.initiator_depth() {
        0 => Failure::ReadDepth,
        _ => Failure::Unfit {
            device: device.name(),
            reason: "it does no RDMA Reads",
            no_reads: true,
        },
    })
}

/// Lets replies be exposed to a requester that has sent no private data and does `wanted` RDMA
/// Reads, if a setting says so. Returns how many of them are served. May sleep.
fn served(conn: &Conn, pd: &Arc<Pd>, wanted: u8) -> Result<u8> {
    let role = conn.role();
    let limits = pd.limits();
    let served = wanted.min(limits.max_qp_rd_atom);
    if !config::exposes() || role.lifecycle.peer().is_some() || served == 0 {
        return Ok(0);
    }
    let depth = limits.max_frmr_depth.min(REGION_PAGES);
    let pool = MrPool::new(pd.clone(), depth, Kind::Plain, exposed::REGIONS)?;
    role.exposures.enable(pool)?;
    Ok(served)
}

/// Fits a connection to the device.
fn sizes(chosen: &Chosen, device: &Device) -> Result<Sizes, Failure> {
    Sizes::new(chosen, &device.limits()).ok_or_else(|| Failure::Unfit {
        device: device.name(),
        reason: "its queues are too short",
        no_reads: false,
    })
}

/// Posts the Receives of a connection. Each is posted again after its message was handled.
fn post_receives(qp: &QueuePair, receives: u32) -> Result<(), Failure> {
    qp.post_receives().map_err(Step::Receives.failed())?;
    for number in 0..receives {
        trace::server::post_recv(traced::cid(qp, number));
    }
    Ok(())
}
