// SPDX-License-Identifier: GPL-2.0

//! When to connect again to a server that is gone, and when RPCs learn of the failure.
//!
//! [`proto::requester::backoff`](crate::proto::requester::backoff) has the decisions.

use super::connect::has_worked;
use super::transport::Client;
use crate::proto::requester::backoff;
use crate::sunrpc::xprt::transport::{ConnectError, Outage};
use crate::sunrpc::xprt::Xprt;

/// The longest time from one attempt to the next, in seconds.
pub(super) const LONGEST: u32 = backoff::LONGEST_MS / 1000;
/// How long RPCs wait for a server that refuses or cannot be reached (as while our own device is
/// away), before they learn of it. In milliseconds.
const HOLD: u32 = 8_000;

/// Returns when the next attempt begins, on the clock of `outage`.
pub(super) fn next(outage: &Outage, random: u32) -> u32 {
    decision(outage).next(random)
}

/// Returns when to try again before RPCs learn of `error`; `None` if they have to learn of it now.
pub(super) fn again(
    xprt: &Xprt<Client>,
    error: ConnectError,
    outage: &Outage,
    random: u32,
) -> Option<u32> {
    // The mount command needs the error at once.
    if !has_worked(xprt) {
        return None;
    }
    match error {
        ConnectError::Refused | ConnectError::Unreachable | ConnectError::HostUnreachable => {
            decision(outage).again(HOLD, random)
        }
        // SUNRPC asks again at once, or never.
        ConnectError::BadAddress
        | ConnectError::TimedOut
        | ConnectError::Lost
        | ConnectError::NoResources
        | ConnectError::Abandoned => None,
    }
}

fn decision(outage: &Outage) -> backoff::Outage {
    backoff::Outage {
        now: outage.now,
        attempt: outage.attempt,
        asked: outage.asked,
    }
}
