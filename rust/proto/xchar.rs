// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the effect of the peer's, and changes of our own.
//!
//! State: for version two.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] has the characteristics of the peer and the
//! requests to it. [`Receives`] decides when the size of our own Receives may change. Both live as
//! long as one connection.

use super::super::wire::message::ErrorBody;
use super::super::wire::v2::DEFAULT_INLINE;
use super::super::wire::xchar::Operation;
use super::super::wire::{DecodeError, Version};
use super::inline::Thresholds;

mod peer;
mod receives;

pub use peer::{BadResponse, Known, Peer, Request};
pub use receives::{Announce, Receives, Refused};

/// Returns the error that answers an optional operation, given the result of [`Operation::decode`].
/// `None` if the operation can be processed. The answer carries the operation's XID.
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

/// Returns the thresholds of a version-two connection for its client, from the server's
/// characteristics and its own (`own`; `invalidation` says whether it has announced Requester
/// Remote Invalidation).
///
/// The server may ignore the client's announcements (section 4.1). The client therefore does not
/// rely on an inline reply that is longer than the default.
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

/// Returns the thresholds of a version-two connection for its server. Its replies may be as long as
/// the client has announced.
//= XC-3.1-6 size decides when chunks are needed
pub fn server_thresholds(client: &Peer, own: &Receives) -> Thresholds {
    Thresholds {
        client_to_server: own.announced().min(DEFAULT_INLINE),
        server_to_client: client.send_limit(),
        remote_invalidation: client.may_invalidate(),
        version: Version::Two,
    }
}
