// SPDX-License-Identifier: GPL-2.0

//! The time without a connection.

/// A period without a connection to the peer.
///
/// Times are in milliseconds since the first connection attempt of the period was requested. No
/// reply has been received since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// Current time.
    pub(crate) now: u32,
    /// Start of the latest attempt.
    pub(crate) attempt: u32,
    /// Time at which RPCs requested the latest attempt.
    pub(crate) asked: u32,
}
