// SPDX-License-Identifier: GPL-2.0

//! Client transports of SUNRPC: `rpc_xprt` and its class.
//!
//! A transport implements [`Transport`], [`Rpc`], either [`Reconnect`] or [`Attach`], and, if it
//! has that capability, [`Backchannel`]. [`register`](class::register) registers its class with
//! SUNRPC, which then calls the traits' methods. It creates one [`Xprt`] (or more) for each mount;
//! one that implements [`Attach`], for each connection over which a service calls its client.
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
//! call_encode         prepare_request      [ops]                       Rpc::prepare
//!   (again, encrypted) rq_release_snd_buf  [cipher_pages]              Rpc::invalidate_call
//! call_connect        connect              [connect] worker            Reconnect::connect
//! xprt_transmit       send_request         [ops]                       Rpc::send
//!                     reply found by XID   [reply] find, complete      (completion handler)
//! xprt_release        release_request      [credit] credit returned
//!                     buf_free             [buffer]                    Rpc::release
//!                     free_slot            [slot]
//! ```
//!
//! [`backchannel`] describes calls in the other direction.
//!
//! # Locks of SUNRPC
//!
//! - `XPRT_LOCKED`, the *send lock*: a bit that a task, the connect worker or the autoclose worker
//!   holds, possibly across a sleep. [`Reconnect::connect`], [`Rpc::send`] and [`Transport::close`]
//!   run under it, so that only one of them runs at a time. [`Attach`] describes an exception.
//! - `transport_lock`, `queue_lock`, `reserve_lock`: spinlocks that do not disable interrupts. Code
//!   in this folder therefore runs in process context only. None of them is held when a trait
//!   method is called, and this folder nests none of them in another.
//!
//! # Teardown
//!
//! After the last reference to the `rpc_xprt` was put, SUNRPC takes the send lock for good. Then
//! the connect and [`liveness`] workers are cancelled, [`Transport::destroy`] is called, the last
//! [`XprtHandle`] is dropped, and the transport, its slots and the `rpc_xprt` are freed. At last
//! the module reference is put. [`setup`] has the details.
//!
//! [`Attach`]: transport::Attach
//! [`Backchannel`]: transport::Backchannel
//! [`Reconnect`]: transport::Reconnect
//! [`Reconnect::connect`]: transport::Reconnect::connect
//! [`Rpc`]: transport::Rpc
//! [`Rpc::send`]: transport::Rpc::send
//! [`Transport`]: transport::Transport
//! [`Transport::close`]: transport::Transport::close
//! [`Transport::destroy`]: transport::Transport::destroy

mod address_strings;
mod attach;
pub(crate) mod backchannel;
mod buffer;
mod cipher_pages;
pub(crate) mod class;
mod connect;
mod credit;
mod handle;
mod liveness;
mod ops;
pub(crate) mod reply;
pub(crate) mod rqst;
mod setup;
pub(crate) mod slot;
pub(crate) mod stats;
mod support;
pub(crate) mod transport;

pub(crate) use self::handle::{Xprt, XprtHandle};
