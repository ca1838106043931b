// SPDX-License-Identifier: GPL-2.0

//! Observation: trace events and counters.
//!
//! - [`trace`]: the events of the group `rpcrdma`, with one function for each. A disabled event
//!   costs a patched-out jump.
//! - [`stats`]: the counters of a transport, and its line in `/proc/self/mountstats`; the module's
//!   counters of protocol breaches.
//! - [`debugfs`]: the files that show the counters of protocol breaches, the connections, and the
//!   knowledge about servers.
//! - [`connections`]: the line of a connection in the file `connections`.
//! - [`requester`]: breaches of the protocol by requesters, traced and counted.
//!
//! This room does not depend on a transport. Its functions take integers, strings, and types of
//! `wire` and `proto`. Unless their documentation says otherwise, they neither sleep nor allocate
//! nor take a lock, so they may be called in any context.

pub(crate) mod connections;
pub(crate) mod debugfs;
pub(crate) mod stats;
// Without trace events, nothing uses the values that they would have.
#[cfg_attr(not(CONFIG_TRACEPOINTS), allow(unused))]
pub(crate) mod trace;

pub(crate) use self::stats::requester;
