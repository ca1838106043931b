// SPDX-License-Identifier: GPL-2.0

//! Server transports of SUNRPC: `svc_xprt` and its class.
//!
//! A server implements [`Listener`] and [`Connection`], and [registers](register) the class with
//! SUNRPC. A service such as nfsd then creates a listener for each address, and a connection for
//! each request that a listener has queued.
//!
//! C headers: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h)
//!
//! # Sequence of a call
//!
//! ```text
//! module                               SUNRPC                   trait method
//! ------                               ------                   ------------
//! SvcXprt::connection_arrived          sets XPT_CONN, wakes
//!                                      xpo_accept               Listener::next, Connection::new
//! SvcXprt::data_arrived                sets XPT_DATA, wakes     Connection::has_room
//!                                      xpo_recvfrom             Connection::receive
//!                                      procedure of the service
//!                                        svc_encode_result_...  Connection::mark_payload
//!                                      xpo_sendto               Connection::send
//!                                      xpo_release_ctxt         Connection::release
//! SvcXprt::close                       sets XPT_CLOSE, wakes
//!                                      xpo_detach               detach
//!                                      xpo_free                 (drop)
//! ```
//!
//! # Guarantees of the types
//!
//! - *Busy.* SUNRPC sets `XPT_BUSY` before it calls a transport. `xpo_recvfrom` alone must clear
//!   it, once and on every path. [`Connection::receive`] is given the busy transport as
//!   [`Incoming`](receive::Incoming) and must return a [`Receipt`](receive::Receipt), which is made
//!   only from the value that [`Incoming::received`](receive::Incoming::received) returns.
//! - *Pages.* A slot of `rq_pages` is exchanged or emptied together with the count that SUNRPC
//!   refills by ([`Arriving`](receive::Arriving)). A page of a reply is taken, kept for the next
//!   reply, or left to SUNRPC ([`Reply`](reply::Reply)).
//! - *Contexts.* The box that is given with a call is `rq_xprt_ctxt`. SUNRPC passes it to
//!   [`Connection::release`] exactly once, possibly from a deferred request.
//! - *References.* A [`Handle`] holds no reference to the `svc_xprt`, so that it does not prevent
//!   the closing of an idle connection. The transport is freed after its last handle is dropped.
//!
//! # Deferral
//!
//! SUNRPC may defer a call until user space has answered an upcall, if the whole argument is in its
//! head. It then copies the argument and moves the context from the `svc_rqst` to the deferred
//! request. The call is processed later without [`Connection::receive`], or dropped by a worker of
//! the cache, perhaps after [`Connection::detach`]. The context is released in either case.
//!
//! # Module references
//!
//! SUNRPC holds a reference to the module for each transport and puts it after `xpo_free` has
//! returned. If `xpo_create` or `xpo_accept` fails, SUNRPC also puts a reference; [`xprt`]
//! describes how a transport that could not be completed is freed.
//!
//! [`Connection`]: transport::Connection
//! [`Connection::detach`]: transport::Connection::detach
//! [`Connection::receive`]: transport::Connection::receive
//! [`Connection::release`]: transport::Connection::release
//! [`Handle`]: xprt::Handle
//! [`Listener`]: transport::Listener

pub(super) mod callback;
mod class;
mod ops;
pub(crate) mod receive;
pub(crate) mod reply;
#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
mod tests;
pub(crate) mod transport;
pub(crate) mod xprt;

pub(crate) use self::class::{register, ClassRegistration};
