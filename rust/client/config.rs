// SPDX-License-Identifier: GPL-2.0

//! What is fixed when a transport is made.

use crate::proto::backward;
use crate::rdma::device::Limits;
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
const OTHER_ENTRIES: u32 = 2 * BACKWARD + PROBES + 2;
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
    /// Its memory regions are so small that [`MAX_SEGMENTS`] of them do not hold a payload.
    RegionsTooSmall,
    /// Its queues cannot hold even one request.
    QueuesTooShort,
}

impl Unfit {
    /// What the log says.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoFastRegistration => "it has no fast memory registration",
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
        let mr_depth = limits.max_frmr_depth.min(MAX_PAYLOAD_PAGES);
        let regions = MAX_MESSAGE_PAGES.div_ceil(mr_depth.max(1));
        if mr_depth == 0 || regions > MAX_SEGMENTS {
            return Err(Unfit::RegionsTooSmall);
        }
        // A region each for call and reply, with an extra one for an odd start; each is
        // registered and invalidated once. And the Send.
        let per_request = 2 * (regions + 2) + 1;
        // Of the device's limit one is for the work request that drains the queue.
        let room = limits.max_qp_wr.saturating_sub(1 + BACKWARD + PROBES);
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
