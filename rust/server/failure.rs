// SPDX-License-Identifier: GPL-2.0

//! Why a connection was refused.

use kernel::prelude::*;

use super::log;
use crate::mem::SockAddr;
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace::{self, Lazy, Peer};
use crate::rdma::device::Name;
use crate::sunrpc::address::ntop;

/// A step of making a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Memory for the connection's state.
    State,
    /// Using the device.
    Device,
    /// Taking over the connection manager's identifier.
    Identifier,
    /// Protection domain.
    Pd,
    /// Queue pair, completion queue, Receives' buffers.
    QueuePair,
    /// Posting the Receives.
    Receives,
    /// Memory regions for RDMA Reads.
    Regions,
}

/// Why a connection was refused.
pub(super) enum Failure {
    /// The requester allows no RDMA Reads.
    ReadDepth,
    /// The device lacks something.
    Unfit {
        device: Name,
        reason: &'static str,
        /// It can have no RDMA Reads outstanding.
        no_reads: bool,
    },
    /// This host lacks something.
    Step(Step, Error),
}

impl Step {
    /// Returns the step's name in the log.
    const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Device => "device",
            Self::Identifier => "identifier",
            Self::Pd => "protection domain",
            Self::QueuePair => "queue pair",
            Self::Receives => "Receives",
            Self::Regions => "memory regions",
        }
    }

    /// Makes the failure of this step out of its error.
    pub(super) fn failed(self) -> impl FnOnce(Error) -> Failure {
        move |error| Failure::Step(self, error)
    }
}

impl Failure {
    /// Traces, counts and logs the failure of a connection from `peer`.
    #[cold]
    pub(super) fn report(&self, peer: &SockAddr) {
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
pub(super) fn name(addr: &SockAddr) -> Peer {
    Peer::new(&ntop(addr), addr.port())
}
