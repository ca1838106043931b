// SPDX-License-Identifier: GPL-2.0

//! Why a connection is refused or closed.
//!
//! A connection has at most one breach: those that follow are consequences of the first.

use kernel::prelude::*;
use kernel::sync::atomic::Full;

use super::endpoint::{Conn, QueuePair};
use crate::compat::code::EPROTO;
use crate::conn::role::XprtRef as _;
use crate::conn::traced;
use crate::mem::SockAddr;
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace::{self, Lazy, Peer};
use crate::rdma::device::Name;
use crate::rdma::qp::{Tag, WcError};
use crate::server::call::in_flight::Kind;
use crate::server::log;
use crate::sunrpc::address::ntop;

/// A step of making a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Memory for the state of the connection.
    State,
    /// Finding or leasing the device.
    Device,
    /// Taking over the cm_id.
    CmId,
    /// Protection domain.
    Pd,
    /// Queue pair, completion queue, buffers of Receives.
    QueuePair,
    /// Posting the Receives.
    Receives,
    /// Memory regions for RDMA Reads.
    Regions,
}

/// Why a connection was refused.
pub(crate) enum Failure {
    /// The requester permits no RDMA Reads.
    ReadDepth,
    /// The device lacks something.
    Unfit {
        device: Name,
        reason: &'static str,
        /// The device can have no RDMA Reads outstanding.
        no_reads: bool,
    },
    /// This host lacks something.
    Step(Step, Error),
}

impl Step {
    /// Returns the name of the step in the log.
    const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Device => "device",
            Self::CmId => "identifier",
            Self::Pd => "protection domain",
            Self::QueuePair => "queue pair",
            Self::Receives => "Receives",
            Self::Regions => "memory regions",
        }
    }

    /// Returns a function that makes the failure of this step from its error.
    pub(crate) fn failed(self) -> impl FnOnce(Error) -> Failure {
        move |error| Failure::Step(self, error)
    }
}

impl Failure {
    /// Traces, counts and logs the failure of a connection from `peer`.
    #[cold]
    pub(crate) fn report(&self, peer: &SockAddr) {
        let traced = Lazy(|| name(peer));
        match self {
            Self::ReadDepth => {
                trace::server::initdepth_err(traced, EPROTO.to_errno());
                requester::breach(traced, 0, RequesterBreach::ReadDepth);
            }
            Self::Unfit {
                device,
                reason,
                no_reads,
            } => {
                if *no_reads {
                    trace::server::initdepth_err(traced, ENODEV.to_errno());
                }
                log::device_unfit(device, reason);
            }
            Self::Step(step, error) => {
                match step {
                    Step::Pd => trace::server::pd_err(traced, error.to_errno()),
                    Step::QueuePair => trace::server::qp_err(traced, error.to_errno()),
                    Step::Receives => trace::server::rq_post_err(traced, error.to_errno()),
                    _ => {}
                }
                log::connection_failed(&name(peer), step.name(), *error);
            }
        }
    }
}

/// Returns an address and its port for the log and for trace events.
pub(crate) fn name(addr: &SockAddr) -> Peer {
    Peer::new(&ntop(addr), addr.port())
}

/// Closes a connection because of a breach. `xid` is zero if the breach belongs to no message.
#[cold]
pub(crate) fn close(conn: &Conn, xid: u32, breach: RequesterBreach) {
    if count(conn, xid, breach) {
        log::closed(&conn.owner().peer(), breach.what());
    }
    conn.force_close();
}

/// Closes a connection on which a work request of `tag` has failed or was flushed.
#[cold]
pub(crate) fn failed(conn: &Conn, qp: &QueuePair, tag: Tag, error: &WcError) {
    let kind = conn.role().in_flight.kind(tag);
    let (cid, wc) = (traced::cid(qp, tag.get()), traced::status(error));
    match kind {
        Kind::Send => trace::server::send_failed(cid, wc),
        Kind::Write => trace::server::write_failed(cid, wc),
        Kind::Read => trace::server::read_failed(cid, wc),
        Kind::Probe => {}
    }
    let transfer = matches!(kind, Kind::Read | Kind::Write);
    let breach =
        RequesterBreach::of_send(wc).or_else(|| transfer.then(|| RequesterBreach::of_transfer(wc)));
    note(conn, error, breach);
    conn.force_close();
}

/// Handles the failure of a Receive, or an error that the device reports.
#[cold]
pub(crate) fn broken(conn: &Conn, qp: &QueuePair, error: &WcError) {
    let wc = traced::status(error);
    trace::server::recv_failed(traced::cid(qp, u32::MAX), wc);
    note(conn, error, RequesterBreach::of_receive(wc));
}

/// Counts, traces and logs a failure that is a breach. A flush is not logged, because it only
/// follows from the end of the connection.
fn note(conn: &Conn, error: &WcError, breach: Option<RequesterBreach>) {
    let Some(breach) = breach else {
        return;
    };
    if count(conn, 0, breach) && !error.is_flush() {
        log::closed(&conn.owner().peer(), breach.what());
    }
}

/// Counts and traces the first breach of a connection. Returns whether it is the first.
fn count(conn: &Conn, xid: u32, breach: RequesterBreach) -> bool {
    let first = !conn.role().breached.xchg(true, Full);
    if first {
        report(conn, xid, breach);
    }
    first
}

/// Counts and traces a breach of the protocol by the requester. Closes nothing.
#[cold]
pub(crate) fn report(conn: &Conn, xid: u32, breach: RequesterBreach) {
    conn.tally().breach();
    requester::breach(traced::peer(conn.owner()), xid, breach);
}
