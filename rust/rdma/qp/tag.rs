// SPDX-License-Identifier: GPL-2.0

//! Tags: small numbers by which the owners of work requests recognise their completions.

use kernel::alloc::allocator::KVmalloc;
use kernel::prelude::*;

use super::PostError;
use crate::compat::casts::u32_as_usize;
use crate::mem::{CachedVec, NumaAlloc};
use crate::raw as bindings;
use crate::rdma::cq::Done;

/// The number of the owner of a work request, for example that of a request slot. It is less than
/// [`QpConfig::tags`](super::QpConfig).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Returns the tag with number `n`.
    pub(crate) const fn new(n: u32) -> Self {
        Self(n)
    }

    /// Returns the number of the tag.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// The completion entries of all tags of a queue pair, in the order of the tags.
///
/// # Invariants
///
/// The entries neither move nor change, so a work request may refer to them while this value
/// exists.
pub(super) struct Tags(CachedVec<bindings::ib_cqe, KVmalloc>);

impl Tags {
    /// Makes `count` entries, at least one, whose completions are passed to `done`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(alloc: NumaAlloc<'_>, count: u32, done: Done) -> Result<Self> {
        let mut entries: CachedVec<_, KVmalloc> =
            alloc.with_capacity(u32_as_usize(count), GFP_KERNEL)?;
        for _ in 0..count {
            entries.push(bindings::ib_cqe { done: Some(done) }, GFP_KERNEL)?;
        }
        Ok(Self(entries))
    }

    /// Returns the completion entry of a tag, for a work request.
    ///
    /// # Errors
    ///
    /// [`PostError::Invalid`] if there is no such tag.
    pub(super) fn entry(&self, tag: Tag) -> Result<*mut bindings::ib_cqe, PostError> {
        let entry = self.0.get(u32_as_usize(tag.0)).ok_or(PostError::Invalid)?;
        Ok(core::ptr::from_ref(entry).cast_mut())
    }

    /// Returns the tag of a completion entry. Another pointer than that of an entry yields a tag
    /// that no work request has.
    #[inline(always)]
    pub(super) fn of_entry(&self, entry: *const bindings::ib_cqe) -> Tag {
        let offset = entry.addr().wrapping_sub(self.0.as_ptr().addr());
        // CAST: fewer than 2^32 tags were made.
        Tag((offset / size_of::<bindings::ib_cqe>()) as u32)
    }
}
