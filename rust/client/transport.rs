// SPDX-License-Identifier: GPL-2.0

//! A client transport: its data, and its interface to the connection and to trace events.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed};
use kernel::sync::{new_spinlock, Arc, SetOnce, SpinLock};

use super::config;
use super::endpoint::Endpoint;
use crate::conn::peers::PeerTable;
use crate::conn::registry::{Registered, Registry};
use crate::conn::role::XprtRef;
use crate::mem::{MemCache, SockAddr};
use crate::observe::connections::Role;
use crate::observe::stats::Stats;
use crate::observe::trace::{Lazy, Peer, Task};
use crate::rdma::device::Registration;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::{Xprt, XprtHandle};

/// The objects that all transports of the module share.
#[derive(Clone)]
pub(crate) struct Context {
    /// The registration with `ib_core`, which reports the removal of devices.
    pub(crate) devices: Arc<Registration>,
    /// The servers of earlier connections.
    pub(crate) peers: Arc<PeerTable>,
    /// The connections that debugfs shows.
    pub(crate) connections: Arc<Registry>,
}

/// An RDMA transport of SUNRPC. The transport has at most one connection at a time.
// Every call changes the statistics. In the order of C they are at the start, where their address
// costs no instruction.
#[pin_data]
#[repr(C)]
pub(crate) struct Client {
    pub(super) stats: Stats,
    /// The number of request slots.
    pub(super) slots: u32,
    /// The number of the latest attempt to connect.
    attempts: Atomic<u32>,
    /// The transport's turn among the local addresses; fixed, so that a mount stays balanced.
    turn: u32,
    /// See [`Self::misses`].
    misses: Atomic<u32>,
    /// The connection, from when it is established until it is closed.
    #[pin]
    pub(super) endpoint: SpinLock<Option<Arc<Endpoint>>>,
    /// Memory of the last connection, for the next one.
    pub(super) store: Arc<MemCache>,
    pub(super) context: Context,
    /// The entry that shows the transport, from its first attempt to connect.
    pub(super) registered: SetOnce<Registered>,
    /// A service for the server's calls exists. Never cleared.
    pub(super) serves_backward: AtomicFlag,
    /// The longest message of such a call or of its reply, over the latest connection.
    pub(super) backward_max: Atomic<u32>,
    /// The number of probes in a row that a device, the server's or ours, has refused or failed.
    pub(super) failed_probes: Atomic<u32>,
    /// The number of the slot whose call was the latest to be aborted before its reply arrived. The
    /// search for the call of a late reply begins there.
    pub(super) lingering: Atomic<u32>,
    /// The number of the latest log line about a mount that fails; zero for none.
    complaint: Atomic<u32>,
}

/// The number of transports so far.
static TURNS: Atomic<u32> = Atomic::new(0);

impl Client {
    /// Makes a transport with `slots` request slots and without a connection. `backward_max` is the
    /// longest message in the backward direction that any first connection can carry, in bytes. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn init(
        slots: u32,
        context: Context,
        backward_max: u32,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            stats: Stats::new(),
            slots,
            attempts: Atomic::new(0),
            turn: TURNS.fetch_add(1, Relaxed),
            misses: Atomic::new(0),
            endpoint <- new_spinlock!(None, "rpcrdma::Client::endpoint"),
            store: MemCache::new()?,
            context,
            registered: SetOnce::new(),
            serves_backward: AtomicFlag::new(false),
            backward_max: Atomic::new(backward_max),
            failed_probes: Atomic::new(0),
            lingering: Atomic::new(0),
            complaint: Atomic::new(0),
        })
    }

    /// Returns the local addresses for the next connection to `peer`, in the order of preference.
    /// After an attempt without an answer the order begins with another address.
    pub(super) fn local_addrs(&self, peer: &SockAddr) -> impl Iterator<Item = SockAddr> {
        config::local_addrs(peer, self.turn, self.misses())
    }

    /// Returns the number of attempts in a row to which the server did not answer.
    pub(super) fn misses(&self) -> u32 {
        self.misses.load(Relaxed)
    }

    /// Records whether the server answered the latest attempt to connect.
    pub(super) fn note_answer(&self, answered: bool) {
        // Only one connection is made at a time, so no other context counts.
        let misses = self.misses().wrapping_add(1);
        self.misses
            .store(if answered { 0 } else { misses }, Relaxed);
    }

    /// Returns the connection, if there is one.
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// Returns the entry that shows the transport. `None` if there was no memory for it. May sleep.
    pub(super) fn registered(&self, net: u64, peer: Peer) -> Option<&Registered> {
        if self.registered.as_ref().is_none() {
            // Only one connection is made at a time, so no other task sets the entry.
            let registry = &self.context.connections;
            let registered = registry.register(Role::Client, net, peer).ok()?;
            let _ = self.registered.populate(registered);
        }
        self.registered.as_ref()
    }

    /// Sets the number of the latest log line about a mount that fails, which is not zero. Returns
    /// whether the previous line had another number.
    pub(super) fn is_new_complaint(&self, complaint: u32) -> bool {
        self.complaint.xchg(complaint, Full) != complaint
    }

    /// Returns a number that no recent connection has had. It is never zero.
    pub(super) fn next_epoch(&self) -> u32 {
        // Only one connection is made at a time, so no other context counts.
        match self.attempts.fetch_add(1, Relaxed).wrapping_add(1) {
            0 => self.next_epoch(),
            epoch => epoch,
        }
    }
}

impl XprtRef for XprtHandle<Client> {
    fn peer(&self) -> Peer {
        shown(self)
    }

    fn address(&self) -> SockAddr {
        self.addr()
    }

    fn is_abandoned(&self) -> bool {
        (**self).is_abandoned()
    }

    fn force_close(&self) {
        self.force_disconnect();
    }

    /// Without a credit, the mount would hang until the server answers calls for which nothing
    /// waits. The connection is closed.
    fn set_credits(&self, credits: u32) -> bool {
        if credits != 0 {
            (**self).set_credits(credits);
        }
        credits != 0
    }
}

/// Returns the task of an RPC, for trace events. Nothing is read unless the event is enabled.
#[inline(always)]
pub(super) fn task_of<'a, 'b>(
    rqst: &'a Rqst<'b, Client>,
) -> Lazy<impl FnOnce() -> Task + Copy + use<'a, 'b>> {
    Lazy(|| Task {
        task_id: rqst.task_id(),
        client_id: rqst.client_id(),
    })
}

/// Returns the peer of a transport, for trace events. Nothing is read unless the event is enabled.
pub(super) fn peer_of(xprt: &Xprt<Client>) -> Lazy<impl FnOnce() -> Peer + Copy + use<'_>> {
    Lazy(|| shown(xprt))
}

/// Returns the peer's address and port as SUNRPC shows them.
#[cold]
pub(super) fn shown(xprt: &Xprt<Client>) -> Peer {
    let shown = xprt.shown();
    Peer::new(&shown.addr, shown.port)
}
