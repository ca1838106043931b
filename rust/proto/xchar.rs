// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: what a peer's mean for us, and what ours may become.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] keeps what the peer has said, and what
//! was asked of it; [`Receives`] keeps our own receive buffers' size from changing at the wrong
//! moment. Both live as long as one connection.

use super::super::wire::message::ErrorBody;
use super::super::wire::xchar::Operation;
use super::super::wire::DecodeError;

mod peer;
mod receives;

pub use peer::{BadResponse, Known, Peer, Request};
pub use receives::{Announce, Receives, Refused};

/// The error to answer an optional operation with, given what [`Operation::decode`] made of it;
/// `None` if it can be processed. The answer carries the operation's XID.
//= V2-3.1-1 XC-4-1
pub const fn answer_option(
    decoded: &Result<Option<Operation<'_>>, DecodeError>,
) -> Option<ErrorBody> {
    match decoded {
        Ok(Some(_)) => None,
        Ok(None) => Some(ErrorBody::InvalidOption),
        Err(_) => Some(ErrorBody::BadHeader),
    }
}
