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
//! | [`conn`] | what does this event mean for the connection? |
//! | [`backoff`] | how long to wait before the next attempt to connect? |
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![allow(unreachable_pub)]

pub mod backoff;
pub mod conn;
pub mod credits;
pub mod inline;
pub mod invalidate;
pub mod plan;
pub mod reply;

#[cfg(any(test, RPCRDMA_KUNIT))]
pub mod cases;
