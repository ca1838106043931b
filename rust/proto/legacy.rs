// SPDX-License-Identifier: GPL-2.0

//! Decisions about messages that only RFC 5666 has. RFC 8166 has withdrawn these messages.
//!
//! | module | question | state |
//! | --- | --- | --- |
//! | [`done`] | When may RDMA_DONE be sent, and what does it cost? | live |
//! | [`padding`] | How much padding does RDMA_MSGP put where? | live |
//! | [`padded`] | What is a call like without its padding? | live |
//! | [`binding`] | Where do the calls of NFS have opaque data? | live |
//! | [`service`] | How does a server answer calls of that protocol? | live |
//! | [`request`] | How does a client call it, and what is the answer? | live |
//! | [`conf`] | What does CONF_RDMA change? | live |

pub mod binding;
pub mod conf;
pub mod done;
pub mod padded;
pub mod padding;
pub mod request;
pub mod service;
