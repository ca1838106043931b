// SPDX-License-Identifier: GPL-2.0

//! The traits that a transport implements.
//!
//! | trait | provides | server's callback client |
//! | --- | --- | --- |
//! | [`Transport`] | life cycle: class, slots, close, destroy, statistics | implements it |
//! | [`Rpc`] | calls: prepare, send, release | implements it |
//! | [`Reconnect`] | connecting, reconnecting, idle and RPC time-outs | does not |
//! | [`Attach`] | use of the connection of a server transport | implements it |
//! | [`Backchannel`] | calls from the peer | does not |
//!
//! A transport implements either [`Reconnect`] or [`Attach`], and names in [`Transport::Reconnect`]
//! which one. It names in [`Transport::Backchannel`] whether it implements [`Backchannel`]. For
//! [`Reconnect`] and [`Backchannel`] nothing exists at run time unless they are implemented: their
//! operations in `struct rpc_xprt_ops` are null, and their state has size 0.

mod attach;
mod backchannel;
mod connect_error;
mod outage;
mod reconnect;
mod rpc;
mod send_error;

use kernel::prelude::*;

pub(crate) use self::attach::Attach;
pub(crate) use self::backchannel::Backchannel;
pub(crate) use self::connect_error::ConnectError;
pub(crate) use self::outage::Outage;
pub(crate) use self::reconnect::Reconnect;
pub(crate) use self::rpc::Rpc;
pub(crate) use self::send_error::SendError;

use super::super::seq_file::SeqWriter;
use super::handle::Xprt;
pub(crate) use super::support::{Attached, Supported, Unsupported};
use super::support::{BackchannelSupport, ReconnectSupport};

/// Arguments of [`Transport::new`].
pub(crate) struct CreateArgs {
    /// Number of request slots of the new transport, as [`Transport::slots`] returned it.
    pub(crate) slots: u32,
}

/// The life cycle of a transport, and what SUNRPC has to know of its class.
///
/// Every method of this trait, of [`Rpc`], [`Reconnect`] and [`Backchannel`] runs in process
/// context without any of SUNRPC's spinlocks held, and may sleep unless its description says
/// otherwise. Code that runs under the send lock or on behalf of a writeback must not allocate with
/// `GFP_KERNEL` outside an allocation scope. The connect and close workers run in `memalloc_nofs`
/// scope.
///
/// # Examples
///
/// A transport of 4 slots that can connect and has a backchannel:
///
/// ```ignore
/// impl Transport for Null {
///     type Slot = ();
///     /// `true` if all connections are refused.
///     type Context = bool;
///     type Reconnect = Supported;
///     type Backchannel = Supported;
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
///     fn stats(&self, xprt: &Xprt<Self>, out: &mut SeqWriter<'_>) {
///         let _ = writeln!(out, "\txprt:\trpc_null {}", xprt.counts());
///     }
/// }
/// ```
pub(crate) trait Transport: Send + Sync + Sized + 'static {
    /// The transport's own part of a request slot.
    type Slot: Send + Sync + 'static;

    /// The value shared by all transports of the class, passed to
    /// [`register`](super::class::register).
    type Context: Send + Sync + 'static;

    /// [`Supported`] if the transport implements [`Reconnect`], [`Attached`] if it implements
    /// [`Attach`].
    type Reconnect: ReconnectSupport<Self>;

    /// [`Supported`] if the transport implements [`Backchannel`], otherwise [`Unsupported`].
    type Backchannel: BackchannelSupport<Self>;

    /// `XPRT_TRANSPORT_*`: identifies the transport to NFS.
    const IDENT: i32;
    /// Name of the class, at most 31 bytes.
    const NAME: &'static CStr;
    /// Netids for IPv4 and IPv6 addresses, as in `/etc/netconfig`. Mounts name a transport that
    /// connects by one of them.
    const NETIDS: [&'static CStr; 2];
    /// Protocol name that SUNRPC displays for the transport (`RPC_DISPLAY_PROTO`).
    const PROTO: &'static CStr;

    /// Returns the number of request slots of a new transport, which is the largest number of RPCs
    /// in progress. Called once for each transport.
    fn slots() -> u32;

    /// Returns the maximum number of payload bytes of one RPC, which limits rsize and wsize.
    fn max_payload() -> usize;

    /// Creates the transport.
    ///
    /// An object that has to refer to the transport later gets an [`XprtHandle`](super::XprtHandle)
    /// from [`Xprt::handle`] when it is created.
    fn new(args: &CreateArgs, context: &Self::Context) -> impl PinInit<Self, Error>;

    /// Creates the transport's part of slot number `index`.
    fn new_slot(index: u32) -> impl PinInit<Self::Slot, Error>;

    /// Closes the connection, if there is one. Send lock held, `memalloc_nofs` scope; [`Attach`]
    /// describes an exception.
    ///
    /// On return no device and no peer accesses the memory of any RPC, and every
    /// [`Pinned`](super::reply::Pinned) and [`Parked`](super::reply::Parked) has been dropped or
    /// completed. The caller wakes pending RPCs, which are then sent again. Must be idempotent.
    fn close(&self, xprt: &Xprt<Self>);

    /// Closes the connection for good. No RPC is left, and no other method is called after this
    /// one.
    ///
    /// Must also cause all [`XprtHandle`](super::XprtHandle)s to be dropped soon, including those
    /// in `self`: teardown waits for them before it drops `self`.
    fn destroy(&self, xprt: &Xprt<Self>);

    /// Writes the transport's line of `/proc/self/mountstats`.
    fn stats(&self, xprt: &Xprt<Self>, out: &mut SeqWriter<'_>);

    /// Breaks the connection, for fault injection (`CONFIG_FAIL_SUNRPC`). Must not sleep.
    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        xprt.force_disconnect();
    }
}
