// SPDX-License-Identifier: GPL-2.0

//! Decisions of the protocol, without I/O, clock, allocation or randomness.
//!
//! State: live.
//!
//! Each module answers one question of a requester or responder from plain values. Time, limits
//! and random numbers come in as arguments; what to do comes out as a value. All functions may
//! be called in any context. Locking is the caller's: a type that changes takes `&mut self`.
//!
//! | module | question |
//! | --- | --- |
//! | [`conn`] | What does this event mean for the connection? |
//! | [`inline`] | How long may a Send be, and may R_keys be invalidated remotely? |
//! | [`credits`] | How many RPCs may be in flight? |
//! | [`backward`] | Is this message a call of the peer, and may it be served? |
//! | [`version`] | Which version does this connection speak? |
//! | [`xchar`] | What may be sent, given the peer's characteristics, and what may ours become? |
//! | [`requester`] | what only a requester decides: chunks, replies, reconnecting |
//! | [`responder`] | what only a responder decides: how a call is put together |
//! | [`legacy`] | what only RFC 5666 knows: RDMA_DONE, RDMA_MSGP, CONF_RDMA |
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
#[allow(dead_code, unused_imports, reason = "RFC 5666 only")]
pub mod legacy;
pub mod requester;
#[allow(dead_code, unused_imports, reason = "for the server")]
pub mod responder;
#[allow(dead_code, unused_imports, reason = "for version two")]
pub mod version;
#[allow(dead_code, unused_imports, reason = "for version two")]
pub mod xchar;

#[cfg(any(test, RPCRDMA_KUNIT))]
pub mod cases;
