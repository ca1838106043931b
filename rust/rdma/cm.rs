// SPDX-License-Identifier: GPL-2.0

//! The connection manager: resolving addresses, connecting, accepting.

use core::marker::PhantomData;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::Arc;

use super::device::Device;
use crate::compat::code::ENOTCONN;
use crate::mem::{Net, SockAddr};
use crate::raw as bindings;

mod accept;
mod event;
mod ident;

pub(super) use event::connection;
pub(crate) use event::{CmEvent, CmHandler};
pub(super) use ident::{Context, Ident, OwnedId};

/// The parameters of connecting and accepting (`struct rdma_conn_param`).
///
/// The transport's end-to-end flow control is not used: the peer is asked not to retransmit a
/// message for which this side has no Receive, since it has exceeded its grant. How often this side
/// retransmits such a message is the peer's choice, and may be without limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectParams<'a> {
    /// Private data for the peer; at most 56 bytes when connecting over InfiniBand or RoCE.
    pub(crate) private_data: &'a [u8],
    /// Number of RDMA Reads that the peer may have outstanding.
    pub(crate) responder_resources: u8,
    /// Number of RDMA Reads that this side may have outstanding.
    pub(crate) initiator_depth: u8,
    /// Number of retransmissions of a packet, at most 7. Not used for accepting.
    pub(crate) retry_count: u8,
    /// The traffic class of this side's packets over RoCE, or `None` for that of the request. Not
    /// used for connecting.
    pub(crate) traffic_class: Option<u8>,
}

impl ConnectParams<'_> {
    /// Returns the parameters in the form that the connection manager expects.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the private data is longer than 255 bytes.
    fn raw(&self) -> Result<bindings::rdma_conn_param> {
        Ok(bindings::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).map_err(|_| EINVAL)?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            retry_count: self.retry_count,
            ..pin_init::zeroed()
        })
    }
}

/// One end of a connection, from address resolution on (`struct rdma_cm_id`).
///
/// The cm_id is destroyed when both the `CmId` and the [`Qp`](super::qp::Qp) that was made with it
/// have been dropped. After that, no event is being or will be handled. The last of the two must
/// not be dropped in the handler, because the destruction waits for the handler.
///
/// The methods are called in process context and may sleep.
///
/// # Examples
///
/// The side that connects resolves the peer's address and the route to it:
///
/// ```
/// let events = Events::new()?;
/// let cm = CmId::new(net, events.clone())?;
/// cm.resolve_addr(addr, None, TIMEOUT_MS)?;
/// events.wait_for(Progress::AddrResolved)?;
/// cm.resolve_route(TIMEOUT_MS)?;
/// events.wait_for(Progress::RouteResolved)?;
/// ```
pub(crate) struct CmId<H: CmHandler> {
    ident: Arc<Ident>,
    handler: PhantomData<fn(&H)>,
}

impl<H: CmHandler> CmId<H> {
    /// Creates a cm_id for a reliable connection in a network namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net, handler: Arc<H>) -> Result<Self> {
        Self::with_id(OwnedId::new(net, handler)?)
    }

    /// Takes ownership of a cm_id that arrived with a connection request. From now on `handler`
    /// gets its events. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the present handler of the cm_id has set `gone`; `ENOMEM`. After an error the
    /// cm_id has been destroyed, which rejects the request.
    pub(super) fn adopt(mut id: OwnedId, handler: Arc<H>, gone: &AtomicFlag) -> Result<Self> {
        if !id.exchange(handler, || gone.load(Relaxed)) {
            return Err(ENOTCONN);
        }
        Self::with_id(id)
    }

    fn with_id(id: OwnedId) -> Result<Self> {
        Ok(Self {
            ident: Ident::new(id)?,
            handler: PhantomData,
        })
    }

    /// Returns the owner of the cm_id.
    pub(super) fn ident(&self) -> &Arc<Ident> {
        &self.ident
    }

    /// Binds the cm_id to a local address, which selects the device and its port.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if the namespace lacks the address; `ENODEV` if no RDMA device has it, or if
    /// its port is down; or another error of the connection manager. The cm_id is of no use after
    /// an error.
    pub(crate) fn bind(&self, local: &SockAddr) -> Result {
        let addr = local.as_ptr().cast_mut();
        self.ident.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid. The address is valid, and
            // is only read.
            to_result(unsafe { bindings::rdma_bind_addr(id, addr) })
        })?;
        let device = self.device().filter(|device| device.is_active(self.port()));
        device.map(drop).ok_or(ENODEV)
    }

    /// Starts to resolve the peer's address. The result is [`CmEvent::AddrResolved`] or
    /// [`CmEvent::AddrError`].
    ///
    /// `class` is the traffic class of the connection's packets: the byte of the IPv4 or IPv6
    /// header that has the DSCP. `None` means the default of the device's port. Over RoCE the
    /// peer's packets have the same class, unless the peer changes that.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the address was resolved before; `ENETUNREACH` if there is no route; `ENODEV` if
    /// the route leads through no RDMA device; or another error of the connection manager.
    pub(crate) fn resolve_addr(
        &self,
        peer: &SockAddr,
        class: Option<u8>,
        timeout_ms: u32,
    ) -> Result {
        let (any, peer) = (core::ptr::null_mut(), peer.as_ptr());
        self.ident.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid. The address is valid, and
            // is copied.
            to_result(unsafe {
                if let Some(class) = class {
                    bindings::rdma_set_service_type(id, class.into());
                }
                bindings::rdma_resolve_addr(id, any, peer, timeout_ms as usize)
            })
        })
    }

    /// Starts to resolve the route. The result is [`CmEvent::RouteResolved`] or
    /// [`CmEvent::RouteError`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if the previous step was not the resolution of the address; `ENOMEM`; `ENODEV`.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        self.ident.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid.
            to_result(unsafe { bindings::rdma_resolve_route(id, timeout_ms as usize) })
        })
    }

    /// Returns the device, or `None` if the address has not been resolved.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.ident.id.device()
    }

    /// Returns the port of the device, or 0 before the address was resolved.
    pub(crate) fn port(&self) -> u32 {
        self.ident.id.port()
    }

    /// Returns the local address. It is meaningful once the peer's address has been resolved, and
    /// for a cm_id that arrived with a request.
    pub(crate) fn local_addr(&self) -> SockAddr {
        self.ident.id.local_addr()
    }

    /// Sets how long the device waits for an acknowledgement before it retransmits a packet: 4.096
    /// microseconds, doubled `exponent` times. Without this call, the time follows from the peer's
    /// request or answer. iWARP has no such timeout. Call this before [`Self::connect`] or
    /// [`Self::accept`], but not before the route has been resolved: over RoCE the lifetime of its
    /// packets would follow from that time, and the peer's timeout from the lifetime.
    ///
    /// # Errors
    ///
    /// None for the cm_id of a reliable connection.
    pub(crate) fn set_ack_timeout(&self, exponent: u8) -> Result {
        self.ident.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid.
            to_result(unsafe { bindings::rdma_set_ack_timeout(id, exponent) })
        })
    }

    /// Requests a connection. The cm_id must have a queue pair. The result is one of
    /// [`CmEvent::Established`], [`CmEvent::ConnectError`], [`CmEvent::Unreachable`] and
    /// [`CmEvent::Rejected`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if the previous step was not the resolution of the route, or if the private data is
    /// too long. Some iWARP devices connect synchronously, and return here what other devices
    /// report by an event: `ECONNREFUSED`, `ETIMEDOUT`, `EHOSTUNREACH`.
    pub(crate) fn connect(&self, params: &ConnectParams<'_>) -> Result {
        let mut params = params.raw()?;
        self.ident.exclusively(|id| {
            // SAFETY: By the invariant of `OwnedId` the cm_id is valid. The parameters are valid,
            // and are copied.
            to_result(unsafe { bindings::rdma_connect(id, &raw mut params) })
        })
    }

    /// Accepts the connection request that arrived with the cm_id. The cm_id must have a queue
    /// pair, with its Receives posted: messages of the peer may arrive before this returns. The
    /// result is [`CmEvent::Established`], or [`CmEvent::Unreachable`] if the peer does not answer,
    /// or [`CmEvent::Rejected`], [`CmEvent::ConnectError`] or [`CmEvent::Disconnected`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if the cm_id did not arrive with a request, or if the peer abandoned the request,
    /// which the connection manager has then rejected.
    pub(crate) fn accept(&self, params: &ConnectParams<'_>) -> Result {
        self.ident.accept(params.raw()?, params.traffic_class)
    }
}
