// SPDX-License-Identifier: GPL-2.0

//! Events of the server. A function has the name of its event without the prefix `svcrdma_`.
//!
//! C header: [`include/trace/events/rpcrdma_svc_rs.h`].

mod call;
mod connection;
#[cfg(RPCRDMA_LEGACY)]
mod legacy;
mod reply;

pub(crate) use call::*;
pub(crate) use connection::*;
#[cfg(RPCRDMA_LEGACY)]
pub(crate) use legacy::*;
pub(crate) use reply::*;

use super::{Cid, Source, WcStatus};

/// The entries of a send queue.
#[derive(Clone, Copy)]
pub(crate) struct SendQueue {
    /// Entries that no work request uses.
    pub(crate) free: u32,
    /// All entries.
    pub(crate) depth: u32,
}

/// Defines functions that trace the failure of a work request. The first event is for a work
/// request that was flushed.
macro_rules! failures {
    ($($(#[$doc:meta])* fn $name:ident => $flush:ident() | $other:ident();)*) => {$(
        $(#[$doc])*
        #[cold]
        pub(crate) fn $name(cid: impl Source<Cid>, wc: WcStatus) {
            if wc.is_flush() {
                $flush(cid, wc);
            } else {
                $other(cid, wc);
            }
        }
    )*};
}

failures! {
    /// Traces the failure of a Receive, with [`wc_recv_flush`] or [`wc_recv_err`].
    fn recv_failed => wc_recv_flush() | wc_recv_err();
    /// Traces the failure of an RDMA Read, with [`wc_read_flush`] or [`wc_read_err`].
    fn read_failed => wc_read_flush() | wc_read_err();
    /// Traces the failure of an RDMA Write, with [`wc_write_flush`] or [`wc_write_err`].
    fn write_failed => wc_write_flush() | wc_write_err();
    /// Traces the failure of a Send, with [`wc_send_flush`] or [`wc_send_err`].
    fn send_failed => wc_send_flush() | wc_send_err();
}
