// SPDX-License-Identifier: GPL-2.0

//! The responder, a server transport of SUNRPC: a role of [`conn`](crate::conn).
//!
//! The order is from top to bottom: a file or folder uses those below it, and none above it.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`role`] | the completions of a connection |
//! | [`backchannel`] | calls of the service to its client |
//! | [`transport`] | the operations that SUNRPC calls |
//! | [`recv`] | receives calls: `recvfrom`, and `read` for calls that RDMA Reads fetch |
//! | [`send`] | sends replies and errors |
//! | [`conn`] | the life of a connection: `listener`, `accept`, `session`, `failure`, and its |
//! | | objects: `owner`, `endpoint` |
//! | [`legacy`] | requesters of RFC 5666; no other file knows what sets them apart |
//! | [`call`] | calls and operations in progress: `context`, `queue`, `in_flight`, `load`, |
//! | | `memory`, `budget` |
//! | [`log`] | messages to the administrator |
//! | [`config`] | settings and counters, and the sizes of a connection on a device |
//!
//! This room contains no `unsafe`.
#![forbid(unsafe_code)]

use self::legacy as quirks;

pub(crate) use self::legacy::SYSCTLS as QUIRK_SYSCTLS;

mod backchannel;
mod call {
    pub(super) mod budget;
    pub(super) mod context;
    pub(super) mod in_flight;
    pub(super) mod load;
    pub(super) mod memory;
    pub(super) mod queue;
}
pub(crate) mod config;
pub(crate) mod conn {
    pub(super) mod accept;
    pub(super) mod endpoint;
    pub(super) mod failure;
    pub(crate) mod listener;
    pub(crate) mod owner;
    pub(super) mod session;
}
#[cfg(RPCRDMA_LEGACY)]
mod legacy;
#[cfg(not(RPCRDMA_LEGACY))]
#[path = "server/legacy/none.rs"]
mod legacy;
mod log;
mod recv {
    pub(super) mod read;
    pub(super) mod recvfrom;
}
mod role;
mod send;
mod transport;
