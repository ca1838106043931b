// SPDX-License-Identifier: GPL-2.0

//! The trait that a client transport implements, and the errors of its methods.
//!
//! The methods of [`Transport`] are those of `struct rpc_xprt_ops`, in four groups:
//!
//! | group | methods | server's callback client |
//! | --- | --- | --- |
//! | life cycle | `new`, `close`, `destroy`, `stats`, ... | implements them |
//! | calls | `prepare`, `send`, `release`, ... | implements them |
//! | connecting | `connect`, `next_attempt`, `timer`, ... | implements `attach` instead |
//! | backchannel | `send_backchannel_reply`, ... | has none |
//!
//! A transport implements either [`Transport::connect`] or [`Transport::attach`]. The operations of
//! a group that it does not implement are null, as the `HAS_` constants of `#[vtable]` say.

mod error;

use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;

pub(crate) use self::error::{ConnectError, SendError};

use super::super::svc::xprt::{Connected, SvcXprt};
use super::backchannel::BackchannelReply;
use super::handle::Xprt;
use super::rqst::Rqst;

/// A period without a connection to the peer.
///
/// Times are in milliseconds since the first connection attempt of the period was requested. No
/// reply has been received since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// Current time.
    pub(crate) now: u32,
    /// Start of the latest attempt.
    pub(crate) attempt: u32,
    /// Time at which RPCs requested the latest attempt.
    pub(crate) asked: u32,
}

/// A client transport.
///
/// Every method runs in process context without any of SUNRPC's spinlocks held, and may sleep
/// unless its description says otherwise. Code that runs under the send lock or on behalf of a
/// writeback must not allocate with `GFP_KERNEL` outside an allocation scope. The connect and close
/// workers run in `memalloc_nofs` scope.
///
/// # Memory
///
/// The buffers of a request (call, pages, reply) belong to SUNRPC. [`XdrBuf::pieces`] locates them,
/// so that a device, and through it a peer, may read and write them. The compiler cannot check how
/// long a [`Piece`](crate::mem::Piece) is used. A transport therefore guarantees, and the caller of
/// [`register`](super::class::register) vouches for it:
///
/// - When [`Self::release`] has returned, the transport keeps no piece of the request's buffers,
///   and no device or peer can access them.
/// - When a reply is [completed](super::reply::Pinned::complete), no device or peer can access the
///   request's buffers: a peer could otherwise change the reply while it is being decoded.
/// - When [`Self::invalidate_call`] has returned, no device or peer can access the call.
/// - Pieces of a [`BackchannelReply`] are not used after [`Self::send_backchannel_reply`] has
///   returned.
///
/// # Attaching
///
/// A transport that implements [`Self::attach`] uses the connection over which a client calls a
/// service, for the service's calls to that client. There is at most one such transport for each
/// connection. It counts as connected from its creation until it is closed, and is not used after
/// that. SUNRPC calls [`Self::close`] when the connection ends. The send lock is *not* held then,
/// and [`Self::send`] may run at the same time. A close for another reason must also end the
/// connection: the service would keep using this transport for it. The class has no netids, so that
/// no mount can use it.
///
/// # Examples
///
/// A transport of 4 slots that connects, replies to each call itself and has a backchannel:
///
/// ```ignore
/// #[vtable]
/// impl Transport for Null {
///     type Slot = ();
///     /// `true` if all connections are refused.
///     type Context = bool;
///
///     /// `XPRT_TRANSPORT_RDMA`.
///     const IDENT: i32 = 256;
///     const NAME: &'static CStr = c"rdma";
///     const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
///     const PROTO: &'static CStr = c"rdma";
///
///     fn slots() -> u32 {
///         4
///     }
///     // ...
///     fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile) {
///         seq_print!(out, "\txprt:\trpc_null {}\n", xprt.counts());
///     }
///     // ...
///     fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
///         if !xprt.take_credit(&rqst) {
///             return Err(SendError::NoCredit);
///         }
///         // ...
///         rqst.mark_sent();
///         xprt.set_credits(Self::slots());
///         if let Some(mut pending) = xprt.find(rqst.xid()) {
///             let placed = pending.place_reply(&answer(&call), None);
///             pending.complete(placed.len);
///         }
///         Ok(())
///     }
///     // ...
///     fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
///         if self.refuse {
///             return Err(ConnectError::Refused);
///         }
///         xprt.reset_congestion();
///         Ok(())
///     }
///     // ...
/// }
/// ```
///
/// [`XdrBuf::pieces`]: super::super::xdr_buf::XdrBuf::pieces
#[vtable]
pub(crate) trait Transport: Send + Sync + Sized + 'static {
    /// The transport's own part of a request slot.
    type Slot: Send + Sync + 'static;

    /// The value shared by all transports of the class, passed to
    /// [`register`](super::class::register).
    type Context: Send + Sync + 'static;

    /// `XPRT_TRANSPORT_*`: identifies the transport to NFS.
    const IDENT: i32;
    /// Name of the class, at most 31 bytes.
    const NAME: &'static CStr;
    /// Netids for IPv4 and IPv6 addresses, as in `/etc/netconfig`. Mounts name a transport that
    /// connects by one of them.
    const NETIDS: [&'static CStr; 2];
    /// Protocol name that SUNRPC displays for the transport (`RPC_DISPLAY_PROTO`).
    const PROTO: &'static CStr;
    /// Size in bytes of the persistent buffer of each slot, which holds call and reply headers. An
    /// RPC that needs more gets a buffer of its own until it ends.
    const BUFFER_SIZE: usize = 4096;
    /// Minimum RPC timeout, in seconds, that the NFS client can set in order to detect a dead
    /// server within its lease time.
    const TIMEOUT_MIN: u32 = 10;
    /// Maximum time from the start of one connection attempt to the start of the next, in seconds.
    const RECONNECT_MAX: u32 = 60;
    /// Seconds of idleness after which SUNRPC closes the connection.
    const IDLE_TIMEOUT: u32 = 300;
    /// Seconds between two calls of [`Self::check_liveness`]; 0 for none.
    const LIVENESS_INTERVAL: u32 = 0;
    /// Number of concurrent backchannel calls, which the NFS client announces in `CREATE_SESSION`.
    /// Linux's nfsd interprets 0 as the maximum.
    const BACKCHANNEL_SLOTS: u32 = 1;
    /// Number of preallocated backchannel requests. It should exceed [`Self::BACKCHANNEL_SLOTS`],
    /// because the peer may make the next call before SUNRPC has freed the request of the previous
    /// call. With 0 every backchannel call is refused.
    const BACKCHANNEL_REQUESTS: u32 = 0;

    /// Returns the number of request slots of a new transport, which is the maximum number of RPCs
    /// in progress. Called once for each transport.
    fn slots() -> u32;

    /// Returns the maximum number of payload bytes of one RPC, which limits rsize and wsize.
    fn max_payload() -> usize;

    /// Creates the transport. It has the number of request slots that [`Self::slots`] returned.
    ///
    /// An object that must refer to the transport later gets an [`XprtHandle`](super::XprtHandle)
    /// from [`Xprt::handle`] when it is created.
    fn new(slots: u32, context: &Self::Context) -> impl PinInit<Self, Error>;

    /// Creates the transport's part of slot number `index`.
    fn new_slot(index: u32) -> impl PinInit<Self::Slot, Error>;

    /// Closes the connection, if there is one. Send lock held, `memalloc_nofs` scope; the section
    /// "Attaching" describes an exception.
    ///
    /// On return no device and no peer accesses the memory of any RPC, and every
    /// [`Pinned`](super::reply::Pinned) and [`Parked`](super::reply::Parked) has been dropped or
    /// completed. The caller wakes pending RPCs, which are then sent again. Must be idempotent.
    fn close(&self, xprt: &Xprt<Self>);

    /// Closes the connection permanently. No RPC is left, and no other method is called after this
    /// method.
    ///
    /// Must also cause all [`XprtHandle`](super::XprtHandle)s to be dropped soon, including those
    /// in `self`: teardown waits for them before it drops `self`.
    fn destroy(&self, xprt: &Xprt<Self>);

    /// Writes the transport's line of `/proc/self/mountstats`.
    fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile);

    /// Breaks the connection, for fault injection (`CONFIG_FAIL_SUNRPC`). Must not sleep.
    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        xprt.force_disconnect();
    }

    /// Prepares a call for sending. Its call and reply buffers are set up, and no other thread uses
    /// the request. Runs without the send lock, possibly without a connection.
    ///
    /// Called once each time the call is encoded. It is *not* called again when a call that has not
    /// been sent goes to a new connection: [`Self::send`] must detect that. No reply can be matched
    /// to the request at this time. The method must undo the effects of an earlier transmission of
    /// the request.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`, `ENOMEM`: SUNRPC encodes and prepares the call again after 60 ms.
    /// - Any other errno: the RPC fails with it.
    ///
    /// It is not an error if something is missing that [`Self::send`] can obtain later, such as a
    /// connection.
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

    /// Ends the use of a request: the RPC was completed, failed or was aborted. No reply can be
    /// matched to the request.
    ///
    /// When this returns, no device and no peer can access the RPC's memory (call, pages, reply),
    /// and the slot can serve another RPC. Called only if buffers were allocated.
    fn release(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>);

    /// Records that an RPC needed `len` bytes for its headers, more than [`Self::BUFFER_SIZE`], and
    /// got a buffer of its own. Must not sleep.
    fn large_buffer_allocated(&self, _len: usize) {}

    /// Connects. Send lock held, `memalloc_nofs` scope.
    ///
    /// On success everything is in place for [`Self::send`], [`Xprt::reset_congestion`] has been
    /// called, and SUNRPC regards the transport as connected when this returns. After an error
    /// [`Self::close`] is called next, so this method may return with a partly established
    /// connection.
    ///
    /// Long waits should check [`Xprt::is_abandoned`] periodically, because umount waits for this
    /// method.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    fn connect(&self, _xprt: &Xprt<Self>) -> Result<(), ConnectError> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns when the next connection attempt starts, on the clock of `outage`. If that time has
    /// passed, the attempt starts at once. `random` is a fresh random number.
    ///
    /// Called when RPCs ask for a connection, except for the first attempt of an outage. Send lock
    /// held; must not sleep.
    fn next_attempt(&self, outage: &Outage, _random: u32) -> u32 {
        outage.attempt.saturating_add(5_000)
    }

    /// Returns when to retry after an attempt failed with `error`, on the clock of `outage`, or
    /// `None` to report the error to the waiting RPCs first. `random` is a fresh random number.
    /// Send lock held; must not sleep.
    fn retry_unreported(
        &self,
        _xprt: &Xprt<Self>,
        _error: ConnectError,
        _outage: &Outage,
        _random: u32,
    ) -> Option<u32> {
        None
    }

    /// Checks whether the peer still responds. Called every [`Self::LIVENESS_INTERVAL`] seconds
    /// while there is a connection, from a worker that does not hold the send lock: [`Self::close`]
    /// may run at the same time.
    fn check_liveness(&self, _xprt: &Xprt<Self>) {}

    /// Handles the timeout of an RPC that waits for its reply. If `fails`, the RPC ends with this
    /// timeout, as on a soft mount. Otherwise SUNRPC sends the call again or continues to wait,
    /// either of which requires a new connection. The transport may have made that already. Must
    /// not sleep.
    fn timer(&self, xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>, fails: bool) {
        if !fails {
            xprt.force_disconnect();
        }
    }

    /// Records that SUNRPC asked for a connection: [`Self::connect`] will be called in `delay`
    /// jiffies. Send lock held; must not sleep.
    fn connect_scheduled(&self, _xprt: &Xprt<Self>, _delay: usize) {}

    /// Records that the next call of [`Self::connect`] begins in `delay` milliseconds, whether
    /// SUNRPC has asked for it or [`Self::retry_unreported`] has. Send lock held; must not sleep.
    fn attempt_planned(&self, _xprt: &Xprt<Self>, _delay: u32) {}

    /// Records that SUNRPC shortened its timeouts for connecting and reconnecting, in jiffies. Must
    /// not sleep.
    fn timeouts_changed(&self, _xprt: &Xprt<Self>, _connect: usize, _reconnect: usize) {}

    /// Attaches the new transport to the connection `server`, which must not be used after this
    /// method has returned: objects that calls and replies need have references of their own.
    /// [`Self::close`] must drop a handle of `xprt` that is given to the connection. Called once.
    ///
    /// # Errors
    ///
    /// Any; after an error no handle is left.
    fn attach(&self, _xprt: &Xprt<Self>, _server: &SvcXprt<Connected>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

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

    /// Sends the reply to a backchannel call (NFSv4.1 and later). Send lock held, request pinned.
    /// Must not wait for memory or for the peer. A reply that can never be sent should be dropped
    /// with `Ok`, because an error may be reported to a different task, see [`SendError`].
    ///
    /// Without this method the transport has no backchannel, and the NFS client refuses minor
    /// versions above 0 on it.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send_backchannel_reply(
        &self,
        _xprt: &Xprt<Self>,
        _reply: BackchannelReply<'_>,
    ) -> Result<(), SendError> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}
