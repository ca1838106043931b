// SPDX-License-Identifier: GPL-2.0

//! Decisions that only a responder makes.
//!
//! | module | question |
//! | --- | --- |
//! | [`limits`] | How much work may a call cause? |
//! | [`intake`] | What has to be done with a message that has arrived? |
//! | [`call`] | Which chunks may a call have, and which R_key does its reply invalidate? |
//! | [`reassembly`] | Where does each part of a call come from, and where does it belong? |
//! | [`marks`] | Which payloads of a reply belong to which write chunk? |
//! | [`reply`] | Which way does each byte of a reply go? |
//! | [`grant`] | How many calls may the requester have outstanding? |
//!
//! The table `TABLE` of the cases in `cases/hostile.rs` has the decisions about hostile requesters.

pub mod call;
pub mod grant;
pub mod intake;
pub mod limits;
pub mod marks;
pub mod reassembly;
pub mod reply;
