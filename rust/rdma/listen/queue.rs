// SPDX-License-Identifier: GPL-2.0

//! The queue of connection requests.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use super::request::Request;

/// Requests in the order of their arrival. Their number is limited: neither the connection manager
/// nor InfiniBand limits it.
#[pin_data]
pub(super) struct Requests {
    /// Its capacity is the limit, so a callback never makes it longer.
    #[pin]
    queued: Mutex<KVec<Request>>,
    limit: usize,
}

/// The reason why a request was not queued.
pub(super) enum Refusal {
    /// The queue is full.
    Full,
    /// There is no memory.
    NoMemory,
}

impl Requests {
    /// Makes an empty queue for `limit` requests. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(limit: usize) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            queued <- {
                let queued = KVec::with_capacity(limit, GFP_KERNEL)?;
                new_mutex!(queued, "rdma::Requests::queued")
            },
            limit,
        }? Error)
    }

    /// Queues the request that `take` returns. It is called only if there is room. May sleep.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub(super) fn push(
        &self,
        take: impl FnOnce() -> Result<Request>,
    ) -> core::result::Result<(), Refusal> {
        let mut queued = self.queued.lock();
        if queued.len() >= self.limit {
            return Err(Refusal::Full);
        }
        let request = take().map_err(|_| Refusal::NoMemory)?;
        if let Err(full) = queued.push_within_capacity(request) {
            // This does not happen, since there is room. After a refusal the connection manager
            // destroys the identifier, so dropping the request here would destroy it twice.
            core::mem::forget(full);
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Removes the oldest request that has not gone. May sleep.
    pub(super) fn next(&self) -> Option<Request> {
        loop {
            // The lock is released before the request is dropped, which waits for its handler.
            let oldest = self.queued.lock().remove(0).ok()?;
            if !oldest.has_gone() {
                return Some(oldest);
            }
        }
    }

    /// Calls `act` if a queued request has gone, with the queue locked. `act` must not sleep.
    pub(super) fn if_any_gone(&self, act: impl FnOnce()) {
        let queued = self.queued.lock();
        if queued.iter().any(Request::has_gone) {
            act();
        }
    }

    /// Drops the requests that have gone. May sleep.
    pub(super) fn drop_gone(&self) {
        while let Some(request) = self.remove_gone() {
            drop(request);
        }
    }

    /// Removes a request that has gone, if there is one.
    fn remove_gone(&self) -> Option<Request> {
        let mut queued = self.queued.lock();
        let index = queued.iter().position(Request::has_gone)?;
        queued.remove(index).ok()
    }

    /// Drops all requests. May sleep.
    pub(super) fn drop_all(&self) {
        while let Some(request) = self.next() {
            drop(request);
        }
    }
}
