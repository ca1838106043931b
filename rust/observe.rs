// SPDX-License-Identifier: GPL-2.0

//! What can be seen from outside: trace events and counters.
//!
//! - [`trace`]: the events of the group `rpcrdma`, one function each. A disabled event costs a
//!   jump that is patched out.
//! - [`stats`]: the counters of a transport and its line in `/proc/self/mountstats`; breaches of the
//!   protocol, counted for the whole module.
//! - [`debugfs`]: where the latter can be read.
//!
//! This room knows no transport. Its functions take integers, strings, and types of `wire` and
//! `proto`; they never sleep, allocate or take a lock, so they may be called in any context.

pub(crate) mod debugfs;
pub(crate) mod stats;
pub(crate) mod trace;
