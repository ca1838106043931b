// SPDX-License-Identifier: GPL-2.0

//! Chooses the R_key that a responder invalidates with a reply.
//!
//! RFC 8797 section 4.1: a responder invalidates only when both peers have set R, and only an STag
//! that the call of this reply has exposed.

/// The R_keys of a request, seen one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    first: Option<u32>,
    /// A second, different R_key was seen.
    differ: bool,
}

impl Handles {
    /// Takes the R_key of a segment into account.
    pub fn see(&mut self, handle: u32) {
        self.differ |= *self.first.get_or_insert(handle) != handle;
    }

    /// Returns the R_key that a responder invalidates with its reply: the one R_key of all the
    /// request's chunks, if there is exactly one and invalidation is `allowed`. With several R_keys
    /// the requester has to invalidate the others locally anyway.
    //= 8797-3.2-1 only if both ends support it
    //= 8797-4.1-1 invalidate remotely if both set R
    //= 8797-4.1-3 replies use plain Send
    //= XC-3.2-3 Invalidate answers only calls with chunks
    pub fn choose(&self, allowed: bool) -> Option<u32> {
        self.first.filter(|_| allowed && !self.differ)
    }
}
