// SPDX-License-Identifier: GPL-2.0

//! The inside of a memory region: verbs object, scatterlist, work request. Its states are
//! [`mr`](super::mr)'s business.

use core::iter::Peekable;
use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::gate::Gate;
use super::local;
use super::mr::{Direction, MrPool};
use super::noio::NoIo;
use super::pack::Packer;
use super::pd::Pd;
use super::stack::Linked;
use crate::mem::Piece;
use crate::raw as bindings;

// CAST: small constants.
const ACCESS_READ: i32 = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ as i32;
const ACCESS_WRITE: i32 = (bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE) as i32;

/// Where a region stands; see [`Mr`](super::mr::Mr).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Mapped,
    Posted,
    Invalidating(u64),
    Spent,
}

/// A memory region with what is needed to register, map and invalidate it.
///
/// # Invariants
///
/// - `mr` is a fast-registration region of `pd` for `entries.len()` pages.
/// - In state Mapped, Posted and Invalidating the first `mapped` of `entries` are mapped for the
///   device, in direction `way`; in the others `mapped` is 0.
/// - In state Posted and Invalidating `gate` is that of the queue pair that it was posted on.
/// - `wr.mr` is `mr`.
pub(super) struct Region {
    /// Registers the region, or invalidates it.
    pub(super) wr: bindings::ib_reg_wr,
    mr: NonNull<bindings::ib_mr>,
    /// Read by the processor alone, so any memory will do: for a whole payload it is more than two
    /// pages.
    entries: KVVec<bindings::scatterlist>,
    mapped: i32,
    way: bindings::dma_data_direction,
    pub(super) state: State,
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) home: Option<Arc<MrPool>>,
    next: Option<KBox<Region>>,
    pub(super) pd: Arc<Pd>,
}

// SAFETY: Verbs may be called from any task; the region owns its objects.
unsafe impl Send for Region {}
// SAFETY: Shared references only read.
unsafe impl Sync for Region {}

impl Linked for Region {
    fn link(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }
}

/// What regions of one pool have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Pages.
    pub(super) depth: u32,
    /// Whether gaps between pages are allowed.
    pub(super) gaps: bool,
    /// Longest piece the device maps, in bytes.
    pub(super) longest: u32,
}

impl Region {
    /// Allocates one. May sleep.
    pub(super) fn new(pd: &Arc<Pd>, shape: Shape) -> Result<KBox<Self>> {
        let node = local::node(&pd.as_device());
        let region = local::boxed(GFP_KERNEL, node)?;
        // CAST: `usize` has at least 32 bits.
        let mut entries: KVVec<_> = local::zeroed(shape.depth as usize, GFP_KERNEL, node)?;
        // SAFETY: So many entries are there. This marks the last one as such.
        unsafe { bindings::sg_init_table(entries.as_mut_ptr(), shape.depth) };
        let kind = if shape.gaps {
            bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS
        } else {
            bindings::ib_mr_type_IB_MR_TYPE_MEM_REG
        };
        // SAFETY: By `Pd`'s invariant.
        let mr = unsafe { bindings::ib_alloc_mr(pd.as_ptr(), kind, shape.depth) };
        let mr = NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)?;
        // INVARIANT: just allocated, nothing mapped.
        Ok(region.write(Self {
            wr: bindings::ib_reg_wr {
                mr: mr.as_ptr(),
                ..pin_init::zeroed()
            },
            mr,
            entries,
            mapped: 0,
            way: bindings::dma_data_direction::DMA_NONE,
            state: State::Idle,
            gate: None,
            home: None,
            next: None,
            pd: pd.clone(),
        }))
    }

    /// The region as the device knows it, while it is mapped.
    #[inline]
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: By the type invariant; only `renew` changes it.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// First address of what is mapped, as the peer sees it.
    #[inline]
    pub(super) fn iova(&self) -> u64 {
        // SAFETY: By the type invariant; only mapping changes it.
        unsafe { (*self.mr.as_ptr()).iova }
    }

    /// Bytes mapped.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        // SAFETY: As above. CAST: `fill` saw to it.
        unsafe { (*self.mr.as_ptr()).length as u32 }
    }

    /// Entries mapped.
    #[inline]
    pub(super) fn nents(&self) -> u32 {
        self.mapped.unsigned_abs()
    }

    /// Direction of the last mapping.
    #[inline]
    pub(super) fn direction(&self) -> Direction {
        if self.wr.access == ACCESS_READ {
            Direction::ToPeer
        } else {
            Direction::FromPeer
        }
    }

    /// Number in resource tracking.
    #[inline]
    pub(super) fn id(&self) -> u32 {
        // SAFETY: By the type invariant; the number is constant.
        unsafe { (*self.mr.as_ptr()).res.id }
    }

    /// Maps what fits of `pieces`, and prepares the registration.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is nothing to map; `ENOMEM` if the DMA layer has no room at the moment;
    /// `EIO` if the device cannot map memory that lies so. The region is as before then, but `pieces`
    /// are used up.
    pub(super) fn map(
        &mut self,
        pieces: &mut Peekable<impl Iterator<Item = Piece>>,
        shape: Shape,
        direction: Direction,
        iova_high: u32,
    ) -> Result<u32> {
        let (used, bytes) = self.fill(pieces, shape);
        if used == 0 {
            return Err(EINVAL);
        }
        let (way, access) = match direction {
            Direction::ToPeer => (bindings::dma_data_direction::DMA_TO_DEVICE, ACCESS_READ),
            Direction::FromPeer => (bindings::dma_data_direction::DMA_FROM_DEVICE, ACCESS_WRITE),
        };
        self.map_entries(used, bytes, way)?;
        self.renew(access, iova_high);
        self.state = State::Mapped;
        Ok(bytes)
    }

    /// Puts pieces into the scatterlist; returns the number of entries and of bytes.
    fn fill(
        &mut self,
        pieces: &mut Peekable<impl Iterator<Item = Piece>>,
        shape: Shape,
    ) -> (i32, u32) {
        let mut packer = Packer::new(shape.depth, shape.gaps, shape.longest);
        let (mut used, mut bytes) = (0, 0);
        for entry in self.entries.iter_mut() {
            let Some(piece) = next_piece(pieces) else {
                break;
            };
            let number = piece.page().as_ptr().addr() / size_of::<bindings::page>();
            let n = packer.take(number, piece.offset(), piece.len());
            if n == 0 {
                break;
            }
            let part = piece.split_front(n);
            // SAFETY: `entry` is part of a scatterlist, and the page is valid by `Piece`'s
            // invariant.
            unsafe {
                bindings::rr_sg_set_page(entry, part.page().as_ptr(), part.len(), part.offset());
            }
            used += 1;
            bytes += n;
        }
        if pieces.peek().is_some_and(|p| p.len() == 0) {
            pieces.next();
        }
        (used, bytes)
    }

    /// Maps the first `used` entries for the device, and tells it about them.
    fn map_entries(&mut self, used: i32, bytes: u32, way: bindings::dma_data_direction) -> Result {
        let dev = self.pd.device();
        // SAFETY: `fill` has set so many entries to memory that stays valid by `Piece`'s
        // invariant.
        let n = unsafe { bindings::rr_ib_dma_map_sg(dev, self.entries.as_mut_ptr(), used, way) };
        if n <= 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: these entries are mapped now.
        self.mapped = used;
        self.way = way;
        // SAFETY: By the type invariant; the entries are mapped.
        let done = unsafe {
            bindings::ib_map_mr_sg(
                self.mr.as_ptr(),
                self.entries.as_mut_ptr(),
                n,
                core::ptr::null_mut(),
                // CAST: a page is small.
                kernel::page::PAGE_SIZE as u32,
            )
        };
        // SAFETY: By the type invariant.
        let length = unsafe { (*self.mr.as_ptr()).length };
        if done != n || length != u64::from(bytes) {
            self.unmap();
            return Err(EIO);
        }
        Ok(())
    }

    /// A key and an address that the peer has not seen before, and the work request for them.
    fn renew(&mut self, access: i32, iova_high: u32) {
        let mr = self.mr.as_ptr();
        // SAFETY: By the type invariant, and nobody else touches it: the region is not posted.
        unsafe {
            let key = bindings::rr_ib_inc_rkey((*mr).rkey);
            // CAST: the key proper is the lowest byte.
            bindings::rr_ib_update_fast_reg_key(mr, key as u8);
            (*mr).iova = (*mr).iova & u64::from(u32::MAX) | u64::from(iova_high) << 32;
        }
        self.wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        self.wr.key = self.rkey();
        self.wr.access = access;
    }

    /// Turns the work request into a local invalidation.
    #[inline]
    pub(super) fn prepare_invalidation(&mut self) {
        self.wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        self.wr.wr.ex.invalidate_rkey = self.rkey();
    }

    /// Gives the memory back to the CPU and its owner.
    pub(super) fn unmap(&mut self) {
        if self.mapped != 0 {
            // SAFETY: By the type invariant. The number of entries is the original one, as
            // unmapping wants it.
            unsafe {
                bindings::rr_ib_dma_unmap_sg(
                    self.pd.device(),
                    self.entries.as_mut_ptr(),
                    self.mapped,
                    self.way,
                )
            };
            self.mapped = 0;
        }
    }
}

/// The next piece with something in it.
fn next_piece<I: Iterator<Item = Piece>>(pieces: &mut Peekable<I>) -> Option<&mut Piece> {
    while pieces.next_if(|p| p.len() == 0).is_some() {}
    pieces.peek_mut()
}

impl Drop for Region {
    fn drop(&mut self) {
        let _scope = NoIo::enter();
        // Whoever drops a region has seen to it that no queue pair uses it any more.
        let mr = self.mr.as_ptr();
        // SAFETY: By the type invariant. The peer cannot reach the memory after this.
        let error = unsafe { bindings::ib_dereg_mr_user(mr, core::ptr::null_mut()) };
        if error != 0 {
            pr_warn!("a memory region could not be freed: {}\n", error);
        }
        self.unmap();
    }
}
