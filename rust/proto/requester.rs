// SPDX-License-Identifier: GPL-2.0

//! Decisions that only a requester makes.
//!
//! | module | question |
//! | --- | --- |
//! | [`plan`] | Which chunks does this call need? |
//! | [`reply`] | Does this reply claim or invalidate no more than the call offered? |
//! | [`liveness`] | Has the peer been silent so long that it has to be probed? |
//! | [`backoff`] | How long does the next attempt to connect wait? |

pub mod backoff;
pub mod liveness;
pub mod plan;
pub mod reply;
