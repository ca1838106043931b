// SPDX-License-Identifier: GPL-2.0

//! The responder: NFS's server side of RPC over RDMA.
//!
//! [`config`] has what the administrator can set, and the counters that are shown beside it.

#![forbid(unsafe_code)]

pub(crate) mod config;
