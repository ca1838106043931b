// SPDX-License-Identifier: GPL-2.0

//! What a connection asks of its transport.

use kernel::fmt;

use crate::mem::SockAddr;
use crate::observe::trace::{self, Peer};

/// The transport that a connection belongs to.
///
/// A value of this type keeps the transport in existence. All methods are for process context and
/// do not sleep.
pub(crate) trait Owner: Send + Sync + 'static {
    /// Returns the peer's address and port as trace events show them.
    fn peer(&self) -> Peer;

    /// Returns the peer's address.
    fn address(&self) -> SockAddr;

    /// Returns whether the transport no longer needs the connection that is being made.
    fn is_abandoned(&self) -> bool;

    /// Has the connection closed by a worker. Further calls change nothing.
    fn force_close(&self);

    /// Gives the connection up, because its device is being removed, where that needs more than to
    /// have it closed.
    fn device_removed(&self) {}

    /// Traces that the device of the connection is being removed.
    fn trace_removal(&self, device: &dyn fmt::Display) {
        trace::device_removal(device, self.address().bytes());
    }

    /// Sets the number of our calls that may be in flight.
    fn set_credits(&self, credits: u32);
}
