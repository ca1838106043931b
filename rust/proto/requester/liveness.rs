// SPDX-License-Identifier: GPL-2.0

//! Decides when to probe a peer that owes replies and is silent.
//!
//! A requester that only waits for replies sends nothing. If the responder's end of the connection
//! is gone and its disconnect message was lost, the requester does not notice. The caller therefore
//! checks the connection at regular intervals. After [`PATIENCE`] whole intervals of silence it
//! probes the peer in a way that costs the peer neither a Receive nor a credit.

/// Whole intervals of silence after which a peer that owes replies is probed.
pub const PATIENCE: u32 = 2;

/// The count of a check after which silence may begin.
pub const FIRST: u32 = 1;

/// Returns the number of consecutive checks that found the peer silent, [`FIRST`] included. `looks`
/// is the number before this check. `heard`: a message arrived since the last check. `owed`: a
/// reply is outstanding. The result is zero while no reply is owed, since the time from a call to
/// the next check is not a whole interval.
pub const fn after(looks: u32, heard: bool, owed: bool) -> u32 {
    if heard {
        FIRST
    } else if owed {
        looks.saturating_add(1)
    } else {
        0
    }
}

/// Returns the number of whole intervals of silence, given the result of [`after`].
pub const fn silent(looks: u32) -> u32 {
    looks.saturating_sub(FIRST)
}

/// Returns whether the peer has been silent for a whole interval, given the result of [`after`].
pub const fn is_quiet(looks: u32) -> bool {
    looks > FIRST
}

/// Returns whether to probe the peer, given the result of [`after`].
pub const fn is_suspicious(looks: u32) -> bool {
    looks > PATIENCE
}
