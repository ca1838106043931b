// SPDX-License-Identifier: GPL-2.0

//! Decisions that only a responder makes.
//!
//! State: for the server.
//!
//! | module | question | state |
//! | --- | --- | --- |
//! | [`reassembly`] | How do inline data and read chunks form the call? | for the server |
//! | [`invalidate`] | Which R_key does a reply invalidate? | for the server |

pub mod invalidate;
pub mod reassembly;
