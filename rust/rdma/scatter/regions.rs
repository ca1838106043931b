// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads into registered memory.

use core::iter::Peekable;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::requests::{request, Requests};
use crate::mem::Piece;
use crate::raw as bindings;
use crate::rdma::mr::{DataDirection, Memory, MrPool};
use crate::rdma::scatter::Remote;

impl Requests {
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
        gfp: Flags,
    ) -> Result {
        if self.position != 0 {
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
        pieces: &mut Peekable<impl Iterator<Item = Piece>>,
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
