// SPDX-License-Identifier: GPL-2.0

//! The state of a connection that completions reach: it outlives the last completion.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::owner::Owner;
use super::terms::Terms;
use crate::wire::Version;

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
    /// The connection speaks version two.
    version_two: Atomic<bool>,
    /// See [`Terms::remote_invalidation`].
    remote_invalidation: Atomic<bool>,
    /// A message has arrived since [`Self::take_heard`] was called.
    heard: Atomic<bool>,
    /// A message has arrived. This is only noted on the side that answers a connection request.
    established: Atomic<bool>,
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
                version_two: Atomic::new(false),
                remote_invalidation: Atomic::new(false),
                heard: Atomic::new(false),
                established: Atomic::new(false),
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

    /// Takes over what completions have to know of the terms that the handshake has led to. Until
    /// then the peer may not invalidate our R_keys, and the version is one.
    pub(crate) fn set_terms(&self, terms: &Terms) {
        let two = matches!(terms.version(), Version::Two);
        self.version_two.store(two, Relaxed);
        self.remote_invalidation
            .store(terms.remote_invalidation, Relaxed);
    }

    /// Returns the version that the connection speaks.
    #[inline]
    pub(crate) fn version(&self) -> Version {
        if self.version_two.load(Relaxed) {
            Version::Two
        } else {
            Version::One
        }
    }

    /// Returns whether the responder may invalidate the requester's R_keys.
    #[inline]
    pub(crate) fn remote_invalidation(&self) -> bool {
        self.remote_invalidation.load(Relaxed)
    }

    /// Returns whether no message has arrived since the connection was made, and notes one. Called
    /// by the completion worker only, which handles one message after the other.
    #[inline]
    pub(super) fn is_first_message(&self) -> bool {
        let first = !self.established.load(Relaxed);
        if first {
            self.established.store(true, Relaxed);
        }
        first
    }

    /// Notes that a message has arrived.
    #[inline]
    pub(super) fn set_heard(&self) {
        self.heard.store(true, Relaxed);
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
            self.force_close();
        }
    }

    /// Has the connection closed, unless it is closed: nothing that the peer sends over it is
    /// trusted any more. Does not sleep.
    pub(crate) fn force_close(&self) {
        self.while_open(O::force_close);
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
    pub(super) fn close(&self) {
        *self.open.lock() = false;
    }
}
