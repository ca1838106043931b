// SPDX-License-Identifier: GPL-2.0

//! The state of a connection that completions reach, and the completions, which go to the role.
//!
//! The state outlives the last completion.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::role::{ConnOf, Incoming, Role, XprtRef};
use super::session::SharedSession;
#[cfg(RPCRDMA_LEGACY)]
use super::terms::Capabilities;
use super::terms::TermsSnapshot;
use super::traced;
use crate::observe::connections::Counts;
use crate::observe::stats::{self, Breach};
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::rdma::qp::{Completions, Qp, Tag, WcError};
use crate::wire::Version;
use crate::work::{read_once, write_once};

/// The use of a queue pair. The context that finds it broken after it was in use closes the
/// connection.
mod usability {
    /// The handshake is in progress.
    pub(super) const CONNECTING: u32 = 0;
    /// The transport uses the connection.
    pub(super) const IN_USE: u32 = 1;
    /// The queue pair completes nothing but failures.
    pub(super) const BROKEN: u32 = 2;
}

/// The state of a connection that completions reach: `R` is the role's part, `O` the transport.
#[pin_data]
pub(crate) struct ConnState<R, O: XprtRef> {
    /// The number of the connection. Request slots are stamped with it.
    epoch: u32,
    #[pin]
    role: R,
    owner: O,
    /// The transport still uses the connection.
    #[pin]
    open: SpinLock<bool>,
    /// A value of [`usability`].
    usability: Atomic<u32>,
    /// The session and its terms.
    #[pin]
    pub(super) session: SharedSession,
    /// A message has arrived since [`Self::take_heard`] was called.
    heard: Atomic<bool>,
    /// A message has arrived. Only the side that answers a connection request sets this.
    established: Atomic<bool>,
    /// This side ordered the close of the connection because of the peer.
    pub(super) forced: AtomicFlag,
    tally: Tally,
}

impl<R, O: XprtRef> ConnState<R, O> {
    /// Makes the state of connection number `epoch`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // The role's part is on this function's stack until the state is complete, and not on the
    // caller's.
    #[inline(never)]
    pub(crate) fn new(epoch: u32, owner: O, role: impl PinInit<R>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                epoch,
                role <- role,
                owner,
                open <- new_spinlock!(true, "rpcrdma::ConnState::open"),
                usability: Atomic::new(usability::CONNECTING),
                session <- SharedSession::new(),
                heard: Atomic::new(false),
                established: Atomic::new(false),
                forced: AtomicFlag::new(false),
                tally: Tally::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of the connection. It is never zero, and differs from that of the
    /// preceding connection.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the role's part of the connection.
    pub(crate) fn role(&self) -> &R {
        &self.role
    }

    /// Returns the transport.
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Returns the effective terms. A context that prepares a message keeps them, and reads them
    /// again before the message is posted: if they have changed, the message is void.
    pub(crate) fn terms(&self) -> TermsSnapshot {
        self.session.terms.read()
    }

    /// Returns the effective thresholds.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.terms().thresholds()
    }

    /// Returns the version that the connection speaks.
    pub(crate) fn version(&self) -> Version {
        self.terms().version()
    }

    /// Adds capabilities to the terms. Call this before the session begins.
    #[cfg(RPCRDMA_LEGACY)]
    pub(crate) fn add_capabilities(&self, more: Capabilities) {
        self.session.terms.add(more);
    }

    /// Returns whether a message has arrived since the last call.
    pub(crate) fn take_heard(&self) -> bool {
        let heard = self.heard.load(Relaxed);
        // A message that arrives between the two accesses is lost. The peer is then probed earlier
        // than necessary, once.
        self.heard.store(false, Relaxed);
        heard
    }

    /// Returns whether a message has arrived since [`Self::take_heard`] was called.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Lets the transport use the connection, or closes the connection if it broke meanwhile.
    pub(crate) fn begin_use(&self) {
        let (before, after) = (usability::CONNECTING, usability::IN_USE);
        if self.usability.cmpxchg(before, after, Full).is_err() {
            self.force_close();
        }
    }

    /// Records that the queue pair completes nothing but failures, and closes the connection if the
    /// transport uses it. Before that, the attempt to connect fails by itself.
    fn mark_broken(&self) {
        if self.usability.xchg(usability::BROKEN, Full) == usability::IN_USE {
            self.while_open(O::force_close);
        }
    }

    /// Orders the close of the connection, unless it is closed: no further message of the peer is
    /// trusted. Does not sleep.
    pub(crate) fn force_close(&self) {
        self.forced.store(true, Relaxed);
        self.while_open(O::force_close);
    }

    /// Returns whether [`Self::force_close`] was called.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced.load(Relaxed)
    }

    /// Returns the counters of this connection.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts a breach of the protocol by the peer, for this connection and for the module. Any
    /// context.
    #[cold]
    pub(crate) fn breach(&self, what: Breach) {
        self.tally.breach();
        stats::breach(what);
    }

    /// Calls `act` with the transport, unless the connection is closed. The connection stays open
    /// meanwhile, so that `act` never applies to a later one. `act` must not sleep.
    pub(crate) fn while_open(&self, act: impl FnOnce(&O)) {
        let open = self.open.lock();
        if *open {
            act(&self.owner);
        }
    }

    /// Records that the connection is closed. A later report of the device then changes nothing for
    /// the next connection. May sleep.
    pub(super) fn close(&self) {
        *self.open.lock() = false;
        self.session.end();
    }
}

impl<R: Role> Completions for ConnOf<R> {
    const HOLDS: bool = R::HOLDS;

    #[inline(always)]
    fn received(&self, qp: &Qp<Self>, msg: Incoming<'_, R>) {
        write_once(&self.heard, true);
        // Only the completion worker changes the flag, and handles one message after the other.
        if R::ANSWERS && !read_once(&self.established) {
            self.established.store(true, Relaxed);
            qp.note_established();
            R::established(self);
        }
        let terms = self.terms();
        R::received(self, qp, msg, terms);
        // Receives grow as the session requests.
        if terms.concerns_session() && self.session.growing.load(Relaxed) {
            self.count_receives(qp);
        }
    }

    #[inline(always)]
    fn sent(&self, qp: &Qp<Self>, tag: Tag, outcome: Result<(), WcError>) {
        match outcome {
            Ok(()) if tag == R::CONTROL => {
                self.pump(qp);
                R::control_sent(self, qp);
            }
            outcome => R::completed(self, qp, tag, outcome),
        }
    }

    fn room(&self, qp: &Qp<Self>) {
        R::room(self, qp);
        self.pump(qp);
    }

    fn broken(&self, qp: &Qp<Self>, error: WcError) {
        R::broken(self, qp, &error);
        self.mark_broken();
    }

    fn event(&self, event: u32) {
        R::device_event(self, event);
    }

    fn not_a_send(&self, _qp: &Qp<Self>, opcode: u32) {
        trace::not_a_send(traced::peer(self.owner()), opcode);
        self.breach(Breach::NotASend);
        self.mark_broken();
    }
}

/// The rare events of one connection, counted for the file `connections`. All methods may be called
/// in any context.
pub(crate) struct Tally {
    probes: Atomic<u64>,
    breaches: Atomic<u64>,
}

impl Tally {
    const fn new() -> Self {
        Self {
            probes: Atomic::new(0),
            breaches: Atomic::new(0),
        }
    }

    /// Counts a probe that was posted because the peer was silent.
    #[cold]
    pub(crate) fn probe(&self) {
        self.probes.add(1, Relaxed);
    }

    /// Counts a breach of the protocol by the peer.
    #[cold]
    pub(crate) fn breach(&self) {
        self.breaches.add(1, Relaxed);
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            probes: self.probes.load(Relaxed),
            breaches: self.breaches.load(Relaxed),
        }
    }
}
