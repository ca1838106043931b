// SPDX-License-Identifier: GPL-2.0

//! The lengths of a connection's queues: the demand of the role, cut to the limits of the device.

use crate::rdma::cq::DRAIN_ENTRIES;
use crate::rdma::device::Limits;
use crate::rdma::qp::DRAIN_SEND_WRS;

/// A quarter of the Receives is posted in one batch.
const RECEIVE_BATCHES: u32 = 4;

/// The demand of a role. All members are counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// RPCs in flight at the same time.
    pub(crate) credits: u32,
    /// Work requests on the send queue for each of them.
    pub(crate) send_wr_per_credit: u32,
    /// Messages of the backward direction in flight at the same time. Each needs one Send and one
    /// Receive, even if the queues are short.
    pub(crate) backward: u32,
    /// Further work requests on the send queue.
    pub(crate) extra_send_wr: u32,
    /// Receives that are reposted together; `None` for a quarter of the Receives.
    pub(crate) receive_batch: Option<u32>,
}

/// The lengths of a connection's queues. All members are counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    /// RPCs in flight at the same time.
    pub(crate) credits: u32,
    /// Work requests on the send queue.
    pub(crate) send_wr: u32,
    /// Scatter/gather elements of a work request on the send queue.
    pub(crate) sges: u32,
    /// Receives that are posted at first.
    pub(crate) receives: u32,
    /// The maximum number of posted Receives.
    pub(crate) receives_max: u32,
    /// Receives that are reposted together.
    pub(crate) receive_batch: u32,
}

impl Demand {
    /// Fits the demand to a device; `None` if the queues cannot hold a single RPC.
    pub(crate) fn fit(&self, limits: &Limits) -> Option<Queues> {
        let fixed = self.backward + self.extra_send_wr;
        // Draining the send queue takes part of the device's limit.
        let room = limits.max_qp_wr.saturating_sub(DRAIN_SEND_WRS + fixed);
        // One completion queue serves both queues: the work requests of an RPC, its Receive, and
        // the batch.
        let (per_credit, batch) = match self.receive_batch {
            Some(batch) => (self.send_wr_per_credit + 1, batch),
            None => (self.send_wr_per_credit + 2, 0),
        };
        let other = fixed + self.backward + batch + DRAIN_ENTRIES;
        let entries = limits.max_cqe.saturating_sub(other);
        let credits = self
            .credits
            .min(room / self.send_wr_per_credit)
            .min(entries / per_credit);
        if credits == 0 {
            return None;
        }
        let receive_batch = self
            .receive_batch
            .unwrap_or((credits / RECEIVE_BATCHES).max(1));
        let receives = (credits + receive_batch).min(room) + self.backward;
        Some(Queues {
            credits,
            send_wr: credits * self.send_wr_per_credit + fixed,
            sges: 1,
            receives,
            receives_max: receives,
            receive_batch,
        })
    }
}
