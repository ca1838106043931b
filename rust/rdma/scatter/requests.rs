// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and Writes of mapped memory, prepared to be posted as one chain.

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::mem::Piece;
use crate::raw as bindings;
use crate::rdma::buffer::DmaDirection;
use crate::rdma::mr::{Direction, Mr, MrPool};
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::qp::Remote;

/// Number of scatter/gather entries and of work requests that a new list has room for.
const SGES: usize = 4;
const WRS: usize = 2;

/// Largest message of a device (InfiniBand Architecture, 9.7.2; RFC 5040 allows as much).
const MAX_MESSAGE: u32 = 1 << 31;

/// RDMA Reads or Writes of one page list.
///
/// # Invariants
///
/// - The entries of `sges` are those of `wrs`, in the same order.
/// - If `regions` is empty, each entry of `sges` is a mapping for the device of `pd`, in
///   `direction`. Otherwise each entry is the memory of the region with the same index, and
///   `regions`, `sges` and `wrs` have equal lengths.
/// - If `position` is 0, the requests were not posted. Otherwise the device may use `sges`'s memory
///   until the work request at `position` has completed, or the queue pair of `progress` has been
///   drained.
pub(in super::super) struct Requests {
    pub(super) sges: KVVec<bindings::ib_sge>,
    pub(super) wrs: KVVec<bindings::ib_rdma_wr>,
    pub(super) regions: KVec<Mr>,
    direction: DmaDirection,
    /// Whether the addresses of the device are those of the CPU, so that mapping cannot fail and
    /// unmapping does nothing.
    is_virtual: bool,
    /// Length in bytes of the longest piece that the device can map.
    longest: u32,
    pub(super) position: u64,
    pub(super) progress: Option<Arc<Progress>>,
    pd: Arc<Pd>,
}

// SAFETY: Any task may use the mappings and regions, and post the work requests. The pointers in
// the work requests are set each time that they are posted.
unsafe impl Send for Requests {}
// SAFETY: Through a shared reference, fields are only read.
unsafe impl Sync for Requests {}

impl Requests {
    /// Makes an empty list. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: &Arc<Pd>, direction: DmaDirection) -> Result<Self> {
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
            sges: KVVec::with_capacity(SGES, GFP_KERNEL)?,
            wrs: KVVec::with_capacity(WRS, GFP_KERNEL)?,
            regions: KVec::new(),
            direction,
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

    /// Returns whether the requests may be posted on a queue pair of `pd`.
    #[inline]
    pub(in super::super) fn is_ready(&self, pd: &Arc<Pd>) -> bool {
        self.position == 0 && Arc::ptr_eq(&self.pd, pd)
    }

    /// Maps `pieces`, and adds work requests that move them from or to `remote`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the requests were posted and not cleared; `EINVAL` if `sges_per_wr` is 0, or
    /// there are regions; `ENOMEM`; `EIO` if the device cannot map the memory. After an error other
    /// than `EBUSY` the list is empty.
    pub(super) fn add(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        remote: Remote,
        sges_per_wr: u32,
        opcode: bindings::ib_wr_opcode,
    ) -> Result {
        if sges_per_wr == 0 || !self.regions.is_empty() {
            return self.fail(EINVAL);
        }
        if self.position != 0 {
            return Err(EBUSY);
        }
        match self.gather(pieces, remote, sges_per_wr, opcode) {
            Ok(()) => Ok(()),
            Err(error) => self.fail(error),
        }
    }

    /// Implements [`Self::add`]. After an error, pieces are left that no work request has.
    fn gather(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        remote: Remote,
        sges_per_wr: u32,
        opcode: bindings::ib_wr_opcode,
    ) -> Result {
        // CAST: the device's limit, which callers pass, is far smaller.
        let most = sges_per_wr.min(i32::MAX.unsigned_abs()) as i32;
        let (device, lkey) = (self.pd.device(), self.pd.lkey());
        let (mut wr, mut bytes) = (request(opcode, remote), 0);
        for mut piece in pieces {
            while piece.len() != 0 {
                let part = piece.split_front(self.longest);
                if wr.wr.num_sge == most || part.len() > MAX_MESSAGE - bytes {
                    let rest = Remote {
                        addr: wr.remote_addr.wrapping_add(bytes.into()),
                        ..remote
                    };
                    self.wrs.push(wr, GFP_KERNEL)?;
                    (wr, bytes) = (request(opcode, rest), 0);
                }
                self.map(device, lkey, part)?;
                wr.wr.num_sge += 1;
                bytes += part.len();
            }
        }
        if wr.wr.num_sge != 0 {
            self.wrs.push(wr, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Maps a piece for `device`, that of `pd`, and adds its scatter/gather entry.
    #[inline]
    fn map(&mut self, device: *mut bindings::ib_device, lkey: u32, piece: Piece) -> Result {
        if self.sges.len() == self.sges.capacity() {
            self.sges.reserve(1, GFP_KERNEL)?;
        }
        // SAFETY: By the invariant of `Pd` the device exists. By the invariant of `Piece` its bytes
        // are contiguous, and stay while the list has them.
        let addr = unsafe {
            bindings::rr_ib_dma_map_page(
                device,
                piece.page().as_ptr(),
                piece.offset(),
                piece.len(),
                self.direction.raw(),
            )
        };
        // SAFETY: By the invariant of `Pd` the device exists. `addr` is the result of mapping.
        if !self.is_virtual && unsafe { bindings::rr_ib_dma_mapping_error(device, addr) } != 0 {
            return Err(EIO);
        }
        let sge = bindings::ib_sge {
            addr,
            length: piece.len(),
            lkey,
        };
        // There is room, which was reserved above.
        drop(self.sges.push_within_capacity(sge));
        Ok(())
    }

    /// Registers `pieces` with regions of `pool`, and adds RDMA Reads from `remote` that invalidate
    /// the regions.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the requests were posted and not cleared; `EINVAL` if there are requests without
    /// regions, or the pool is one of another protection domain; `ENOBUFS` if the pool has too few
    /// idle regions; `ENOMEM`; `EIO` if the device cannot map the memory. After an error other than
    /// `EBUSY` the list is empty.
    pub(super) fn register(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        remote: Remote,
        pool: &Arc<MrPool>,
    ) -> Result {
        if self.position != 0 {
            return Err(EBUSY);
        }
        if self.regions.len() != self.wrs.len() {
            return self.fail(EINVAL);
        }
        let (mut pieces, mut remote) = (pieces.peekable(), remote);
        while pieces.peek().is_some() {
            match self.register_one(&mut pieces, remote, pool) {
                Ok(bytes) => remote.addr = remote.addr.wrapping_add(bytes.into()),
                Err(error) => return self.fail(error),
            }
        }
        Ok(())
    }

    /// Registers the first part of `pieces` with one region. Returns the number of bytes.
    fn register_one(
        &mut self,
        pieces: &mut core::iter::Peekable<impl Iterator<Item = Piece>>,
        remote: Remote,
        pool: &Arc<MrPool>,
    ) -> Result<u32> {
        self.wrs.reserve(1, GFP_KERNEL)?;
        self.sges.reserve(1, GFP_KERNEL)?;
        self.regions.reserve(1, GFP_KERNEL)?;
        let mut region = pool.get().ok_or(ENOBUFS)?;
        if !region.is_of(&self.pd) {
            return Err(EINVAL);
        }
        let bytes = region.map(pieces, Direction::FromPeer, 0)?;
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
        let mut wr = request(opcode, remote);
        wr.wr.num_sge = 1;
        wr.wr.ex.invalidate_rkey = region.lkey();
        let sge = bindings::ib_sge {
            addr: region.iova(),
            length: bytes,
            lkey: region.lkey(),
        };
        // INVARIANT: The room was reserved above, so each of the three gets one more entry.
        drop(self.wrs.push_within_capacity(wr));
        drop(self.sges.push_within_capacity(sge));
        drop(self.regions.push_within_capacity(region));
        Ok(bytes)
    }

    /// Unmaps the memory, and forgets the work requests. Returns false, and does nothing, while the
    /// device may be using them.
    pub(super) fn clear(&mut self) -> bool {
        if self.in_flight() {
            return false;
        }
        if self.regions.is_empty() {
            self.unmap();
        }
        // A region that is dropped, and is not live, is unmapped and returns to its pool.
        self.regions.clear();
        self.sges.clear();
        self.wrs.clear();
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
        let (device, direction) = (self.pd.device(), self.direction.raw());
        for sge in self.sges.iter() {
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
fn request(opcode: bindings::ib_wr_opcode, remote: Remote) -> bindings::ib_rdma_wr {
    let mut wr = bindings::ib_rdma_wr {
        remote_addr: remote.addr,
        rkey: remote.rkey,
        ..pin_init::zeroed()
    };
    wr.wr.opcode = opcode;
    wr
}
