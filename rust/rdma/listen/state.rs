// SPDX-License-Identifier: GPL-2.0

//! The state of a listener, which its owner, its callback and its worker share.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::workqueue::{self, new_delayed_work, new_work, DelayedWork, Work};

use super::ident;
use super::queue::Requests;
use super::request;
use super::ListenHandler;
use crate::mem::SockAddr;
use crate::rdma::cm::OwnedId;
use crate::work;

/// The work item that runs at once after an event.
pub(super) const AT_ONCE: u64 = 0;
/// The work item that tries again to listen.
pub(super) const RETRY: u64 = 1;

/// The state of a listener.
#[pin_data]
pub(super) struct State {
    #[pin]
    pub(super) listening: Mutex<Listening>,
    /// Whether the identifier is of no use any more, and is to be destroyed.
    lost: AtomicFlag,
    #[pin]
    pub(super) requests: Requests,
    pub(super) handler: Arc<dyn ListenHandler>,
    #[pin]
    work: Work<State, AT_ONCE>,
    #[pin]
    retry: DelayedWork<State, RETRY>,
}

/// The identifier of a listener.
pub(super) struct Listening {
    /// The identifier. It is `None` before the listener has started and after it has ended.
    pub(super) id: Option<OwnedId>,
    /// Whether the identifier listens.
    pub(super) up: bool,
    /// The address to listen on. Its port is set when the listener starts.
    pub(super) addr: SockAddr,
    backlog: i32,
}

kernel::impl_has_work! {
    impl HasWork<Self, AT_ONCE> for State { self.work }
}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self, RETRY> for State { self.retry }
}

impl State {
    /// Makes the state of a listener that has not started. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `backlog` does not fit an `i32`; `ENOMEM`.
    pub(super) fn new(
        addr: &SockAddr,
        backlog: u32,
        handler: Arc<dyn ListenHandler>,
    ) -> Result<Arc<Self>> {
        let listening = Listening {
            id: None,
            up: false,
            addr: *addr,
            backlog: i32::try_from(backlog).map_err(|_| EINVAL)?,
        };
        Arc::pin_init(
            try_pin_init!(Self {
                listening <- new_mutex!(listening, "rdma::State::listening"),
                lost: AtomicFlag::new(false),
                // CAST: `usize` has at least 32 bits.
                requests <- Requests::new(backlog as usize),
                handler,
                work <- new_work!("rdma::State::work"),
                retry <- new_delayed_work!("rdma::State::retry"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Notes that the identifier is of no use any more.
    pub(super) fn note_lost(&self) {
        self.lost.store(true, Relaxed);
    }

    /// Returns whether the identifier is of no use any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// Notes that there is another identifier.
    pub(super) fn forget_lost(&self) {
        self.lost.store(false, Relaxed);
    }

    /// Has the worker run at once. Any context. Not after [`Self::end`].
    pub(super) fn wake(self: Arc<Self>) {
        // If the item is queued already, the worker will see what has changed.
        let _ = workqueue::system_unbound().enqueue::<_, AT_ONCE>(self);
    }

    /// Has the worker run after `delay` jiffies. Not after [`Self::end`].
    pub(super) fn wake_after(self: Arc<Self>, delay: kernel::time::Jiffies) {
        let _ = workqueue::system_unbound().enqueue_delayed::<_, RETRY>(self, delay);
    }

    /// Ends listening, drops the queued requests, and waits for the worker. May sleep.
    pub(super) fn end(self: &Arc<Self>) {
        // The identifier's destruction waits for its handler, and no event follows.
        let id = self.listening.lock().id.take();
        drop(id);
        // An event of a request wakes the worker only while the request is queued.
        self.requests.drop_all();
        // Nothing queues the work items any more: the worker does not, without an identifier.
        work::flush::<Self, AT_ONCE>(self);
        drop(work::cancel_delayed::<Self, RETRY>(self));
    }
}

impl request::Queue for State {
    fn request_gone(self: Arc<Self>) {
        self.requests.if_any_gone(|| self.clone().wake());
    }
}

impl Listening {
    /// Binds the identifier and begins to listen, if there is an identifier. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::new`](super::Listener::new).
    pub(super) fn bring_up(&mut self) -> Result {
        let Some(id) = &self.id else {
            return Ok(());
        };
        ident::listen(id, &self.addr, self.backlog)?;
        self.addr = id.local_addr();
        self.up = true;
        Ok(())
    }
}
