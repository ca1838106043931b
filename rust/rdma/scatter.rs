// SPDX-License-Identifier: GPL-2.0

//! Page lists: pages, with the RDMA Reads or Writes that move their bytes.
//!
//! ```text
//!            write / read            post_reply / post_reads
//!   Empty ─────────────────► Ready ─────────────────────────► In flight
//!     ▲                        │                                  │ completed, or drained
//!     │    clear, pages        │                                  ▼
//!     └────────────────────────┴───────────────────────────── Finished
//! ```
//!
//! A list keeps its vectors from one RPC to the next, so an RPC that is no larger than one before
//! allocates nothing. The memory is mapped when work requests are added, and unmapped when the list
//! is cleared; the scatter/gather entries have what unmapping needs.
//!
//! A list that is dropped in flight is freed when the queue pair has been drained.
//!
//! Over iWARP the peer writes into the memory of an RDMA Read with a key that it is given. Such
//! memory is therefore registered for a single RDMA Read, which invalidates it
//! ([`Limits::reads_need_regions`](super::device::Limits)).

use core::mem::ManuallyDrop;

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::mr::MrPool;
use super::pd::Pd;
use super::progress::release;
use crate::compat::casts::u32_as_usize;
use crate::mem::{Page, PageRef, Piece};
use crate::raw as bindings;

mod gather;
pub(super) mod requests;

use requests::List;

/// Memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Address of the first byte, as the peer sent it.
    pub(crate) addr: u64,
    /// R_key, as the peer sent it.
    pub(crate) rkey: u32,
}

/// Pages of a reply, and the RDMA Writes that move them to the requester.
///
/// # Examples
///
/// A responder writes to two segments, and posts both with its reply, which invalidates the R_key:
///
/// ```
/// source.write(first.iter().copied(), to, WRITE_SGES)?;
/// source.write(second.iter().copied(), rest, WRITE_SGES)?;
/// ```
///
/// ```
/// let (out, source) = (&mut server.out, Some(&mut self.source));
/// let rkey = Some(offer.write.rkey);
/// server
///     .qp
///     .post_reply(TAG, source, out, wire::LEN, rkey, true)
/// ```
///
/// # Context
///
/// Process context. Dropping the last object of a [`Pd`] sleeps.
pub(crate) struct Source(ManuallyDrop<KBox<List<PageRef>>>);

impl Source {
    /// Creates an empty list. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: &Arc<Pd>) -> Result<Self> {
        let list = List::new(pd, DataDirection::ToDevice, GFP_KERNEL)?;
        Ok(Self(ManuallyDrop::new(list)))
    }

    /// Returns whether the RDMA Writes may still be outstanding.
    pub(crate) fn in_flight(&self) -> bool {
        self.0.requests.last_use.in_flight()
    }

    /// Returns the pages, or `None` while the RDMA Writes may be outstanding. The caller removes no
    /// page whose bytes were passed to [`Self::write`] before the list is finished or cleared.
    pub(crate) fn pages(&mut self) -> Option<&mut KVec<PageRef>> {
        (!self.in_flight()).then_some(&mut self.0.pages)
    }

    /// Adds RDMA Writes of `pieces` to the memory of the peer at `to`, each with at most
    /// `sges_per_wr` scatter/gather entries. May sleep.
    ///
    /// The user of the pieces promises that their memory stays until the list is cleared; the
    /// references in [`Self::pages`] can ensure that.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the list was posted and not cleared; `EINVAL` if `sges_per_wr` is 0, or a work
    /// request would be longer than a message may be; `ENOMEM`, also if the DMA layer is
    /// temporarily out of space. After an error other than `EBUSY` the list has no RDMA Writes.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        to: Remote,
        sges_per_wr: u32,
    ) -> Result {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        let requests = &mut self.0.requests;
        requests.add(pieces, to, sges_per_wr, opcode, GFP_KERNEL)
    }

    /// Returns the number of pages.
    pub(crate) fn page_count(&self) -> usize {
        self.0.pages.len()
    }

    /// Returns whether others hold references to the second page. The first page is that of the
    /// head of a reply, and the pages of a file follow.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.pages.get(1).is_some_and(PageRef::is_shared)
    }

    /// Returns the number of work requests.
    pub(crate) fn work_requests(&self) -> u32 {
        self.0.requests.count()
    }

    /// Unmaps the memory, and drops the pages and the RDMA Writes. Returns false, and has no
    /// effect, while they may be outstanding.
    pub(crate) fn clear(&mut self) -> bool {
        let cleared = self.0.requests.clear();
        if cleared {
            PageRef::put_all(&mut self.0.pages);
        }
        cleared
    }

    pub(super) fn list(&mut self) -> &mut List<PageRef> {
        &mut self.0
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let list = unsafe { ManuallyDrop::take(&mut self.0) };
        release(list, List::<PageRef>::last_use, |deferred| {
            &mut deferred.sources
        });
    }
}

/// Pages into which RDMA Reads place a call. They form one linear range of bytes.
///
/// # Examples
///
/// A responder reads two segments of the requester to adjacent bytes of the pages:
///
/// ```
/// sink.read(AT, FIRST, from, sges, regions, GFP_KERNEL)?;
/// sink.read(at, left, rest, sges, regions, GFP_KERNEL)?;
/// ```
///
/// When they have completed, it takes the pages:
///
/// ```
/// let pages = self.sink.pages().ok_or(EBUSY)?;
/// ```
///
/// # Context
///
/// Process context. Dropping the last object of a [`Pd`] sleeps.
pub(crate) struct Sink(ManuallyDrop<KBox<List<Page>>>);

impl Sink {
    /// Creates an empty list. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: &Arc<Pd>, gfp: Flags) -> Result<Self> {
        let list = List::new(pd, DataDirection::FromDevice, gfp)?;
        Ok(Self(ManuallyDrop::new(list)))
    }

    /// Returns the pages, or `None` while the RDMA Reads may be outstanding. The memory is unmapped
    /// first, so that the CPU sees the data. RDMA Reads that were not posted are dropped.
    pub(crate) fn pages(&mut self) -> Option<&mut KVec<Page>> {
        let list = &mut **self.0;
        list.requests.clear().then_some(&mut list.pages)
    }

    /// Adds RDMA Reads of `len` bytes from the memory of the peer at `from` to byte `at` of the
    /// pages, each with at most `sges_per_wr` scatter/gather entries. May sleep if `gfp` permits.
    ///
    /// With `pool`, the memory is registered with regions of the pool, and each RDMA Read
    /// invalidates its region ([`Mr::map`](super::mr::Mr::map) says where this may sleep). All RDMA
    /// Reads of a list are made with a pool, or none.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the list was posted and not cleared; `EINVAL` if the pages have fewer bytes,
    /// `sges_per_wr` is 0, or a work request would be longer than a message may be; `ENOBUFS` if
    /// the pool has too few idle regions; `ENOMEM`, also if the DMA layer is temporarily out of
    /// space; `EIO` if the device cannot map the pages in a region. After an error other than
    /// `EBUSY` the list has no RDMA Reads.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        at: usize,
        len: u32,
        from: Remote,
        sges_per_wr: u32,
        pool: Option<&Arc<MrPool>>,
        gfp: Flags,
    ) -> Result {
        let List {
            requests, pages, ..
        } = &mut **self.0;
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        match (pieces(pages, at, len), pool) {
            (Some(pieces), None) => requests.add(pieces, from, sges_per_wr, opcode, gfp),
            (Some(pieces), Some(pool)) => requests.register(pieces, from, pool, gfp),
            (None, _) => requests.fail(EINVAL),
        }
    }

    /// Fences each RDMA Read of this list, now and later: it waits until all RDMA Reads before it
    /// on the queue pair have ended (`IB_SEND_FENCE`).
    #[cold]
    pub(crate) fn fence_reads(&mut self) {
        self.0.requests.flags = bindings::ib_send_flags_IB_SEND_FENCE;
    }

    /// Returns the number of work requests, registrations included.
    pub(crate) fn work_requests(&self) -> u32 {
        self.0.requests.count()
    }

    pub(super) fn list(&mut self) -> &mut List<Page> {
        &mut self.0
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // SAFETY: This is the destructor, so `self.0` is not used after this.
        let list = unsafe { ManuallyDrop::take(&mut self.0) };
        release(list, List::<Page>::last_use, |deferred| &mut deferred.sinks);
    }
}

/// Describes `len` bytes from byte `at` of `pages` on. Returns `None` if there are fewer.
fn pieces(pages: &[Page], at: usize, len: u32) -> Option<impl Iterator<Item = Piece> + Clone + '_> {
    let end = at.checked_add(u32_as_usize(len))?;
    if end > pages.len().checked_mul(PAGE_SIZE)? {
        return None;
    }
    // CAST: less than the size of a page.
    let (mut offset, mut left) = ((at % PAGE_SIZE) as u32, len);
    let pages = pages.get(at / PAGE_SIZE..)?;
    Some(pages.iter().map_while(move |page| {
        // SAFETY: The list has the page, and gives access to it only after the RDMA Reads have been
        // forgotten, which is not possible while they are outstanding.
        let piece = unsafe { page.piece(offset, left) };
        left -= piece.len();
        offset = 0;
        (piece.len() != 0).then_some(piece)
    }))
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_scatter)]
mod tests {
    use super::*;

    /// Offset and length of the parts of three pages that a range has.
    fn parts(at: usize, len: u32) -> Result<Option<KVec<(u32, u32)>>> {
        let mut pages = KVec::new();
        for _ in 0..3 {
            pages.push(Page::allocate(GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let Some(pieces) = pieces(&pages, at, len) else {
            return Ok(None);
        };
        let mut parts = KVec::new();
        for piece in pieces {
            parts.push((piece.offset(), piece.len()), GFP_KERNEL)?;
        }
        Ok(Some(parts))
    }

    #[test]
    fn range_is_split_at_the_ends_of_pages() -> Result {
        type Case = (usize, u32, &'static [(u32, u32)]);
        const PAGE: u32 = PAGE_SIZE as u32;
        let cases: [Case; 6] = [
            (0, 10, &[(0, 10)]),
            (33, PAGE - 33, &[(33, PAGE - 33)]),
            (33, PAGE - 32, &[(33, PAGE - 33), (0, 1)]),
            (PAGE_SIZE, PAGE + 1, &[(0, PAGE), (0, 1)]),
            (0, 3 * PAGE, &[(0, PAGE), (0, PAGE), (0, PAGE)]),
            (PAGE_SIZE - 1, PAGE + 2, &[(PAGE - 1, 1), (0, PAGE), (0, 1)]),
        ];
        for (at, len, expected) in cases {
            assert_eq!(parts(at, len)?.as_deref(), Some(expected));
        }
        Ok(())
    }

    #[test]
    fn empty_range_has_no_parts() -> Result {
        assert!(parts(77, 0)?.is_some_and(|parts| parts.is_empty()));
        assert!(parts(3 * PAGE_SIZE, 0)?.is_some_and(|parts| parts.is_empty()));
        Ok(())
    }

    #[test]
    fn range_beyond_the_pages_is_refused() -> Result {
        assert!(parts(3 * PAGE_SIZE - 1, 2)?.is_none());
        assert!(parts(0, u32::MAX)?.is_none());
        assert!(parts(usize::MAX, 1)?.is_none());
        Ok(())
    }
}
