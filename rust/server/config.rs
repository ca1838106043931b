// SPDX-License-Identifier: GPL-2.0

//! What the administrator can set, and the counters that are shown beside it.
//!
//! A setting is read when a connection is accepted, and holds for that connection until it ends.

use kernel::prelude::*;

use crate::sunrpc::sysctl::{Counter, Entry, Knob};
use crate::wire::Version;

/// The most calls of a requester that may be outstanding: its grant never exceeds them.
pub(crate) static MAX_REQUESTS: Knob = Knob::new(c"max_requests", 128, 4, 16384);

/// The inline threshold in bytes, transport header included: the longest message that is received
/// inline, and the longest that is sent inline if the requester receives as much.
pub(crate) static MAX_REQ_SIZE: Knob = Knob::new(c"max_req_size", 4096, 4096, 65536);

/// The highest version of RPC-over-RDMA that is served. It is a setting of ours.
static MAX_VERSION: Knob = Knob::new(c"max_version", 2, 1, 2);

/// Returns the lowest and the highest version that a new connection is served in.
pub(crate) fn versions() -> (Version, Version) {
    let highest = match MAX_VERSION.get() {
        1 => Version::One,
        _ => Version::Two,
    };
    (Version::One, highest)
}

/// The most calls to a requester that may be outstanding. The stock module has no setting for it.
pub(crate) const MAX_BC_REQUESTS: u32 = 2;

/// It has no effect, as in the stock module; scripts may set it. The number of RDMA Reads that are
/// outstanding follows from the connection request and the device.
static READ_DEPTH: Knob = Knob::new(c"max_outbound_read_requests", 16, 1, 255);

/// Read segments whose RDMA Reads were started.
pub(crate) static READS: Counter = Counter::new(c"rdma_stat_read");

/// Messages that were received.
pub(crate) static RECEIVED: Counter = Counter::new(c"rdma_stat_recv");

/// Segments of write chunks and reply chunks whose RDMA Writes were started.
pub(crate) static WRITES: Counter = Counter::new(c"rdma_stat_write");

/// Chains of work requests that found the send queue full.
pub(crate) static SQ_FULL: Counter = Counter::new(c"rdma_stat_sq_starve");

/// Calls of RFC 5666 with padding that were received. This counter and the next two are ours.
pub(crate) static PADDED: Counter = Counter::new(c"rdma_stat_padded");

/// Messages of RFC 5666 that say that a reply's read chunks were read.
pub(crate) static DONE: Counter = Counter::new(c"rdma_stat_done");

/// Calls of the Connection Configuration Protocol of RFC 5666 that were answered.
pub(crate) static CONF: Counter = Counter::new(c"rdma_stat_conf");

/// Replies that were exposed as read chunks.
pub(crate) static EXPOSED: Counter = Counter::new(c"rdma_stat_exposed");

/// Whether replies to clients that send no private data may be exposed as read chunks, where the
/// client has offered too little room. It is a setting of ours.
static READ_CHUNKS: Knob = Knob::new(c"read_chunks", 0, 0, 1);

/// Returns whether replies may be exposed as read chunks.
pub(super) fn exposes() -> bool {
    READ_CHUNKS.get() != 0
}

/// The alignment in bytes that the server recommends for opaque data, to clients that ask by that
/// protocol. A client that follows it sends RDMA_MSGP. With 4 there is no padding.
static ALIGN: Knob = Knob::new(c"conf_align", 4, 4, 65536);

/// Returns the alignment that the server recommends: a power of two.
pub(crate) fn align() -> u32 {
    let align = ALIGN.get();
    1 << align.checked_ilog2().unwrap_or(2)
}

// Counters that the stock module keeps for scripts only, too: they are always zero.
static RQ_STARVE: Knob = zero(c"rdma_stat_rq_starve");
static RQ_POLL: Knob = zero(c"rdma_stat_rq_poll");
static RQ_PROD: Knob = zero(c"rdma_stat_rq_prod");
static SQ_POLL: Knob = zero(c"rdma_stat_sq_poll");
static SQ_PROD: Knob = zero(c"rdma_stat_sq_prod");

const fn zero(name: &'static CStr) -> Knob {
    Knob::new(name, 0, 0, 0)
}

/// The directory of [`SYSCTLS`] below `/proc/sys`.
pub(crate) const SYSCTL_PATH: &CStr = c"sunrpc/svc_rdma";

/// The settings and counters: names, defaults and ranges of the stock module, and those of ours at
/// the end.
pub(crate) static SYSCTLS: [Entry; 19] = [
    Entry::Knob(&MAX_REQUESTS),
    Entry::Knob(&MAX_REQ_SIZE),
    Entry::Knob(&READ_DEPTH),
    Entry::Counter(&READS),
    Entry::Counter(&RECEIVED),
    Entry::Counter(&WRITES),
    Entry::Counter(&SQ_FULL),
    Entry::Knob(&RQ_STARVE),
    Entry::Knob(&RQ_POLL),
    Entry::Knob(&RQ_PROD),
    Entry::Knob(&SQ_POLL),
    Entry::Knob(&SQ_PROD),
    Entry::Knob(&MAX_VERSION),
    Entry::Counter(&PADDED),
    Entry::Counter(&DONE),
    Entry::Counter(&CONF),
    Entry::Knob(&ALIGN),
    Entry::Counter(&EXPOSED),
    Entry::Knob(&READ_CHUNKS),
];
