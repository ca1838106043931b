// SPDX-License-Identifier: GPL-2.0

//! The backchannel: the operations of a transport over which the peer may call back.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::super::backchannel::BackchannelReply;
use super::super::handle::Xprt;
use super::{SendError, Supported, Transport};

/// Calls from the server to the NFS client's callback service (NFSv4.1 and later).
///
/// The NFS client refuses minor versions above 0 on a transport without this trait. With the
/// default values the transport has a backchannel, but accepts no call.
///
/// # Examples
///
/// ```ignore
/// /// Accepts no call. NFSv4.1 and 4.2 require that the operations exist.
/// impl Backchannel for Null {}
/// ```
pub(crate) trait Backchannel: Transport<Backchannel = Supported> {
    /// Number of concurrent backchannel calls, which the NFS client announces in `CREATE_SESSION`.
    /// Linux's nfsd takes 0 for the maximum.
    const BACKCHANNEL_SLOTS: u32 = 1;
    /// Number of preallocated backchannel requests. It should exceed [`Self::BACKCHANNEL_SLOTS`],
    /// because the peer may make the next call before SUNRPC has freed the request of the previous
    /// one. With 0 every backchannel call is refused.
    const BACKCHANNEL_REQUESTS: u32 = 0;

    /// Prepares the transport for `count` concurrent calls from the peer, which the transport
    /// passes to [`Xprt::deliver`]. May be called repeatedly, at any time, and while connecting.
    ///
    /// # Errors
    ///
    /// Any: the mount fails with it.
    fn backchannel_setup(&self, _xprt: &Xprt<Self>, _count: u32) -> Result {
        Ok(())
    }

    /// Returns the maximum length of a backchannel message, call or reply. The NFS client announces
    /// it in `CREATE_SESSION`; Linux's nfsd refuses values below about 500 bytes. Called under RCU,
    /// with or without a connection: must not sleep.
    fn backchannel_max_message(&self) -> usize {
        PAGE_SIZE
    }

    /// Sends the reply to a backchannel call. Send lock held, request pinned. Must not wait for
    /// memory or for the peer. A reply that can never be sent should be dropped with `Ok`, because
    /// an error may be reported to a different task, see [`SendError`].
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send_backchannel_reply(
        &self,
        _xprt: &Xprt<Self>,
        _reply: BackchannelReply<'_>,
    ) -> Result<(), SendError> {
        Ok(())
    }
}
