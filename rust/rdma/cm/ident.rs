// SPDX-License-Identifier: GPL-2.0

//! The owner of an identifier of the connection manager. [`CmId`](super::CmId) and the queue pair
//! share it.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};
use kernel::sync::{new_mutex, Arc, Mutex};

use super::owned::OwnedId;
use crate::raw as bindings;

/// Any value that is only kept alive.
pub(super) trait Keep: Send + Sync {}
impl<T: Send + Sync> Keep for T {}

/// An `rdma_cm_id` with its handler.
///
/// # Invariants
///
/// - If this value belongs to a [`CmId<H>`](super::CmId), the context of `id` points to an `H`, the
///   handler that `_handler` keeps.
/// - `has_queue_pair` is set while a queue pair is attached.
/// Fields are dropped in this order. A queue pair keeps its `Ident`, so `id` has none then; its
/// destruction waits for a running handler, which `_handler` keeps until after that.
#[pin_data]
pub(in super::super) struct Ident {
    id: OwnedId,
    has_queue_pair: AtomicFlag,
    /// Serialises calls, which the connection manager leaves to its users. It is taken before the
    /// connection manager's own lock, under which events are handled.
    #[pin]
    calls: Mutex<()>,
    _handler: Arc<dyn Keep>,
}

impl Ident {
    /// Takes ownership of `id`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `id` has been destroyed then.
    ///
    /// # Safety
    ///
    /// - The context of `id` points to the value of `handler`, or to a value that the caller keeps
    ///   until the result has been dropped.
    /// - If `id` may have events during this call, the caller keeps the value of `handler`
    ///   meanwhile.
    pub(super) unsafe fn new(id: OwnedId, handler: Arc<dyn Keep>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                id,
                has_queue_pair: AtomicFlag::new(false),
                calls <- new_mutex!((), "rdma::Ident::calls"),
                _handler: handler,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the identifier.
    pub(super) fn id(&self) -> &OwnedId {
        &self.id
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

    /// Tells the connection manager that a message has arrived, which proves that the peer regards
    /// the connection as established. Any context.
    pub(in super::super) fn note_established(&self) {
        // SAFETY: By the type invariant the identifier is valid. It has a device, since it has a
        // queue pair. The call takes no lock that may sleep. It fails if the handshake has ended,
        // or was begun by this side; nothing is to be done then.
        let _ = unsafe {
            bindings::rdma_notify(self.as_ptr(), bindings::ib_event_type_IB_EVENT_COMM_EST)
        };
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
