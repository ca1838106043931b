// SPDX-License-Identifier: GPL-2.0

//! Makes a connection for a connection request, and accepts it.
//!
//! A worker allocates queue pair and buffers, which takes long. A thread of the service then only
//! accepts, so that a flood of requests delays no other connection.
//!
//! Some devices limit the bytes of a send queue, and not only its work requests (`calc_sq_size()`
//! of mlx5, `irdma_get_sqdepth()`). No attribute of a device reports this limit; the driver refuses
//! the queue pair. Shorter queues are then tried.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::endpoint::{in_use, Accepted, Conn, Endpoint, QueuePair, Responder};
use super::failure::{failed_step, Failure, DEVICE, PD, QUEUE_PAIR, RECEIVES};
use super::listener::{ListenerState, Service};
use super::owner::Owner;
use super::session;
use crate::compat::code::ENOTCONN;
use crate::conn::connection::{self, Parts};
use crate::conn::lifecycle::Lifecycle;
use crate::conn::role::{OwnedQpOf, XprtRef as _};
use crate::conn::{handshake, traced};
use crate::mem::SockAddr;
use crate::observe::connections::Role;
use crate::observe::trace;
use crate::rdma::cm::CmId;
use crate::rdma::device::{Device, Name};
use crate::rdma::listen::Request;
use crate::rdma::mr::{Kind, MrPool};
use crate::rdma::pd::Pd;
use crate::server::call::context::Calls;
use crate::server::call::in_flight;
use crate::server::call::queue::ReadyQueue;
use crate::server::config::{ConnConfig, Sizes, REGION_PAGES, TRAFFIC_CLASS};
use crate::server::log;
use crate::sunrpc::svc::xprt::{Connected, SvcXprt};
use crate::wire::cm_private::Settings;

/// The number of every connection: a responder's transport has only one.
const EPOCH: u32 = 1;

/// A connection that is ready to be accepted. Dropping the value refuses the connection.
pub(crate) struct Prepared {
    endpoint: Arc<Endpoint>,
    owner: Owner,
    accepted: Arc<Accepted>,
    /// The RDMA Reads that may be outstanding, and those of the requester.
    reads: (u8, u8),
    /// The private data for the requester.
    settings: Settings,
}

impl Prepared {
    /// Makes a connection for `request`, which will wait at `listener`. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Failure`]. After an error the request has been refused.
    // Keeps the frame of the worker small while it drops a connection.
    #[inline(never)]
    pub(crate) fn new(
        service: &Arc<Service>,
        listener: Arc<ListenerState>,
        config: ConnConfig,
        request: Request,
    ) -> Result<Self, Failure> {
        let device = request.device();
        let device = device.ok_or(Failure::Step(DEVICE, ENODEV))?;
        let reads = reads(&request, device)?;
        let sizes = Sizes::new(&config, &device.limits());
        let sizes = sizes.ok_or_else(|| Failure::Short(device.name()))?;
        let accepted = Accepted::new(service).map_err(failed_step("state"))?;
        let settings = config.announce(&device.limits());
        let wanted = request.responder_resources();
        let owner =
            owner(&request, &sizes, listener, accepted.clone()).map_err(failed_step("state"))?;
        let lifecycle = Lifecycle::answering(owner.clone(), &request);
        let lifecycle = Arc::pin_init(lifecycle, GFP_KERNEL).map_err(failed_step("state"))?;
        let terms = handshake::responder_terms(&owner, &lifecycle, &settings);
        let lease = lifecycle
            .lease(&service.devices, device, None)
            .map_err(failed_step(DEVICE))?;
        let device = device.name();
        let cm = request
            .adopt(lifecycle.clone())
            .map_err(failed_step("identifier"))?;
        let pd = Pd::new(lease, None).map_err(failed_step(PD))?;
        let base = Base {
            service,
            config: &config,
            owner: &owner,
            lifecycle: &lifecycle,
            cm: &cm,
            pd: &pd,
            device,
            reads,
        };
        let (shared, qp, receives) = base.queue_pair(sizes)?;
        post_receives(&qp, receives)?;
        let has_private_data = shared.role().lifecycle.peer().is_some();
        let quirks = &shared.role().quirks;
        let served = quirks
            .begin(&pd, has_private_data, config.inline, (reads, wanted))
            .map_err(failed_step("memory regions"))?;
        session::begin(&shared, &pd, &config, terms).map_err(failed_step("state"))?;
        let parts = Parts {
            qp,
            pd,
            cm,
            lifecycle,
            shared,
        };
        Ok(Self {
            endpoint: Endpoint::new(parts).map_err(failed_step("state"))?,
            owner,
            accepted,
            reads: (reads, served),
            settings,
        })
    }

    /// Returns whether the requester or the device is gone.
    pub(crate) fn has_gone(&self) -> bool {
        self.endpoint.role().lifecycle.has_ended()
    }

    /// Returns the address at which the requester has reached this host.
    pub(crate) fn local(&self) -> SockAddr {
        self.owner.local()
    }

    /// Returns the requester's address. The port is 0, because a requester that reconnects has
    /// another port.
    pub(crate) fn remote(&self) -> SockAddr {
        self.owner.address().without_port()
    }

    /// Returns the calls of the connection.
    pub(crate) fn calls(&self) -> Arc<Calls> {
        self.endpoint.role().calls.clone()
    }

    /// Adds the connection to debugfs until it is closed, if there is memory. May sleep.
    fn register(&self, net: u64) {
        let peer = self.owner.peer();
        let connections = &self.accepted.service.connections;
        if let Ok(registered) = connections.register(Role::Server, net, peer) {
            registered.up(peer, self.endpoint.clone());
            *self.endpoint.registered.lock() = Some(registered);
        }
    }

    /// Accepts the connection for a transport in the namespace `net`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the requester or the device is gone meanwhile, or another error of the
    /// connection manager. After an error the connection has been destroyed.
    pub(crate) fn accept(self, xprt: &SvcXprt<Connected>, net: u64) -> Result<Arc<Accepted>> {
        self.owner.ready().set_xprt(Some(xprt.handle()));
        // A connection that ends from now on finds the transport, which is then closed.
        if self.has_gone() {
            trace::server::accept_err(traced::peer(&self.owner), ENOTCONN.to_errno());
            return Err(ENOTCONN);
        }
        let (watch, ep) = (&self.accepted.service.watch, &self.endpoint);
        watch.add(ep.clone())?;
        if let Err(error) = ep.accept(self.settings, self.reads, TRAFFIC_CLASS.byte()) {
            watch.remove(ep);
            trace::server::accept_err(traced::peer(&self.owner), error.to_errno());
            ep.end();
            return Err(error);
        }
        self.endpoint.shared().begin_use();
        self.register(net);
        self.accepted.set(self.endpoint.clone());
        // The removal of the device may have found no connection.
        if self.has_gone() {
            self.accepted.give_up();
        }
        Ok(self.accepted)
    }
}

/// Makes the owner of the connection for `request`, and the queue of its calls. May sleep.
// Both addresses are on this function's stack until the owner is complete, and not on that of
// `Prepared::new`.
#[inline(never)]
fn owner(
    request: &Request,
    sizes: &Sizes,
    listener: Arc<ListenerState>,
    accepted: Arc<Accepted>,
) -> Result<Owner> {
    let receives = sizes.queues.receives;
    // An excess of calls ends the connection, so no more calls than this are fetched at a time.
    let (_, calls) = in_use(sizes, receives);
    let ready = ReadyQueue::new(receives, calls)?;
    let addresses = (request.local_addr(), request.peer_addr());
    Owner::new(addresses, ready, listener, accepted)
}

/// The objects that a queue pair is made of.
struct Base<'b> {
    service: &'b Service,
    config: &'b ConnConfig,
    owner: &'b Owner,
    lifecycle: &'b Arc<Lifecycle<Owner>>,
    cm: &'b CmId<Lifecycle<Owner>>,
    pd: &'b Arc<Pd>,
    device: Name,
    /// The RDMA Reads that may be outstanding.
    reads: u8,
}

impl Base<'_> {
    /// Makes a queue pair and the state that its completions reach, and halves the grant while the
    /// driver refuses the queue pair. Also returns the number of Receives. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    fn queue_pair(
        &self,
        mut sizes: Sizes,
    ) -> Result<(Arc<Conn>, OwnedQpOf<Responder>, u32), Failure> {
        let regions = self.regions().map_err(failed_step("memory regions"))?;
        loop {
            let failure = match self.make(&sizes, regions.clone()) {
                Ok((shared, qp)) => {
                    self.log_grant(&sizes);
                    return Ok((shared, qp, sizes.queues.receives));
                }
                Err(failure) => failure,
            };
            let lower = ConnConfig {
                credits: sizes.queues.credits / 2,
                ..*self.config
            };
            sizes = match (&failure, Sizes::new(&lower, &self.pd.limits())) {
                (Failure::Step(QUEUE_PAIR, ENOMEM | EINVAL), Some(sizes)) => sizes,
                _ => return Err(failure),
            };
        }
    }

    /// Makes memory regions for the RDMA Reads, if the device needs them. May sleep.
    fn regions(&self) -> Result<Option<Arc<MrPool>>> {
        let limits = self.pd.limits();
        let depth = limits.max_frmr_depth.min(REGION_PAGES);
        let make = || MrPool::new(self.pd.clone(), depth, Kind::Plain, self.reads.into());
        limits.reads_need_regions.then(make).transpose()
    }

    fn make(
        &self,
        sizes: &Sizes,
        regions: Option<Arc<MrPool>>,
    ) -> Result<(Arc<Conn>, OwnedQpOf<Responder>), Failure> {
        let shared = self.state(sizes, regions).map_err(failed_step("state"))?;
        // CAST: `usize` has at least 32 bits.
        let receive_size = self.config.inline as usize;
        let tags = (in_flight::TAGS, receive_size);
        let qp = connection::queue_pair(self.cm, self.pd, &sizes.queues, tags, shared.clone())
            .map_err(failed_step(QUEUE_PAIR))?;
        Ok((shared, qp))
    }

    /// Makes the state that the completions reach. May sleep.
    // The responder is on this function's stack until it is complete, and not on that of
    // `queue_pair`.
    #[inline(never)]
    fn state(&self, sizes: &Sizes, regions: Option<Arc<MrPool>>) -> Result<Arc<Conn>> {
        let (ready, lifecycle) = (self.owner.ready().clone(), self.lifecycle.clone());
        let (service, device) = (self.service, self.device);
        let role = Responder::new(*sizes, service, ready, lifecycle, device, regions)?;
        Conn::new(EPOCH, self.owner.clone(), role)
    }

    /// Logs a grant that is lower than the setting.
    fn log_grant(&self, sizes: &Sizes) {
        let (credits, wanted) = (sizes.queues.credits, self.config.credits);
        if credits < wanted {
            log::grant_lowered(&self.device, credits, wanted);
        }
    }
}

/// Returns how many RDMA Reads may be outstanding on the connection that `request` asks for.
fn reads(request: &Request, device: &Device) -> Result<u8, Failure> {
    handshake::read_depth(request).ok_or_else(|| match request.initiator_depth() {
        0 => Failure::ReadDepth,
        _ => Failure::NoReads(device.name()),
    })
}

/// Posts the Receives of a connection. Each is reposted after its message has been handled.
fn post_receives(qp: &QueuePair, receives: u32) -> Result<(), Failure> {
    qp.post_receives().map_err(failed_step(RECEIVES))?;
    for number in 0..receives {
        trace::server::post_recv(traced::cid(qp, number));
    }
    Ok(())
}
