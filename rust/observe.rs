// SPDX-License-Identifier: GPL-2.0

//! Observation: trace events and counters.
//!
//! - [`trace`]: the events of the group `rpcrdma`, with one function for each. A disabled event
//!   costs a jump that the kernel patches out.
//! - [`stats`]: the counters of a transport, and its line in `/proc/self/mountstats`; the module's
//!   counters of protocol breaches.
//! - [`debugfs`]: the files that show the counters of protocol breaches, the connections, and what
//!   is known of servers.
//! - [`connections`]: what the file `connections` says about a connection.
//! - [`requester`]: what requesters do wrong, traced and counted.
//!
//! This room knows no transport. Its functions take integers, strings, and types of `wire` and
//! `proto`. Unless their documentation says otherwise, they neither sleep nor allocate nor take a
//! lock, so they may be called in any context.

pub(crate) mod connections;
pub(crate) mod debugfs;
pub(crate) mod stats;
pub(crate) mod trace;

pub(crate) use self::stats::requester;
