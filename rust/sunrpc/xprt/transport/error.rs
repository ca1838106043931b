// SPDX-License-Identifier: GPL-2.0

//! Reasons why a connection attempt failed, or a message was not sent.

use kernel::bindings as k;

/// The reason why a connection attempt failed. It determines the reaction of the waiting RPCs, and
/// whether a mount fails.
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

/// The reason why a call, or the reply to a backchannel call, was not sent.
///
/// A single task sends all calls of SUNRPC's transmit queue, and SUNRPC reports an error to that
/// task, not to the task whose call failed. An error that concerns one call alone, such as
/// [`Self::Io`], should therefore be returned by [`Transport::prepare`](super::Transport::prepare),
/// which runs in the task of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// There is no connection (`ENOTCONN`). The task connects, and sends the call without encoding
    /// it again.
    NotConnected,
    /// No credit is left (`EBADSLT`). The task waits until the congestion window opens. Valid only
    /// after [`Xprt::take_credit`](super::super::Xprt::take_credit) has returned `false`.
    NoCredit,
    /// A resource is exhausted whose return
    /// [`Xprt::wake_write_space`](super::super::Xprt::wake_write_space) will announce (`EAGAIN`).
    /// The transport must call
    /// [`Xprt::wait_for_buffer_space`](super::super::Xprt::wait_for_buffer_space) first and then
    /// check the resource once more; otherwise the task retries without a pause.
    Again,
    /// A resource is exhausted whose return is not announced (`ENOBUFS`). The task retries after
    /// 250 ms.
    NoResources,
    /// The call can never be sent (`EIO`). The RPC fails.
    Io,
    /// The connection is unusable (`ENOTCONN`). It is closed as soon as the send lock is released,
    /// and the call is sent over the next connection.
    Dropped,
}

impl SendError {
    /// Returns the (negative) errno for the `send_request` operation.
    ///
    /// `call_transmit_status()` and `call_status()` of `net/sunrpc/clnt.c` define the reaction to
    /// each.
    pub(crate) fn to_errno(self) -> i32 {
        // CAST: Errno constants are small.
        -(match self {
            Self::NotConnected | Self::Dropped => k::ENOTCONN,
            Self::NoCredit => k::EBADSLT,
            Self::Again => k::EAGAIN,
            Self::NoResources => k::ENOBUFS,
            Self::Io => k::EIO,
        } as i32)
    }
}
