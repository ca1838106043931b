// SPDX-License-Identifier: GPL-2.0

//! Mapping pieces of memory, and work requests that move them.

use core::num::NonZeroU32;

use kernel::alloc::Flags;
use kernel::prelude::*;

use super::requests::{request, Requests, MAX_MESSAGE};
use crate::mem::Piece;
use crate::raw as bindings;
use crate::rdma::qp::Remote;

impl Requests {
    /// Maps `pieces`, and adds work requests that move them from or to `remote`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the requests were posted and not cleared; `EINVAL` if `sges_per_wr` is 0, if
    /// there are regions, or if a work request would be longer than a message may be; `ENOMEM`;
    /// `EIO` if the device cannot map the memory. After an error other than `EBUSY` the list is
    /// empty.
    pub(super) fn add(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        remote: Remote,
        sges_per_wr: u32,
        opcode: bindings::ib_wr_opcode,
        gfp: Flags,
    ) -> Result {
        let Some(most) = NonZeroU32::new(sges_per_wr).filter(|_| self.regions.is_empty()) else {
            return self.fail(EINVAL);
        };
        if self.position != 0 {
            return Err(EBUSY);
        }
        match self.gather(pieces, remote, most, opcode, gfp) {
            Ok(()) => Ok(()),
            Err(error) => self.fail(error),
        }
    }

    /// Implements [`Self::add`]. After an error, entries may be left that no work request has.
    fn gather(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        mut remote: Remote,
        most: NonZeroU32,
        opcode: bindings::ib_wr_opcode,
        gfp: Flags,
    ) -> Result {
        // CAST: `usize` has at least 32 bits.
        let most = most.get() as usize;
        let mut pieces = Cut::new(pieces, self.longest);
        loop {
            self.reserve(most, gfp)?;
            let before = self.used;
            let bytes = self.fill(&mut pieces, most)?;
            let count = self.used - before;
            if count != 0 {
                let mut wr = request(opcode, remote);
                // CAST: the device's limit, which callers pass, is far smaller than 2^31.
                wr.wr.num_sge = count as i32;
                // The room was reserved above.
                let _ = self.wrs.push_within_capacity(wr);
                remote.addr = remote.addr.wrapping_add(bytes);
            }
            if count < most {
                return Ok(());
            }
        }
    }

    /// Maps pieces for one work request: at most `most`, for which there is room. Returns the
    /// number of bytes.
    ///
    /// # Errors
    ///
    /// `EIO` if the device cannot map the memory; `EINVAL` if the pieces are longer than a message
    /// may be.
    #[inline]
    fn fill(&mut self, pieces: &mut Cut<impl Iterator<Item = Piece>>, most: usize) -> Result<u64> {
        let (device, lkey) = (self.pd.device(), self.pd.lkey());
        let (direction, is_virtual) = (self.direction.raw(), self.is_virtual);
        let (mut used, mut bytes, mut result) = (self.used, 0_u64, Ok(()));
        let room = self.sges.get_mut(used..).unwrap_or_default();
        for (entry, piece) in room.iter_mut().take(most).zip(pieces) {
            let (page, offset, length) = (piece.page().as_ptr(), piece.offset(), piece.len());
            // SAFETY: By the invariant of `Pd` the device exists. By the invariant of `Piece` its
            // bytes are contiguous, and stay while the list has them.
            let addr =
                unsafe { bindings::rr_ib_dma_map_page(device, page, offset, length, direction) };
            // SAFETY: By the invariant of `Pd` the device exists. `addr` is the result of mapping.
            if !is_virtual && unsafe { bindings::rr_ib_dma_mapping_error(device, addr) } != 0 {
                result = Err(EIO);
                break;
            }
            *entry = bindings::ib_sge { addr, length, lkey };
            used = used.wrapping_add(1);
            bytes = bytes.wrapping_add(u64::from(length));
        }
        // INVARIANT: The entries up to `used` were mapped above.
        self.used = used;
        if bytes > u64::from(MAX_MESSAGE) {
            return Err(EINVAL);
        }
        result.map(|()| bytes)
    }
}

/// Iterator over pieces, none of which is empty or longer than `longest`.
struct Cut<I> {
    pieces: I,
    longest: u32,
    /// The rest of a piece that was cut.
    rest: Option<Piece>,
}

impl<I: Iterator<Item = Piece>> Cut<I> {
    fn new(pieces: I, longest: u32) -> Self {
        Self {
            pieces,
            longest,
            rest: None,
        }
    }

    /// Returns the first part of a piece that is too long.
    #[cold]
    fn cut(&mut self, mut piece: Piece) -> Piece {
        let front = piece.split_front(self.longest);
        self.rest = Some(piece);
        front
    }
}

impl<I: Iterator<Item = Piece>> Iterator for Cut<I> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let piece = match self.rest.take() {
            None => self.pieces.find(|piece| piece.len() != 0)?,
            Some(rest) => rest,
        };
        if piece.len() > self.longest {
            return Some(self.cut(piece));
        }
        Some(piece)
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_gather)]
mod tests {
    use super::*;
    use crate::mem::Page;

    /// Returns offset and length of the parts into which pieces of one page are cut.
    fn parts(pieces: &[(u32, u32)], longest: u32) -> Result<KVec<(u32, u32)>> {
        let page = Page::new()?;
        // SAFETY: No device uses the pieces, which are dropped before the page.
        let pieces = pieces.iter().map(|p| unsafe { page.piece(p.0, p.1) });
        let mut parts = KVec::new();
        for piece in Cut::new(pieces, longest) {
            parts.push((piece.offset(), piece.len()), GFP_KERNEL)?;
        }
        Ok(parts)
    }

    #[test]
    fn pieces_that_fit_are_not_cut() -> Result {
        let pieces = [(0, 4096), (100, 1), (4000, 96)];
        assert_eq!(&parts(&pieces, 4096)?[..], pieces);
        Ok(())
    }

    #[test]
    fn long_pieces_are_cut_in_order() -> Result {
        let cut = [(10, 1000), (1010, 1000), (2010, 500), (7, 3)];
        assert_eq!(&parts(&[(10, 2500), (7, 3)], 1000)?[..], cut);
        // A piece of an exact multiple leaves no rest.
        assert_eq!(&parts(&[(0, 2000)], 1000)?[..], [(0, 1000), (1000, 1000)]);
        Ok(())
    }

    #[test]
    fn empty_pieces_are_left_out() -> Result {
        assert_eq!(&parts(&[(5, 0), (6, 2), (9, 0)], 4096)?[..], [(6, 2)]);
        assert!(parts(&[(5, 0)], 4096)?.is_empty());
        assert!(parts(&[], 4096)?.is_empty());
        Ok(())
    }
}
