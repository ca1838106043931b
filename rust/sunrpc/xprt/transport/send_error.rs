// SPDX-License-Identifier: GPL-2.0

//! Why a message was not sent.

use kernel::bindings as k;

/// The reason why a call, or the reply to a backchannel call, was not sent.
///
/// One task sends all calls of SUNRPC's transmit queue, and SUNRPC reports an error to that task,
/// not to the task whose call failed. An error that concerns one call alone, such as [`Self::Io`],
/// should therefore be returned by [`Rpc::prepare`](super::Rpc::prepare), which runs in the task of
/// the call.
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
