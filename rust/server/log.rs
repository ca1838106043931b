// SPDX-License-Identifier: GPL-2.0

//! What an administrator must know, in the kernel's log.
//!
//! Each line begins with `rpcrdma: server:`. Peers can cause some of them, so each kind is limited
//! in its rate. All functions may be called in any context.

use kernel::fmt;
use kernel::prelude::*;

use crate::rdma::listen::Lost;
use crate::sunrpc::time;

mod advice;
mod limit;

use advice::Advice;
use limit::Limit;

/// Logs that the server listens on an address. `again` says that it has listened there before.
pub(crate) fn listening(on: &dyn fmt::Display, again: bool) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        let again = if again { " again" } else { "" };
        pr_info!("server: listening on {on}{again}\n");
    });
}

/// Logs that an address can no longer be listened on. The server listens again when that is
/// possible.
pub(crate) fn listener_lost(on: &dyn fmt::Display, why: Lost) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        let why = match why {
            Lost::DeviceRemoved => "its device was removed",
            Lost::AddressMoved => "its address has moved",
        };
        pr_warn!("server: not listening on {on} any more: {why}\n");
    });
}

/// Logs that listening on an address has failed, with the cause and the next step.
pub(crate) fn listen_failed(on: &dyn fmt::Display, error: Error) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        let (errno, Advice { cause, next, .. }) = (error.to_errno(), advice::of(error));
        pr_err!("server: cannot listen on {on}: error {errno}: {cause}; next: {next}\n");
    });
}

/// Logs that a connection was refused because this host lacks something: `what` could not be made.
pub(crate) fn connection_failed(peer: &dyn fmt::Display, what: &'static str, error: Error) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        let errno = error.to_errno();
        pr_err!("server: connection from {peer} refused: {what}: error {errno}\n");
    });
}

/// Logs that a connection was refused because `device` lacks something.
pub(crate) fn device_unfit(device: &dyn fmt::Display, reason: &'static str) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        pr_err!("server: device {device} cannot be used: {reason}\n");
    });
}

/// Logs that the queues of a device are so short that a connection is granted fewer calls than the
/// administrator allows.
pub(crate) fn grant_lowered(device: &dyn fmt::Display, calls: u32, wanted: u32) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        pr_warn!("server: device {device} allows {calls} calls a connection, not {wanted}\n");
    });
}

/// Logs that connection requests are refused because `waiting` others are waiting.
pub(crate) fn backlog_full(on: &dyn fmt::Display, waiting: u32) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        pr_warn!("server: {waiting} connection requests are waiting on {on}; others are refused\n");
    });
}

/// Logs that a connection was closed because of what the requester did.
pub(crate) fn closed(peer: &dyn fmt::Display, why: &'static str) {
    static LIMIT: Limit = Limit::new();
    limited(&LIMIT, || {
        pr_warn!("server: connection from {peer} closed: {why}\n");
    });
}

/// Logs that calls are not taken until memory is free, of which `mebibytes` may be used. One line a
/// minute.
pub(crate) fn memory_used_up(mebibytes: usize) {
    static LIMIT: Limit = Limit::of(1, 60);
    limited(&LIMIT, || {
        pr_warn!(
            "server: calls wait for memory: those being fetched use up their part of {} MiB\n",
            mebibytes
        );
    });
}

/// Logs a line, unless there were too many of its kind of late.
#[cold]
fn limited(limit: &Limit, line: impl FnOnce()) {
    let Some(hidden) = limit.allow(time::seconds()) else {
        return;
    };
    if hidden != 0 {
        pr_warn!("server: {hidden} messages of the next one's kind were left out\n");
    }
    line();
}
