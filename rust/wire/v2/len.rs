// SPDX-License-Identifier: GPL-2.0

//! Lengths in bytes of version-two headers, before they are written.

use super::super::v1;

/// The direction word, which version two adds to a header with chunk lists.
pub const DIRECTION: usize = 4;

/// Four fixed words, direction and three absent lists.
pub const MIN: usize = 32;

/// Returns the length of a header with chunk lists. The arguments are those of [`v1::len::header`].
pub const fn header(reads: usize, write: Option<usize>, reply: Option<usize>) -> usize {
    v1::len::header(reads, write, reply).saturating_add(DIRECTION)
}
