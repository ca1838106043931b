// SPDX-License-Identifier: GPL-2.0

//! The requester: SUNRPC's client transport over RDMA connections.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`transport`] | the data of one transport |
//! | [`ops`] | the operations that SUNRPC calls, each a line or two |
//! | [`context`] | what all transports of the module share |
//! | [`advice`] | what the log says about a mount that could not connect |
//! | [`config`], [`sizing`] | tunables; what a connection asks of a device |
//! | [`shown`] | what debugfs shows of a connection |
//! | [`connect`] | makes a connection |
//! | [`reconnect`] | when to connect again, and when RPCs learn of the failure |
//! | [`endpoint`] | a connection with the requester's memory regions |
//! | [`requester`], [`role`] | the requester's part of a connection; how it takes a completion |
//! | [`request`], [`tags`] | a request slot and its phases; the tags of its work requests |
//! | [`marshal`], [`register`] | plans, registers and encodes a call, outside the send lock |
//! | [`single`], [`assemble`] | ... with one payload alone; the steps that all calls share |
//! | [`send`] | posts a prepared call, under the send lock |
//! | [`reply`], [`arrived`] | checks a reply; the two ways in which one arrives |
//! | [`complete`] | completes an RPC |
//! | [`fence`] | invalidates memory before its owner gets it back |
//! | [`legacy`], [`claim`], [`padded`] | what is different with servers of RFC 5666 |
//! | [`conf`], [`asked`] | asks such a server for its configuration |
//! | [`pull`], [`pulls`] | reads the read chunks of such a server's replies |
//! | [`release`] | gives up a call that may be under way |
//! | [`session`], [`grow`] | agrees with the server on version and terms; larger buffers |
//! | [`backward`] | calls of the server, and the replies to them |
//! | [`pools`], [`replenish`] | the memory regions of a connection; more when they run low |
//! | [`liveness`], [`probe`] | whether a server that owes replies is still there |
//! | [`owner`] | the transport as its connection sees it |
//! | [`traced`], [`shape`] | names for trace events; lengths of buffers |
//!
//! The way of one RPC: SUNRPC calls [`marshal`] while it prepares the request, and [`send`] once
//! the request holds the send lock and a credit. [`role`] hands the reply to [`reply`], which
//! completes the RPC at once, or after the local invalidation that [`fence`] waits for.
//!
//! All functions run in process context: in SUNRPC's workqueues and callers, the completion worker
//! (`IB_POLL_WORKQUEUE`), and the connection manager's worker. Documentation/locking.rst lists the
//! locks.
#![forbid(unsafe_code)]

pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod transport;
mod whole;

mod advice;
mod arrived;
mod asked;
mod assemble;
mod backward;
mod claim;
mod complete;
mod conf;
mod connect;
mod endpoint;
mod fence;
mod grow;
mod legacy;
mod liveness;
mod marshal;
mod ops;
mod owner;
mod padded;
mod pools;
mod preparing;
mod probe;
mod pull;
mod pulls;
mod reconnect;
mod register;
mod release;
mod replenish;
mod reply;
mod request;
mod requester;
mod role;
mod send;
mod session;
mod shape;
mod shown;
mod single;
mod sizing;
mod spare;
mod tags;
mod traced;
