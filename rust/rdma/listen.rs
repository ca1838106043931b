// SPDX-License-Identifier: GPL-2.0

//! Listening for connection requests.
//!
//! The connection manager's callback only queues a request. Another task takes it out of the queue
//! and accepts or rejects it, because that task can allocate the queue pair and the buffers of the
//! connection without delaying the connection manager, and because an identifier cannot be
//! destroyed in its own callback.

use core::ptr::NonNull;

use kernel::error::{from_err_ptr, to_result};
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::cm::{connection, CmHandler, CmId};
use crate::mem::{NetRef, SockAddr};
use crate::raw as bindings;

/// Largest number of bytes of private data that come with a request.
const PRIVATE_DATA: usize = u8::MAX as usize;

/// The handler of connection requests.
pub(crate) trait ListenHandler: Send + Sync + 'static {
    /// Arranges that another task calls [`Listener::next`], since a request has been queued. This
    /// function must not call it, because the request is still locked. Process context.
    fn request_queued(&self);
}

/// A connection request that has been neither accepted nor rejected. Dropping it rejects it.
///
/// # Invariants
///
/// `id` is an identifier that came with a request. This value owns it, and its context is null.
pub(crate) struct Request {
    id: NonNull<bindings::rdma_cm_id>,
    private_data: [u8; PRIVATE_DATA],
    len: usize,
}

// SAFETY: The value owns its identifier, for which any task may call the connection manager.
unsafe impl Send for Request {}

impl Request {
    /// Returns the private data of the peer, padded with zeroes by the transport.
    pub(crate) fn private_data(&self) -> &[u8] {
        self.private_data.get(..self.len).unwrap_or_default()
    }

    /// Changes the request into an identifier with a handler. The caller then makes a queue pair
    /// for it, and calls [`CmId::accept`]. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the request has been rejected then.
    pub(crate) fn adopt<H: CmHandler>(self, handler: Arc<H>) -> Result<CmId<H>> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariant the identifier is valid and its context is null. `this` is
        // neither used nor dropped after this.
        unsafe { CmId::adopt(this.id, handler) }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this value owns the valid identifier, and this is its last
        // use. Destroying the identifier rejects its request.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// The queue of requests, which the listener shares with its callback.
#[pin_data]
struct Queue {
    #[pin]
    requests: Mutex<KVec<Request>>,
    handler: Arc<dyn ListenHandler>,
}

/// A listener for connection requests on an address. Dropping it ends listening, and rejects the
/// requests that are still queued.
///
/// A queued request keeps its device from being removed. When a device is being removed
/// ([`Removal`](super::device::Removal)), take the requests out, or drop the listener.
///
/// # Examples
///
/// The side that accepts:
///
/// ```
/// let listener = Listener::new(net, addr, 4, waiter.clone())?;
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
///
/// # Invariants
///
/// `id` is a valid identifier whose context is `queue`. It is destroyed with this value.
pub(crate) struct Listener {
    id: NonNull<bindings::rdma_cm_id>,
    queue: Arc<Queue>,
}

// SAFETY: The value owns its identifier, for which any task may call the connection manager. The
// queue is behind a lock.
unsafe impl Send for Listener {}
// SAFETY: Through a shared reference only the queue is used, which is behind a lock.
unsafe impl Sync for Listener {}

impl Listener {
    /// Starts to listen on `addr`. `backlog` is the largest number of requests that the connection
    /// manager keeps pending. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`; `EADDRNOTAVAIL`; `ENODEV` if the address is not that of an RDMA device;
    /// `EINVAL` if `backlog` does not fit an `i32`; `ENOMEM`.
    pub(crate) fn new(
        net: NetRef<'_>,
        addr: &SockAddr,
        backlog: u32,
        handler: Arc<dyn ListenHandler>,
    ) -> Result<Self> {
        let queue = Arc::pin_init(
            pin_init!(Queue {
                requests <- new_mutex!(KVec::new(), "rdma::Queue::requests"),
                handler,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: By the invariant of `NetRef` the namespace is referenced; the identifier takes a
        // reference of its own. The name is static. The context is a `Queue`, as `on_event`
        // expects, and the listener keeps it as long as the identifier.
        let id = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_ptr(),
                Some(on_event),
                Arc::as_ptr(&queue).cast_mut().cast::<c_void>(),
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                super::caller(),
            )
        };
        let id = NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?;
        // INVARIANT: The identifier was created above, with the queue as its context.
        let this = Self { id, queue };
        let backlog = i32::try_from(backlog).map_err(|_| EINVAL)?;
        // SAFETY: The identifier is valid. The address is valid, and is copied.
        to_result(unsafe { bindings::rdma_bind_addr(id.as_ptr(), addr.as_ptr().cast_mut()) })?;
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_listen(id.as_ptr(), backlog) })?;
        Ok(this)
    }

    /// Removes the oldest request from the queue, if there is one. Process context, may sleep; not
    /// from [`ListenHandler::request_queued`].
    pub(crate) fn next(&self) -> Option<Request> {
        self.queue.requests.lock().remove(0).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the identifier is valid, and this is its last use. When the
        // call returns, no callback is running or will be called.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// Queues a connection request.
///
/// # Safety
///
/// Called by the connection manager, for a listening identifier whose context is a [`Queue`], or
/// for one that came with a request to it.
unsafe extern "C" fn on_event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The connection manager passes a valid identifier and a valid event.
    let (context, event) = unsafe { ((*id).context, &*event) };
    if event.event != bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        // The event is about the listener itself: its device or its address is going away. Its
        // owner drops it.
        return 0;
    }
    // SAFETY: The identifier of a request has the listener's context, which the caller promises to
    // be a `Queue`. It exists as long as the listener's identifier.
    let queue = unsafe { &*context.cast::<Queue>() };
    // SAFETY: A connection request has the parameters of a connection.
    let (data, _) = unsafe { connection(event) };
    // After a result other than 0, the connection manager rejects the request and destroys the
    // identifier.
    const REJECT: c_int = 1;
    let Some(new) = NonNull::new(id) else {
        return REJECT;
    };
    let mut private_data = [0; PRIVATE_DATA];
    let len = data.len().min(PRIVATE_DATA);
    for (to, from) in private_data.iter_mut().zip(data) {
        *to = *from;
    }
    let mut requests = queue.requests.lock();
    if requests.reserve(1, GFP_KERNEL).is_err() {
        return REJECT;
    }
    // SAFETY: The identifier is valid, and its handler is locked during this call, so context and
    // handler can be changed together.
    unsafe {
        (*id).context = core::ptr::null_mut();
        (*id).event_handler = Some(on_event_unanswered);
    }
    // INVARIANT: The context was cleared above. Returning 0 passes the identifier to this value.
    let request = Request {
        id: new,
        private_data,
        len,
    };
    if let Err(full) = requests.push_within_capacity(request) {
        // This does not happen, since room was reserved. The connection manager would destroy the
        // identifier, so dropping the request here would destroy it twice.
        core::mem::forget(full);
        return REJECT;
    }
    drop(requests);
    queue.handler.request_queued();
    0
}

/// Ignores the events of a request that is still queued. If the peer has given up meanwhile,
/// accepting fails.
///
/// # Safety
///
/// This function may be called with any arguments; its type is what the connection manager expects.
unsafe extern "C" fn on_event_unanswered(
    _: *mut bindings::rdma_cm_id,
    _: *mut bindings::rdma_cm_event,
) -> c_int {
    0
}
