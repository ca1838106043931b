// SPDX-License-Identifier: GPL-2.0

//! Calls of the service to its client: the callbacks of NFSv4.1 and later (RFC 8167).
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`callback`] | the data of SUNRPC's client transport over a connection |
//! | [`ops`] | the operations that SUNRPC calls |
//! | [`slot`] | whether the call of a request slot was sent and not answered |
//! | [`call`], [`answer`] | sends a call; completes it when its answer arrives |
//!
//! The way of a call: the service makes a client transport of the class `rdma backchannel` for a
//! connection when it first calls back. [`call`] copies the call into a send buffer of the
//! connection, with the send lock held, and never waits. The completion worker recognises the
//! answer, and [`answer`] completes the RPC there: every thread of the service may be waiting for
//! that answer.
//!
//! [`route`](super::route) is the way from the connection to the client transport. The objects
//! refer to each other in a circle, from the time when the client transport is attached until it is
//! closed:
//!
//! ```text
//! rpc_xprt ── Callback ──► Endpoint ──► Owner ──► Route ──► Client ──► XprtHandle (rpc_xprt)
//! ```
//!
//! SUNRPC closes the client transport when it has detached the `svc_xprt`, and the client transport
//! then drops its endpoint and empties the route. The worker that closes the connection does so as
//! well, because it may come first.

mod answer;
mod call;
pub(crate) mod callback;
mod ops;
mod slot;
