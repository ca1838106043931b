// SPDX-License-Identifier: GPL-2.0

//! Trace events of the group `rpcrdma`: one function for each event.
//!
//! C header: [`include/trace/events/rpcrdma_rs.h`]. A function has the name of its event without
//! the prefix `xprtrdma_`. The events of the server have a header and a module of their own,
//! [`server`], because some functions would have equal names. A function converts its arguments
//! to the event's parameters only while the event is enabled. `Documentation/tracing.rst` describes
//! events and fields.
//!
//! All functions may be called in any context.
//!
//! # Adding an event
//!
//! 1. Declare it in `include/trace/events/rpcrdma_rs.h`, with a name `xprtrdma_...`, or in
//!    `rpcrdma_svc_rs.h` beside it, with a name `svcrdma_...`: a `TRACE_EVENT`, or a `DEFINE_EVENT`
//!    of a class that fits. All parameters are plain values or strings. The C files and the
//!    bindings pick it up; nothing is to be added there.
//! 2. Wrap it in the file below `rust/observe/trace/` that has events of the same kind: an entry
//!    `fn name(arguments) => xprtrdma_name { parameter: expression, ... }` of `events!`, with the
//!    parameters of `TP_PROTO` under the same names and in the same order, or an entry of a `class`
//!    that has them. A parameter of a new C type needs an implementation of `Field`, and an
//!    argument of a new Rust type that is looked up lazily an entry in `lazy!`, both in this file.
//! 3. Emit it: call `trace::name(...)` where it happens, outside of this room (or from another
//!    function of it).
//! 4. Describe it in `Documentation/tracing.rst`: a row in the table of its section that starts
//!    with the event's name. If the page lists it as absent, remove it there.
//!
//! `make check-tree` fails if one of the four is missing, or if two of them differ.

use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::{ffi, fmt};

use crate::proto::requester::plan::{CallShape, ReplyShape};
use crate::text;
use crate::wire::{Prefix, Segment};

#[macro_use]
mod event;

mod call;
mod connection;
#[cfg(RPCRDMA_LEGACY)]
mod legacy;
mod reply;
mod session;

pub(crate) mod server;

pub(crate) use call::*;
pub(crate) use connection::*;
#[cfg(RPCRDMA_LEGACY)]
pub(crate) use legacy::*;
pub(crate) use reply::*;
pub(crate) use session::*;

/// A string of an event, truncated to 63 bytes.
type StackString = text::StackString<64>;

/// A value, or a closure in [`Lazy`], that yields an argument of type `T`.
pub(crate) trait Source<T> {
    /// Returns the argument. Called only while the event is enabled.
    fn get(self) -> T;
}

impl<T> Source<T> for T {
    #[inline(always)]
    fn get(self) -> T {
        self
    }
}

/// An argument that is computed only while the event is enabled.
#[derive(Clone, Copy)]
pub(crate) struct Lazy<F>(pub(crate) F);

macro_rules! lazy {
    ($($ty:ty),*) => {$(
        impl<F: FnOnce() -> $ty> Source<$ty> for Lazy<F> {
            #[inline(always)]
            fn get(self) -> $ty {
                (self.0)()
            }
        }
    )*};
}

lazy!(
    bool,
    u32,
    Task,
    Cid,
    Peer,
    Region,
    CallShape,
    ReplyShape,
    server::SendQueue,
    Prefix
);

/// The RPC task of an event, which is printed as `task:PID@CLIENT`.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// `tk_pid` of the RPC task.
    pub(crate) task_id: u32,
    /// `cl_clid` of the task's RPC client.
    pub(crate) client_id: u32,
}

/// The peer of a transport, as SUNRPC displays it (`RPC_DISPLAY_ADDR`, `RPC_DISPLAY_PORT`).
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    addr: StackString,
    port: StackString,
}

impl Peer {
    /// Makes the peer with a network address and a port.
    pub(crate) fn new(addr: &impl fmt::Display, port: u16) -> Self {
        Self {
            addr: StackString::new(&fmt!("{}", addr)),
            port: StackString::new(&port),
        }
    }

    /// Returns address and port in one string, as in the events of the server.
    fn endpoint(&self) -> StackString {
        StackString::new(&fmt!("{}", *self))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.addr.as_bytes().contains(&b':') {
            f.write_fmt(fmt!("[{}]:{}", self.addr, self.port))
        } else {
            f.write_fmt(fmt!("{}:{}", self.addr, self.port))
        }
    }
}

/// The identity of a work request: its queue, and a number that is unique in the queue while the
/// work request is outstanding.
#[derive(Clone, Copy)]
pub(crate) struct Cid {
    /// Number of the completion queue in resource tracking (`rdma resource show cq`); zero if
    /// unknown.
    pub(crate) cq_id: u32,
    /// Number of the request slot, buffer or memory region that the work request belongs to.
    pub(crate) completion_id: u32,
}

/// The status of a completion.
#[derive(Clone, Copy)]
pub(crate) struct WcStatus {
    /// The status (`enum ib_wc_status`).
    pub(crate) status: u32,
    /// The error code of the device's vendor; meaningless after success.
    pub(crate) vendor_err: u32,
}

impl WcStatus {
    /// Success (`IB_WC_SUCCESS`).
    pub(crate) const SUCCESS: Self = Self {
        status: 0,
        vendor_err: 0,
    };

    /// Returns whether the work request was flushed: it did not fail itself, but was outstanding
    /// when the connection ended.
    const fn is_flush(self) -> bool {
        self.status == crate::raw::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }
}

/// A registered memory region.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    /// Number of the region in resource tracking (`rdma resource show mr`); zero if unknown.
    pub(crate) mr_id: u32,
    /// Number of entries of its scatterlist.
    pub(crate) nents: u32,
    /// R_key, length and address.
    pub(crate) segment: Segment,
    /// `ToDevice` if the peer reads the memory, `FromDevice` if it writes it.
    pub(crate) direction: DataDirection,
}

/// A socket address in the form that events store: a `struct sockaddr_in` or `sockaddr_in6`, padded
/// with zeroes.
pub(crate) struct SockAddrBytes([u8; Self::LEN]);

impl SockAddrBytes {
    /// `sizeof(struct sockaddr_in6)`.
    const LEN: usize = core::mem::size_of::<kernel::bindings::sockaddr_in6>();

    /// Copies a socket address in the form of `struct sockaddr`, truncated if necessary. An empty
    /// slice means that the address is unknown.
    fn new(sockaddr: &[u8]) -> Self {
        let mut bytes = [0; Self::LEN];
        text::copy(&mut bytes, sockaddr);
        Self(bytes)
    }
}

/// A value that is passed to an event. It is not implemented for raw pointers, so C gets a copy, or
/// a pointer that is borrowed for the call.
trait Field {
    /// The parameter's type in C.
    type C;

    /// Returns the value in the form that C expects. A pointer is valid while `self` is borrowed.
    fn to_c(&self) -> Self::C;
}

macro_rules! plain_fields {
    ($($t:ty),*) => {$(
        impl Field for $t {
            type C = $t;

            #[inline(always)]
            fn to_c(&self) -> $t {
                *self
            }
        }
    )*};
}

plain_fields!(bool, i32, i64, isize, u32, u64, usize);

impl Field for &CStr {
    type C = *const ffi::c_char;

    #[inline(always)]
    fn to_c(&self) -> *const ffi::c_char {
        self.as_char_ptr()
    }
}

impl Field for StackString {
    type C = *const ffi::c_char;

    #[inline(always)]
    fn to_c(&self) -> *const ffi::c_char {
        self.as_char_ptr()
    }
}

impl Field for SockAddrBytes {
    type C = *const ffi::c_void;

    #[inline(always)]
    fn to_c(&self) -> *const ffi::c_void {
        self.0.as_ptr().cast()
    }
}

/// Converts a length or count to the type that events use for it.
#[inline(always)]
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
