// SPDX-License-Identifier: GPL-2.0

//! Decisions about messages that only RFC 5666 has. RFC 8166 has withdrawn these messages.
//!
//! `make RPCRDMA_LEGACY=n` leaves this module out.
//!
//! | module | question |
//! | --- | --- |
//! | [`done`] | When may RDMA_DONE be sent, and what does it cost? |
//! | [`padding`] | How much padding does RDMA_MSGP put where? |
//! | [`padded`] | What is a call like without its padding? |
//! | [`binding`] | Where do the calls of NFS have opaque data? |
//! | [`service`] | How does a server answer calls of that protocol? |
//! | [`request`] | How does a client call it, and what is the answer? |
//! | [`conf`] | What does CONF_RDMA change? |
//! | [`read_chunks`] | Which read chunks may a reply have? |
//! | [`round_up`] | Is a returned write chunk longer than offered by its round-up alone? |

pub mod binding;
pub mod conf;
pub mod done;
pub mod padded;
pub mod padding;
pub mod read_chunks;
pub mod request;
pub mod round_up;
pub mod service;
