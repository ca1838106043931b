// SPDX-License-Identifier: GPL-2.0

//! Log lines about a mount that cannot connect: each line names the cause and the next step.
//!
//! The rows of [`Reason`] are also in section ERRORS of Documentation/admin-guide.rst:
//! tools/checks/errors_table.py writes them there.

use kernel::fmt;
use kernel::prelude::*;

use super::transport::Client;
use crate::sunrpc::xprt::Xprt;

/// Why an attempt to connect failed.
///
/// The comment of each reason quotes the output of the mount command, for the guide.
#[derive(Clone, Copy)]
pub(super) struct Reason {
    /// Tells reasons apart; not 0, and less than 2 to the power of [`REASON_BITS`].
    number: u32,
    cause: &'static str,
    /// The next step of the administrator.
    next: &'static str,
}

/// Defines the reasons: of each its number, the cause and the next step.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $cause:literal, $next:literal;)*) => {$(
        $(#[$doc])*
        pub(super) const $name: Reason = Reason { number: $number, cause: $cause, next: $next };
    )*};
}

reasons! {
    /// Nothing listens at the address (mount: "Connection refused").
    REFUSED = 1: "the host answers, but nothing listens there for RDMA on this port",
        "echo 'rdma 20049' > /proc/fs/nfsd/portlist on the server, and port=20049 at the mount";
    /// There is no route to the address (mount: "Network is unreachable").
    UNREACHABLE = 2: "no route leads to the address, or none that RDMA can use",
        "ip route get ADDRESS, and rdma link";
    /// There is no route to the host (mount: "No route to host").
    HOST_UNREACHABLE = 3:
        "no route leads to the host, or the connection manager failed to reach it",
        "ip neighbour, and ping the address";
    /// No answer has arrived in time (mount: "Connection timed out").
    TIMED_OUT = 4: "the server does not answer connection requests",
        "is it up, and does a firewall drop UDP port 4791 (RoCE) or the TCP port (iWARP)?";
    /// The address was not resolved (mount: "Protocol error").
    UNRESOLVED = 5: "no RDMA device of this host leads to the address, or no host has it",
        "ip route get ADDRESS, ip neighbour, and rdma link";
    /// The handshake was interrupted (mount: "no message, it retries").
    LOST = 6: "the server ended the handshake, or knows the queue pair from an older connection",
        "check the log of the server";
    /// The server supports none of our versions (mount: "mount system call failed").
    VERSION = 7: "the server supports no version of RPC-over-RDMA that this mount may use",
        "sysctl sunrpc.rdma_version=auto, or a mount with proto=tcp";
    /// The server closed the first connection before any reply (mount: "no message, it waits").
    LEFT = 8: "the server ended the connection before its first reply",
        "check the log of the server, and whether the port is nfsd's";
    /// The server accepted the connection, and does not answer (mount: "no message, it waits").
    MUTE = 9: "the server accepted the connection, but answers no call",
        "nfsrdma doctor on the server: is nfsd stuck, or is the port another service's?";
    /// The server's answer to CONF_RDMA is not acceptable (mount: "Connection refused").
    CONF = 10: "the answer of the server to CONF_RDMA is not acceptable",
        "sysctl sunrpc.rdma_conf=0";
    /// The device lacks something that this module needs (mount: "Protocol error").
    UNFIT = 11: "this device cannot be used",
        "a mount over another device, or with proto=tcp";
    /// A step on this host failed for lack of memory (mount: "no message, it waits").
    NO_MEMORY = 12: "this host lacks memory",
        "free memory, or lower sunrpc.rdma_slot_table_entries";
    /// A step on this host failed (mount: "no message, it waits").
    LOCAL = 13: "a step on this host failed",
        "check the log for messages of the driver before this one";
}

/// The number of bits of a [`Reason`].
const REASON_BITS: u32 = 8;

/// Logs why a mount cannot connect, unless the last line about it gave the same reason.
#[cold]
pub(super) fn log(xprt: &Xprt<Client>, reason: Reason) {
    if xprt.data().is_new_complaint(reason.number) {
        write(xprt, reason, &"");
    }
}

/// Logs which step failed on this host, unless the last line since the last connection said the
/// same. `what` names the step, and ends with a colon and a space.
#[cold]
pub(super) fn log_local(xprt: &Xprt<Client>, reason: Reason, what: &dyn fmt::Display) {
    // CAST: The number of connections may lose its high bits: it only has to differ from the number
    // before.
    let complaint = reason.number | (xprt.counts().connects as u32) << REASON_BITS;
    if xprt.data().is_new_complaint(complaint) {
        write(xprt, reason, what);
    }
}

fn write(xprt: &Xprt<Client>, reason: Reason, what: &dyn fmt::Display) {
    let (shown, Reason { cause, next, .. }) = (xprt.shown(), reason);
    let (addr, port) = (shown.addr, shown.port);
    pr_warn!("connecting to {addr} port {port}: {what}{cause}; next: {next}\n");
}

/// Logs that a call has failed because the DMA layer had no space for it. For each mount at most
/// once a minute: the calls that wait behind that call have not begun to wait for space.
#[cold]
pub(super) fn log_no_space(xprt: &Xprt<Client>) {
    let (shown, lack) = (xprt.shown(), "no bounce buffers or memory for 60 s");
    let (addr, port) = (shown.addr, shown.port);
    pr_warn!("call to {addr} port {port} failed: {lack}: raise swiotlb=\n");
}

/// Logs why a mount gets no reply, unless a reply has arrived before. Process context; does not
/// sleep.
#[cold]
pub(super) fn log_unanswered(xprt: &Xprt<Client>, reason: Reason) {
    if xprt.is_main() && xprt.counts().recvs == 0 && !xprt.is_abandoned() {
        log(xprt, reason);
    }
}

/// Returns the reason for an error on this host.
pub(super) const fn local(error: Error) -> Reason {
    match error {
        ENOMEM => NO_MEMORY,
        _ => LOCAL,
    }
}
