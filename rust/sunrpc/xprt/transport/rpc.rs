// SPDX-License-Identifier: GPL-2.0

//! Calls: the operations that every transport provides for an RPC.

use kernel::prelude::*;

use super::super::handle::Xprt;
use super::super::rqst::Rqst;
use super::{SendError, Transport};

/// Sending of calls.
///
/// # Memory
///
/// The buffers of a request (call, pages, reply) belong to SUNRPC. [`XdrBuf::pieces`] tells where
/// they lie, so that a device, and through it a peer, may read and write them. The compiler cannot
/// check how long a [`Piece`](crate::mem::Piece) is used. A transport therefore guarantees, and the
/// caller of [`register`](super::super::class::register) vouches for it:
///
/// - When [`Self::release`] has returned, the transport keeps no piece of the request's buffers,
///   and no device or peer can access them.
/// - When a reply is [completed](super::super::reply::Pinned::complete), no device or peer can
///   access the request's buffers: a peer could otherwise change the reply while it is being
///   decoded.
/// - When [`Self::invalidate_call`] has returned, no device or peer can access the call.
/// - Pieces of a [`BackchannelReply`] are not used after [`Backchannel::send_backchannel_reply`]
///   has returned.
///
/// # Examples
///
/// A transport that replies to each call itself, with a credit for each call:
///
/// ```ignore
/// fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
///     if !xprt.take_credit(&rqst) {
///         return Err(SendError::NoCredit);
///     }
///     // ...
///     rqst.mark_sent();
///     xprt.set_credits(Self::slots());
///     if let Some(mut pending) = xprt.find(rqst.xid()) {
///         let placed = pending.place_reply(&answer(&call), None);
///         pending.complete(placed.len);
///     }
///     Ok(())
/// }
/// ```
///
/// [`XdrBuf::pieces`]: super::super::super::xdr_buf::XdrBuf::pieces
/// [`BackchannelReply`]: super::super::backchannel::BackchannelReply
/// [`Backchannel::send_backchannel_reply`]: super::Backchannel::send_backchannel_reply
pub(crate) trait Rpc: Transport {
    /// Size in bytes of the persistent buffer of each slot, which holds call and reply headers. An
    /// RPC that needs more gets a buffer of its own until it ends.
    const BUFFER_SIZE: usize = 4096;

    /// Prepares a call for sending. Its call and reply buffers are set up, and no other thread uses
    /// the request. Runs without the send lock, possibly without a connection.
    ///
    /// Called once each time the call is encoded. It is *not* called again when a call that has not
    /// been sent goes to a new connection: [`Self::send`] must detect that.
    /// No reply can be matched to the request at this time. The method must undo what an earlier
    /// transmission of the request left behind.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`, `ENOMEM`: SUNRPC encodes and prepares the call again after 60 ms.
    /// - Any other errno: the RPC fails with it.
    ///
    /// A lack of something that [`Self::send`] can obtain later, such as a connection, is no error.
    fn prepare(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result;

    /// Sends a call. Send lock held, request pinned. Must not wait for memory or for the peer.
    ///
    /// Another thread may find the reply before this method returns.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError>;

    /// Ends all access of devices and peers to the call's memory. [`Self::prepare`] is called next.
    ///
    /// SUNRPC encodes the call again, and is about to free the pages that an authentication flavour
    /// allocated for the previous encoding. The call may have been sent, and its reply has not been
    /// received. No reply can be matched to the request.
    fn invalidate_call(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>);

    /// Ends the use of a request: the RPC was completed, failed or was given up. No reply can be
    /// matched to the request.
    ///
    /// When this returns, no device and no peer can access the RPC's memory (call, pages, reply),
    /// and the slot can serve another RPC. Called only if buffers were allocated.
    fn release(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>);

    /// Records that an RPC needed `len` bytes for its headers, more than [`Self::BUFFER_SIZE`], and
    /// got a buffer of its own. Must not sleep.
    fn large_buffer_allocated(&self, _len: usize) {}
}
