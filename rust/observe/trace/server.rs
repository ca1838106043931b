// SPDX-License-Identifier: GPL-2.0

//! Events of the server. A function has the name of its event without the prefix `svcrdma_`.
//!
//! C header: [`include/trace/events/rpcrdma_svc_rs.h`].

mod connection;
mod decode;
#[cfg(RPCRDMA_LEGACY)]
mod legacy;
mod read;
mod receive;
mod reply;
mod send;
mod violation;

pub(crate) use connection::*;
pub(crate) use decode::*;
#[cfg(RPCRDMA_LEGACY)]
pub(crate) use legacy::*;
pub(crate) use read::*;
pub(crate) use receive::*;
pub(crate) use reply::*;
pub(crate) use send::*;
pub(crate) use violation::*;

/// The entries of a send queue.
#[derive(Clone, Copy)]
pub(crate) struct SendQueue {
    /// Entries that no work request uses.
    pub(crate) free: u32,
    /// All entries.
    pub(crate) depth: u32,
}
