// SPDX-License-Identifier: GPL-2.0

//! SUNRPC's transport as the connection sees it.

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};

use super::failure;
use super::route::Route;
use crate::conn;
use crate::mem::SockAddr;
use crate::observe::trace::{self, Peer};
use crate::sunrpc::svc::xprt::{Connected, Handle};

/// Where a connection waits until it is accepted.
pub(super) trait Gate: Send + Sync {
    /// Has a worker drop the connections that have gone. Does not sleep.
    fn drop_gone(self: Arc<Self>);
}

/// Where the transport finds its connection.
pub(super) trait Place: Send + Sync {
    /// Has a worker close the connection, unless that was done. Process context; does not sleep.
    fn give_up(&self);
}

/// The transport of a connection, shared by all who may close it.
#[derive(Clone)]
pub(crate) struct Owner(Arc<Link>);

/// The addresses of a connection, and its transport once a thread of the service has accepted it.
#[pin_data]
struct Link {
    local: SockAddr,
    peer: SockAddr,
    xprt: SetOnce<Handle<Connected>>,
    place: Arc<dyn Place>,
    /// Where the connection waits to be accepted.
    gate: Arc<dyn Gate>,
    /// The way to the client transport that calls over the connection.
    #[pin]
    route: Route,
}

impl Owner {
    /// Makes the owner of a connection between two addresses, ours first. It waits at `gate` to be
    /// accepted, and its transport finds it at `place`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        (local, peer): (SockAddr, SockAddr),
        gate: Arc<dyn Gate>,
        place: Arc<dyn Place>,
    ) -> Result<Self> {
        let link = pin_init!(Link {
            local,
            peer,
            xprt: SetOnce::new(),
            place,
            gate,
            route <- Route::new(),
        });
        Ok(Self(Arc::pin_init(link, GFP_KERNEL)?))
    }

    /// Sets the transport. A second call changes nothing.
    pub(super) fn set_xprt(&self, xprt: Handle<Connected>) {
        let _ = self.0.xprt.populate(xprt);
    }

    /// Returns the address at which the peer has reached this host.
    pub(super) fn local(&self) -> SockAddr {
        self.0.local
    }

    /// Returns the way to the client transport that calls over the connection.
    #[inline]
    pub(super) fn route(&self) -> &Route {
        &self.0.route
    }

    /// Makes a thread of the service receive. Does not sleep.
    #[inline]
    pub(super) fn data_arrived(&self) {
        if let Some(xprt) = self.0.xprt.as_ref() {
            xprt.data_arrived();
        }
    }

    /// Announces that the connection takes replies again. Does not sleep.
    pub(super) fn room_regained(&self) {
        if let Some(xprt) = self.0.xprt.as_ref() {
            xprt.room_regained();
        }
    }
}

impl conn::owner::Owner for Owner {
    fn peer(&self) -> Peer {
        failure::name(&self.0.peer)
    }

    fn address(&self) -> SockAddr {
        self.0.peer
    }

    /// A thread of the service accepts a connection, and does not wait for its establishment.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Closes the transport. A connection without one is dropped by the worker of its gate, or is
    /// not accepted: the state that says so is set before this is called.
    fn force_close(&self) {
        match self.0.xprt.as_ref() {
            Some(xprt) => xprt.close(),
            None => self.0.gate.clone().drop_gone(),
        }
    }

    /// A thread of the service has to detach the transport, and all may be busy, so the connection
    /// is given up at once.
    fn device_removed(&self) {
        self.0.place.give_up();
    }

    fn trace_removal(&self, device: &dyn fmt::Display) {
        trace::server::device_removal(device, self.0.peer.bytes());
    }

    fn set_credits(&self, credits: u32) {
        self.0.route.set_credits(credits);
    }
}
