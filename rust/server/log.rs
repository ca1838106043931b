// SPDX-License-Identifier: GPL-2.0

//! Messages to the administrator, in the kernel's log.
//!
//! Each line begins with `rpcrdma: server:`. Peers can cause some lines, so the rate of each kind
//! is limited. All functions may be called in any context.

use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::compat::code::{EADDRINUSE, EADDRNOTAVAIL};
use crate::rdma::listen::Lost;
use crate::sunrpc::time;

/// Logs a line with `pr_warn!` or the like, at the usual rate.
macro_rules! usual {
    ($($line:tt)*) => {
        static LIMIT: Limit = Limit::new();
        limited(&LIMIT, || { $($line)*; });
    };
}

/// Logs that the server listens on an address. `again`: it has listened there before.
pub(crate) fn listening(on: &dyn fmt::Display, again: bool) {
    let again = if again { " again" } else { "" };
    usual! { pr_info!("server: listening on {on}{again}\n") }
}

/// Logs that the server lost the address it listened on. The server listens again as soon as
/// possible.
pub(crate) fn listener_lost(on: &dyn fmt::Display, why: Lost) {
    let why = match why {
        Lost::DeviceRemoved => "its device was removed",
        Lost::AddressMoved => "its address has moved",
    };
    usual! { pr_warn!("server: no longer listening on {on}: {why}\n") }
}

/// Logs that listening on an address has failed, with the cause and the next step.
pub(crate) fn listen_failed(on: &dyn fmt::Display, error: Error) {
    let (errno, (cause, next)) = (error.to_errno(), advice(error));
    usual! { pr_err!("server: cannot listen on {on}: error {errno}: {cause}; next: {next}\n") }
}

/// Logs that a connection was refused because this host lacks something: `what` could not be made.
pub(crate) fn connection_failed(peer: &dyn fmt::Display, what: &'static str, error: Error) {
    let errno = error.to_errno();
    usual! { pr_err!("server: connection from {peer} refused: {what}: error {errno}\n") }
}

/// Logs that a connection was refused because `device` lacks something.
pub(crate) fn device_unfit(device: &dyn fmt::Display, reason: &'static str) {
    usual! { pr_err!("server: device {device} cannot be used: {reason}\n") }
}

/// Logs that the queues of a device are so short that a connection is granted fewer calls than the
/// administrator permits.
pub(crate) fn grant_lowered(device: &dyn fmt::Display, calls: u32, wanted: u32) {
    usual! {
        pr_warn!("server: device {device} supports {calls} calls per connection, not {wanted}\n")
    }
}

/// Logs that connection requests are refused because `waiting` others are waiting.
pub(crate) fn backlog_full(on: &dyn fmt::Display, waiting: u32) {
    usual! {
        pr_warn!("server: {waiting} connection requests are waiting on {on}; others are refused\n")
    }
}

/// Logs that a connection was closed because of what the requester did.
pub(crate) fn closed(peer: &dyn fmt::Display, why: &'static str) {
    usual! { pr_warn!("server: connection from {peer} closed: {why}\n") }
}

/// Logs that a call was refused because the DMA layer had no space for it for a minute: no bounce
/// buffers, no addresses of an IOMMU, or no memory.
pub(crate) fn no_space(peer: &dyn fmt::Display) {
    let lack = "no DMA space for 60 s";
    usual! {
        pr_warn!("server: call from {peer} refused: {lack}; with bounce buffers, raise swiotlb=\n")
    }
}

/// Logs a line, unless there were too many recent lines of its kind.
#[cold]
fn limited(limit: &Limit, line: impl FnOnce()) {
    let Some(hidden) = limit.allow(time::seconds()) else {
        return;
    };
    if hidden != 0 {
        pr_warn!("server: {hidden} messages like the next one were suppressed\n");
    }
    line();
}

/// Bits of the count of lines.
const COUNT_BITS: u32 = 16;

/// The maximum number of lines of one kind in a period.
const BURST: u64 = 10;
/// The length of a period in seconds.
const PERIOD: usize = 5;

/// The rate limit of one kind of line.
///
/// # Invariants
///
/// The value is the number of a period, and in its low [`COUNT_BITS`] bits the number of lines that
/// were requested in that period.
struct Limit {
    value: Atomic<u64>,
}

impl Limit {
    const fn new() -> Self {
        // INVARIANT: no line in period 0.
        Self {
            value: Atomic::new(0),
        }
    }

    /// Returns whether a line may be logged at a time in seconds: `Some` with the number of lines
    /// that were omitted in the latest period, or `None`.
    fn allow(&self, seconds: usize) -> Option<u64> {
        // CAST: `u64` has at least as many bits.
        let period = (seconds / PERIOD) as u64;
        let mut old = self.value.load(Relaxed);
        loop {
            let (then, lines) = (old >> COUNT_BITS, old & MOST);
            let same = then == period & (u64::MAX >> COUNT_BITS);
            let lines_now = if same { MOST.min(lines + 1) } else { 1 };
            // INVARIANT: the count fits its bits.
            let new = period << COUNT_BITS | lines_now;
            match self.value.cmpxchg(old, new, Relaxed) {
                Ok(_) if !same => return Some(lines.saturating_sub(BURST)),
                Ok(_) => return (lines < BURST).then_some(0),
                Err(other) => old = other,
            }
        }
    }
}

/// The largest count of lines.
const MOST: u64 = (1 << COUNT_BITS) - 1;

/// For each error of a listener: the message of a write to portlist, the cause, and the next step.
/// These rows are also in section ERRORS of Documentation/admin-guide.rst:
/// tools/checks/errors_table.py writes them there.
const ADVICE: [(Error, &str, &str, &str); 4] = [
    (
        EADDRINUSE,
        "Address already in use",
        "another listener has the address and the port",
        "cat /proc/fs/nfsd/portlist, and rdma resource show cm_id",
    ),
    (
        EADDRNOTAVAIL,
        "Cannot assign requested address",
        "another listener has the port, or no interface of this host has the address",
        "cat /proc/fs/nfsd/portlist, rdma resource show cm_id, and ip address",
    ),
    (
        ENODEV,
        "No such device",
        "the interface that has the address belongs to no RDMA device",
        "ip address, and rdma link",
    ),
    (
        ENOMEM,
        "Cannot allocate memory",
        "this host lacks memory for the listener",
        "free memory, and retry",
    ),
];

/// The cause and the next step for all other errors.
const OTHER: (&str, &str) = (
    "the connection manager refuses it",
    "check the log for messages of the device's driver before this one",
);

/// Returns the cause and the next step for an error.
fn advice(error: Error) -> (&'static str, &'static str) {
    let row = ADVICE.iter().find(|row| row.0 == error);
    row.map_or(OTHER, |row| (row.2, row.3))
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_log)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_own_advice() {
        for (error, _, cause, next) in ADVICE {
            assert_eq!(advice(error), (cause, next));
        }
        assert_eq!(advice(EPERM), OTHER);
    }

    #[test]
    fn a_burst_is_logged_and_the_rest_is_counted() {
        let limit = Limit::new();
        for _ in 0..10 {
            assert!(limit.allow(1000) == Some(0));
        }
        for _ in 0..3 {
            assert!(limit.allow(1004).is_none());
        }
        assert!(limit.allow(1005) == Some(3));
        assert!(limit.allow(1006) == Some(0));
        assert!(limit.allow(2000) == Some(0));
    }

    #[test]
    fn a_count_stays_within_its_bits() {
        let limit = Limit::new();
        for _ in 0..=2 * MOST {
            let _ = limit.allow(10);
        }
        assert!(limit.allow(15) == Some(MOST - 10));
    }
}
