// SPDX-License-Identifier: GPL-2.0

//! Decisions of the protocol, without I/O, clock, allocation or randomness.
//!
//! Each module answers one question of a requester or responder from plain values. Time, limits and
//! random numbers are arguments; the decision is the returned value. All functions may be called in
//! any context. The caller locks: a type that changes takes `&mut self`.
//!
//! | module | question |
//! | --- | --- |
//! | [`conn`] | What does this event mean for the connection? |
//! | [`inline`] | How long may a Send be, and may R_keys be invalidated remotely? |
//! | [`credits`] | How many RPCs may be in flight? |
//! | [`backward`] | Is this message a call of the peer, and may it be served? |
//! | [`session`] | What has to be sent, posted and remembered so that both peers agree? |
//! | [`version`] | Which version does this connection use? |
//! | [`peers`] | Which peers support version one only? |
//! | [`xchar`] | What may be sent, by the peer's characteristics, and how may ours change? |
//! | [`requester`] | decisions of a requester only: chunks, replies, reconnecting |
//! | [`responder`] | decisions of a responder only: reassembly of calls, invalidation |
//! | [`legacy`] | decisions for RFC 5666 only: RDMA_DONE, RDMA_MSGP, CONF_RDMA |
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![allow(unreachable_pub)]

pub mod backward;
pub mod conn;
pub mod credits;
pub mod inline;
#[cfg(RPCRDMA_LEGACY)]
pub mod legacy;
pub mod peers;
pub mod requester;
pub mod responder;
pub mod session;
pub mod version;
pub mod xchar;

#[cfg(any(test, fuzzing, RPCRDMA_KUNIT))]
pub mod cases;
