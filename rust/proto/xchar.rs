// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the effect of the peer's characteristics, and changes of our own.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] has the characteristics of the peer and the
//! requests to it. [`Receives`] decides when the size of our own Receives may change. Both live as
//! long as one connection; [`super::session`] joins them.

mod peer;
mod receives;

pub use peer::{Fault, NotSent, Peer};
pub use receives::Receives;
