// SPDX-License-Identifier: GPL-2.0

//! Decisions about messages that only RFC 5666 has. RFC 8166 has withdrawn these messages.
//!
//! `make RPCRDMA_LEGACY=n` leaves this module out.
//!
//! | module | question |
//! | --- | --- |
//! | [`done`] | When may RDMA_DONE be sent, and what does it cost? |
//! | [`padded`] | How much padding does RDMA_MSGP put where, and what is a call like without it? |
//! | [`binding`] | Where do the calls of NFS have opaque data? |
//! | [`service`] | How does a server answer CONF_RDMA? |
//! | [`conf`] | How does a client call CONF_RDMA, and what does the answer change? |
//! | [`read_chunks`] | Which read chunks may a reply have? |
//! | [`round_up`] | Is a returned write chunk longer than offered by its round-up alone? |

pub mod binding;
pub mod conf;
pub mod done;
pub mod padded;
pub mod read_chunks;
pub mod round_up;
pub mod service;
