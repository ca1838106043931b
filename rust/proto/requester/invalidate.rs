// SPDX-License-Identifier: GPL-2.0

//! Remote invalidation: which R_key a responder has invalidated.
//!
//! RFC 8797 section 4.1: a responder invalidates only when both peers have set R. It invalidates
//! only an STag that belongs to the XID in the header of the message that carries the invalidation.

/// The meaning of a Receive completion's invalidated R_key for the request that the message
/// answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidated {
    /// The message was a plain Send.
    None,
    /// The peer invalidated the request's registration with this index: it needs no LOCAL_INV.
    Match(usize),
    /// The peer invalidated an R_key that the request did not expose, or invalidated without
    /// permission. This violates the protocol. Memory of another request may be invalidated, so the
    /// connection can no longer be trusted.
    Foreign(u32),
}

/// Finds the registration whose R_key a received message invalidated.
///
/// - `handles`: the R_keys that the answered request exposed, in the caller's order. R_keys that
///   several requests share must not be among them.
/// - `invalidated`: the R_key in the completion of the Receive, if it has one.
/// - `allowed`: both peers support remote invalidation.
#[inline]
//= 8797-4.1-2 STag that belongs to the XID
pub fn match_rkey(
    handles: impl IntoIterator<Item = u32>,
    invalidated: Option<u32>,
    allowed: bool,
) -> Invalidated {
    let Some(rkey) = invalidated else {
        return Invalidated::None;
    };
    let found = handles.into_iter().position(|handle| handle == rkey);
    match found {
        Some(index) if allowed => Invalidated::Match(index),
        _ => Invalidated::Foreign(rkey),
    }
}
