// SPDX-License-Identifier: GPL-2.0

//! The interface of a connection to its role, and to its transport.

use kernel::fmt;
use kernel::prelude::*;

use super::state::ConnState;
use super::terms::TermsSnapshot;
use super::traced;
use crate::mem::SockAddr;
use crate::observe::trace::{self, Peer};
use crate::proto::session::Output;
use crate::rdma::cq::Workers;
use crate::rdma::qp::{Qp, Tag, WcError};
use crate::rdma::recv::Received;
use crate::wire::Direction;

/// A reference to the transport that a connection belongs to.
///
/// A value of this type keeps the transport in existence. All methods are for process context and
/// do not sleep.
pub(crate) trait XprtRef: Send + Sync + 'static {
    /// Returns the peer's address and port as trace events show them.
    fn peer(&self) -> Peer;

    /// Returns the peer's address.
    fn address(&self) -> SockAddr;

    /// Returns whether the transport no longer needs the connection that is being made.
    fn is_abandoned(&self) -> bool;

    /// Makes a worker close the connection. Further calls have no effect.
    fn force_close(&self);

    /// Aborts the connection because its device is being removed, if that takes more than
    /// [`Self::force_close`].
    fn device_removed(&self) {}

    /// Traces that the device of the connection is being removed.
    fn trace_removal(&self, device: &dyn fmt::Display) {
        trace::device_removal(device, self.address().bytes());
    }

    /// Sets the number of our calls that may be in flight. It is 0 while aborted calls, which the
    /// peer has not answered, occupy the whole grant. Returns `false`, and sets nothing, if the
    /// connection must be closed for that.
    fn set_credits(&self, credits: u32) -> bool;
}

/// The part of a connection that depends on the role: requester or responder.
///
/// Unless its description says otherwise, a method runs in the completion worker: in process
/// context, one after the other for each connection. No method sleeps.
pub(crate) trait Role: Sized + Send + Sync + 'static {
    /// The transport that the connection belongs to.
    type Owner: XprtRef;

    /// The tag of the session's messages.
    const CONTROL: Tag;

    /// The workqueue that handles the completions.
    const WORKERS: Workers;

    /// Whether this role answers connection requests. The peer's first message then means that the
    /// peer regards the connection as established.
    const ANSWERS: bool = false;

    /// Handles the arrival of the first message, before the message itself. Called only if
    /// [`Self::ANSWERS`] is set. The role passes
    /// [`Event::Message`](crate::proto::conn::Event::Message) to the connection's
    /// [`Lifecycle`](super::lifecycle::Lifecycle).
    fn established(_conn: &ConnOf<Self>) {}

    /// Whether this role keeps messages longer than [`Self::received`] runs.
    const HOLDS: bool = false;

    /// Handles a message that arrives under these terms. Its buffer returns to the device when it
    /// is dropped.
    fn received(
        conn: &ConnOf<Self>,
        qp: &QpOf<Self>,
        msg: Incoming<'_, Self>,
        terms: TermsSnapshot,
    );

    /// Handles the end of a signalled work request, or the failure of any work request.
    fn completed(conn: &ConnOf<Self>, qp: &QpOf<Self>, tag: Tag, outcome: Result<(), WcError>);

    /// Called when the send queue has space again, after it was found full.
    fn room(conn: &ConnOf<Self>, qp: &QpOf<Self>);

    /// Called when the buffer for the session's messages is free, after a message was sent.
    fn control_sent(_conn: &ConnOf<Self>, _qp: &QpOf<Self>) {}

    /// Returns the credits in a message of the session with this direction: those that a call
    /// requests, or those that a reply grants. Called by any task, with the session's lock held.
    fn credits(conn: &ConnOf<Self>, direction: Direction) -> u32;

    /// Carries out what the session has decided, apart from sending messages. Called by any task in
    /// process context, without spinlocks; several may run at once.
    fn decided(conn: &ConnOf<Self>, qp: &QpOf<Self>, output: Output);

    /// Called when the connection is lost, before it is closed; see
    /// [`Completions::broken`](crate::rdma::qp::Completions::broken).
    fn broken(_conn: &ConnOf<Self>, qp: &QpOf<Self>, error: &WcError) {
        trace::wc_receive(traced::cid(qp, u32::MAX), 0, traced::status(error));
    }

    /// Called for an event of the queue pair that the device reports; see
    /// [`Completions::event`](crate::rdma::qp::Completions::event). Any context.
    fn device_event(_conn: &ConnOf<Self>, _event: u32) {}
}

/// The state of a connection of role `R`.
pub(crate) type ConnOf<R> = ConnState<R, <R as Role>::Owner>;

/// The queue pair of a connection of role `R`.
pub(crate) type QpOf<R> = Qp<ConnOf<R>>;

/// A queue pair of role `R` that the holder owns: dropping the value drains the queue pair.
pub(crate) type OwnedQpOf<R> = Pin<KBox<QpOf<R>>>;

/// A received message of a connection of role `R`.
pub(crate) type Incoming<'a, R> = Received<'a, ConnOf<R>>;
