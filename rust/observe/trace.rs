// SPDX-License-Identifier: GPL-2.0

//! Trace events of the group `rpcrdma`: one function for each event.
//!
//! C header: [`include/trace/events/rpcrdma_rs.h`]. A function is called like its event, without
//! the prefix `xprtrdma_`; what it takes is turned into the event's fields only while the event is
//! enabled. Events and fields are described in `Documentation/tracing.rst`.
//!
//! All functions may be called in any context.

use kernel::prelude::*;
use kernel::{ffi, fmt};

use crate::proto::requester::plan::{CallShape, ReplyShape};
use crate::wire::Segment;

#[macro_use]
mod event;

mod backward;
mod call;
mod completion;
mod connection;
mod region;
mod reply;
mod text;
mod violation;

pub(crate) use backward::*;
pub(crate) use call::*;
pub(crate) use completion::*;
pub(crate) use connection::*;
pub(crate) use region::*;
pub(crate) use reply::*;
pub(crate) use violation::*;

use text::Text;

/// What an event takes for an argument of type `T`.
pub(crate) trait Source<T> {
    /// Yields the argument; called only while the event is enabled.
    fn get(self) -> T;
}

impl<T> Source<T> for T {
    #[inline(always)]
    fn get(self) -> T {
        self
    }
}

/// An argument that is looked up only while the event is enabled.
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

lazy!(Task, Cid, Peer, Region, CallShape, ReplyShape);

/// The task that an event belongs to; printed as `task:PID@CLIENT`.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// `tk_pid` of the RPC task.
    pub(crate) task_id: u32,
    /// `cl_clid` of the task's RPC client.
    pub(crate) client_id: u32,
}

/// The peer of a transport, as SUNRPC displays it (`RPC_DISPLAY_ADDR`, `RPC_DISPLAY_PORT`).
pub(crate) struct Peer {
    addr: Text,
    port: Text,
}

impl Peer {
    /// The peer of a network address and a port.
    pub(crate) fn new(addr: &impl fmt::Display, port: u16) -> Self {
        Self {
            addr: Text::new(&fmt!("{}", addr)),
            port: Text::new(&port),
        }
    }
}

/// Which work request: the queue, and a number that is unique in it while the work request
/// is outstanding.
#[derive(Clone, Copy)]
pub(crate) struct Cid {
    /// Restrack ID of the completion queue, as `rdma resource show cq` prints it; zero if unknown.
    pub(crate) cq_id: u32,
    /// Number of the request slot, buffer or memory region that the work request belongs to.
    pub(crate) completion_id: u32,
}

/// How a work request ended.
#[derive(Clone, Copy)]
pub(crate) struct WcStatus {
    /// `enum ib_wc_status`.
    pub(crate) status: u32,
    /// Detail of the device's vendor; meaningless after success.
    pub(crate) vendor_err: u32,
}

impl WcStatus {
    /// `IB_WC_SUCCESS`.
    pub(crate) const SUCCESS: Self = Self {
        status: 0,
        vendor_err: 0,
    };
}

/// What the peer may do with a memory region; values of `enum dma_data_direction`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Access {
    /// RDMA Read by the peer: data leaves this host (`DMA_TO_DEVICE`).
    PeerReads = 1,
    /// RDMA Write by the peer: data arrives (`DMA_FROM_DEVICE`).
    PeerWrites = 2,
}

// Compared rather than assigned: whether the bindings' integer is signed depends on bindgen.
const _: () = {
    use kernel::bindings::dma_data_direction as direction;
    assert!(Access::PeerReads as i64 == direction::DMA_TO_DEVICE.0 as i64);
    assert!(Access::PeerWrites as i64 == direction::DMA_FROM_DEVICE.0 as i64);
};

/// A registered memory region.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    /// Restrack ID of the MR, as `rdma resource show mr` prints it; zero if unknown.
    pub(crate) mr_id: u32,
    /// Entries in its scatterlist.
    pub(crate) nents: u32,
    /// R_key, length and address.
    pub(crate) segment: Segment,
    /// What it is for.
    pub(crate) access: Access,
}

/// A socket address in the form that events store: `struct sockaddr_in` or `sockaddr_in6`, the
/// rest zero.
pub(crate) struct SockAddrBytes([u8; Self::LEN]);

impl SockAddrBytes {
    /// `sizeof(struct sockaddr_in6)`.
    const LEN: usize = core::mem::size_of::<kernel::bindings::sockaddr_in6>();

    /// Takes what fits of a socket address as the kernel stores it. An empty slice stands for an
    /// unknown address.
    fn new(sockaddr: &[u8]) -> Self {
        let mut bytes = [0; Self::LEN];
        for (to, from) in bytes.iter_mut().zip(sockaddr) {
            *to = *from;
        }
        Self(bytes)
    }
}

/// A value that an event takes. There is deliberately none for raw pointers: what reaches C
/// is a copy, or is borrowed for the call.
trait Field {
    /// The parameter's type in C.
    type C;

    /// The value as C takes it. A pointer is good for as long as `self` is borrowed.
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

plain_fields!(bool, i32, u32, u64, usize);

impl Field for &CStr {
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

/// A length or count in the width that events have for it.
#[inline(always)]
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
