// SPDX-License-Identifier: GPL-2.0

//! Tags: the numbers by which a completion finds what it is about.

use crate::rdma::qp::Tag;

/// The tag of all replies to the server's calls. No task waits for these Sends.
pub(super) const BACKWARD_TAG: Tag = Tag::new(0);
/// The tag of the probes of [`super::probe`].
pub(super) const PROBE_TAG: Tag = Tag::new(1);
/// The tag of the session's messages.
pub(super) const CONTROL_TAG: Tag = Tag::new(2);
/// The first tag of a request.
const FIRST: u32 = 3;
/// The number of tags of a request: one for its Send, one for its chain of LOCAL_INV. A signalled
/// Send may complete after the chain was posted.
const KINDS: u32 = 2;

/// Returns the number of tags that a connection with `slots` requests uses.
pub(super) const fn count(slots: u32) -> u32 {
    FIRST + slots * KINDS
}

/// Returns the tag of the Send of request number `index`.
#[inline]
pub(super) const fn send(index: u32) -> Tag {
    Tag::new(FIRST.wrapping_add(index.wrapping_mul(KINDS)))
}

/// Returns the tag of the LOCAL_INV chain of request number `index`.
#[inline]
pub(super) const fn invalidation(index: u32) -> Tag {
    Tag::new(FIRST + index * KINDS + 1)
}

/// Returns the number of the request that `tag` belongs to; `None` for the tag of no request.
#[inline]
pub(super) fn request_of(tag: Tag) -> Option<u32> {
    tag.get().checked_sub(FIRST).map(|n| n / KINDS)
}

/// Returns the number of the request whose LOCAL_INV chain has this tag; `None` for other tags.
#[inline]
pub(super) fn invalidated_by(tag: Tag) -> Option<u32> {
    let n = tag.get().checked_sub(FIRST)?;
    (n % KINDS == 1).then_some(n / KINDS)
}
