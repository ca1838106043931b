// SPDX-License-Identifier: GPL-2.0

//! The data of SUNRPC's client transport over a connection.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::super::endpoint::Endpoint;
use crate::conn::credits::CallCredits;

/// A client transport over a connection that a requester has made.
#[pin_data]
pub(crate) struct Callback {
    /// The connection, from when the transport is attached until it is closed.
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    /// The requester's credits for our calls.
    #[pin]
    credits: CallCredits,
}

impl Callback {
    /// Makes a transport without a connection, whose calls ask for so many credits.
    pub(super) fn init(credits: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            endpoint <- new_spinlock!(None, "rpcrdma::Callback::endpoint"),
            credits <- CallCredits::new(credits),
        })
    }

    /// Returns the connection, unless the transport was closed. Not for the completion worker,
    /// which must not drop the last reference.
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// Sets the connection.
    pub(super) fn set_endpoint(&self, ep: Arc<Endpoint>) {
        *self.endpoint.lock() = Some(ep);
    }

    /// Takes the connection out, unless the transport was closed.
    pub(super) fn take_endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().take()
    }

    /// Returns the requester's credits for our calls.
    pub(super) fn credits(&self) -> &CallCredits {
        &self.credits
    }
}
