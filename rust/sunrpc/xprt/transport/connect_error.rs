// SPDX-License-Identifier: GPL-2.0

//! Why a connection attempt failed.

use kernel::bindings as k;

/// The reason why a connection attempt failed. It determines what the waiting RPCs do, and whether
/// a mount fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The peer refused the connection (`ECONNREFUSED`). A mount fails; other RPCs retry after 3 s.
    Refused,
    /// The peer, its network or the device is unreachable (`ENETUNREACH`). RPCs retry after 3 s,
    /// but fail in a network namespace other than the initial one.
    Unreachable,
    /// The peer or the device is temporarily unreachable (`EHOSTUNREACH`). RPCs retry after 3 s.
    HostUnreachable,
    /// The transport cannot use the address (`EPROTO`).
    BadAddress,
    /// The peer did not answer (`ETIMEDOUT`). RPCs retry until they time out.
    TimedOut,
    /// A temporary failure (`ENOTCONN`). RPCs retry at once, subject to back-off.
    Lost,
    /// Memory or another resource is exhausted (`ENOBUFS`). RPCs retry after a short delay.
    NoResources,
    /// The transport is being destroyed (`ENOTCONN`).
    Abandoned,
}

impl ConnectError {
    /// Returns the errno (negative) with which the RPCs that wait for the connection are woken.
    ///
    /// `call_connect_status()` of `net/sunrpc/clnt.c` defines the reaction to each.
    pub(crate) fn to_errno(self) -> i32 {
        // CAST: Errno constants are small.
        -(match self {
            Self::Refused => k::ECONNREFUSED,
            Self::Unreachable => k::ENETUNREACH,
            Self::HostUnreachable => k::EHOSTUNREACH,
            Self::BadAddress => k::EPROTO,
            Self::TimedOut => k::ETIMEDOUT,
            Self::Lost | Self::Abandoned => k::ENOTCONN,
            Self::NoResources => k::ENOBUFS,
        } as i32)
    }
}
