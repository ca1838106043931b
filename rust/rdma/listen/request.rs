// SPDX-License-Identifier: GPL-2.0

//! Connection requests that are neither accepted nor rejected, and their queue.

use core::ptr::NonNull;

use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_mutex, Arc, ArcBorrow, Mutex};
use kernel::workqueue::{new_work, Work, WorkItem};

use crate::mem::{MemallocScope, SockAddr};
use crate::raw as bindings;
use crate::rdma::cm::{connection, CmHandler, CmId, Context, OwnedId};
use crate::rdma::device::Device;
use crate::work;

/// Maximum length of the private data of a request, in bytes.
const PRIVATE_DATA: usize = u8::MAX as usize;

/// The parameters of a request, and the context of its cm_id until the request is adopted.
struct Waiting {
    /// Whether the peer abandoned the request, or the device is being removed.
    gone: AtomicFlag,
    initiator_depth: u8,
    responder_resources: u8,
    private_data: [u8; PRIVATE_DATA],
    len: usize,
    requests: Arc<Requests>,
}

impl Context for Waiting {
    /// Handles an event of a request that was not adopted. Each such event means that the request
    /// cannot be accepted any more.
    ///
    /// # Safety
    ///
    /// As for [`Context::on_event`].
    unsafe fn on_event(
        this: ArcBorrow<'_, Self>,
        _id: NonNull<bindings::rdma_cm_id>,
        _event: &bindings::rdma_cm_event,
    ) -> c_int {
        this.gone.store(true, Relaxed);
        // The cm_id keeps the device from being removed, and its own handler cannot destroy it.
        this.requests.drop_gone_later();
        0
    }
}

/// A connection request that was neither accepted nor rejected. Dropping the value rejects the
/// request, in process context; that may sleep.
///
/// # Invariants
///
/// `id` arrived with a request, and its context is `waiting`.
pub(crate) struct Request {
    id: OwnedId,
    waiting: Arc<Waiting>,
}

impl Request {
    /// Takes over the cm_id of a connection request. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the connection manager still owns the cm_id.
    ///
    /// # Safety
    ///
    /// The handler of the cm_id's connection request, `event`, calls this. After success, the
    /// handler returns 0.
    unsafe fn new(
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
        requests: Arc<Requests>,
    ) -> Result<Self> {
        // SAFETY: A connection request has the parameters of a connection.
        let (data, conn) = unsafe { connection(event) };
        let mut private_data = [0; PRIVATE_DATA];
        let len = crate::text::copy(&mut private_data, data);
        let waiting = Waiting {
            gone: AtomicFlag::new(false),
            initiator_depth: conn.initiator_depth,
            responder_resources: conn.responder_resources,
            private_data,
            len,
            requests,
        };
        let waiting = Arc::new(waiting, GFP_KERNEL)?;
        // SAFETY: The cm_id is valid, and its handler is locked during this call. The handler
        // returns 0, and so leaves the cm_id to this value. The present context is the listener's,
        // which the listening cm_id owns.
        let id = unsafe { OwnedId::from_raw(id, waiting.clone()) };
        // INVARIANT: The context was set above.
        Ok(Self { id, waiting })
    }

    /// Returns the private data of the peer, padded with zeroes by the transport.
    pub(crate) fn private_data(&self) -> &[u8] {
        let waiting = &self.waiting;
        waiting.private_data.get(..waiting.len).unwrap_or_default()
    }

    /// Returns the number of RDMA Reads that this side may have outstanding, as the peer offers.
    pub(crate) fn initiator_depth(&self) -> u8 {
        self.waiting.initiator_depth
    }

    /// Returns the number of RDMA Reads that the peer wants to have outstanding.
    pub(crate) fn responder_resources(&self) -> u8 {
        self.waiting.responder_resources
    }

    /// Returns the device at which the request arrived.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.id.device()
    }

    /// Returns the address at which the request arrived.
    pub(crate) fn local_addr(&self) -> SockAddr {
        self.id.local_addr()
    }

    /// Returns the address of the peer.
    pub(crate) fn peer_addr(&self) -> SockAddr {
        self.id.peer_addr()
    }

    /// Returns whether the peer abandoned the request, or the device is being removed. Adopting
    /// such a request is useless.
    pub(crate) fn has_gone(&self) -> bool {
        self.waiting.gone.load(Relaxed)
    }

    /// Changes the request into a [`CmId`] with a handler, which gets all further events. The
    /// caller then makes a queue pair for it, and calls [`CmId::accept`]. Process context, may
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the request [has gone](Self::has_gone); `ENOMEM`. The request has been
    /// rejected then.
    pub(crate) fn adopt<H: CmHandler>(self, handler: Arc<H>) -> Result<CmId<H>> {
        CmId::adopt(self.id, handler, &self.waiting.gone)
    }
}

/// Requests in the order of their arrival. Their number is limited: neither the connection manager
/// nor InfiniBand limits it.
#[pin_data]
pub(super) struct Requests {
    /// The capacity is the limit, so a handler never enlarges the vector.
    #[pin]
    queued: Mutex<KVec<Request>>,
    limit: usize,
    /// Drops the requests that are gone.
    #[pin]
    work: Work<Requests>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Requests { self.work }
}

impl Requests {
    /// Creates an empty queue for `limit` requests. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(limit: usize) -> Result<Arc<Self>> {
        let queued = KVec::with_capacity(limit, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                queued <- new_mutex!(queued, "rdma::Requests::queued"),
                limit,
                work <- new_work!("rdma::Requests::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Queues the connection request that arrived with `id`, if there is space. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the queue is full; `ENOMEM`. After an error the connection manager still owns the
    /// cm_id.
    ///
    /// # Safety
    ///
    /// The handler of the cm_id's connection request, `event`, calls this. After success, the
    /// handler returns 0.
    pub(super) unsafe fn push(
        this: &Arc<Self>,
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
    ) -> Result {
        // The connection that a file system waits for may need the next event of this queue.
        let _noio = MemallocScope::noio();
        let mut queued = this.queued.lock();
        if queued.len() >= this.limit {
            return Err(EBUSY);
        }
        // SAFETY: The caller promises what `new` demands.
        let request = unsafe { Request::new(id, event, this.clone())? };
        queued.push_within_capacity(request).map_err(|full| {
            // This does not happen, since there is space. After an error the connection manager
            // destroys the cm_id, so dropping the request here would destroy it twice.
            core::mem::forget(full);
            EBUSY
        })
    }

    /// Removes and returns the oldest request that is not gone. May sleep.
    pub(super) fn next(&self) -> Option<Request> {
        loop {
            // The lock is released before the request is dropped, which waits for its handler.
            let oldest = self.queued.lock().remove(0).ok()?;
            if !oldest.has_gone() {
                return Some(oldest);
            }
        }
    }

    /// Makes a worker drop the queued requests that are gone, if any.
    fn drop_gone_later(self: &Arc<Self>) {
        let queued = self.queued.lock();
        if queued.iter().any(Request::has_gone) {
            // The lock is held, so that `end`, which takes it, finds this item queued. If the item
            // is queued already, the worker finds the request.
            let _ = work::system().enqueue(self.clone());
        }
    }

    /// Removes and returns a request that is gone, if any.
    fn remove_gone(&self) -> Option<Request> {
        let mut queued = self.queued.lock();
        let index = queued.iter().position(Request::has_gone)?;
        queued.remove(index).ok()
    }

    /// Drops all requests, and waits for the worker. No request may be queued after this call. May
    /// sleep.
    pub(super) fn end(self: &Arc<Self>) {
        while let Some(request) = self.next() {
            drop(request);
        }
        work::flush(self);
    }
}

impl WorkItem for Requests {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        while let Some(request) = this.remove_gone() {
            drop(request);
        }
    }
}
