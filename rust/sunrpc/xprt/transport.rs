// SPDX-License-Identifier: GPL-2.0

//! What a transport has to provide.

use kernel::bindings as k;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use super::backward::BackwardReply;
use super::handle::Xprt;
use super::rqst::Rqst;
use super::stats::StatsWriter;
use crate::mem::SockAddr;

/// Why a connection could not be made. Decides what the waiting RPCs, and in the end `mount`, do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The peer refuses (`ECONNREFUSED`): fatal for a mount, otherwise tried again after 3 s.
    Refused,
    /// The peer, its network or the device cannot be reached (`ENETUNREACH`): tried again after 3 s,
    /// but fatal in a network namespace.
    Unreachable,
    /// The peer or the device cannot be reached at the moment (`EHOSTUNREACH`): tried again after
    /// 3 s.
    HostUnreachable,
    /// The address cannot be used with this transport (`EPROTO`).
    BadAddress,
    /// No answer (`ETIMEDOUT`): tried again until the RPC's own timeout.
    TimedOut,
    /// Any failure that may pass (`ENOTCONN`): tried again at once, subject to back-off.
    Lost,
    /// No memory or other resource (`ENOBUFS`): tried again after a short delay.
    NoResources,
    /// The transport is going away: nobody wants the connection any more (`ENOTCONN`).
    Abandoned,
}

impl ConnectError {
    /// The errno that the RPCs waiting for the connection are woken with (negative).
    ///
    /// `call_connect_status()` of `net/sunrpc/clnt.c` says what each leads to.
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

/// A peer to which there is no connection. Times are in milliseconds since the first attempt to make
/// one began; no reply has come since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The present.
    pub(crate) now: u32,
    /// When the latest attempt began.
    pub(crate) attempt: u32,
    /// When RPCs asked for it.
    pub(crate) asked: u32,
}

/// Why a call was not sent.
///
/// Beware: SUNRPC lets one task drain the whole send queue, and gives an error to the task that
/// drains, not to the one whose call failed. Errors that are about one call alone
/// ([`Self::TooBig`], [`Self::Io`]) therefore belong into [`Transport::prepare`], which runs in
/// the right task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// There is no connection (`ENOTCONN`): the task connects, and sends without encoding anew.
    NotConnected,
    /// No credit (`EBADSLT`): the task waits until the congestion window opens. Return this only
    /// after [`Xprt::take_credit`] has said no.
    NoCredit,
    /// Something that will be announced by [`Xprt::wake_write_space`] is lacking (`EAGAIN`).
    /// Call [`Xprt::wait_for_buffer_space`] before, and check again after it, or the task spins.
    Again,
    /// Something that nobody will announce is lacking (`ENOBUFS`): tried again after 250 ms.
    NoResources,
    /// The call must be encoded again (`EBADMSG`).
    Reencode,
    /// The call is larger than the transport can carry (`EMSGSIZE`): the RPC fails.
    TooBig,
    /// The call cannot be sent, and never will be (`EIO`): the RPC fails.
    Io,
    /// The connection must go: it is closed as soon as the send lock is released, and the call is
    /// sent on the next one (`ENOTCONN`).
    Dropped,
}

impl SendError {
    /// The errno for `send_request` (negative). `call_transmit_status()` and `call_status()` of
    /// `net/sunrpc/clnt.c` say what each leads to.
    pub(crate) fn to_errno(self) -> i32 {
        // CAST: Errno constants are small.
        -(match self {
            Self::NotConnected | Self::Dropped => k::ENOTCONN,
            Self::NoCredit => k::EBADSLT,
            Self::Again => k::EAGAIN,
            Self::NoResources => k::ENOBUFS,
            Self::Reencode => k::EBADMSG,
            Self::TooBig => k::EMSGSIZE,
            Self::Io => k::EIO,
        } as i32)
    }
}

/// What SUNRPC wants a transport for.
pub(crate) struct CreateArgs {
    /// The server's address; its port is 0 when it has yet to be asked of rpcbind.
    pub(crate) dst: SockAddr,
    /// Its number of request slots, as [`Transport::slots`] has said.
    pub(crate) slots: u32,
}

/// A client transport.
///
/// Every method runs in process context without any of SUNRPC's spinlocks held and may sleep,
/// unless it says otherwise. What runs with the send lock or on behalf of a writeback must not
/// allocate with `GFP_KERNEL` unless inside an allocation scope; the connect and close workers are
/// in `memalloc_nofs` scope already.
///
/// # Memory
///
/// A request's buffers (call, pages, reply) are SUNRPC's, and [`XdrBuf::pieces`] says where they lie,
/// for a device and through it a peer to read and write. The compiler sees nothing of that: a
/// [`Piece`](crate::mem::Piece) may be kept beyond its request. So this is for a transport to promise,
/// and for whoever makes it known to vouch for, see [`register`](super::class::register):
///
/// - When [`Self::release`] has returned, no piece of the request's buffers is kept, and none is mapped
///   so that a device or peer may reach it. The same holds for a reply before it is
///   [completed](super::reply::Pinned::complete), or the peer could change it under its reader.
/// - When [`Self::withdraw`] has returned, the same holds for the call.
/// - Pieces of a [`BackwardReply`] are not kept beyond [`Self::send_backward`].
///
/// [`XdrBuf::pieces`]: super::super::xdr_buf::XdrBuf::pieces
pub(crate) trait Transport: Send + Sync + Sized + 'static {
    /// The transport's own part of a request slot.
    type Slot: Send + Sync + 'static;

    /// What every transport of the class is given when it is made, see
    /// [`register`](super::class::register).
    type Context: Send + Sync + 'static;

    /// `XPRT_TRANSPORT_*`: identifies the transport to NFS.
    const IDENT: i32;
    /// Name of the class, at most 31 bytes.
    const NAME: &'static CStr;
    /// Netids for IPv4 and IPv6 addresses, as in `/etc/netconfig`.
    const NETIDS: [&'static CStr; 2];
    /// Protocol name shown for the transport (`RPC_DISPLAY_PROTO`).
    const PROTO: &'static CStr;
    /// Bytes for call and reply headers that each slot keeps for good. RPCs that need more get a
    /// buffer of their own for their lifetime.
    const BUFFER_SIZE: usize = 4096;
    /// Least time-out of an RPC, in seconds, that NFS can ask for so as to know of a dead server
    /// within its lease.
    const TIMEOUT_MIN: u32 = 10;
    /// Longest time from one attempt to connect to the next, in seconds.
    const RECONNECT_MAX: u32 = 60;
    /// Seconds of idleness after which SUNRPC closes the connection.
    const IDLE_TIMEOUT: u32 = 300;
    /// Seconds between two calls of [`Self::watch`]; 0 for none.
    const WATCH_INTERVAL: u32 = 0;
    /// Number of backward calls at a time, as NFSv4.1 announces it in `CREATE_SESSION`. Linux's nfsd
    /// takes 0 for the maximum.
    const BACKWARD_SLOTS: u32 = 1;
    /// Number of backward calls for which there is room. More than [`Self::BACKWARD_SLOTS`]: the next
    /// call may arrive before SUNRPC has let go of the one that was just answered. With 0 no
    /// backward call is accepted; the operations are there all the same, as the NFS client refuses
    /// a minor version above 0 on a transport without them.
    const BACKWARD_CALLS: u32 = 0;

    /// Number of request slots of a new transport: so many RPCs can be under way. Asked once for each
    /// transport.
    fn slots() -> u32;

    /// Most bytes of payload in one RPC; bounds rsize and wsize.
    fn max_payload() -> usize;

    /// Makes the transport. No connection yet.
    ///
    /// Whatever has to find its way back to the transport later gets an
    /// [`XprtHandle`](super::XprtHandle) from [`Xprt::handle`] when it is made.
    fn new(args: &CreateArgs, context: &Self::Context) -> impl PinInit<Self, Error>;

    /// Makes the transport's part of slot number `index`.
    fn new_slot(index: u32) -> impl PinInit<Self::Slot, Error>;

    /// Connects. Send lock held, `memalloc_nofs` scope.
    ///
    /// On success everything is in place for [`Self::send`], [`Xprt::reset_congestion`] has been
    /// called, and the connection counts as connected when this returns. On failure
    /// [`Self::close`] is called next, so it is fine to return half-way.
    ///
    /// Long waits should look at [`Xprt::is_abandoned`] now and then: an umount waits for this.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError>;

    /// When the next attempt to connect is to begin, on the clock of `outage`; at once if that has
    /// passed. Asked when RPCs want a connection, unless this is the first attempt. `random` is a
    /// number drawn for this. Send lock held; must not sleep.
    fn next_attempt(&self, outage: &Outage, _random: u32) -> u32 {
        outage.attempt.saturating_add(5_000)
    }

    /// When to try again, on the clock of `outage`, before the RPCs that wait are told that an attempt
    /// has failed with `error`. `None`: tell them. `random` is a number drawn for this. Send lock held;
    /// must not sleep.
    fn try_again(
        &self,
        _xprt: &Xprt<Self>,
        _error: ConnectError,
        _outage: &Outage,
        _random: u32,
    ) -> Option<u32> {
        None
    }

    /// Ends the connection, if there is one. Send lock held, `memalloc_nofs` scope.
    ///
    /// Afterwards nothing touches memory of any RPC any more, and every
    /// [`Pinned`](super::reply::Pinned) and [`Parked`](super::reply::Parked) has been dropped or
    /// completed. Pending RPCs are woken to be sent again by the caller. Must be idempotent.
    fn close(&self, xprt: &Xprt<Self>);

    /// The transport goes away; no RPC is left and nobody will call again. Like [`Self::close`],
    /// and must also make sure that all [`XprtHandle`](super::XprtHandle)s are dropped soon,
    /// the ones in `self` included: teardown waits for them before it drops `self`.
    fn destroy(&self, xprt: &Xprt<Self>);

    /// Gets a call ready to be sent: call and reply buffers are set up, and nobody else looks at
    /// the request. Without the send lock; possibly without a connection.
    ///
    /// Called once each time the call is (re-)encoded. It is *not* called again when a call that
    /// has not been sent goes to a new connection: [`Self::send`] must notice that.
    /// At this time no reply can be found for the request, and what an earlier transmission left
    /// behind has to be undone here.
    ///
    /// # Errors
    ///
    /// `EAGAIN` and `ENOMEM`: encoded and prepared again after 60 ms. Any other errno: the RPC
    /// fails with it. Best effort is fine: what can be made up for in [`Self::send`], such as a
    /// lack of connection, is no error.
    fn prepare(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result;

    /// Sends a call. Send lock held, request pinned. Must not wait for memory or for the peer.
    ///
    /// A reply may be found (in another thread) before this returns.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError>;

    /// The call is being encoded anew, and its pages, which an authentication flavour had made for it,
    /// are about to be freed. It may have been sent, and its reply is not there. Nobody can find the
    /// request.
    ///
    /// When this returns, no peer and no device may reach the call's memory. [`Self::prepare`] is next.
    fn withdraw(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>);

    /// The RPC is over: done, failed or given up. Nobody can find the request any more.
    ///
    /// When this returns, no peer and no device may reach the RPC's memory (call, pages, reply), and the
    /// slot can serve another RPC.
    /// Called only if buffers had been allocated.
    fn release(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>);

    /// Somebody wants to serve calls of the peer, `count` at a time. They are handed over by
    /// [`Xprt::deliver`]. May be called several times, at any time, and while connecting.
    ///
    /// # Errors
    ///
    /// Any: the mount fails with it.
    fn backward_wanted(&self, _xprt: &Xprt<Self>, _count: u32) -> Result {
        Ok(())
    }

    /// Longest message, call or reply, in the backward direction; NFSv4.1 announces it in
    /// `CREATE_SESSION`, and Linux's nfsd takes less than about 500 bytes for an error. Called under
    /// RCU, with or without a connection: must not sleep.
    fn backward_max_message(&self) -> usize {
        PAGE_SIZE
    }

    /// Sends the reply to a backward call. Send lock held, request pinned. Must not wait for memory or
    /// for the peer. What cannot be sent, and never will be, had better be dropped with `Ok`: see
    /// [`SendError`] for whom an error hits.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send_backward(
        &self,
        _xprt: &Xprt<Self>,
        _reply: BackwardReply<'_>,
    ) -> Result<(), SendError> {
        Ok(())
    }

    /// Called every [`Self::WATCH_INTERVAL`] seconds while there is a connection, in a worker of its
    /// own, without the send lock: [`Self::close`] may run at the same time.
    fn watch(&self, _xprt: &Xprt<Self>) {}

    /// An RPC timed out waiting for its reply. `fails`: that is its end, as a soft mount has it;
    /// otherwise it is to be sent again, or to wait on, for which it needs another connection.
    fn timer(&self, xprt: &Xprt<Self>, fails: bool) {
        if !fails {
            xprt.force_disconnect();
        }
    }

    /// Writes the transport's line of `/proc/self/mountstats`.
    fn stats(&self, xprt: &Xprt<Self>, out: &mut StatsWriter<'_>);

    /// An RPC needs `len` bytes for its headers, more than [`Self::BUFFER_SIZE`], and has got them.
    /// Must not sleep.
    fn outgrown(&self, _len: usize) {}

    /// SUNRPC has asked for a connection; [`Self::connect`] will be called in `delay` jiffies. Send
    /// lock held; must not sleep.
    fn connect_ordered(&self, _xprt: &Xprt<Self>, _delay: usize) {}

    /// SUNRPC has shortened its time-outs for connecting and reconnecting, in jiffies. Must not
    /// sleep.
    fn timeouts_set(&self, _xprt: &Xprt<Self>, _connect: usize, _reconnect: usize) {}

    /// Breaks the connection from below, for fault injection. Must not sleep.
    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        xprt.force_disconnect();
    }
}
