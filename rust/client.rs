// SPDX-License-Identifier: GPL-2.0

//! The requester: SUNRPC's transport operations over an RDMA connection.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`config`] | what is fixed when a transport is made: sizes, counts, times |
//! | [`transport`] | the operations SUNRPC calls, each a line or two |
//! | [`request`] | a request slot: what one RPC owns on the RDMA side, and its phases |
//! | [`endpoint`] | one connection's objects, in the order they must be torn down |
//! | [`connect`], [`events`] | making a connection; what the connection manager reports |
//! | [`retry`] | when to try again, and when RPCs are told |
//! | [`link`] | completions: messages that arrived, work requests that ended |
//! | [`marshal`], [`register`] | plan, register and encode, outside the send lock |
//! | [`send`] | post what was prepared, under the send lock |
//! | [`reply`] | from a received message to a completed RPC |
//! | [`backward`] | calls of the server, and our replies to them |
//! | [`fence`] | no memory a peer can still reach goes back to its owner |
//! | [`pools`], [`supply`] | the memory regions of a connection; more when they run low |
//! | [`probe`] | is a peer that owes replies still there? |
//!
//! The way of one RPC: SUNRPC calls [`marshal`] while it prepares the request, [`send`] once the
//! request holds the send lock and a credit; [`link`] hands the reply to [`reply`], and that
//! completes the RPC, at once or after the local invalidation that [`fence`] waits for.
//!
//! Everything runs in process context: SUNRPC's workqueues and callers, the completion worker
//! (`IB_POLL_WORKQUEUE`), the connection manager's worker. Documentation/locking.rst has the
//! locks.
#![forbid(unsafe_code)]

pub(crate) mod config;
pub(crate) mod transport;

mod backward;
mod connect;
mod endpoint;
mod events;
mod fence;
mod link;
mod marshal;
mod names;
mod pools;
mod probe;
mod register;
mod reply;
mod request;
mod retry;
mod send;
mod supply;
