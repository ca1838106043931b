// SPDX-License-Identifier: GPL-2.0

//! Client transports of SUNRPC: `rpc_xprt` and its class.
//!
//! A transport implements [`Transport`]; [`register`](class::register) makes it known to SUNRPC.
//! From then on SUNRPC creates one [`Xprt`] a mount (or more) and calls the trait.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! # The way of a call
//!
//! ```text
//! SUNRPC                                   here                        Transport
//! ------                                   ----                        ---------
//! xprt_reserve        a slot of xprt->free [slot]
//! call_allocate       buf_alloc            [buffer]
//! call_encode         prepare_request      [ops]                       prepare
//!   (anew, encrypted) rq_release_snd_buf   [scratch]                   withdraw
//! call_connect        connect              [connect] worker            connect
//! xprt_transmit       send_request         [ops]                       send
//!                     reply found by XID   [reply] find, complete      (completion handler)
//! xprt_release        release_request      [credit] credit given back
//!                     buf_free             [buffer]                    release
//!                     free_slot            [slot]                      slot_free
//! ```
//!
//! Calls in the other direction take a way of their own, see [`backward`].
//!
//! # Locks of SUNRPC, and what they mean here
//!
//! - `XPRT_LOCKED`, the *send lock*: a bit that a task, the connect worker or the autoclose worker
//!   holds. Under it: [`connect`], [`send`] and [`close`], never two of them at once. It may be
//!   held across a sleep.
//! - `transport_lock`, `queue_lock`, `reserve_lock`: spinlocks without interrupts disabled, so
//!   everything in this folder is for process context. None of them is held when the trait is called.
//!   They do not nest in each other here.
//!
//! # Teardown
//!
//! Last reference to the `rpc_xprt` gone, send lock taken for ever by SUNRPC, connect worker and
//! [`watch`] cancelled, [`destroy`], the transport dropped, every
//! [`XprtHandle`] dropped, slots freed, `xprt_free`, module reference given
//! back. See [`setup`].
//!
//! [`connect`]: transport::Transport::connect
//! [`send`]: transport::Transport::send
//! [`close`]: transport::Transport::close
//! [`destroy`]: transport::Transport::destroy

pub(crate) mod address;
pub(crate) mod backward;
pub(crate) mod buffer;
pub(crate) mod class;
pub(crate) mod connect;
pub(crate) mod credit;
mod handle;
mod ops;
pub(crate) mod reply;
pub(crate) mod rqst;
pub(crate) mod scratch;
pub(crate) mod setup;
pub(crate) mod slot;
pub(crate) mod stats;
pub(crate) mod transport;
mod watch;

pub(crate) use self::handle::{Xprt, XprtHandle};
