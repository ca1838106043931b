// SPDX-License-Identifier: GPL-2.0

//! The state of a listener, which its owner, its handler and its worker share.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_mutex, Arc, ArcBorrow, Mutex};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{new_delayed_work, new_work, DelayedWork, Work, WorkItem};

use super::request::Requests;
use super::{ListenEvent, ListenHandler, Lost};
use crate::compat::casts::u32_as_usize;
use crate::mem::{Net, SockAddr};
use crate::raw as bindings;
use crate::rdma::cm::{Context, OwnedId};
use crate::work;

/// The result of a handler after which the connection manager keeps the cm_id.
const KEEP: c_int = 0;
/// The result of a handler after which the connection manager destroys the cm_id. If it came with a
/// request, that rejects the request.
const DESTROY: c_int = 1;

/// The work item that runs at once after an event.
const AT_ONCE: u64 = 0;
/// The work item that retries to listen.
const RETRY: u64 = 1;

/// The time in milliseconds between two attempts to listen again.
const RETRY_MS: u32 = 1000;

/// The state of a listener. Its cm_id, which has a reference to it, is destroyed by [`Self::end`].
#[pin_data]
pub(super) struct ListenerState {
    #[pin]
    listening: Mutex<Listening>,
    /// Whether the cm_id is lost and must be destroyed.
    lost: AtomicFlag,
    pub(super) requests: Arc<Requests>,
    handler: Arc<ListenHandler>,
    #[pin]
    work: Work<ListenerState, AT_ONCE>,
    #[pin]
    retry: DelayedWork<ListenerState, RETRY>,
}

/// The cm_id of a listener.
struct Listening {
    /// The namespace. It is `None` before the listener starts and after it has ended.
    net: Option<ARef<Net>>,
    /// The cm_id. It is `None` without a namespace, and after a cm_id that was lost could not be
    /// replaced.
    id: Option<OwnedId>,
    /// Whether the cm_id listens.
    up: bool,
    /// The address to listen on. Its port is set when the listener starts.
    addr: SockAddr,
    /// The traffic class of connections over iWARP.
    class: Option<u8>,
    backlog: i32,
}

kernel::impl_has_work! {
    impl HasWork<Self, AT_ONCE> for ListenerState { self.work }
}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self, RETRY> for ListenerState { self.retry }
}

impl ListenerState {
    /// Creates the state of a listener that has not started. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `backlog` does not fit an `i32`; `ENOMEM`.
    pub(super) fn new(
        (addr, class): (&SockAddr, Option<u8>),
        backlog: u32,
        handler: Arc<ListenHandler>,
    ) -> Result<Arc<Self>> {
        let listening = Listening {
            net: None,
            id: None,
            up: false,
            addr: *addr,
            class,
            backlog: i32::try_from(backlog).map_err(|_| EINVAL)?,
        };
        let requests = Requests::new(u32_as_usize(backlog))?;
        Arc::pin_init(
            pin_init!(Self {
                listening <- new_mutex!(listening, "rdma::ListenerState::listening"),
                lost: AtomicFlag::new(false),
                requests,
                handler,
                work <- new_work!("rdma::ListenerState::work"),
                retry <- new_delayed_work!("rdma::ListenerState::retry"),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts to listen. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::new`](super::Listener::new).
    pub(super) fn start(self: &Arc<Self>, net: &Net) -> Result {
        let mut listening = self.listening.lock();
        listening.net = Some(net.into());
        listening.id = Some(OwnedId::new(net, self.clone())?);
        listening.bring_up()
    }

    /// Returns the address that the listener is bound to. May sleep.
    pub(super) fn local_addr(&self) -> SockAddr {
        self.listening.lock().addr
    }

    /// Stops listening, drops the queued requests, and waits for the workers. May sleep.
    pub(super) fn end(self: &Arc<Self>) {
        // The destruction of the cm_id waits for its handler, and no event follows.
        let mut listening = self.listening.lock();
        (listening.net, listening.id) = (None, None);
        drop(listening);
        self.requests.end();
        // No context queues the work items any more: without a namespace the worker does not.
        work::flush::<Self, AT_ONCE>(self);
        drop(work::cancel_delayed::<Self, RETRY>(self));
    }

    /// Makes the worker destroy the cm_id. The handler's return value cannot order that, because
    /// the task that drops the listener may destroy the cm_id at the same time.
    fn lose(this: Arc<Self>, why: Lost) {
        (this.handler)(ListenEvent::Lost(why));
        this.lost.store(true, Relaxed);
        // If the item is queued already, the worker sees the flag.
        let _ = work::system().enqueue::<_, AT_ONCE>(this);
    }

    /// Listens again with a new cm_id, if the one in use is lost. May sleep.
    fn renew(this: Arc<Self>) {
        let mut listening = this.listening.lock();
        if listening.up && !this.lost.load(Relaxed) {
            return;
        }
        let Some(replaced) = this.replace(&mut listening) else {
            // The listener has ended.
            return;
        };
        if replaced.and_then(|()| listening.bring_up()).is_ok() {
            drop(listening);
            return (this.handler)(ListenEvent::Restored);
        }
        // The lock is held, so that the end of the listener, which takes the lock first, finds this
        // item queued.
        let delay = msecs_to_jiffies(RETRY_MS).max(1);
        let _ = work::system().enqueue_delayed::<_, RETRY>(this.clone(), delay);
    }

    /// Replaces the cm_id by one that is not bound. Returns `None` if the listener has ended. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the old cm_id has been destroyed.
    fn replace(self: &Arc<Self>, listening: &mut Listening) -> Option<Result> {
        let net = listening.net.clone()?;
        // The old cm_id holds the port, and keeps its device from being removed.
        (listening.up, listening.id) = (false, None);
        // No event of the old cm_id follows, and a cm_id that is not bound has none.
        self.lost.store(false, Relaxed);
        let fresh = OwnedId::new(&net, self.clone());
        Some(fresh.map(|fresh| listening.id = Some(fresh)))
    }

    /// Queues the connection request that arrived with `id`.
    ///
    /// # Safety
    ///
    /// The handler of the cm_id's connection request, `event`, calls this, and returns the result.
    unsafe fn queue_request(
        &self,
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
    ) -> c_int {
        // SAFETY: The caller promises that this is the request's handler. After success it returns
        // `KEEP`, which is 0.
        match unsafe { Requests::push(&self.requests, id, event) } {
            Ok(()) => {
                (self.handler)(ListenEvent::RequestQueued);
                KEEP
            }
            Err(error) => {
                if error == EBUSY {
                    (self.handler)(ListenEvent::Refused);
                }
                DESTROY
            }
        }
    }
}

impl Context for ListenerState {
    /// Queues a connection request, or starts the worker because the listener is lost.
    ///
    /// # Safety
    ///
    /// As for [`Context::on_event`].
    unsafe fn on_event(
        this: ArcBorrow<'_, Self>,
        id: NonNull<bindings::rdma_cm_id>,
        event: &bindings::rdma_cm_event,
    ) -> c_int {
        match event.event {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
                // SAFETY: This is the handler of the request, and returns the result.
                return unsafe { this.queue_request(id, event) };
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
                Self::lose(this.into(), Lost::DeviceRemoved);
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => {
                Self::lose(this.into(), Lost::AddressMoved);
            }
            _ => {}
        }
        KEEP
    }
}

impl WorkItem<AT_ONCE> for ListenerState {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Self::renew(this);
    }
}

impl WorkItem<RETRY> for ListenerState {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Self::renew(this);
    }
}

impl Listening {
    /// Binds the cm_id, and begins to listen. A listener on an IPv6 address accepts no IPv4
    /// connections. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::new`](super::Listener::new). After an error the cm_id may be bound.
    fn bring_up(&mut self) -> Result {
        let id = self.id.as_ref().ok_or(EINVAL)?;
        // SAFETY: By the invariant of `OwnedId` the cm_id is valid. The address is valid, and is
        // copied.
        unsafe {
            if let Some(class) = self.class {
                bindings::rdma_set_service_type(id.as_ptr(), class.into());
            }
            if u32::from(self.addr.family()) == bindings::AF_INET6 {
                to_result(bindings::rdma_set_afonly(id.as_ptr(), 1))?;
            }
            to_result(bindings::rdma_bind_addr(
                id.as_ptr(),
                self.addr.as_ptr().cast_mut(),
            ))?;
            to_result(bindings::rdma_listen(id.as_ptr(), self.backlog))?;
        }
        self.addr = id.local_addr();
        self.up = true;
        Ok(())
    }
}
