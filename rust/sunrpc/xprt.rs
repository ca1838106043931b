// SPDX-License-Identifier: GPL-2.0

//! Client transports of SUNRPC: `rpc_xprt` and its class.
//!
//! A transport implements [`Transport`]. [`register`](class::register) registers its class with
//! SUNRPC, which then calls the trait's methods. It creates an [`Xprt`] (or more) for each mount;
//! of a transport that attaches, for each connection over which a service calls its client.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! # Sequence of a call
//!
//! ```text
//! SUNRPC                                   module                      trait method
//! ------                                   ------                      ------------
//! xprt_reserve        a slot of xprt->free [slot]
//! call_allocate       buf_alloc            [buffer]
//! call_encode         prepare_request      [ops]                       prepare
//!   (again, encrypted) rq_release_snd_buf  [rqst]                      invalidate_call
//! call_connect        connect              [connect] worker            connect
//! xprt_transmit       send_request         [ops]                       send
//!                     reply found by XID   [reply] find, complete      (completion handler)
//! xprt_release        release_request      [credit] credit returned
//!                     buf_free             [slot]                      release
//!                     free_slot            [slot]
//! ```
//!
//! [`backchannel`] describes calls in the other direction.
//!
//! # Locks of SUNRPC
//!
//! - `XPRT_LOCKED`, the *send lock*: a bit that a task, the connect worker or the autoclose worker
//!   holds, possibly across a sleep. [`Transport::connect`], [`Transport::send`] and
//!   [`Transport::close`] run under it, so that only one of them runs at a time. A transport that
//!   attaches is an exception, which [`Transport`] describes.
//! - `transport_lock`, `queue_lock`, `reserve_lock`: spinlocks that do not disable interrupts. Code
//!   in this folder therefore runs in process context only. None of them is held when a trait
//!   method is called, and this folder nests none of them in another.
//!
//! # Teardown
//!
//! After the last reference to the `rpc_xprt` was put, SUNRPC takes the send lock permanently. Then
//! the connect and liveness workers are cancelled, [`Transport::destroy`] is called, the last
//! [`XprtHandle`] is dropped, and the transport, its slots and the `rpc_xprt` are freed. Finally
//! the module reference is put. [`setup`] has the details.
//!
//! [`Transport`]: transport::Transport
//! [`Transport::close`]: transport::Transport::close
//! [`Transport::connect`]: transport::Transport::connect
//! [`Transport::destroy`]: transport::Transport::destroy
//! [`Transport::send`]: transport::Transport::send

mod address_strings;
pub(crate) mod backchannel;
pub(crate) mod class;
mod connect;
mod credit;
mod handle;
mod ops;
pub(crate) mod reply;
pub(crate) mod rqst;
mod setup;
pub(crate) mod slot;
pub(crate) mod stats;
pub(crate) mod transport;

pub(crate) use self::handle::{Xprt, XprtHandle};
#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
pub(crate) use self::ops::table as operations;
