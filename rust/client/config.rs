// SPDX-License-Identifier: GPL-2.0

//! What is fixed when a transport is made.

use crate::proto::backward;
use crate::rdma::device::Limits;
use crate::rdma::qp::{DRAIN_ENTRIES, DRAIN_SEND_WRS};
use crate::sunrpc::sysctl::Knob;
use crate::wire::cm_private::{Settings, Size};

/// Sizes, counts and times of one transport. Lengths are in bytes, times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Request slots: the most RPCs in flight, and the credits asked for.
    pub(crate) slots: u32,
    /// Longest message we send inline, transport header included.
    pub(crate) inline_send: u32,
    /// Longest message we receive inline, transport header included.
    pub(crate) inline_receive: u32,
    /// How long address and route resolution may take, each.
    pub(crate) resolve_ms: u32,
    /// How long the peer may take to answer a connection request.
    pub(crate) connect_ms: u32,
}

static SLOTS: Knob = Knob::new(c"rdma_slot_table_entries", 128, 4, 16384);
static INLINE_READ: Knob = Knob::new(c"rdma_max_inline_read", 4096, 1024, 65536);
static INLINE_WRITE: Knob = Knob::new(c"rdma_max_inline_write", 4096, 1024, 65536);
/// These three have no effect, in the stock module neither; scripts may set them.
static PADDING: Knob = Knob::new(c"rdma_inline_write_padding", 0, 0, 4096);
static MEMREG: Knob = Knob::new(c"rdma_memreg_strategy", 5, 0, 6);
static PAD_OPTIMIZE: Knob = Knob::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// What can be tuned in `/proc/sys/sunrpc`: names, defaults and ranges of the stock module.
pub(crate) static KNOBS: [&Knob; 6] = [
    &SLOTS,
    &INLINE_READ,
    &INLINE_WRITE,
    &PADDING,
    &MEMREG,
    &PAD_OPTIMIZE,
];

/// The number of slots that a new transport is to have.
pub(crate) fn slots() -> u32 {
    SLOTS.get()
}

impl Config {
    /// For a transport with so many slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots,
            inline_send: INLINE_WRITE.get(),
            inline_receive: INLINE_READ.get(),
            resolve_ms: 5_000,
            connect_ms: 60_000,
        }
    }

    /// For the transport's next connection: with thresholds as they are tuned now.
    pub(crate) fn refreshed(&self) -> Self {
        Self::new(self.slots)
    }

    /// What we announce in the CM private data (RFC 8797 section 4).
    pub(crate) const fn announce(&self) -> Settings {
        Settings {
            remote_invalidation: true,
            send: Size::from_bytes(self.inline_send),
            receive: Size::from_bytes(self.inline_receive),
        }
    }
}

/// Most segments of any one chunk we offer. All of them together fit any header that an inline
/// threshold of 1024 bytes leaves room for.
pub(crate) const MAX_SEGMENTS: u32 = 16;

/// Largest payload of an RPC in bytes: 1 MiB and one page, since a payload need not start on a
/// page boundary.
pub(crate) const MAX_PAYLOAD: usize = MAX_PAYLOAD_PAGES as usize * kernel::page::PAGE_SIZE;

const MAX_PAYLOAD_PAGES: u32 = 257;
/// Pages of a payload plus head and tail of the message around it.
const MAX_MESSAGE_PAGES: u32 = MAX_PAYLOAD_PAGES + 3;
/// Receives for calls of the server, and Sends for the replies. They are posted from the start: when
/// NFS says that it wants calls, there is a connection already.
const BACKWARD: u32 = backward::CREDITS;
/// Work requests of [`super::probe`], one at a time.
const PROBES: u32 = 1;
/// Completions that are nobody's request: replies to the server's calls and Receives for these, probes,
/// and what drains both queues.
const OTHER_ENTRIES: u32 = 2 * BACKWARD + PROBES + DRAIN_ENTRIES;
/// A quarter of the Receives is posted in one batch.
const RECEIVE_BATCHES: u32 = 4;

/// How large a connection's queues and memory regions are on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizing {
    /// Pages that one memory region maps.
    pub(crate) mr_depth: u32,
    /// Credits to ask for: slots, or fewer if the device's queues are short.
    pub(crate) credits: u32,
    /// Work requests on the send queue.
    pub(crate) send_wr: u32,
    /// Receives posted.
    pub(crate) receives: u32,
    /// Receives reposted together.
    pub(crate) receive_batch: u32,
}

/// Why a device is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// No fast registration (`IB_DEVICE_MEM_MGT_EXTENSIONS`).
    NoFastRegistration,
    /// Its driver sleeps where regions are mapped ([`Limits::map_sleeps`]).
    MapSleeps,
    /// Its memory regions are so small that [`MAX_SEGMENTS`] of them do not hold a payload and what
    /// is around it.
    RegionsTooSmall,
    /// Its queues cannot hold even one request.
    QueuesTooShort,
}

impl Unfit {
    /// What the log says.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoFastRegistration => "it has no fast memory registration",
            Self::MapSleeps => "its driver may sleep while it maps memory",
            Self::RegionsTooSmall => "its memory regions are too small",
            Self::QueuesTooShort => "its queues are too short",
        }
    }
}

impl Sizing {
    /// Fits `config` to a device.
    ///
    /// # Errors
    ///
    /// [`Unfit`] says what the device lacks.
    pub(crate) fn new(config: &Config, limits: &Limits) -> Result<Self, Unfit> {
        if !limits.mem_mgt_extensions {
            return Err(Unfit::NoFastRegistration);
        }
        // Regions are mapped under a request's lock, which completions take.
        if limits.map_sleeps {
            return Err(Unfit::MapSleeps);
        }
        let mr_depth = limits.max_frmr_depth.min(MAX_PAYLOAD_PAGES);
        // Head and tail of a message lie elsewhere, so they have regions of their own.
        if mr_depth == 0 || MAX_PAYLOAD_PAGES.div_ceil(mr_depth) + 2 > MAX_SEGMENTS {
            return Err(Unfit::RegionsTooSmall);
        }
        let regions = MAX_MESSAGE_PAGES.div_ceil(mr_depth);
        // A region each for call and reply, with an extra one for an odd start; each is
        // registered and invalidated once. And the Send.
        let per_request = 2 * (regions + 2) + 1;
        // Part of the device's limit is for what drains the send queue.
        let room = limits
            .max_qp_wr
            .saturating_sub(DRAIN_SEND_WRS + BACKWARD + PROBES);
        // One completion queue takes all: what is sent, and for each request a Receive and a quarter.
        let entries = limits.max_cqe.saturating_sub(OTHER_ENTRIES);
        let credits = config
            .slots
            .min(room / per_request)
            .min(entries / (per_request + 2));
        if credits == 0 {
            return Err(Unfit::QueuesTooShort);
        }
        let receive_batch = (credits / RECEIVE_BATCHES).max(1);
        Ok(Self {
            mr_depth,
            credits,
            send_wr: credits * per_request + BACKWARD + PROBES,
            receives: (credits + receive_batch).min(room) + BACKWARD,
            receive_batch,
        })
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_client_config)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        slots: 128,
        inline_send: 4096,
        inline_receive: 4096,
        resolve_ms: 5_000,
        connect_ms: 60_000,
    };

    fn device(max_qp_wr: u32, max_frmr_depth: u32, max_cqe: u32) -> Limits {
        Limits {
            max_qp_wr,
            max_sge: 30,
            max_frmr_depth,
            max_qp_rd_atom: 16,
            max_cqe,
            mem_mgt_extensions: true,
            sg_gaps: false,
            map_sleeps: false,
        }
    }

    /// Fits `slots` to a device, and checks that nothing exceeds what it can do.
    fn fit(slots: u32, limits: Limits) -> Sizing {
        let config = Config { slots, ..CONFIG };
        let Ok(fit) = Sizing::new(&config, &limits) else {
            panic!("{limits:?} is found unfit");
        };
        assert!(fit.send_wr + DRAIN_SEND_WRS <= limits.max_qp_wr);
        assert!(fit.receives < limits.max_qp_wr);
        assert!(fit.send_wr + fit.receives + DRAIN_ENTRIES <= limits.max_cqe);
        assert!((1..=slots).contains(&fit.credits));
        // A Receive for each credit, for each call of the server, and what a batch is behind.
        assert!(fit.receives >= fit.credits + BACKWARD);
        assert!((1..=fit.credits).contains(&fit.receive_batch));
        fit
    }

    #[test]
    fn common_devices_give_all_slots_a_credit() {
        // About what mlx5, mlx4, irdma, cxgb4, siw and rxe say of themselves.
        for (max_qp_wr, depth, max_cqe) in [
            (32_768, 65_536, 4_194_303),
            (16_351, 511, 65_408),
            (32_767, 262_144, 1_048_574),
            (8_191, 128, 65_535),
            (32_768, 256, 102_400),
            (1_048_576, 512, 32_767),
        ] {
            assert_eq!(fit(128, device(max_qp_wr, depth, max_cqe)).credits, 128);
        }
    }

    #[test]
    fn short_queues_mean_fewer_credits() {
        assert!(fit(128, device(512, 256, 65_535)).credits < 128);
        assert!(fit(128, device(16_384, 256, 512)).credits < 128);
        fit(16_384, device(32_768, 65_536, 4_194_303));
        // One request, and what is always there.
        for slots in [4, 16_384] {
            fit(
                slots,
                device(DRAIN_SEND_WRS + BACKWARD + PROBES + 11, 256, 65_535),
            );
        }
    }

    #[test]
    fn small_regions_are_more_in_number() {
        for depth in [19, 32, 256, 257, 65_536] {
            let fit = fit(128, device(32_768, depth, 65_535));
            assert!(MAX_PAYLOAD_PAGES.div_ceil(fit.mr_depth) + 2 <= MAX_SEGMENTS);
        }
    }

    #[test]
    fn what_a_device_lacks_is_said() {
        let unfit = |limits: Limits| Sizing::new(&CONFIG, &limits).err();
        let good = device(32_768, 256, 65_535);
        let without = Limits {
            mem_mgt_extensions: false,
            ..good
        };
        assert_eq!(unfit(without), Some(Unfit::NoFastRegistration));
        let asleep = Limits {
            map_sleeps: true,
            ..good
        };
        assert_eq!(unfit(asleep), Some(Unfit::MapSleeps));
        for depth in [0, 1, 18] {
            let small = device(32_768, depth, 65_535);
            assert_eq!(unfit(small), Some(Unfit::RegionsTooSmall));
        }
        for (max_qp_wr, max_cqe) in [(0, 65_535), (16, 65_535), (32_768, 0), (32_768, 40)] {
            let short = device(max_qp_wr, 256, max_cqe);
            assert_eq!(unfit(short), Some(Unfit::QueuesTooShort));
        }
    }
}
