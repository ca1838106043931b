// SPDX-License-Identifier: GPL-2.0

//! The requester: SUNRPC's client transport over RDMA connections.
//!
//! | module | contents |
//! | --- | --- |
//! | [`ops`] | the operations that SUNRPC calls |
//! | [`transport`] | the data of one transport |
//! | [`call`] | the life of one RPC: slot, call, reply |
//! | [`conn`] | the life of one connection: connecting, session, completions |
//! | [`endpoint`] | one connection: its objects, memory regions and silence |
//! | [`backchannel`] | calls of the server, and the replies to them |
//! | [`config`] | tunables, and what a connection asks of a device |
//! | [`advice`] | the log lines about a mount that cannot connect |
//! | [`legacy`] | the forms of messages that only servers of RFC 5666 use |
//!
//! The path of an RPC: SUNRPC calls [`call::send`] to prepare the request, and again to post it
//! once the request holds the send lock and a credit. [`conn`] hands the reply to [`call::reply`],
//! which completes the RPC at once, or after the local invalidation that [`call::fence`] waits for.
//!
//! All functions run in process context: in SUNRPC's workqueues and callers, the completion worker
//! (`IB_POLL_WORKQUEUE`), and the connection manager's worker. Documentation/locking.rst lists the
//! locks. The files of a folder may import each other; the members of this list do so in one
//! direction only, which `tools/checks` enforces.
#![forbid(unsafe_code)]

use self::legacy as quirks;

pub(crate) use self::legacy::KNOBS as QUIRK_KNOBS;

pub(crate) mod config;
pub(crate) mod transport;

mod advice;
mod backchannel;
mod call;
mod conn;
mod endpoint;
mod ops;

#[cfg(RPCRDMA_LEGACY)]
mod legacy;
#[cfg(not(RPCRDMA_LEGACY))]
#[path = "client/legacy/none.rs"]
mod legacy;
