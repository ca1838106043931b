// SPDX-License-Identifier: GPL-2.0

//! Remote invalidation: which R_key a responder invalidates with a reply.
//!
//! State: for the server.
//!
//! RFC 8797 section 4.1: a responder invalidates only when both peers have set R, and only an STag
//! that the call of this reply has exposed.

/// Returns the R_key that a responder invalidates with its reply: the one R_key of all the
/// request's chunks, if there is exactly one and invalidation is `allowed`. With several R_keys the
/// requester has to invalidate the others locally anyway.
//= 8797-3.2-1 only if both ends support it
//= 8797-4.1-1 invalidate remotely if both set R
//= 8797-4.1-3 replies use plain Send
pub fn choose_rkey(handles: impl IntoIterator<Item = u32>, allowed: bool) -> Option<u32> {
    let mut handles = handles.into_iter();
    let first = handles.next().filter(|_| allowed)?;
    handles.all(|handle| handle == first).then_some(first)
}
