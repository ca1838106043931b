// SPDX-License-Identifier: GPL-2.0

//! Memory, pages, addresses and network namespaces, in types that the rooms `rdma` and `sunrpc`
//! share.
//!
//! This room depends neither on verbs nor on RPC. `sunrpc` describes the memory of a message
//! ([`Piece`]), the address of a transport ([`SockAddr`]) and its network namespace ([`Net`]), and
//! moves the pages of calls and replies ([`Page`], [`PageRef`]); `rdma` maps the memory, resolves
//! the address, and connects.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::sync::atomic::{Atomic, Relaxed};

mod cache;
mod net;
mod pages;
mod payload;
mod scope;
mod sections;

pub(crate) use cache::{Cached, CachedBox, CachedVec, MemCache, NumaAlloc};
pub(crate) use net::{Net, SockAddr, Storage};
pub(crate) use pages::{is_shared, Page, PageRef};
pub(crate) use payload::Payload;
pub(crate) use scope::MemallocScope;
pub(crate) use sections::Sections;

use crate::compat::casts::u32_as_usize;

/// Size of a page in bytes.
// CAST: a page is far smaller than 4 GiB.
pub(crate) const PAGE: u32 = PAGE_SIZE as u32;

/// A physically contiguous run of bytes, described by the page in which it starts.
///
/// # Invariants
///
/// - `offset` is less than [`PAGE_SIZE`], and `offset + len` does not overflow.
/// - `len` bytes from `offset` of `page` on are physically contiguous lowmem, and the `struct
///   page`s of their pages are also contiguous.
/// - The bytes stay valid and are not moved while a memory region that maps them is live;
///   [`Piece::new`] has the details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
}

impl Piece {
    /// Describes `len` bytes from byte `offset` of `page` on. `offset` may be larger than a page;
    /// the piece then starts in a later page.
    ///
    /// # Safety
    ///
    /// - The bytes are physically contiguous, not in high memory, and inside one allocation or
    ///   folio, so that their `struct page`s are contiguous; `offset + len` fits a `u32`.
    /// - The bytes stay allocated and are not moved while a memory region that maps them is live.
    ///   Alternatively, the user of the piece promises not to use it once the bytes are freed or
    ///   moved: the transport of an RPC promises this for the memory of the RPC.
    /// - The owner of the bytes accepts that a device, and through it a peer, reads them, or writes
    ///   them if they are mapped for writing.
    pub(crate) unsafe fn new(page: NonNull<bindings::page>, offset: u32, len: u32) -> Self {
        let pages = u32_as_usize(offset / PAGE);
        // INVARIANT: `offset` is reduced to less than a page; the caller promises the rest.
        Self {
            // SAFETY: The caller promises that the `struct page`s of all the bytes are contiguous,
            // so this one exists.
            page: unsafe { page.add(pages) },
            offset: offset % PAGE,
            len,
        }
    }

    /// Returns the page of the first byte.
    pub(crate) fn page(&self) -> NonNull<bindings::page> {
        self.page
    }

    /// Returns the offset of the first byte in its page, which is less than [`PAGE_SIZE`].
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Removes the first `n` bytes, or all if there are fewer, and returns them.
    #[inline]
    pub(crate) fn split_front(&mut self, n: u32) -> Self {
        let n = n.min(self.len);
        let front = Self { len: n, ..*self };
        // An empty rest keeps its page: there may be no page behind the last byte.
        if n < self.len {
            // SAFETY: The rest is a part of the same bytes, for which the invariants guarantee what
            // `new` demands.
            *self = unsafe { Self::new(self.page, self.offset + n, self.len - n) };
        } else {
            self.len = 0;
        }
        front
    }
}

/// Returns the number of pages of memory that this host has.
pub(crate) fn total_pages() -> usize {
    // SAFETY: The counter is a static of the kernel, and is accessed by atomic operations only.
    let counter = unsafe { Atomic::from_ptr(&raw mut bindings::_totalram_pages.counter) };
    usize::try_from(counter.load(Relaxed)).unwrap_or_default()
}
