// SPDX-License-Identifier: GPL-2.0

//! When to connect again to a server that is gone; see [`proto::requester::backoff`](crate::proto::requester::backoff).

use super::connect::has_worked;
use super::transport::Client;
use crate::proto::requester::backoff;
use crate::sunrpc::xprt::transport::{ConnectError, Outage};
use crate::sunrpc::xprt::Xprt;

/// Longest time from one attempt to the next, in seconds.
pub(super) const LONGEST: u32 = backoff::LONGEST_MS / 1000;
/// How long RPCs wait for a server that refuses, or to which there is no way (as while our own device is
/// away), before they are told; in milliseconds.
const HOLD: u32 = 8_000;

/// When the next attempt is to begin.
pub(super) fn next(outage: &Outage, random: u32) -> u32 {
    decision(outage).next(random)
}

/// When to try again without a word to RPCs; `None`: they are to be told.
pub(super) fn again(
    xprt: &Xprt<Client>,
    error: ConnectError,
    outage: &Outage,
    random: u32,
) -> Option<u32> {
    // Whoever mounts wants to know at once.
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
