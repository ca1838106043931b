// SPDX-License-Identifier: GPL-2.0

//! Decisions that only a requester makes.
//!
//! State: live.
//!
//! | module | question | state |
//! | --- | --- | --- |
//! | [`plan`] | Which chunks does this call need? | live |
//! | [`reply`] | Does this reply claim no more than the call offered? | live |
//! | [`credits`] | How many credits are left for new RPCs? | live |
//! | [`invalidate`] | Which R_key did the peer invalidate? | live |
//! | [`liveness`] | Has the peer been silent so long that it has to be probed? | live |
//! | [`backoff`] | How long does the next attempt to connect wait? | live |

pub mod backoff;
pub mod credits;
pub mod invalidate;
pub mod liveness;
pub mod plan;
pub mod reply;
