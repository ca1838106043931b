// SPDX-License-Identifier: GPL-2.0

//! Decisions that only a requester makes.
//!
//! | module | question | state |
//! | --- | --- | --- |
//! | [`plan`] | Which chunks does this call need? | live |
//! | [`reply`] | Does this reply claim no more than the call offered? | live |
//! | [`rounded`] | Is a chunk longer than offered by its round-up alone? | live |
//! | [`pulled`] | Which read chunks may a reply of RFC 5666 have? | live |
//! | [`credits`] | How many credits are left for new RPCs? | live |
//! | [`invalidate`] | Which R_key did the peer invalidate? | live |
//! | [`liveness`] | Has the peer been silent so long that it has to be probed? | live |
//! | [`backoff`] | How long does the next attempt to connect wait? | live |

pub mod backoff;
pub mod credits;
pub mod invalidate;
pub mod liveness;
pub mod plan;
pub mod pulled;
pub mod reply;
pub mod rounded;
