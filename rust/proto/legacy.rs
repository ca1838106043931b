// SPDX-License-Identifier: GPL-2.0

//! Decisions about messages that only RFC 5666 has. RFC 8166 has withdrawn these messages.
//!
//! State: RFC 5666 only.
//!
//! | module | question | state |
//! | --- | --- | --- |
//! | [`done`] | When may RDMA_DONE be sent, and what does it cost? | RFC 5666 only |
//! | [`padding`] | How much padding does RDMA_MSGP put where? | RFC 5666 only |
//! | [`conf`] | What does CONF_RDMA change? | RFC 5666 only |
//! | [`reply`] | Does a reply with read chunks claim more than was offered? | RFC 5666 only |

pub mod conf;
pub mod done;
pub mod padding;
pub mod reply;
