// SPDX-License-Identifier: GPL-2.0

//! When to doubt that a peer which owes replies is still there.
//!
//! A requester that only waits for replies sends nothing, and so learns nothing of a responder
//! whose end of the connection is gone and whose word of that was lost. Somebody looks at the
//! connection at regular intervals; after [`PATIENCE`] silent ones the peer has to show a sign of
//! life that costs it neither a Receive nor a credit.

/// Silent intervals in a row after which a peer that owes replies is to be probed.
pub const PATIENCE: u32 = 2;

/// The number of silent intervals in a row, of which there were `silent` before: `heard` whether a
/// message came in the one that has just ended, `owed` whether a reply is outstanding.
pub const fn after(silent: u32, heard: bool, owed: bool) -> u32 {
    if heard || !owed {
        0
    } else {
        silent.saturating_add(1)
    }
}

/// Whether so many silent intervals are reason for a probe.
pub const fn is_suspicious(silent: u32) -> bool {
    silent >= PATIENCE
}
