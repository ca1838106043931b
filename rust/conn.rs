// SPDX-License-Identifier: GPL-2.0

//! A connection, as both roles see it.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`role`] | the interface to the role, and to the transport |
//! | [`connection`] | the objects of a connection, the lengths of its queues; its close |
//! | [`lifecycle`] | the states of a connection, which events and the removal of a device change |
//! | [`handshake`] | the private data of both peers, and the terms that follow from it |
//! | [`state`] | the state that completions reach; the completions, which go to the role |
//! | [`credits`] | the peer's credits for our calls |
//! | [`backward`] | messages in the backward direction, and their buffers |
//! | [`session`] | the session of both peers, and its messages |
//! | [`terms`] | the effective terms, for readers without a lock |
//! | [`peers`] | the servers that speak version one only, from earlier connections |
//! | [`registry`] | the connections of the module, for a file of debugfs |
//! | [`traced`] | the names of a peer, a work request and a memory region in trace events |
//!
//! A role (requester or responder) implements [`role::Role`] and holds a
//! [`Connection`](connection::Connection). This room names neither SUNRPC nor a role.
//!
//! All functions run in process context. Documentation/locking.rst lists the locks.
#![forbid(unsafe_code)]

pub(crate) mod backward;
pub(crate) mod connection;
pub(crate) mod credits;
pub(crate) mod handshake;
pub(crate) mod lifecycle;
pub(crate) mod peers;
pub(crate) mod registry;
pub(crate) mod role;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod terms;
pub(crate) mod traced;

use kernel::time::{Instant, Monotonic};

/// Returns the milliseconds since `begin`.
fn millis(begin: Instant<Monotonic>) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(0)
}
