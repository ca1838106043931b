// SPDX-License-Identifier: GPL-2.0

//! Listening for connection requests, and accepting them.
//!
//! A request is put into a queue in the connection manager's callback, and taken out and answered
//! wherever it suits, because what accepting needs (a queue pair, buffers) is better not made in
//! the callback, and refusing is not possible there by dropping an identifier.

use core::ptr::NonNull;

use kernel::error::{from_err_ptr, to_result};
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::cm::{connection, CmHandler, CmId};
use crate::mem::{NetRef, SockAddr};
use crate::raw as bindings;

/// Most bytes of private data that come with a request.
const PRIVATE_DATA: usize = u8::MAX as usize;

/// Told of connection requests.
pub(crate) trait Backlog: Send + Sync + 'static {
    /// A request has arrived: somebody should call [`Listener::next`], not from here, where the
    /// request is still locked. Process context.
    fn ready(&self);
}

/// A connection request that was not answered yet. Dropping it refuses it.
///
/// # Invariants
///
/// `id` is an identifier with a request, owned by this value, with a null context.
pub(crate) struct Request {
    id: NonNull<bindings::rdma_cm_id>,
    private_data: [u8; PRIVATE_DATA],
    len: usize,
}

// SAFETY: Owns its identifier, which may be used by any task.
unsafe impl Send for Request {}

impl Request {
    /// What the peer sent along, padded with zeroes by the transport.
    pub(crate) fn private_data(&self) -> &[u8] {
        self.private_data.get(..self.len).unwrap_or_default()
    }

    /// Makes it an identifier with a handler, to make a queue pair for and
    /// [accept](CmId::accept). Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the request is refused then.
    pub(crate) fn adopt<H: CmHandler>(self, handler: Arc<H>) -> Result<CmId<H>> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariant; `this` is not used or dropped after this.
        unsafe { CmId::adopt(this.id, handler) }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Destroying an identifier refuses its request.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// Shared with the callback.
#[pin_data]
struct Queue {
    #[pin]
    waiting: Mutex<KVec<Request>>,
    backlog: Arc<dyn Backlog>,
}

/// Listens for connection requests on an address, until it is dropped. Requests that nobody has
/// taken are refused then. They keep their device from going away, so drop the listener, or take
/// them, when that is about to happen ([`Removal`](super::device::Removal)).
///
/// # Invariants
///
/// `id` is a valid identifier whose context is `queue`; it is destroyed with this value.
pub(crate) struct Listener {
    id: NonNull<bindings::rdma_cm_id>,
    queue: Arc<Queue>,
}

// SAFETY: As for `Request`; the queue is behind a lock.
unsafe impl Send for Listener {}
// SAFETY: As above; nothing is done with the identifier through a shared reference.
unsafe impl Sync for Listener {}

impl Listener {
    /// Starts to listen on `addr`, with so many requests pending at most below us. Process
    /// context, may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV` if the address is not that of an RDMA device,
    /// `EINVAL` for a backlog beyond `i32`, `ENOMEM`.
    pub(crate) fn new(
        net: NetRef<'_>,
        addr: &SockAddr,
        backlog: u32,
        who: Arc<dyn Backlog>,
    ) -> Result<Self> {
        let queue = Arc::pin_init(
            pin_init!(Queue {
                waiting <- new_mutex!(KVec::new(), "rdma::Queue::waiting"),
                backlog: who,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `net` is referenced by its invariant, the name is static, and the queue
        // outlives the identifier.
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
        // INVARIANT: just made.
        let this = Self { id, queue };
        let backlog = i32::try_from(backlog).map_err(|_| EINVAL)?;
        // SAFETY: Both are valid; the address is copied.
        to_result(unsafe { bindings::rdma_bind_addr(id.as_ptr(), addr.as_ptr().cast_mut()) })?;
        // SAFETY: As above.
        to_result(unsafe { bindings::rdma_listen(id.as_ptr(), backlog) })?;
        Ok(this)
    }

    /// The request that has waited longest, if there is one. Process context, may sleep; not
    /// from [`Backlog::ready`].
    pub(crate) fn next(&self) -> Option<Request> {
        self.queue.waiting.lock().remove(0).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. No callback is running or comes after this.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// Queues a connection request.
///
/// # Safety
///
/// Called by the connection manager, for an identifier whose context is a [`Queue`].
unsafe extern "C" fn on_event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: Both are valid during the call.
    let (context, event) = unsafe { ((*id).context, &*event) };
    if event.event != bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        // The listener itself: its device goes, or its address. Nothing to do but wait for Drop.
        return 0;
    }
    // SAFETY: A request's identifier starts with the listener's context.
    let queue = unsafe { &*context.cast::<Queue>() };
    // SAFETY: An event about a connection.
    let (data, _) = unsafe { connection(event) };
    // Not zero: the connection manager refuses the request and destroys the identifier.
    const REFUSE: c_int = 1;
    let Some(new) = NonNull::new(id) else {
        return REFUSE;
    };
    let mut private_data = [0; PRIVATE_DATA];
    let len = data.len().min(PRIVATE_DATA);
    for (to, from) in private_data.iter_mut().zip(data) {
        *to = *from;
    }
    let mut waiting = queue.waiting.lock();
    if waiting.reserve(1, GFP_KERNEL).is_err() {
        return REFUSE;
    }
    // SAFETY: The identifier is valid, and locked during this call.
    unsafe {
        (*id).context = core::ptr::null_mut();
        (*id).event_handler = Some(on_event_unanswered);
    }
    // INVARIANT: returning 0 leaves the identifier to us.
    let request = Request {
        id: new,
        private_data,
        len,
    };
    if let Err(full) = waiting.push_within_capacity(request) {
        // There was room. Were there none, the identifier would still be ours to refuse, which
        // must not happen by dropping it here.
        core::mem::forget(full);
        return REFUSE;
    }
    drop(waiting);
    queue.backlog.ready();
    0
}

/// Events of a request that nobody has taken yet. What they mean shows when it is accepted.
///
/// # Safety
///
/// None; this is what the connection manager wants to call.
unsafe extern "C" fn on_event_unanswered(
    _: *mut bindings::rdma_cm_id,
    _: *mut bindings::rdma_cm_event,
) -> c_int {
    0
}
