// SPDX-License-Identifier: GPL-2.0

//! What a responder's connection asks of a device, and what it allows a requester.

use kernel::page::{PAGE_SHIFT, PAGE_SIZE};

use super::chosen::Chosen;
use crate::conn::queues::Queues;
use crate::proto::responder::grant::Grant;
use crate::proto::responder::limits::Limits;
use crate::proto::session::SPARE_RECEIVES;
use crate::rdma::cq::DRAIN_ENTRIES;
use crate::rdma::device;
use crate::rdma::qp::DRAIN_SEND_WRS;

/// What the upper layer puts around the largest payload, in bytes.
const AROUND: u32 = PAGE_SIZE as u32;
/// The most scatter/gather elements of a work request, whatever the device can have. It bounds the
/// memory of the device's send queue.
const MOST_SGES: u32 = 32;
/// Segments of the requester that a call may have beyond what its payload needs.
const EXTRA_SEGMENTS: u32 = 64;
/// Work requests of the send queue for each call: the Send, and RDMA Writes of a small payload.
const SEND_WR_PER_CALL: u32 = 3;
/// Work requests for a probe.
const PROBES: u32 = 1;
/// Receives that are posted again together.
const RECEIVE_BATCH: u32 = 4;

/// The sizes of a connection. All members but `limits` are counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The lengths of the queues.
    pub(super) queues: Queues,
    /// Operations of RDMA Read and Write under way at the same time.
    pub(super) operations: u32,
    /// What a call may ask for.
    pub(super) limits: Limits,
}

impl Sizes {
    /// Fits a connection to a device; `None` if its queues are too short for one call.
    pub(super) fn new(chosen: &Chosen, device: &device::Limits) -> Option<Self> {
        // Where RDMA Reads need memory regions, each has one element, which is a whole region.
        let sges = match device.reads_need_regions {
            true => device.max_sge,
            false => device.max_sge.min(device.max_read_sge),
        };
        let sges = sges.clamp(1, MOST_SGES);
        let longest = chosen.max_payload.saturating_add(AROUND);
        let pages = longest >> PAGE_SHIFT;
        let chain = pages / sges + EXTRA_SEGMENTS;
        let fixed = chosen.backward + SPARE_RECEIVES + PROBES;
        // Two of the longest chains, beside what the calls need.
        let room = device.max_qp_wr.saturating_sub(DRAIN_SEND_WRS);
        let entries = device.max_cqe.saturating_sub(DRAIN_ENTRIES);
        let spare = chosen.backward + SPARE_RECEIVES;
        let other = fixed + spare + RECEIVE_BATCH;
        let credits = chosen
            .credits
            .min(room.saturating_sub(fixed) / SEND_WR_PER_CALL)
            .min(entries.saturating_sub(other) / (SEND_WR_PER_CALL + 1));
        if credits == 0 {
            return None;
        }
        let first = credits.min(Grant::FIRST) + RECEIVE_BATCH + spare;
        let receives_max = credits + RECEIVE_BATCH + spare;
        let send_wr = (credits * SEND_WR_PER_CALL + 2 * chain + fixed)
            .min(room)
            .min(entries.saturating_sub(receives_max));
        // A longer chain might never find room; one Send follows the Writes.
        let most = chain.min(send_wr / 4 * 3).saturating_sub(1);
        Some(Self {
            queues: Queues {
                credits,
                send_wr,
                sges,
                receives: first,
                receives_max,
                receive_batch: RECEIVE_BATCH,
            },
            operations: 2 * credits,
            limits: Limits {
                versions: chosen.versions,
                max_call: longest,
                max_reply: longest,
                // In memory regions, each RDMA Read takes a registration as well.
                read_wrs: if device.reads_need_regions {
                    most / 2
                } else {
                    most
                },
                write_wrs: most,
                sges,
                // CAST: a small constant.
                page_shift: PAGE_SHIFT as u32,
                // The reply decides whether a requester accepts it.
                remote_invalidation: device.mem_mgt_extensions,
            },
        })
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_sizes)]
mod tests {
    use super::*;
    use crate::wire::Version;

    const CHOSEN: Chosen = Chosen {
        max_payload: 1 << 20,
        credits: 128,
        inline: 4096,
        backward: 2,
        versions: (Version::One, Version::Two),
    };

    fn device(max_qp_wr: u32, max_sge: u32, max_read_sge: u32, iwarp: bool) -> device::Limits {
        device::Limits {
            max_qp_wr,
            max_sge,
            max_read_sge,
            max_frmr_depth: 256,
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 16,
            max_cqe: 1 << 16,
            mem_mgt_extensions: true,
            sg_gaps: false,
            slow_mapping: false,
            reads_need_regions: iwarp,
        }
    }

    /// Checks that a device serves the largest payload in one segment, in both directions.
    fn serves_payload(device: &device::Limits) {
        let Some(sizes) = Sizes::new(&CHOSEN, device) else {
            panic!("{device:?} is found unfit");
        };
        let needed = sizes.limits.work_requests(1, u64::from(CHOSEN.max_payload));
        assert!(needed <= u64::from(sizes.limits.read_wrs));
        assert!(needed <= u64::from(sizes.limits.write_wrs));
        assert!(sizes.queues.send_wr + DRAIN_SEND_WRS <= device.max_qp_wr);
        assert!(sizes.limits.write_wrs < sizes.queues.send_wr / 4 * 3);
        assert!(sizes.queues.receives <= sizes.queues.receives_max);
    }

    #[test]
    fn largest_payload_fits_the_devices_of_the_lab() {
        serves_payload(&device(16384, 32, 32, false));
        serves_payload(&device(32768, 6, 1, true));
    }

    #[test]
    fn device_without_extensions_invalidates_nothing() {
        for extensions in [false, true] {
            let device = device::Limits {
                mem_mgt_extensions: extensions,
                ..device(16384, 32, 32, false)
            };
            let Some(sizes) = Sizes::new(&CHOSEN, &device) else {
                panic!("{device:?} is found unfit");
            };
            assert_eq!(sizes.limits.remote_invalidation, extensions);
            assert_eq!(CHOSEN.announce(&device).remote_invalidation, extensions);
        }
    }

    #[test]
    fn device_without_room_for_a_call_is_unfit() {
        assert!(Sizes::new(&CHOSEN, &device(4, 32, 32, false)).is_none());
    }
}
