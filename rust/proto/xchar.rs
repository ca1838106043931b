// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: what a peer's mean for us, and what ours may become.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] keeps what the peer has said, and what
//! was asked of it; [`Receives`] keeps our own receive buffers' size from changing at the wrong
//! moment. Both live as long as one connection.

mod peer;
mod receives;

pub use peer::{BadResponse, Known, Peer, Request};
pub use receives::{Announce, Receives, Refused};
