// SPDX-License-Identifier: GPL-2.0

//! Optional capabilities of a transport, chosen at compile time.
//!
//! [`Transport::Reconnect`] and [`Transport::Backchannel`] are either [`Supported`] or
//! [`Unsupported`]. Generic code reaches the operations and the state of a capability through the two
//! traits below. [`Supported`] implements them for transports that implement [`Reconnect`] or
//! [`Backchannel`]; [`Unsupported`] implements them for every transport, with null operations and a
//! state of size 0.
//!
//! [`Reconnect`]: super::transport::Reconnect
//! [`Backchannel`]: super::transport::Backchannel

use kernel::prelude::*;

use super::backchannel::BackchannelReply;
use super::handle::Xprt;
use super::ops::NO_OPS;
use super::transport::{SendError, Transport};
use crate::raw;

/// The transport implements the capability's trait.
pub(crate) struct Supported;

/// The transport lacks the capability.
pub(crate) struct Unsupported;

/// [`Transport::Reconnect`]: whether the transport makes its own connections.
pub(crate) trait ReconnectSupport<T: Transport> {
    /// State of the connect protocol: atomics and work items, which any thread may use.
    type State;

    /// The operations of the capability; all others are null.
    const OPS: raw::rpc_xprt_ops;

    /// Creates the state of a new transport.
    fn new_state() -> impl PinInit<Self::State, Error>;

    /// Initialises those members of a new transport that control connecting.
    fn init_raw(xprt: &mut raw::rpc_xprt);

    /// Waits for the capability's work items and prevents them from running again. Called by the
    /// teardown, which holds the send lock. Sleeps.
    fn cancel(xprt: &Xprt<T>);
}

impl<T: Transport> ReconnectSupport<T> for Unsupported {
    type State = ();

    const OPS: raw::rpc_xprt_ops = NO_OPS;

    fn new_state() -> impl PinInit<(), Error> {
        Ok(())
    }

    /// Marks the transport as connected: its connection exists before it does. All time-outs stay 0,
    /// so SUNRPC does not close it when it is idle.
    fn init_raw(xprt: &mut raw::rpc_xprt) {
        xprt.state |= 1 << raw::XPRT_BOUND | 1 << raw::XPRT_CONNECTED;
    }

    fn cancel(_xprt: &Xprt<T>) {}
}

/// [`Transport::Backchannel`]: whether the peer may call back over the transport.
pub(crate) trait BackchannelSupport<T: Transport> {
    /// State of the backchannel: atomics, work items and `Sync` values, which any thread may use.
    type State;

    /// The operations of the capability; all others are null.
    const OPS: raw::rpc_xprt_ops;

    /// Whether requests of the transport may belong to a backchannel call.
    const SUPPORTED: bool;

    /// Creates the state of a new transport.
    fn new_state() -> impl PinInit<Self::State, Error>;

    /// Sends the reply to a backchannel call. Not called if such calls are not [supported].
    ///
    /// [supported]: Self::SUPPORTED
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send_reply(_xprt: &Xprt<T>, _reply: BackchannelReply<'_>) -> Result<(), SendError> {
        Err(SendError::Io)
    }

    /// Waits for the capability's work item. Called by the teardown when nothing can queue it any
    /// more. Sleeps.
    fn cancel(xprt: &Xprt<T>);
}

impl<T: Transport> BackchannelSupport<T> for Unsupported {
    type State = ();

    const OPS: raw::rpc_xprt_ops = NO_OPS;
    const SUPPORTED: bool = false;

    fn new_state() -> impl PinInit<(), Error> {
        Ok(())
    }

    fn cancel(_xprt: &Xprt<T>) {}
}
