// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: what a peer's mean for us, and what ours may become.
//!
//! State: for version two.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] keeps what the peer has said, and what
//! was asked of it; [`Receives`] keeps our own receive buffers' size from changing at the wrong
//! moment. Both live as long as one connection.

use super::super::wire::message::ErrorBody;
use super::super::wire::v2::DEFAULT_INLINE;
use super::super::wire::xchar::Operation;
use super::super::wire::{DecodeError, Version};
use super::inline::Thresholds;

mod peer;
mod receives;

pub use peer::{BadResponse, Known, Peer, Request};
pub use receives::{Announce, Receives, Refused};

/// The error to answer an optional operation with, given what [`Operation::decode`] made of it;
/// `None` if it can be processed. The answer carries the operation's XID.
//= V2-3.1-1 unknown operation answered by INVAL_OPTION
//= XC-4-1 unsupported operations are answered by INVAL_OPTION
pub const fn answer_option(
    decoded: &Result<Option<Operation<'_>>, DecodeError>,
) -> Option<ErrorBody> {
    match decoded {
        Ok(Some(_)) => None,
        Ok(None) => Some(ErrorBody::InvalidOption),
        Err(_) => Some(ErrorBody::BadHeader),
    }
}

/// Thresholds of a version-two connection as its client sees them, from what the server has said
/// and what the client itself has (`own`, and `invalidation`: it has announced Requester Remote
/// Invalidation).
///
/// The server need not take note of what the client announces (section 4.1), so a reply longer
/// than the default is not relied on to come inline, though it may.
//= XC-3.1-6 size decides when chunks are needed
//= XC-4.1-1 does not assume characteristics were noted
pub fn client_thresholds(server: &Peer, own: &Receives, invalidation: bool) -> Thresholds {
    Thresholds {
        client_to_server: server.send_limit(),
        server_to_client: own.announced().min(DEFAULT_INLINE),
        remote_invalidation: invalidation,
        version: Version::Two,
    }
}

/// The same as the server sees them: its replies may be as long as the client has said.
//= XC-3.1-6 size decides when chunks are needed
pub fn server_thresholds(client: &Peer, own: &Receives) -> Thresholds {
    Thresholds {
        client_to_server: own.announced().min(DEFAULT_INLINE),
        server_to_client: client.send_limit(),
        remote_invalidation: client.may_invalidate(),
        version: Version::Two,
    }
}
