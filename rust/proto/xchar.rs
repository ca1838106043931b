// SPDX-License-Identifier: GPL-2.0

//! Transport characteristics: the effect of the peer's, and changes of our own.
//!
//! draft-dnoveck-nfsv4-rpcrdma-xcharext-01. [`Peer`] has the characteristics of the peer and the
//! requests to it. [`Receives`] decides when the size of our own Receives may change. Both live as
//! long as one connection; [`super::session`] joins them.

use super::super::wire::message::ErrorBody;
use super::super::wire::xchar::Operation;
use super::super::wire::DecodeError;

mod known;
mod peer;
mod receives;

pub use known::Known;
pub use peer::{Fault, NotSent, Peer};
pub use receives::Receives;

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
