// SPDX-License-Identifier: GPL-2.0

//! The state of a connection that completions reach: it outlives the last completion.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::agreement::Agreement;
use super::live::{Capabilities, Now};
use super::owner::Owner;
use super::tally::Tally;
use crate::observe::stats::{self, Breach};
use crate::proto::inline::Thresholds;
use crate::proto::session::{Config, Session};
use crate::rdma::send::SendBuf;
use crate::wire::Version;
use crate::work::Once;

/// How far a queue pair has come. The context that finds it broken after it was in use closes the
/// connection.
mod usability {
    /// The peers are shaking hands.
    pub(super) const CONNECTING: u32 = 0;
    /// The transport uses the connection.
    pub(super) const IN_USE: u32 = 1;
    /// The queue pair completes nothing but failures.
    pub(super) const BROKEN: u32 = 2;
}

/// The state of a connection that completions reach: `R` is the role's part, `O` the transport.
#[pin_data]
pub(crate) struct Shared<R, O: Owner> {
    /// The number of the connection. It is the only copy: a request slot is stamped with it.
    epoch: u32,
    #[pin]
    role: R,
    owner: O,
    /// The connection still concerns its transport.
    #[pin]
    open: SpinLock<bool>,
    /// One of [`usability`].
    usability: Atomic<u32>,
    #[pin]
    agreement: Agreement,
    /// A message has arrived since [`Self::take_heard`] was called.
    heard: Atomic<bool>,
    /// A message has arrived. This is only noted on the side that answers a connection request.
    established: Atomic<bool>,
    /// [`Self::force_close`] was called.
    forced: AtomicFlag,
    tally: Tally,
}

impl<R, O: Owner> Shared<R, O> {
    /// Makes the state of connection number `epoch`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(epoch: u32, owner: O, role: impl PinInit<R>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                epoch,
                role <- role,
                owner,
                open <- new_spinlock!(true, "rpcrdma::Shared::open"),
                usability: Atomic::new(usability::CONNECTING),
                agreement <- Agreement::new(),
                heard: Atomic::new(false),
                established: Atomic::new(false),
                forced: AtomicFlag::new(false),
                tally: Tally::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of the connection. It is never zero, and differs from the number of the
    /// connection before.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the role's part of the connection.
    #[inline]
    pub(crate) fn role(&self) -> &R {
        &self.role
    }

    /// Returns the transport.
    #[inline]
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Begins the session that decides on version and terms, once the handshake has shown what the
    /// peer announces. `out` has [`agreement::BUFFER`](super::agreement::BUFFER) bytes. Until then
    /// the peer may not invalidate our R_keys, and the version is one.
    pub(crate) fn begin_session(&self, config: Config, out: SendBuf) {
        self.agreement.begin(&self.owner, config, out);
    }

    /// Returns what the peers have agreed on.
    pub(super) fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Returns the thresholds in force.
    #[inline]
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.now().thresholds()
    }

    /// Returns the terms in force. Whoever prepares a message keeps them, and reads them again
    /// before the message is posted: if they have changed, the message is void.
    #[inline]
    pub(crate) fn now(&self) -> Now {
        self.agreement.live.read()
    }

    /// Returns the version that the connection speaks.
    #[inline]
    pub(crate) fn version(&self) -> Version {
        self.now().version()
    }

    /// Returns whether the responder may invalidate the requester's R_keys.
    #[inline]
    pub(crate) fn remote_invalidation(&self) -> bool {
        self.now().remote_invalidation()
    }

    /// Returns whether messages may concern the session: in version two, and before the first
    /// reply.
    #[inline]
    pub(crate) fn concerns_session(&self) -> bool {
        self.now().concerns_session()
    }

    /// Adds capabilities to the terms. Call this before the session begins.
    pub(crate) fn add_capabilities(&self, more: Capabilities) {
        self.agreement.live.add(more);
    }

    /// Returns whether every message concerns the session.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.now().is_watched()
    }

    /// Returns whether the peer takes calls of the backward direction.
    pub(crate) fn permits_backward(&self) -> bool {
        self.now().permits_backward()
    }

    /// Calls `act` with the session and its time in milliseconds; `None` without a session. `act`
    /// must not sleep.
    pub(crate) fn with_session<T>(&self, act: impl FnOnce(&mut Session, u64) -> T) -> Option<T> {
        self.agreement.with(&self.owner, act)
    }

    /// Calls `post`, which posts a message. If that may be the first one (`watched`), `note` tells
    /// the session before the answer can be handled. Neither may sleep.
    #[inline(always)]
    pub(crate) fn post_noted<T>(
        &self,
        watched: bool,
        post: impl FnOnce() -> T,
        note: impl FnOnce(&T, &mut Session, u64),
    ) -> T {
        self.agreement.post_noted(&self.owner, watched, post, note)
    }

    /// Returns whether no message has arrived since the connection was made, and notes one. Called
    /// by the completion worker only, which handles one message after the other.
    #[inline]
    pub(super) fn is_first_message(&self) -> bool {
        let first = !self.established.read_once();
        if first {
            self.established.store(true, Relaxed);
        }
        first
    }

    /// Notes that a message has arrived.
    #[inline]
    pub(super) fn set_heard(&self) {
        self.heard.write_once(true);
    }

    /// Returns whether a message has arrived since the last call.
    pub(crate) fn take_heard(&self) -> bool {
        let heard = self.heard.load(Relaxed);
        // A message that arrives between the two accesses is forgotten. The peer is then asked for
        // a sign of life earlier than necessary, once.
        self.heard.store(false, Relaxed);
        heard
    }

    /// Returns whether a message has arrived since [`Self::take_heard`] was called.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Lets the transport use the connection, or closes it if it broke in the meantime.
    pub(crate) fn begin_use(&self) {
        let (before, after) = (usability::CONNECTING, usability::IN_USE);
        if self.usability.cmpxchg(before, after, Full).is_err() {
            self.force_close();
        }
    }

    /// Notes that the queue pair completes nothing but failures, and closes the connection if the
    /// transport uses it. Before that, the attempt to connect fails by itself.
    pub(super) fn mark_broken(&self) {
        if self.usability.xchg(usability::BROKEN, Full) == usability::IN_USE {
            self.while_open(O::force_close);
        }
    }

    /// Has the connection closed, unless it is closed: nothing that the peer sends over it is
    /// trusted any more. Does not sleep.
    pub(crate) fn force_close(&self) {
        self.note_forced();
        self.while_open(O::force_close);
    }

    /// Notes that this side closes the connection because of the peer.
    pub(super) fn note_forced(&self) {
        self.forced.store(true, Relaxed);
    }

    /// Returns whether this side has had the connection closed because of the peer.
    pub(super) fn was_forced(&self) -> bool {
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
    /// meanwhile, so that `act` concerns no later one. `act` must not sleep.
    pub(crate) fn while_open(&self, act: impl FnOnce(&O)) {
        let open = self.open.lock();
        if *open {
            act(&self.owner);
        }
    }

    /// Notes that the connection is closed. What a device still reports, should it not have been
    /// drained after all, then changes nothing for the next connection.
    /// May sleep.
    pub(super) fn close(&self) {
        *self.open.lock() = false;
        self.agreement.end();
    }
}
