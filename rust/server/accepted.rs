// SPDX-License-Identifier: GPL-2.0

//! The connection of a transport, from when it is accepted until it is given up.
//!
//! SUNRPC detaches a transport by a thread of the service, and every thread may be busy. The
//! removal of a device does not wait for that: it gives up the connection itself.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::endpoint::Endpoint;
use super::owner::Place;
use super::service::Service;

/// Where a transport finds its connection. The connection's owner has it as well.
#[pin_data]
pub(super) struct Accepted {
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    service: Arc<Service>,
}

impl Accepted {
    /// Makes a place without a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(service: &Arc<Service>) -> Result<Arc<Self>> {
        let service = service.clone();
        let this = pin_init!(Self {
            endpoint <- new_spinlock!(None, "rpcrdma::Accepted::endpoint"),
            service,
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Returns what all connections share.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Returns the connection, unless it was given up.
    #[inline]
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// Sets the connection.
    pub(super) fn set(&self, ep: Arc<Endpoint>) {
        *self.endpoint.lock() = Some(ep);
    }
}

impl Place for Accepted {
    fn give_up(&self) {
        let taken = self.endpoint.lock().take();
        if let Some(ep) = taken {
            self.service.watch.remove(&*ep);
            self.service.budget.forget(&*ep);
            Endpoint::close_later(ep, &self.service);
        }
    }
}
