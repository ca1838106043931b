// SPDX-License-Identifier: GPL-2.0

//! The objects of a page list: pages, and the RDMA Reads or Writes of their mapped memory, which
//! are posted as one chain.

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::mem::PAGE;
use crate::raw as bindings;
use crate::rdma::mr::region::MrState;
use crate::rdma::mr::Mr;
use crate::rdma::pd::Pd;
use crate::rdma::progress::{LastUse, Progress};
use crate::rdma::qp::{Chain, PostError};
use crate::rdma::scatter::Remote;
use crate::rdma::stack::Linked;

/// Number of scatter/gather entries and of work requests that a new list has room for.
const SGES: usize = 4;
const WRS: usize = 2;

/// Largest message of a device (InfiniBand Architecture, 9.7.2; RFC 5040 allows as much).
pub(super) const MAX_MESSAGE: u32 = 1 << 31;

/// Number of pages that a new list has room for.
const PAGES: usize = 4;

/// Pages of one kind, and work requests that refer to them.
///
/// Fields are dropped in this order: the memory is unmapped before the pages are freed.
pub(in super::super) struct List<P> {
    pub(in super::super) requests: Requests,
    pub(super) pages: KVec<P>,
    next: Option<KBox<List<P>>>,
}

impl<P> Linked for List<P> {
    type Boxed = KBox<Self>;

    fn link(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }
}

impl<P> List<P> {
    /// Creates an empty list. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: &Arc<Pd>, direction: DataDirection, gfp: Flags) -> Result<KBox<Self>> {
        let list = Self {
            requests: Requests::new(pd, direction, gfp)?,
            pages: KVec::with_capacity(PAGES, gfp)?,
            next: None,
        };
        Ok(KBox::new(list, gfp)?)
    }

    /// Returns the last use of the memory.
    pub(super) fn last_use(&mut self) -> &mut LastUse {
        &mut self.requests.last_use
    }
}

/// RDMA Reads or Writes of one page list.
///
/// # Invariants
///
/// - The first `used` entries of `sges` are those of `wrs`, in the same order.
/// - If `regions` is empty, each of these entries is a mapping for the device of `pd`, in
///   `direction`. Otherwise each is the memory of the region with the same index, and `regions` and
///   `wrs` have `used` entries.
/// - `last_use` is clear until the requests are posted. The device uses the memory of `sges` until
///   it has ended.
pub(in super::super) struct Requests {
    /// Scatter/gather entries. The vector has as many as were ever needed.
    pub(super) sges: KVVec<bindings::ib_sge>,
    pub(super) used: usize,
    pub(super) wrs: KVVec<bindings::ib_rdma_wr>,
    pub(super) regions: KVec<Mr>,
    pub(super) direction: DataDirection,
    /// The flags of each RDMA Read or Write.
    pub(super) flags: i32,
    /// Whether the addresses of the device are those of the CPU, so that mapping cannot fail and
    /// unmapping does nothing.
    pub(super) is_virtual: bool,
    /// Length in bytes of the longest piece that is mapped at once.
    pub(super) longest: u32,
    pub(super) last_use: LastUse,
    pub(super) pd: Arc<Pd>,
}

// SAFETY: Any task may use the mappings and regions, and post the work requests. The pointers in
// the work requests are set each time that they are posted.
unsafe impl Send for Requests {}
// SAFETY: Through a shared reference, fields are only read.
unsafe impl Sync for Requests {}

impl Requests {
    /// Creates an empty list. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: &Arc<Pd>, direction: DataDirection, gfp: Flags) -> Result<Self> {
        // SAFETY: By the invariant of `Pd` the device exists.
        let (is_virtual, longest) = unsafe {
            let device = pd.device();
            (
                bindings::rr_ib_uses_virt_dma(device),
                bindings::rr_ib_dma_longest(device),
            )
        };
        // INVARIANT: There is nothing in the list.
        Ok(Self {
            sges: KVVec::from_elem(pin_init::zeroed(), SGES, gfp)?,
            used: 0,
            wrs: KVVec::with_capacity(WRS, gfp)?,
            regions: KVec::new(),
            direction,
            flags: 0,
            is_virtual,
            longest: longest.min(MAX_MESSAGE),
            last_use: LastUse::default(),
            pd: pd.clone(),
        })
    }

    /// Returns the number of work requests, registrations included.
    #[inline]
    pub(in super::super) fn count(&self) -> u32 {
        // CAST: both are limited by the memory that they take.
        self.wrs.len().wrapping_add(self.regions.len()) as u32
    }

    /// Adds all work requests to `chain`, with the completion entry `cqe`. Each registration is
    /// before the RDMA Read that needs it. The caller borrows the list exclusively while the chain
    /// is used.
    ///
    /// # Errors
    ///
    /// [`PostError::Invalid`] if the list was posted and not cleared, or is not one of `pd`.
    #[inline(always)]
    pub(in super::super) fn add_to(
        &mut self,
        chain: &mut Chain,
        pd: &Arc<Pd>,
        cqe: *mut bindings::ib_cqe,
        progress: &Arc<Progress>,
    ) -> Result<(), PostError> {
        if !self.last_use.is_clear() || !Arc::ptr_eq(&self.pd, pd) {
            return Err(PostError::Invalid);
        }
        let (mut sge, flags) = (self.sges.as_mut_ptr(), self.flags);
        let mut regions = self.regions.iter_mut();
        for wr in self.wrs.iter_mut() {
            if let Some(region) = regions.next() {
                let region = region.region();
                region.set_posted(progress);
                region.wr.wr.__bindgen_anon_1.wr_cqe = cqe;
                region.wr.wr.send_flags = 0;
                chain.add(&raw mut region.wr.wr);
            }
            wr.wr.sg_list = sge;
            // By the type invariant the entries of the next work request follow. The last pointer
            // may be behind the last entry; it is not used.
            // CAST: not negative.
            sge = sge.wrapping_add(wr.wr.num_sge as usize);
            wr.wr.__bindgen_anon_1.wr_cqe = cqe;
            wr.wr.send_flags = flags;
            chain.add(&raw mut wr.wr);
        }
        Ok(())
    }

    /// Records the result of posting a chain on the queue pair of `progress`: the position of a
    /// work request behind which none of these is outstanding.
    #[inline(always)]
    pub(in super::super) fn note(
        &mut self,
        posted: Result<u64, PostError>,
        progress: &Arc<Progress>,
    ) {
        let position = match posted {
            Err(PostError::Full | PostError::Invalid) => 0,
            // A part may have been posted: only draining ends it.
            Err(PostError::Broken(_)) => u64::MAX,
            Ok(position) => position,
        };
        let mut state = MrState::Mapped;
        if position != 0 {
            self.last_use.set(progress, position);
            // Each region is invalidated by its RDMA Read.
            state = MrState::Invalidating(position);
        }
        for region in self.regions.iter_mut() {
            region.region().state = state;
        }
    }

    /// Makes space for one more scatter/gather entry. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(super) fn make_room(&mut self, gfp: Flags) -> Result {
        if self.used < self.sges.len() {
            return Ok(());
        }
        self.grow(gfp)
    }

    /// Makes space for one more work request. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[cold]
    pub(super) fn grow_wrs(&mut self, gfp: Flags) -> Result {
        Ok(self.wrs.reserve(1, gfp)?)
    }

    #[cold]
    fn grow(&mut self, gfp: Flags) -> Result {
        let more = self.sges.len().saturating_mul(2).max(SGES);
        Ok(self.sges.resize(more, pin_init::zeroed(), gfp)?)
    }

    /// Unmaps the memory, and drops the work requests. Returns false, and has no effect, while the
    /// device may be using them.
    #[inline]
    pub(super) fn clear(&mut self) -> bool {
        let empty = self.used == 0 && self.wrs.is_empty();
        empty || self.clear_all()
    }

    /// Implements [`Self::clear`] for a list that is not empty.
    fn clear_all(&mut self) -> bool {
        if self.last_use.in_flight() {
            return false;
        }
        if self.regions.is_empty() {
            self.unmap();
        }
        // A region that is dropped, and is not live, is unmapped and returns to its pool.
        self.regions.clear();
        self.wrs.clear();
        self.used = 0;
        self.last_use.clear();
        true
    }

    /// Empties the list, unless it was posted and not cleared, and returns `error`. After a lack of
    /// space in the DMA layer the list maps no piece longer than a page: there may be space for
    /// pages, and none for long pieces.
    ///
    /// # Errors
    ///
    /// `error`, or `EBUSY` if the list was posted and not cleared.
    #[cold]
    pub(super) fn fail(&mut self, error: Error) -> Result {
        if !self.last_use.is_clear() {
            return Err(EBUSY);
        }
        if error == ENOMEM {
            self.longest = PAGE;
        }
        self.clear();
        Err(error)
    }

    /// Unmaps the memory of all entries, which is not that of regions.
    fn unmap(&mut self) {
        if self.is_virtual {
            return;
        }
        let (device, direction) = (self.pd.device(), self.direction.into());
        for sge in self.sges.iter().take(self.used) {
            // SAFETY: By the type invariants, the entry is a mapping for this device, in this
            // direction. The caller has checked that the device does not use it.
            unsafe {
                bindings::rr_ib_dma_unmap_page(device, sge.addr, sge.length, direction);
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // The owner defers the drop while the device may be using the memory.
        if self.regions.is_empty() {
            self.unmap();
        }
    }
}

/// Returns a work request without scatter/gather entries.
pub(super) fn request(opcode: bindings::ib_wr_opcode, remote: Remote) -> bindings::ib_rdma_wr {
    let mut wr = bindings::ib_rdma_wr {
        remote_addr: remote.addr,
        rkey: remote.rkey,
        ..pin_init::zeroed()
    };
    wr.wr.opcode = opcode;
    wr
}
