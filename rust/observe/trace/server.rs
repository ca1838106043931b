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

/// The entries of a send queue.
#[derive(Clone, Copy)]
pub(crate) struct SendQueue {
    /// Entries that no work request uses.
    pub(crate) free: u32,
    /// All entries.
    pub(crate) depth: u32,
}
