// SPDX-License-Identifier: GPL-2.0

//! Listening for connection requests.
//!
//! The connection manager's callback only queues a request. Another task takes it out of the queue
//! and accepts or rejects it, because that task can allocate the queue pair and the buffers of the
//! connection without delaying the connection manager, and because a cm_id cannot be destroyed in
//! its own handler.
//!
//! # A listener whose device goes away
//!
//! A listener on a wildcard address has no device: the connection manager creates and destroys its
//! per-device listeners. A listener on an address belongs to the device of that address. When the
//! device is removed, or the address moves to another device, the listener destroys its cm_id at
//! once, because the removal waits for that, and because the cm_id holds the port. It then tries to
//! listen again on the same address and port, once a second. No notification could replace the
//! polling: a device may get its address long after `ib_core` has announced the device.

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::mem::{Net, SockAddr};

mod request;
mod state;

pub(crate) use request::Request;

use state::ListenerState;

/// The reason why a listener has stopped listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The device of the address is being removed.
    DeviceRemoved,
    /// The address has moved to another network device.
    AddressMoved,
}

/// An event of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListenEvent {
    /// A request was queued. The handler arranges that another task calls [`Listener::next`].
    RequestQueued,
    /// A request was rejected because the queue is full.
    Refused,
    /// The listener stopped listening. It retries by itself.
    Lost(Lost),
    /// The listener listens again.
    Restored,
}

/// The handler of a listener's events. Process context. It must not call methods of the
/// [`Listener`] or drop it: such a call would wait for the handler.
pub(crate) type ListenHandler = dyn Fn(ListenEvent) + Send + Sync;

/// A listener for connection requests on an address. Dropping it stops listening, and rejects the
/// requests that are still queued.
///
/// # Examples
///
/// The side that accepts:
///
/// ```
/// let listener = Listener::new(net, addr, None, 4, waiter.handler()?)?;
/// // ...
/// let request = waiter.request(&listener)?;
/// if !request.private_data().starts_with(HELLO) {
///     return Err(EPROTO);
/// }
/// let events = Events::new()?;
/// let cm = request.adopt(events.clone())?;
/// let server = End::new(cm, events, devices, kept.clone())?;
/// server.cm.accept(&PARAMS)?;
/// ```
pub(crate) struct Listener {
    state: Arc<ListenerState>,
}

impl Listener {
    /// The largest `backlog`.
    pub(crate) const MAX_BACKLOG: u32 = 1024;

    /// Starts to listen on `addr`. With port 0 the connection manager chooses a port. `backlog` is
    /// the largest number of queued requests; a further one is rejected. A listener on an IPv6
    /// address accepts no IPv4 connections, so that two listeners can use the wildcard addresses of
    /// both families at the same port. `class` is the traffic class of this side's packets over
    /// iWARP; [`ConnectParams`](super::cm::ConnectParams) has that over RoCE.
    ///
    /// The port is not marked as reusable (`rdma_set_reuseaddr()`). Connections do not hold the
    /// port of the listener that accepted them, so a service that restarts finds the port free at
    /// once; and two listeners at one port are an error that must be reported.
    ///
    /// Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` or `EADDRNOTAVAIL` if there is a listener at the port; `EADDRNOTAVAIL` if this
    /// host does not have the address; `ENODEV` if it is not the address of an RDMA device;
    /// `EAFNOSUPPORT`; `EACCES`; `EINVAL` if `backlog` is zero or above [`Self::MAX_BACKLOG`];
    /// `ENOMEM`.
    pub(crate) fn new(
        net: &Net,
        addr: &SockAddr,
        class: Option<u8>,
        backlog: u32,
        handler: Arc<ListenHandler>,
    ) -> Result<Self> {
        if backlog == 0 || backlog > Self::MAX_BACKLOG {
            return Err(EINVAL);
        }
        let this = Self {
            state: ListenerState::new((addr, class), backlog, handler)?,
        };
        this.state.start(net)?;
        Ok(this)
    }

    /// Returns the address that the listener is bound to, with the port that was chosen if the
    /// listener was made with port 0. Process context, may sleep.
    pub(crate) fn local_addr(&self) -> SockAddr {
        self.state.local_addr()
    }

    /// Removes the oldest request from the queue, if there is one. Process context, may sleep; not
    /// from [`ListenHandler`].
    pub(crate) fn next(&self) -> Option<Request> {
        self.state.requests.next()
    }
}

impl Drop for Listener {
    /// Stops listening. Process context, may sleep; not from [`ListenHandler`], and not from a
    /// worker of a workqueue with `WQ_MEM_RECLAIM`, because the listener's own work item runs on a
    /// workqueue without it.
    fn drop(&mut self) {
        self.state.end();
    }
}
