// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and Writes of mapped memory, prepared to be posted as one chain.

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::raw as bindings;
use crate::rdma::mr::Mr;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::scatter::Remote;

/// Number of scatter/gather entries and of work requests that a new list has room for.
const SGES: usize = 4;
const WRS: usize = 2;

/// Largest message of a device (InfiniBand Architecture, 9.7.2; RFC 5040 allows as much).
pub(super) const MAX_MESSAGE: u32 = 1 << 31;

/// RDMA Reads or Writes of one page list.
///
/// # Invariants
///
/// - The first `used` entries of `sges` are those of `wrs`, in the same order.
/// - If `regions` is empty, each of these entries is a mapping for the device of `pd`, in
///   `direction`. Otherwise each is the memory of the region with the same index, and `regions` and
///   `wrs` have `used` entries.
/// - If `position` is 0, the requests were not posted. Otherwise the device may use `sges`'s memory
///   until the work request at `position` has completed, or the queue pair of `progress` has been
///   drained.
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
    /// Length in bytes of the longest piece that the device can map.
    pub(super) longest: u32,
    pub(super) position: u64,
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) pd: Arc<Pd>,
}

// SAFETY: Any task may use the mappings and regions, and post the work requests. The pointers in
// the work requests are set each time that they are posted.
unsafe impl Send for Requests {}
// SAFETY: Through a shared reference, fields are only read.
unsafe impl Sync for Requests {}

impl Requests {
    /// Makes an empty list. May sleep if `gfp` allows it.
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
            position: 0,
            progress: None,
            pd: pd.clone(),
        })
    }

    /// Returns whether the device may be using the memory.
    #[inline]
    pub(super) fn in_flight(&self) -> bool {
        let outstanding = |p: &Arc<Progress>| p.retired() < self.position && !p.is_drained();
        self.position != 0 && self.progress.as_ref().is_some_and(outstanding)
    }

    /// Returns the number of work requests, registrations included.
    #[inline]
    pub(in super::super) fn count(&self) -> u32 {
        // CAST: both are limited by the memory that they take.
        (self.wrs.len() + self.regions.len()) as u32
    }

    /// Makes room for one more scatter/gather entry. May sleep if `gfp` allows it.
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

    /// Makes room for one more work request. May sleep if `gfp` allows it.
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

    /// Unmaps the memory, and forgets the work requests. Returns false, and does nothing, while the
    /// device may be using them.
    #[inline]
    pub(super) fn clear(&mut self) -> bool {
        let empty = self.used == 0 && self.wrs.is_empty();
        empty || self.clear_all()
    }

    /// Implements [`Self::clear`] for a list that is not empty.
    fn clear_all(&mut self) -> bool {
        if self.in_flight() {
            return false;
        }
        if self.regions.is_empty() {
            self.unmap();
        }
        // A region that is dropped, and is not live, is unmapped and returns to its pool.
        self.regions.clear();
        self.wrs.clear();
        self.used = 0;
        self.position = 0;
        true
    }

    /// Empties the list, unless it was posted and not cleared, and returns `error`.
    ///
    /// # Errors
    ///
    /// `error`, or `EBUSY` if the list was posted and not cleared.
    #[cold]
    pub(super) fn fail(&mut self, error: Error) -> Result {
        if self.position != 0 {
            return Err(EBUSY);
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

    /// Returns the progress of the queue pair on which the requests were posted last.
    pub(super) fn take_progress(&mut self) -> Option<Arc<Progress>> {
        self.progress.take()
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

/// Makes a work request without scatter/gather entries.
#[inline]
pub(super) fn request(opcode: bindings::ib_wr_opcode, remote: Remote) -> bindings::ib_rdma_wr {
    let mut wr = bindings::ib_rdma_wr {
        remote_addr: remote.addr,
        rkey: remote.rkey,
        ..pin_init::zeroed()
    };
    wr.wr.opcode = opcode;
    wr
}
