// SPDX-License-Identifier: GPL-2.0

//! What is fixed when a transport is made, and what can be tuned.

use kernel::prelude::*;

use crate::proto::session::least_receive;
use crate::proto::version::Setting;
use crate::rdma::device::Limits;
use crate::sunrpc::sysctl::{Choice, Entry, Knob};
use crate::wire::cm_private::{Settings, Size, Versions};
use crate::wire::conf_rdma::Request;

/// Sizes, counts and times of one transport. Lengths are in bytes, times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Request slots: the most RPCs in flight, and the credits that calls ask for.
    pub(crate) slots: u32,
    /// The longest message that we send inline, transport header included.
    pub(crate) inline_send: u32,
    /// The longest message that we receive inline, transport header included.
    pub(crate) inline_receive: u32,
    /// The version that is tried first.
    pub(crate) version: Setting,
    /// The server is asked for its configuration.
    pub(crate) asks: bool,
    /// Replies of a server of RFC 5666 may have read chunks.
    pub(crate) pulls: bool,
    /// How long address and route resolution may take, each.
    pub(crate) resolve_ms: u32,
    /// How long the peer may take to answer a connection request.
    pub(crate) connect_ms: u32,
}

static SLOTS: Knob = Knob::new(c"rdma_slot_table_entries", 128, 4, 16384);
static INLINE_READ: Knob = Knob::new(c"rdma_max_inline_read", 4096, 1024, 65536);
static INLINE_WRITE: Knob = Knob::new(c"rdma_max_inline_write", 4096, 1024, 65536);
/// The version that is tried first: see [`Setting`].
static VERSION: Choice = Choice::new(c"rdma_version", &["1", "2", "auto"], 2);
/// Whether a server is asked by the Connection Configuration Protocol of RFC 5666. It is a setting
/// of ours.
static CONF: Knob = Knob::new(c"rdma_conf", 0, 0, 1);
/// Whether replies of a server that sends no private data may have read chunks. It is a setting of
/// ours.
static PULLS: Knob = Knob::new(c"rdma_read_chunks", 0, 0, 1);
/// The largest alignment in bytes for the data of a call. With 0, or without a server that asks for
/// it, calls have no padding.
static PADDING: Knob = Knob::new(c"rdma_inline_write_padding", 0, 0, 4096);
/// This one and the next one have no effect, as in the stock module; scripts may set them.
static MEMREG: Knob = Knob::new(c"rdma_memreg_strategy", 5, 0, 6);
static PAD_OPTIMIZE: Knob = Knob::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// The directory of [`KNOBS`] below `/proc/sys`.
pub(crate) const SYSCTL_PATH: &CStr = c"sunrpc";

/// The tunables: names, defaults and ranges of the stock module, and three of ours.
pub(crate) static KNOBS: [Entry; 9] = [
    Entry::Knob(&SLOTS),
    Entry::Knob(&INLINE_READ),
    Entry::Knob(&INLINE_WRITE),
    Entry::Knob(&PADDING),
    Entry::Knob(&MEMREG),
    Entry::Knob(&PAD_OPTIMIZE),
    Entry::Choice(&VERSION),
    Entry::Knob(&CONF),
    Entry::Knob(&PULLS),
];

/// Returns the version that is to be tried first.
fn version() -> Setting {
    match VERSION.get() {
        0 => Setting::One,
        1 => Setting::Two,
        _ => Setting::Auto,
    }
}

/// Returns the largest alignment for the data of a call; zero for none.
pub(super) fn padding() -> u32 {
    PADDING.get()
}

/// Returns the number of slots of a new transport.
pub(crate) fn slots() -> u32 {
    SLOTS.get()
}

impl Config {
    /// Makes the configuration of a transport with so many slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots,
            inline_send: INLINE_WRITE.get(),
            inline_receive: INLINE_READ.get(),
            version: version(),
            asks: CONF.get() != 0,
            pulls: PULLS.get() != 0,
            resolve_ms: 5_000,
            connect_ms: 60_000,
        }
    }

    /// Returns the configuration of the transport's next connection: with the thresholds as they
    /// are tuned now.
    pub(crate) fn refreshed(&self) -> Self {
        Self::new(self.slots)
    }

    /// Returns the size of the Receives to post, in bytes.
    pub(crate) const fn receive_size(&self) -> u32 {
        least_receive(self.version.may_use_two(), self.inline_receive)
    }

    /// Returns how many RDMA Reads of the server's memory may be outstanding: none, unless they are
    /// allowed, and the device does them without memory regions.
    pub(crate) fn own_reads(&self, limits: &Limits) -> u8 {
        if self.pulls && !limits.reads_need_regions {
            limits.max_qp_init_rd_atom.min(READS)
        } else {
            0
        }
    }

    /// Returns what we tell a server of RFC 5666, with a device that serves so many RDMA Reads at
    /// the same time.
    pub(crate) fn request(&self, reads: u8) -> Request {
        Request {
            maxcall_sendsize: self.inline_send,
            maxreply_sendsize: self.receive_size(),
            maxrdmaread: reads.into(),
        }
    }

    /// Returns what we announce in the CM private data (RFC 8797 section 4).
    pub(crate) const fn announce(&self) -> Settings {
        Settings {
            remote_invalidation: true,
            send: Size::from_bytes(self.inline_send),
            receive: Size::from_bytes(self.inline_receive),
            versions: match self.version {
                Setting::One => None,
                Setting::Two | Setting::Auto => Some(Versions::ALL),
            },
        }
    }
}

/// The most RDMA Reads of a server's memory that may be outstanding.
const READS: u8 = 4;

/// The most segments of a chunk that we offer. All segments of a call together fit any header that
/// an inline threshold of 1024 bytes leaves room for.
pub(crate) const MAX_SEGMENTS: u32 = 16;

/// The largest payload of an RPC in bytes: 1 MiB and one page, since a payload need not start on a
/// page boundary.
pub(crate) const MAX_PAYLOAD: usize = MAX_PAYLOAD_PAGES as usize * kernel::page::PAGE_SIZE;

/// The pages of such a payload.
pub(super) const MAX_PAYLOAD_PAGES: u32 = 257;
