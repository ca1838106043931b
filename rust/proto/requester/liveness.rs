// SPDX-License-Identifier: GPL-2.0

//! When to doubt that a peer which owes replies is still there.
//!
//! State: live.
//!
//! A requester that only waits for replies sends nothing, and so learns nothing of a responder
//! whose end of the connection is gone and whose word of that was lost. Somebody looks at the
//! connection at regular intervals; after [`PATIENCE`] whole intervals of silence the peer has to
//! show a sign of life that costs it neither a Receive nor a credit.

/// Whole intervals of silence after which a peer that owes replies is to be probed.
pub const PATIENCE: u32 = 2;

/// What a look is counted as after which silence may begin.
pub const FIRST: u32 = 1;

/// The number of looks in a row that found the peer silent, [`FIRST`] included; there were `looks`
/// before. `heard` is whether a message has come since the last one, `owed` whether a reply is
/// outstanding. Zero while nothing is owed: what a call has waited before the look after it is no
/// whole interval.
pub const fn after(looks: u32, heard: bool, owed: bool) -> u32 {
    if heard {
        FIRST
    } else if owed {
        looks.saturating_add(1)
    } else {
        0
    }
}

/// Whether the peer has been silent for a whole interval, after so many looks.
pub const fn is_quiet(looks: u32) -> bool {
    looks > FIRST
}

/// Whether so many looks are reason for a probe.
pub const fn is_suspicious(looks: u32) -> bool {
    looks > PATIENCE
}
