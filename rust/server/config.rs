// SPDX-License-Identifier: GPL-2.0

//! The sysctls of the server, the configuration of a connection, and its sizes on a device.
//!
//! A setting is sampled when a connection is accepted, and applies until that connection ends.

use kernel::page::{PAGE_SHIFT, PAGE_SIZE};
use kernel::prelude::*;

use crate::conn::connection::{Demand, Queues};
use crate::proto::responder::grant::Grant;
use crate::proto::responder::limits::Limits;
use crate::proto::session::{size, SPARE_RECEIVES};
use crate::rdma::cq::DRAIN_ENTRIES;
use crate::rdma::device;
use crate::rdma::qp::DRAIN_SEND_WRS;
use crate::sunrpc::sysctl::{Counter, IntSysctl, Sysctl};
use crate::wire::cm_private::{Settings, Size, Versions};
use crate::wire::Version;

/// The maximum number of outstanding calls of a requester: its grant never exceeds this number.
pub(crate) static MAX_REQUESTS: IntSysctl = IntSysctl::new(c"max_requests", 128, 4, 16384);

/// The inline threshold in bytes, transport header included: the longest message that is received
/// inline, and the longest that is sent inline if the requester accepts that length.
static MAX_REQ_SIZE: IntSysctl = IntSysctl::new(c"max_req_size", 4096, 4096, 65536);

/// Connections at work use a larger threshold if nobody has set one. The stock module has no such
/// setting.
static INLINE_AUTO: IntSysctl = IntSysctl::new(c"inline_auto", 1, 0, 1);

/// The highest version of RPC-over-RDMA that is served. The stock module has no such setting.
static MAX_VERSION: IntSysctl = IntSysctl::new(c"max_version", 2, 1, 2);

/// Returns the lowest and the highest version that new connections may use.
pub(crate) fn versions() -> (Version, Version) {
    let highest = match MAX_VERSION.get() {
        1 => Version::One,
        _ => Version::Two,
    };
    (Version::One, highest)
}

/// The maximum number of outstanding backchannel calls. The stock module has no such setting.
pub(crate) const MAX_BC_REQUESTS: u32 = 2;

/// The traffic class of the packets of this side; -1 for that of the requester's packets, or over
/// iWARP for the default of the device's port. The stock module has no such setting.
pub(crate) static TRAFFIC_CLASS: IntSysctl = IntSysctl::new(c"traffic_class", -1, -1, 255);

/// This setting has no effect, as in the stock module; scripts may set it. The number of
/// outstanding RDMA Reads follows from the connection request and the device.
static READ_DEPTH: IntSysctl = IntSysctl::new(c"max_outbound_read_requests", 16, 1, 255);

/// Read segments whose RDMA Reads were started.
pub(crate) static READS: Counter = Counter::new(c"rdma_stat_read");

/// Messages that were received.
pub(crate) static RECEIVED: Counter = Counter::new(c"rdma_stat_recv");

/// Segments of write chunks and reply chunks whose RDMA Writes were started.
pub(crate) static WRITES: Counter = Counter::new(c"rdma_stat_write");

/// Chains of work requests that found the send queue full.
pub(crate) static SQ_FULL: Counter = Counter::new(c"rdma_stat_sq_starve");

/// Replies behind which a connection took no call, because it used its part of the pages of
/// replies. The stock module has no such counter.
pub(crate) static LIMITED: Counter = Counter::new(c"rdma_stat_limited");

/// Times that a call waited because calls that are being fetched used the memory for them. The
/// stock module has no such counter.
pub(crate) static WAITED: Counter = Counter::new(c"rdma_stat_waited");

/// Calls that were refused because the DMA layer had no space for them for a minute. The stock
/// module has no such counter.
pub(crate) static UNMAPPED: Counter = Counter::new(c"rdma_stat_unmapped");

// Counters that are always zero. They exist for scripts, as in the stock module.
static RQ_STARVE: IntSysctl = zero(c"rdma_stat_rq_starve");
static RQ_POLL: IntSysctl = zero(c"rdma_stat_rq_poll");
static RQ_PROD: IntSysctl = zero(c"rdma_stat_rq_prod");
static SQ_POLL: IntSysctl = zero(c"rdma_stat_sq_poll");
static SQ_PROD: IntSysctl = zero(c"rdma_stat_sq_prod");

const fn zero(name: &'static CStr) -> IntSysctl {
    IntSysctl::new(name, 0, 0, 0)
}

/// The directory of [`SYSCTLS`] below `/proc/sys`.
pub(crate) const SYSCTL_PATH: &CStr = c"sunrpc/svc_rdma";

/// The settings and counters. Names, defaults and ranges are those of the stock module, except for
/// some entries, which only this module has. `quirks` has further ones.
pub(crate) static SYSCTLS: [&dyn Sysctl; 18] = [
    &MAX_REQUESTS,
    &MAX_REQ_SIZE,
    &INLINE_AUTO,
    &READ_DEPTH,
    &READS,
    &RECEIVED,
    &WRITES,
    &SQ_FULL,
    &LIMITED,
    &WAITED,
    &RQ_STARVE,
    &RQ_POLL,
    &RQ_PROD,
    &SQ_POLL,
    &SQ_PROD,
    &TRAFFIC_CLASS,
    &MAX_VERSION,
    &UNMAPPED,
];

/// The configuration of one connection, sampled when the connection is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnConfig {
    /// The largest payload in bytes.
    pub(crate) max_payload: u32,
    /// The maximum credits of the requester.
    pub(crate) credits: u32,
    /// The longest inline message in bytes, transport header included.
    pub(crate) inline: u32,
    /// The lowest and the highest version of RPC-over-RDMA that is served.
    pub(crate) versions: (Version, Version),
}

impl ConnConfig {
    /// Samples the settings for a connection of a service whose largest payload is `max_payload`.
    pub(crate) fn sample(max_payload: u32) -> Self {
        Self {
            max_payload,
            credits: MAX_REQUESTS.get(),
            inline: MAX_REQ_SIZE.get(),
            versions: versions(),
        }
    }

    /// Returns the inline threshold in bytes of a connection that may be at work in version two.
    pub(crate) fn threshold(is_at_work: bool) -> u32 {
        size(MAX_REQ_SIZE.get(), is_at_work && INLINE_AUTO.get() != 0)
    }

    /// Returns the private data (RFC 8797 section 4) of this side for a device. A device without
    /// memory management extensions cannot post a Send With Invalidate.
    pub(crate) fn announce(&self, device: &device::Limits) -> Settings {
        Settings {
            remote_invalidation: device.mem_mgt_extensions,
            send: Size::from_bytes(self.inline),
            receive: Size::from_bytes(self.inline),
            versions: match self.versions {
                (_, Version::Two) => Some(Versions::ALL),
                (_, Version::One) => None,
            },
        }
    }
}

/// Bytes that the upper layer puts around the largest payload: SUNRPC adds a page of any size.
const AROUND: u32 = PAGE_SIZE as u32;
/// The maximum number of scatter/gather elements of a work request, even if the device supports
/// more. It bounds the memory of the device's send queue.
const MOST_SGES: u32 = 32;
/// The number of segments that a call may have beyond those that its payload needs.
const EXTRA_SEGMENTS: u32 = 64;
/// Work requests of the send queue for each call: the Send, and the RDMA Writes of a small payload.
const SEND_WR_PER_CALL: u32 = 3;
/// The maximum number of memory regions for an RDMA Read that would fit one region if the device's
/// addresses of its first and last page kept the offset of the memory.
pub(crate) const REGIONS_PER_READ: u32 = 3;
/// The maximum number of pages of a memory region for an RDMA Read.
pub(crate) const REGION_PAGES: u32 = 256;
/// Work requests for a probe.
const PROBES: u32 = 1;
/// Receives that are reposted together.
const RECEIVE_BATCH: u32 = 4;

/// The sizes of a connection. All members but `limits` are counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The lengths of the queues.
    pub(crate) queues: Queues,
    /// The limits of a call.
    pub(crate) limits: Limits,
}

impl Sizes {
    /// Fits a connection to a device; `None` if its queues are too short for one call.
    pub(crate) fn new(config: &ConnConfig, device: &device::Limits) -> Option<Self> {
        // If RDMA Reads need memory regions, each Read has one element, a whole region.
        let sges = if device.reads_need_regions {
            device.max_sge
        } else {
            device.max_sge.min(device.max_read_sge)
        };
        let sges = sges.clamp(1, MOST_SGES);
        let longest = config.max_payload.saturating_add(AROUND);
        let pages = longest >> PAGE_SHIFT;
        let chain = pages / sges + EXTRA_SEGMENTS;
        let spare = MAX_BC_REQUESTS + SPARE_RECEIVES;
        let demand = Demand {
            credits: config.credits,
            send_wr_per_credit: SEND_WR_PER_CALL,
            backward: spare,
            extra_send_wr: PROBES,
            receive_batch: Some(RECEIVE_BATCH),
        };
        let mut queues = demand.fit(device)?;
        queues.sges = sges;
        let first = queues.credits.min(Grant::FIRST) + RECEIVE_BATCH + spare;
        queues.receives = first.min(queues.receives_max);
        // Two of the longest chains, beside the work requests of the calls.
        let regions = u32::from(device.reads_need_regions);
        let (calls, chains) = (queues.send_wr, 2 + 2 * regions);
        // A longest chain has three quarters of the queue at most.
        let least = (calls + (1 + 3 * regions) * chain).max(chain.div_ceil(3) * 4);
        let entries = device.max_cqe.saturating_sub(DRAIN_ENTRIES);
        queues.send_wr = frugal(least, calls + chains * chain)
            .min(device.max_qp_wr.saturating_sub(DRAIN_SEND_WRS))
            .min(entries.saturating_sub(queues.receives_max));
        // A longer chain might never fit. A Send follows the Writes.
        let most = chain.min(queues.send_wr / 4 * 3).saturating_sub(1);
        Some(Self {
            queues,
            limits: Limits {
                versions: config.versions,
                max_call: longest,
                max_reply: longest,
                // With memory regions, each RDMA Read also takes a registration.
                read_wrs: if device.reads_need_regions {
                    (most / 2).min(queues.send_wr / 4 * 3 / (2 * REGIONS_PER_READ))
                } else {
                    most
                },
                write_wrs: most,
                sges,
                read_pages: if device.reads_need_regions {
                    device.max_frmr_depth.min(REGION_PAGES)
                } else {
                    sges
                },
                // CAST: a small constant.
                page_shift: PAGE_SHIFT as u32,
                // The reply's terms decide whether the requester accepts it.
                remote_invalidation: device.mem_mgt_extensions,
            },
        })
    }
}

/// Returns the length of a send queue of `least` to `wanted` work requests. Devices round the
/// length up to a power of two, the work requests for draining and often one more included: the
/// greatest length that is not rounded up is preferred.
fn frugal(least: u32, wanted: u32) -> u32 {
    let fixed = DRAIN_SEND_WRS + 1;
    let whole = (1 << (wanted + fixed).ilog2()) - fixed;
    if whole >= least {
        whole
    } else {
        wanted
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_sizes)]
mod tests {
    use super::*;
    use crate::wire::Version;

    const CONFIG: ConnConfig = ConnConfig {
        max_payload: 1 << 20,
        credits: 128,
        inline: 4096,
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
    fn serves_payload(max_payload: u32, device: &device::Limits) {
        let config = ConnConfig {
            max_payload,
            ..CONFIG
        };
        let Some(sizes) = Sizes::new(&config, device) else {
            panic!("{device:?} is found unfit");
        };
        let (limits, payload) = (&sizes.limits, u64::from(max_payload));
        assert!(limits.read_requests(1, payload) <= u64::from(limits.read_wrs));
        assert!(limits.write_requests(1, payload) <= u64::from(limits.write_wrs));
        assert!(sizes.queues.send_wr + DRAIN_SEND_WRS <= device.max_qp_wr);
        let regions = REGIONS_PER_READ * sizes.limits.read_wrs;
        assert!(!device.reads_need_regions || 2 * regions <= sizes.queues.send_wr / 4 * 3);
        assert!(sizes.limits.write_wrs < sizes.queues.send_wr / 4 * 3);
        assert!(sizes.queues.receives <= sizes.queues.receives_max);
    }

    #[test]
    fn largest_payload_fits_the_devices_of_the_lab() {
        for max_payload in [1 << 20, 4 << 20] {
            serves_payload(max_payload, &device(16384, 32, 32, false));
            serves_payload(max_payload, &device(32768, 6, 1, true));
        }
    }

    #[test]
    fn largest_payload_of_linux_fits_adapters_with_few_elements() {
        // Intel's X722, and QLogic's qedr over iWARP.
        serves_payload(1 << 20, &device(895, 3, 1, true));
        serves_payload(1 << 20, &device(32767, 4, 4, true));
    }

    #[test]
    fn send_queue_is_not_rounded_up_if_one_chain_less_suffices() {
        assert_eq!(frugal(389 + 72, 389 + 144), 512 - 1 - DRAIN_SEND_WRS);
        assert_eq!(frugal(500, 510), 512 - 1 - DRAIN_SEND_WRS);
        assert_eq!(frugal(510, 511), 511);
        assert_eq!(frugal(512, 600), 600);
        assert_eq!(frugal(1, 1), 1);
    }

    #[test]
    fn device_without_extensions_invalidates_nothing() {
        for extensions in [false, true] {
            let device = device::Limits {
                mem_mgt_extensions: extensions,
                ..device(16384, 32, 32, false)
            };
            let Some(sizes) = Sizes::new(&CONFIG, &device) else {
                panic!("{device:?} is found unfit");
            };
            assert_eq!(sizes.limits.remote_invalidation, extensions);
            assert_eq!(CONFIG.announce(&device).remote_invalidation, extensions);
        }
    }

    #[test]
    fn device_without_room_for_a_call_is_unfit() {
        assert!(Sizes::new(&CONFIG, &device(4, 32, 32, false)).is_none());
    }
}
