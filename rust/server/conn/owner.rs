// SPDX-License-Identifier: GPL-2.0

//! The `svc_xprt` of a connection, as the connection and its completions refer to it; and the
//! client transport of SUNRPC that calls over the connection.
//!
//! The objects of the backchannel refer to each other in a circle, from when the client transport
//! is attached until it is closed:
//!
//! ```text
//! rpc_xprt ── BcXprt ──► Endpoint ──► Owner ──► Backchannel ──► XprtHandle (rpc_xprt)
//! ```

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::endpoint::{Accepted, Endpoint};
use super::failure;
use super::listener::ListenerState;
use crate::conn;
use crate::conn::credits::CallCredits;
use crate::mem::SockAddr;
use crate::observe::trace::{self, Peer};
use crate::proto::backward;
use crate::server::call::queue::ReadyQueue;
use crate::sunrpc::xprt::XprtHandle;
use crate::wire::Version;
use crate::work::ModuleRef;

/// The transport of a connection, shared by all contexts that may close it.
#[derive(Clone)]
pub(crate) struct Owner(Arc<Parties>);

/// The addresses of a connection, and the objects that must learn of its end.
#[pin_data]
struct Parties {
    local: SockAddr,
    peer: SockAddr,
    accepted: Arc<Accepted>,
    /// The listener at which the connection waits to be accepted.
    listener: Arc<ListenerState>,
    #[pin]
    backchannel: Backchannel<XprtHandle<BcXprt>>,
    /// The queue that knows the `svc_xprt` while a thread of the service may use the connection.
    ready: Arc<ReadyQueue>,
    /// Dropped last: the module stays loaded, and thereby everything that `accepted` and `listener`
    /// share. The transport may be freed long before. A worker of the service may drop this value,
    /// and so may the handler of a device's removal; unloading waits for both.
    _module: ModuleRef,
}

impl Owner {
    /// Makes the owner of a connection between two addresses, ours first. The connection waits at
    /// `listener` to be accepted, and its transport finds it in `accepted`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        (local, peer): (SockAddr, SockAddr),
        ready: Arc<ReadyQueue>,
        listener: Arc<ListenerState>,
        accepted: Arc<Accepted>,
    ) -> Result<Self> {
        let parties = pin_init!(Parties {
            local,
            peer,
            accepted,
            listener,
            backchannel <- Backchannel::new(),
            ready,
            _module: ModuleRef::new(),
        });
        Ok(Self(Arc::pin_init(parties, GFP_KERNEL)?))
    }

    /// Returns the queue of the messages and calls that wait for a thread of the service.
    pub(crate) fn ready(&self) -> &Arc<ReadyQueue> {
        &self.0.ready
    }

    /// Returns the address at which the peer has reached this host.
    pub(crate) fn local(&self) -> SockAddr {
        self.0.local
    }

    /// Returns the backchannel.
    pub(crate) fn backchannel(&self) -> &Backchannel<XprtHandle<BcXprt>> {
        &self.0.backchannel
    }

    /// Removes the client transport of the backchannel, which drops its reference to the
    /// connection: the connection is closed, and the calls over it end. Not for the completion
    /// worker.
    pub(crate) fn end_backchannel(&self) {
        if let Some(xprt) = self.0.backchannel.take() {
            drop(xprt.data().take_endpoint());
            // A thread of the service does the same, but all of them may be busy.
            xprt.disconnect_done();
        }
    }

    /// Returns whether aborted calls, which the requester has not answered, occupy its whole grant
    /// for backchannel calls.
    pub(crate) fn owes_answers(&self) -> bool {
        let xprt = self.0.backchannel.get();
        xprt.is_some_and(|xprt| xprt.data().credits.left() == 0)
    }

    /// Wakes the senders of backchannel calls: the send queue has space, or a buffer is free.
    /// Process context; does not sleep.
    pub(crate) fn wake_senders(&self) {
        if let Some(xprt) = self.0.backchannel.get() {
            xprt.wake_write_space();
        }
    }

    /// Announces that the connection accepts replies again. Does not sleep.
    pub(crate) fn room_regained(&self) {
        self.0.ready.with_xprt(|xprt| xprt.room_regained());
    }
}

impl conn::role::XprtRef for Owner {
    fn peer(&self) -> Peer {
        failure::name(&self.0.peer)
    }

    fn address(&self) -> SockAddr {
        self.0.peer
    }

    /// A thread of the service accepts a connection, and does not wait for its establishment.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Closes the transport. A connection without a transport is dropped by the worker of its
    /// listener, or is not accepted, because its state is set before this is called; or it is being
    /// closed, and that worker does nothing.
    fn force_close(&self) {
        if !self.0.ready.with_xprt(|xprt| xprt.close()) {
            self.0.listener.request_work();
        }
    }

    /// A thread of the service must detach the transport, but all threads may be busy, so the
    /// connection is closed at once.
    fn device_removed(&self) {
        self.0.accepted.give_up();
    }

    fn trace_removal(&self, device: &dyn fmt::Display) {
        trace::server::device_removal(device, self.0.peer.bytes());
    }

    /// nfsd ends all calls of a connection in use when the requester adds another connection to its
    /// session. The requester answers them soon, and the watch closes the connection if not.
    fn set_credits(&self, credits: u32) -> bool {
        if let Some(xprt) = self.0.backchannel.get() {
            xprt.set_credits(credits);
        }
        true
    }
}

/// A client transport of SUNRPC over a connection that a requester has made: the data of an
/// `rpc_xprt`.
#[pin_data]
pub(crate) struct BcXprt {
    /// The connection, from when the transport is attached until it is closed.
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    /// The requester's credits for backchannel calls.
    #[pin]
    pub(crate) credits: CallCredits,
}

impl BcXprt {
    /// Makes a transport without a connection, whose calls request `credits` credits.
    pub(crate) fn init(credits: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            endpoint <- new_spinlock!(None, "rpcrdma::BcXprt::endpoint"),
            credits <- CallCredits::new(credits),
        })
    }

    /// Returns the connection, unless the transport was closed. Not for the completion worker,
    /// which must not drop the last reference.
    pub(crate) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// Sets the connection.
    pub(crate) fn set_endpoint(&self, ep: Arc<Endpoint>) {
        *self.endpoint.lock() = Some(ep);
    }

    /// Takes the connection out, unless the transport was closed.
    pub(crate) fn take_endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().take()
    }
}

/// The client transport that calls over a connection, if any.
#[pin_data]
pub(crate) struct Backchannel<X> {
    /// Whether there is a transport, for readers without the lock. It changes under the lock.
    exists: Atomic<bool>,
    #[pin]
    xprt: SpinLock<Option<X>>,
}

impl<X: Clone + Unpin> Backchannel<X> {
    /// Makes the value of a connection without a client transport.
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            exists: Atomic::new(false),
            xprt <- new_spinlock!(None, "rpcrdma::Backchannel::xprt"),
        })
    }

    /// Sets the client transport.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is a client transport already.
    pub(crate) fn attach(&self, xprt: X) -> Result {
        let mut place = self.xprt.lock();
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(xprt);
        self.exists.store(true, Relaxed);
        Ok(())
    }

    /// Removes and returns the client transport.
    pub(crate) fn take(&self) -> Option<X> {
        let mut place = self.xprt.lock();
        self.exists.store(false, Relaxed);
        place.take()
    }

    /// Returns the client transport.
    fn get(&self) -> Option<X> {
        self.xprt.lock().clone()
    }

    /// Returns the client transport if a message answers a backchannel call. Completion worker.
    pub(crate) fn of_answer(&self, version: impl FnOnce() -> Version, bytes: &[u8]) -> Option<X> {
        // ORDERING: the device orders an answer behind its call, and the lock the transport.
        let answers = self.exists.load(Relaxed) && backward::is_answer(version(), bytes);
        answers.then(|| self.get()).flatten()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_backchannel)]
mod tests {
    use super::*;
    use crate::sunrpc::xprt::operations;

    /// An answer: RDMA_ERROR.
    const ANSWER: [u8; 20] = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2];
    /// No answer: RDMA_DONE.
    const OTHER: [u8; 16] = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];

    #[test]
    fn only_answers_reach_the_transport_and_only_while_there_is_one() -> Result {
        let backchannel = KBox::pin_init(Backchannel::new(), GFP_KERNEL)?;
        let found = |bytes: &[u8]| backchannel.of_answer(|| Version::One, bytes);
        assert!(found(&ANSWER).is_none() && backchannel.get().is_none());

        backchannel.attach(7)?;
        assert!(backchannel.attach(8).is_err_and(|error| error == EBUSY));
        assert_eq!((found(&ANSWER), backchannel.get()), (Some(7), Some(7)));
        assert!(found(&OTHER).is_none() && found(&[]).is_none());

        assert_eq!((backchannel.take(), backchannel.take()), (Some(7), None));
        assert!(found(&ANSWER).is_none() && backchannel.get().is_none());
        backchannel.attach(9)?;
        assert_eq!(found(&ANSWER), Some(9));
        Ok(())
    }

    #[test]
    fn an_optional_group_that_is_not_implemented_has_no_operations() {
        let ops = operations::<BcXprt>();
        assert!(ops.connect.is_none() && ops.set_port.is_none() && ops.timer.is_none());
        assert!(ops.bc_setup.is_none() && ops.bc_free_rqst.is_none());
        assert!(ops.send_request.is_some() && ops.close.is_some() && ops.destroy.is_some());
    }
}
