// SPDX-License-Identifier: GPL-2.0

//! Mapping or registering pieces of memory, and work requests that move them.

use core::iter::Peekable;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::requests::{request, Requests, MAX_MESSAGE};
use crate::compat::{casts::u32_as_usize, code::ENOBUFS};
use crate::mem::Piece;
use crate::raw as bindings;
use crate::rdma::mr::{DataDirection, Memory, MrPool};
use crate::rdma::scatter::Remote;

impl Requests {
    /// Maps `pieces`, and adds work requests that move them from or to `remote`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the requests were posted and not cleared; `EINVAL` if `sges_per_wr` is 0, if
    /// there are regions, or if a work request would be longer than a message may be; `ENOMEM`,
    /// also if the DMA layer is temporarily out of space. After an error other than `EBUSY` the
    /// list is empty.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        remote: Remote,
        sges_per_wr: u32,
        opcode: bindings::ib_wr_opcode,
        gfp: Flags,
    ) -> Result {
        let most = u32_as_usize(sges_per_wr);
        if most == 0 || !self.regions.is_empty() {
            return self.fail(EINVAL);
        }
        if !self.last_use.is_clear() {
            return Err(EBUSY);
        }
        let mut open = Open {
            remote,
            first: self.used,
            bytes: 0,
            most,
            opcode,
            gfp,
        };
        let gathered = self.gather(pieces, &mut open);
        gathered.or_else(|error| self.fail(error))
    }

    /// Implements [`Self::add`]. After an error, entries may be left that no work request has.
    #[inline(always)]
    fn gather(&mut self, pieces: impl Iterator<Item = Piece>, open: &mut Open) -> Result {
        for piece in pieces {
            if piece.len() > self.longest {
                self.append_cut(piece, open)?;
            } else if piece.len() != 0 {
                self.append(&piece, open)?;
            }
        }
        if self.used == open.first {
            return Ok(());
        }
        self.close(open)
    }

    /// Maps a piece that is longer than the device can map at once.
    #[cold]
    fn append_cut(&mut self, piece: Piece, open: &mut Open) -> Result {
        for part in cut(piece, self.longest) {
            self.append(&part, open)?;
        }
        Ok(())
    }

    /// Maps a piece for the open work request, and closes that if it is full.
    ///
    /// # Errors
    ///
    /// Those of [`Self::add`], except `EBUSY`.
    #[inline(always)]
    fn append(&mut self, piece: &Piece, open: &mut Open) -> Result {
        self.make_room(open.gfp)?;
        let entry = self.map(piece)?;
        let place = self.sges.get_mut(self.used).ok_or(ENOMEM)?;
        *place = entry;
        // INVARIANT: The entry is a mapping.
        self.used = self.used.wrapping_add(1);
        open.bytes = open.bytes.wrapping_add(u64::from(piece.len()));
        if self.used.wrapping_sub(open.first) < open.most {
            return Ok(());
        }
        self.close_full(open)
    }

    /// Calls [`Self::close`], and is not inlined.
    #[inline(never)]
    fn close_full(&mut self, open: &mut Open) -> Result {
        self.close(open)
    }

    /// Maps a piece. Returns its scatter/gather entry.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the DMA layer is temporarily out of space.
    #[inline(always)]
    fn map(&self, piece: &Piece) -> Result<bindings::ib_sge> {
        let (device, direction) = (self.pd.device(), self.direction.into());
        let (page, offset, length) = (piece.page().as_ptr(), piece.offset(), piece.len());
        // SAFETY: By the invariant of `Pd` the device exists. By the invariant of `Piece` its bytes
        // are contiguous, and stay while the list has them. `addr` is the result of mapping.
        let (addr, failed) = unsafe {
            let addr = bindings::rr_ib_dma_map_page(device, page, offset, length, direction);
            let error = !self.is_virtual && bindings::rr_ib_dma_mapping_error(device, addr) != 0;
            (addr, error)
        };
        if failed {
            return Err(ENOMEM);
        }
        let lkey = self.pd.lkey();
        Ok(bindings::ib_sge { addr, length, lkey })
    }

    /// Creates a work request with the entries of `open`, and opens the next one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is longer than a message may be; `ENOMEM`.
    #[inline(always)]
    fn close(&mut self, open: &mut Open) -> Result {
        if open.bytes > u64::from(MAX_MESSAGE) {
            return Err(EINVAL);
        }
        let mut wr = request(open.opcode, open.remote);
        // CAST: the device's limit, which callers pass, is far smaller than 2^31.
        wr.wr.num_sge = self.used.wrapping_sub(open.first) as i32;
        if self.wrs.len() == self.wrs.capacity() {
            self.grow_wrs(open.gfp)?;
        }
        let place = self.wrs.spare_capacity_mut().first_mut().ok_or(ENOMEM)?;
        place.write(wr);
        // SAFETY: The first spare place was filled.
        unsafe { self.wrs.inc_len(1) };
        open.remote.addr = open.remote.addr.wrapping_add(open.bytes);
        (open.first, open.bytes) = (self.used, 0);
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
    #[inline(never)]
    pub(super) fn register(
        &mut self,
        pieces: impl Iterator<Item = Piece> + Clone,
        remote: Remote,
        pool: &Arc<MrPool>,
        gfp: Flags,
    ) -> Result {
        if !self.last_use.is_clear() {
            return Err(EBUSY);
        }
        if self.regions.len() != self.wrs.len() {
            return self.fail(EINVAL);
        }
        let (mut pieces, mut remote) = (pieces.peekable(), remote);
        while !Memory::is_empty(&mut pieces) {
            match self.register_one(&mut pieces, remote, pool, gfp) {
                Ok(bytes) => remote.addr = remote.addr.wrapping_add(bytes.into()),
                Err(error) => return self.fail(error),
            }
        }
        Ok(())
    }

    /// Registers the first part of `pieces` with one region. Returns the number of bytes.
    fn register_one(
        &mut self,
        pieces: &mut Peekable<impl Iterator<Item = Piece> + Clone>,
        remote: Remote,
        pool: &Arc<MrPool>,
        gfp: Flags,
    ) -> Result<u32> {
        self.make_room(gfp)?;
        self.wrs.reserve(1, gfp)?;
        self.regions.reserve(1, gfp)?;
        let mut region = pool.get().ok_or(ENOBUFS)?;
        if !region.is_of(&self.pd) {
            return Err(EINVAL);
        }
        let bytes = region.map(pieces, DataDirection::FromDevice, 0)?;
        let mut wr = request(bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV, remote);
        wr.wr.num_sge = 1;
        wr.wr.ex.invalidate_rkey = region.lkey();
        let sge = bindings::ib_sge {
            addr: region.iova(),
            length: bytes,
            lkey: region.lkey(),
        };
        *self.sges.get_mut(self.used).ok_or(ENOMEM)? = sge;
        // INVARIANT: There is room for one more entry of each kind, which was reserved above.
        self.wrs.push(wr, gfp)?;
        self.regions.push(region, gfp)?;
        self.used += 1;
        Ok(bytes)
    }
}

/// A work request to which entries are added.
struct Open {
    remote: Remote,
    /// The index of its first entry.
    first: usize,
    bytes: u64,
    /// The maximum number of entries that it may have, at least one.
    most: usize,
    opcode: bindings::ib_wr_opcode,
    gfp: Flags,
}

/// Iterates over the parts of a piece, none of which is empty or longer than `longest`.
fn cut(mut piece: Piece, longest: u32) -> impl Iterator<Item = Piece> {
    core::iter::from_fn(move || {
        let part = piece.split_front(longest);
        (part.len() != 0).then_some(part)
    })
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_gather)]
mod tests {
    use super::*;
    use crate::mem::Page;

    /// Returns offset and length of the parts into which a piece of a page is cut.
    fn parts((offset, len): (u32, u32), longest: u32) -> Result<KVec<(u32, u32)>> {
        let page = Page::allocate(GFP_KERNEL)?;
        // SAFETY: No device uses the piece, which is dropped before the page.
        let piece = unsafe { page.piece(offset, len) };
        let mut parts = KVec::new();
        for part in cut(piece, longest) {
            parts.push((part.offset(), part.len()), GFP_KERNEL)?;
        }
        Ok(parts)
    }

    #[test]
    fn piece_that_fits_is_not_cut() -> Result {
        for piece in [(0, 4096), (100, 1), (4000, 96)] {
            assert_eq!(&parts(piece, 4096)?[..], [piece]);
        }
        Ok(())
    }

    #[test]
    fn long_piece_is_cut_in_order() -> Result {
        assert_eq!(
            &parts((10, 2500), 1000)?[..],
            [(10, 1000), (1010, 1000), (2010, 500)]
        );
        // A piece of an exact multiple leaves no rest.
        assert_eq!(&parts((0, 2000), 1000)?[..], [(0, 1000), (1000, 1000)]);
        Ok(())
    }

    #[test]
    fn empty_piece_has_no_parts() -> Result {
        assert!(parts((5, 0), 4096)?.is_empty());
        Ok(())
    }
}
