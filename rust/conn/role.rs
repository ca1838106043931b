// SPDX-License-Identifier: GPL-2.0

//! What a connection asks of its role.

use super::owner::Owner;
use super::shared::Shared;
use crate::rdma::qp::{Qp, Tag, WcError};
use crate::rdma::recv::Received;
use crate::wire::{DecodeError, Limits, Message};

/// The part of a connection that depends on the role: requester or responder.
///
/// The methods run in the completion worker: in process context, one after the other for each
/// connection. They do not sleep. The buffer of `msg` goes back to the device afterwards.
pub(crate) trait Role: Sized + Send + Sync + 'static {
    /// The transport that the connection belongs to.
    type Owner: Owner;

    /// The most segments that a message from the peer may have.
    const LIMITS: Limits;

    /// Handles an RPC call of the peer.
    fn call(conn: &ConnOf<Self>, msg: &Incoming<'_, Self>, header: &Message<'_>);

    /// Handles an answer to a call of ours: a reply, or an error.
    fn answer(conn: &ConnOf<Self>, qp: &QpOf<Self>, msg: &Incoming<'_, Self>, header: &Message<'_>);

    /// Handles a message whose header cannot be decoded.
    fn undecodable(
        conn: &ConnOf<Self>,
        qp: &QpOf<Self>,
        msg: &Incoming<'_, Self>,
        error: &DecodeError,
    );

    /// Handles the end of a signalled work request, or the failure of any work request.
    fn completed(conn: &ConnOf<Self>, qp: &QpOf<Self>, tag: Tag, outcome: Result<(), WcError>);
}

/// The state of a connection of role `R`.
pub(crate) type ConnOf<R> = Shared<R, <R as Role>::Owner>;

/// The queue pair of a connection of role `R`.
pub(crate) type QpOf<R> = Qp<ConnOf<R>>;

/// A message that has arrived over a connection of role `R`.
pub(crate) type Incoming<'a, R> = Received<'a, ConnOf<R>>;
