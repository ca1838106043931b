// SPDX-License-Identifier: GPL-2.0

//! Decisions of the protocol, without I/O, clock, allocation or randomness.
//!
//! Each module answers one question of a requester or responder from plain values. Time, limits
//! and random numbers come in as arguments; what to do comes out as a value. All functions may
//! be called in any context. Locking is the caller's: a type that changes takes `&mut self`.
//!
//! | module | question |
//! | --- | --- |
//! | [`credits`] | how many RPCs may be in flight? |
//! | [`inline`] | how long may a Send be, and may R_keys be invalidated remotely? |
//! | [`plan`] | which chunks does this call need? |
//! | [`reply`] | does this reply claim no more than was offered? |
//! | [`invalidate`] | whose R_key did the peer invalidate? |
//! | [`backward`] | is this message a call of the peer, and may it be served? |
//! | [`conn`] | what does this event mean for the connection? |
//! | [`version`] | which version to speak with this peer? |
//! | [`xchar`] | what may be sent, given the peer's characteristics, and what may ours become? |
//! | [`reassembly`] | in which order do inline data and read chunks make up the message? |
//! | [`done`] | when may RDMA_DONE be sent, and what does it cost? (RFC 5666) |
//! | [`padding`] | how much padding does RDMA_MSGP put where? (RFC 5666) |
//! | [`conf`] | what does CONF_RDMA change? (RFC 5666) |
//! | [`backoff`] | how long to wait before the next attempt to connect? |
//! | [`silence`] | is it time to ask whether the peer is still there? |
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![allow(unreachable_pub)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the room is complete; not all of it has a user in the module yet"
)]

pub mod backoff;
pub mod backward;
pub mod conf;
pub mod conn;
pub mod credits;
pub mod done;
pub mod inline;
pub mod invalidate;
pub mod padding;
pub mod plan;
pub mod reassembly;
pub mod reply;
pub mod silence;
pub mod version;
pub mod xchar;

#[cfg(any(test, RPCRDMA_KUNIT))]
pub mod cases;
