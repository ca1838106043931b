// SPDX-License-Identifier: GPL-2.0

//! Tags: the numbers by which a completion finds its call.

use crate::rdma::qp::Tag;

/// The tag of all replies to the server's calls. No task waits for these Sends.
pub(in crate::client) const BACKWARD_TAG: Tag = Tag::new(0);
/// The tag of the probes of [`super::silence`].
pub(in crate::client) const PROBE_TAG: Tag = Tag::new(1);
/// The tag of the session's messages.
pub(in crate::client) const CONTROL_TAG: Tag = Tag::new(2);
/// The first tag of a slot.
const FIRST: u32 = 3;
/// The number of tags of a slot: of its Send, and of its chain of LOCAL_INV. A signalled
/// Send may complete after the chain was posted.
const KINDS: u32 = 2;

/// Returns the number of tags that a connection with `slots` slots uses.
pub(in crate::client) const fn count(slots: u32) -> u32 {
    FIRST + slots * KINDS
}

/// Returns the tag of the Send of slot number `index`.
pub(in crate::client) const fn send(index: u32) -> Tag {
    Tag::new(FIRST.wrapping_add(index.wrapping_mul(KINDS)))
}

/// Returns the tag of the LOCAL_INV chain of slot number `index`.
pub(in crate::client) const fn invalidation(index: u32) -> Tag {
    Tag::new(FIRST + index * KINDS + 1)
}

/// Returns the number of the slot that `tag` belongs to; `None` for the tag of no slot.
pub(in crate::client) fn slot_of(tag: Tag) -> Option<u32> {
    tag.get().checked_sub(FIRST).map(|n| n / KINDS)
}

/// Returns the number of the slot whose LOCAL_INV chain has this tag; `None` for other tags.
pub(in crate::client) fn invalidated_by(tag: Tag) -> Option<u32> {
    let n = tag.get().checked_sub(FIRST)?;
    (n % KINDS == 1).then_some(n / KINDS)
}
