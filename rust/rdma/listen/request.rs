// SPDX-License-Identifier: GPL-2.0

//! A connection request, and its events before it is accepted.

use core::ptr::NonNull;

use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::Arc;

use crate::mem::SockAddr;
use crate::raw as bindings;
use crate::rdma::cm::{connection, CmHandler, CmId, OwnedId};
use crate::rdma::device::Device;

/// Largest number of bytes of private data that come with a request.
const PRIVATE_DATA: usize = u8::MAX as usize;

/// What is known of a request, at a fixed address: the context of its identifier until it is
/// adopted.
struct Waiting {
    /// Whether the peer has given up, or the device is being removed.
    gone: AtomicFlag,
    initiator_depth: u8,
    responder_resources: u8,
    private_data: [u8; PRIVATE_DATA],
    len: usize,
    queue: Arc<dyn Queue>,
}

/// The queue of requests of a listener.
pub(super) trait Queue: Send + Sync {
    /// Has a worker drop the request that [has gone](Request::has_gone), if it is still queued.
    fn request_gone(self: Arc<Self>);
}

/// A connection request that has been neither accepted nor rejected. Dropping it rejects it, in
/// process context; that may sleep.
///
/// # Invariants
///
/// `id` is an identifier that came with a request, and its context is `waiting`.
///
/// Fields are dropped in this order: `waiting` after the last event.
pub(crate) struct Request {
    id: OwnedId,
    waiting: Arc<Waiting>,
}

impl Request {
    /// Takes the identifier of a connection request, whose handler of events is changed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the identifier is still the connection manager's then.
    ///
    /// # Safety
    ///
    /// This is called from the handler of the identifier's connection request, `event`. After
    /// success, the handler returns 0.
    pub(super) unsafe fn take(
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
        queue: Arc<dyn Queue>,
    ) -> Result<Self> {
        // SAFETY: A connection request has the parameters of a connection.
        let (data, conn) = unsafe { connection(event) };
        let mut private_data = [0; PRIVATE_DATA];
        let len = data.len().min(PRIVATE_DATA);
        for (to, from) in private_data.iter_mut().zip(data) {
            *to = *from;
        }
        let waiting = Waiting {
            gone: AtomicFlag::new(false),
            initiator_depth: conn.initiator_depth,
            responder_resources: conn.responder_resources,
            private_data,
            len,
            queue,
        };
        let waiting = Arc::new(waiting, GFP_KERNEL)?;
        // SAFETY: The identifier is valid, and its handler is locked during this call, so context
        // and handler can be changed together. The context is a `Waiting`, as `on_event` expects.
        unsafe {
            (*id.as_ptr()).context = Arc::as_ptr(&waiting).cast_mut().cast::<c_void>();
            (*id.as_ptr()).event_handler = Some(on_event);
        }
        // INVARIANT: The context was set above.
        Ok(Self {
            // SAFETY: The handler will return 0, and so leaves the identifier to this value.
            id: unsafe { OwnedId::from_raw(id) },
            waiting,
        })
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

    /// Returns the device at which the request has arrived.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.id.device()
    }

    /// Returns the address at which the request has arrived.
    pub(crate) fn local_addr(&self) -> SockAddr {
        self.id.local_addr()
    }

    /// Returns the address of the peer.
    pub(crate) fn peer_addr(&self) -> SockAddr {
        self.id.peer_addr()
    }

    /// Returns whether the peer has given up, or the device is being removed. It is then of no use
    /// to adopt the request.
    pub(crate) fn has_gone(&self) -> bool {
        self.waiting.gone.load(Relaxed)
    }

    /// Changes the request into an identifier with a handler, which gets all further events. The
    /// caller then makes a queue pair for it, and calls [`CmId::accept`]. Process context, may
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the request [has gone](Self::has_gone); `ENOMEM`. The request has been
    /// rejected then.
    pub(crate) fn adopt<H: CmHandler>(self, handler: Arc<H>) -> Result<CmId<H>> {
        let Self { id, waiting } = self;
        // SAFETY: By the type invariant the context of the identifier is `waiting`, which is
        // dropped after the call. Its handler, `on_event`, sets `gone`.
        unsafe { CmId::adopt(id, handler, &waiting.gone) }
    }
}

/// Handles an event of a request that has not been adopted. Each such event means that the request
/// cannot be accepted any more.
///
/// # Safety
///
/// Called by the connection manager, for an identifier whose context is a [`Waiting`].
unsafe extern "C" fn on_event(
    id: *mut bindings::rdma_cm_id,
    _event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The connection manager passes a valid identifier, and the caller promises that its
    // context is a `Waiting`. The owner of the identifier drops it after the identifier, or changes
    // the context before, with the handler locked.
    let waiting = unsafe { &*(*id).context.cast::<Waiting>() };
    waiting.gone.store(true, Relaxed);
    // The identifier keeps the device from being removed. It cannot be destroyed here.
    waiting.queue.clone().request_gone();
    0
}
