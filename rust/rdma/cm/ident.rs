// SPDX-License-Identifier: GPL-2.0

//! The owner of an identifier of the connection manager. [`CmId`](super::CmId) and the queue pair
//! share it.

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::raw as bindings;
use crate::rdma::noio::NoIo;

/// Any value that is only kept alive.
pub(super) trait Keep: Send + Sync {}
impl<T: Send + Sync> Keep for T {}

/// An `rdma_cm_id` with its handler.
///
/// # Invariants
///
/// - `id` is a valid `rdma_cm_id`, and is destroyed with this value.
/// - The context of `id` is null, or points to the handler that `_handler` keeps: an `H`, if this
///   value belongs to a [`CmId<H>`](super::CmId).
/// - `has_queue_pair` is set while a queue pair is attached.
#[pin_data(PinnedDrop)]
pub(in super::super) struct Ident {
    id: NonNull<bindings::rdma_cm_id>,
    has_queue_pair: AtomicFlag,
    /// Serialises calls, which the connection manager leaves to its users. It is taken before the
    /// connection manager's own lock, under which events are handled.
    #[pin]
    calls: Mutex<()>,
    _handler: Arc<dyn Keep>,
}

// SAFETY: Any task may call the connection manager for an identifier, and destroy it; the handler
// is `Send` and `Sync`.
unsafe impl Send for Ident {}
// SAFETY: Calls for the identifier are serialised by `calls`, and with events by the connection
// manager's lock; the handler is `Send` and `Sync`.
unsafe impl Sync for Ident {}

impl Ident {
    /// Takes ownership of `id`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `id` has been destroyed then.
    ///
    /// # Safety
    ///
    /// - `id` is a valid identifier that nothing else destroys.
    /// - Its context is null, or points to the value of `handler`.
    pub(super) unsafe fn new(
        id: NonNull<bindings::rdma_cm_id>,
        handler: Arc<dyn Keep>,
    ) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                id,
                has_queue_pair: AtomicFlag::new(false),
                calls <- new_mutex!((), "rdma::Ident::calls"),
                _handler: handler,
            }),
            GFP_KERNEL,
        );
        if this.is_err() {
            // SAFETY: The caller has given the valid identifier up. The handler may have been
            // dropped, but an identifier has no events before the first call.
            unsafe { bindings::rdma_destroy_id(id.as_ptr()) };
        }
        this
    }

    /// Returns the identifier as the connection manager takes it. It is valid as long as `self`.
    #[inline]
    pub(in super::super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Notes that a queue pair is being attached.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the identifier has one.
    pub(in super::super) fn attach(&self) -> Result {
        match self.has_queue_pair.cmpxchg(false, true, Full) {
            Ok(_) => Ok(()),
            Err(_) => Err(EBUSY),
        }
    }

    /// Undoes [`Self::attach`].
    pub(in super::super) fn detach(&self) {
        self.has_queue_pair.store(false, Release);
    }

    /// Runs `call` while no other call for this identifier is running. Creating and destroying the
    /// queue pair are such calls. May sleep; not from
    /// [`CmHandler::event`](super::CmHandler::event).
    pub(in super::super) fn exclusively<R>(
        &self,
        call: impl FnOnce(*mut bindings::rdma_cm_id) -> R,
    ) -> R {
        let _calls = self.calls.lock();
        call(self.as_ptr())
    }

    /// Ends the connection, if there is one, which moves the queue pair to the error state. If a
    /// call that connects is running, waits for its return, and over iWARP for the end of the
    /// attempt. May sleep; not from [`CmHandler::event`](super::CmHandler::event).
    pub(in super::super) fn disconnect(&self) {
        self.exclusively(|id| {
            // SAFETY: By the type invariant the identifier is valid. The function reads the state
            // of the connection without a lock, but only calls for the identifier create and
            // destroy a connection, and `exclusively` makes this the only one. Events do not
            // destroy it, since `on_event` always returns 0. The call fails if there is no
            // connection, and then there is nothing to end.
            let _ = unsafe { bindings::rdma_disconnect(id) };
        });
    }
}

#[pinned_drop]
impl PinnedDrop for Ident {
    fn drop(self: Pin<&mut Self>) {
        let _scope = NoIo::enter();
        // SAFETY: By the type invariant the identifier is valid. A queue pair keeps its `Ident`, so
        // there is none. The call waits for a running handler, which `_handler` keeps until then.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
    }
}
