// SPDX-License-Identifier: GPL-2.0

//! Memory regions (FRWR): what a peer may read or write, and how it stops.
//!
//! ```text
//!              map           posted with a Send
//!   Idle ───────────► Mapped ─────────────────► Posted ◄── live: the peer can reach the memory
//!    ▲                  │                         │  │
//!    │ drop             │   Send With Invalidate  │  │ post_invalidate
//!    ├──────────────────┘◄────────────────────────┘  ▼
//!    └────────────────────────────────────────── Invalidating ◄── live until completed
//! ```
//!
//! Whatever state an [`Mr`] is dropped in, it goes back to its pool. One that is idle can be taken
//! out again. One that is live stays mapped, and is destroyed once its queue pair has been drained
//! and the pool is gone: **dropping a live region does not fence it**. To fence is: the peer's
//! Send With Invalidate, a local invalidation that has completed, or draining the queue pair; and
//! [`Mr::remotely_invalidated`] and [`Mr::invalidated`] say whether that has happened, rather than
//! believing it.

use core::iter::Peekable;
use core::mem::ManuallyDrop;

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::gate::Gate;
use super::noio::NoIo;
use super::pd::Pd;
use super::qp::Completions;
use super::recv::Received;
use super::region::{Region, Shape, State};
use super::stack::Stack;
use crate::mem::Piece;
use crate::raw as bindings;

/// Longest region in pages: 256 MiB of 4 KiB pages, so that lengths fit a `u32`.
const MAX_DEPTH: u32 = 1 << 16;

/// Who does what with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The peer reads it.
    ToPeer,
    /// The peer writes it.
    FromPeer,
}

/// What a region can map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whole pages; only the first may begin, and only the last may end, within one
    /// (`IB_MR_TYPE_MEM_REG`).
    Plain,
    /// Whatever lies wherever (`IB_MR_TYPE_SG_GAPS`), for a device with
    /// [`Limits::sg_gaps`](super::device::Limits).
    Gapped,
}

/// Memory regions of one protection domain.
///
/// Regions keep the pool, so it goes when the owner and the last region have let go of it; in
/// process context, since that sleeps. Keep it where regions are dropped in atomic context.
#[pin_data]
pub(crate) struct MrPool {
    #[pin]
    shelf: SpinLock<Shelf>,
    shape: Shape,
    pd: Arc<Pd>,
}

struct Shelf {
    /// Idle ones.
    free: Stack<Region>,
    /// Ones that cannot be used again.
    stale: Stack<Region>,
    /// All there are, wherever they are.
    total: u32,
    /// Somebody has found none idle.
    starved: bool,
}

impl MrPool {
    /// Makes `count` regions of `depth` pages each. Process context, may sleep; allocates without
    /// starting I/O.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a depth of 0 or beyond what the device can do, or for a kind that it does not
    /// have; `ENOMEM`, or what its driver says.
    pub(crate) fn new(pd: Arc<Pd>, depth: u32, kind: Kind, count: u32) -> Result<Arc<Self>> {
        let (limits, gaps) = (pd.limits(), kind == Kind::Gapped);
        if depth == 0 || depth > limits.max_frmr_depth.min(MAX_DEPTH) || gaps && !limits.sg_gaps {
            return Err(EINVAL);
        }
        // SAFETY: By `Pd`'s invariant the device is there.
        let longest = unsafe { bindings::rr_ib_dma_longest(pd.device()) };
        let shelf = Shelf {
            free: Stack::new(),
            stale: Stack::new(),
            total: 0,
            starved: false,
        };
        let pool = Arc::pin_init(
            pin_init!(Self {
                shelf <- new_spinlock!(shelf, "rdma::MrPool::shelf"),
                shape: Shape { depth, gaps, longest },
                pd,
            }),
            GFP_KERNEL,
        )?;
        pool.grow(count)?;
        Ok(pool)
    }

    /// Makes `count` more. Process context, may sleep; allocates without starting I/O.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the driver says; those made before the failure are there.
    pub(crate) fn grow(&self, count: u32) -> Result {
        let _noio = NoIo::enter();
        for _ in 0..count {
            let region = Region::new(&self.pd, self.shape)?;
            let mut shelf = self.shelf.lock();
            shelf.free.push(region);
            shelf.total += 1;
        }
        Ok(())
    }

    /// Takes an idle one; none are left if it returns `None`. Any context but interrupts; never
    /// allocates.
    #[inline]
    pub(crate) fn get(self: &Arc<Self>) -> Option<Mr> {
        let mut region = {
            let mut shelf = self.shelf.lock();
            let taken = shelf.free.pop();
            if taken.is_none() {
                shelf.starved = true;
            }
            taken?
        };
        region.home = Some(self.clone());
        // INVARIANT: what is on the shelf is idle.
        Some(Mr {
            region: ManuallyDrop::new(region),
        })
    }

    /// Whether [`Self::get`] has found none since this was asked last.
    pub(crate) fn take_starved(&self) -> bool {
        core::mem::take(&mut self.shelf.lock().starved)
    }

    /// How many are idle.
    pub(crate) fn available(&self) -> u32 {
        self.shelf.lock().free.len()
    }

    /// How many there are at all.
    pub(crate) fn total(&self) -> u32 {
        self.shelf.lock().total
    }

    /// Pages of each.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.shape.depth
    }

    /// Takes a region back.
    #[inline]
    fn put(&self, region: KBox<Region>) {
        let mut shelf = self.shelf.lock();
        if region.state == State::Idle {
            shelf.free.push(region);
        } else {
            shelf.stale.push(region);
        }
    }
}

impl Shelf {
    /// Destroys what no queue pair uses, and leaves the rest to their queue pairs.
    fn clear(&mut self) {
        while self.free.pop().is_some() {}
        while let Some(mut region) = self.stale.pop() {
            // Taken out, or region and gate would keep each other.
            if let Some(gate) = region.gate.take() {
                // Drained: it is destroyed here.
                drop(gate.keep_region(region));
            }
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A memory region; a pointer in size. See the module for its states.
///
/// # Invariants
///
/// `region.home` is the pool that it came from.
pub(crate) struct Mr {
    region: ManuallyDrop<KBox<Region>>,
}

impl Mr {
    /// Maps what fits of `pieces`, for the peer to read or write, and takes it off them: up to
    /// the pool's depth in pages, or up to a gap that the device cannot bridge. A piece may be
    /// split. Returns the number of bytes.
    ///
    /// The key changes with each mapping, so that a peer that kept an old one has no use of it.
    /// The addresses that the peer uses start at [`Self::iova`], the upper half of which is
    /// `iova_high`.
    ///
    /// Any context but interrupts; does not allocate, except as the DMA layer does for itself. Process
    /// context, and may sleep, on a device whose [`Limits::map_sleeps`](super::device::Limits) is set.
    ///
    /// # Errors
    ///
    /// `EBUSY` unless idle; `EINVAL` if there is nothing to map; `ENOMEM` if the DMA layer has no
    /// room at the moment; `EIO` if the device cannot map memory that lies so.
    #[inline]
    pub(crate) fn map(
        &mut self,
        pieces: &mut Peekable<impl Iterator<Item = Piece>>,
        direction: Direction,
        iova_high: u32,
    ) -> Result<u32> {
        let region = &mut **self.region;
        let Some(home) = region.home.as_ref().filter(|_| region.state == State::Idle) else {
            return Err(EBUSY);
        };
        let shape = home.shape;
        region.map(pieces, shape, direction, iova_high)
    }

    /// What the peer names the region by (the handle of a segment).
    #[inline]
    pub(crate) fn rkey(&self) -> u32 {
        self.region.rkey()
    }

    /// Address of the first byte, as the peer sees it.
    #[inline]
    pub(crate) fn iova(&self) -> u64 {
        self.region.iova()
    }

    /// Bytes mapped last.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.region.len()
    }

    /// Scatterlist entries that are mapped.
    #[inline]
    pub(crate) fn nents(&self) -> u32 {
        self.region.nents()
    }

    /// Who does what with the memory that was mapped last.
    #[inline]
    pub(crate) fn direction(&self) -> Direction {
        self.region.direction()
    }

    /// Number of the region, as resource tracking shows it (`rdma resource show mr`).
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.region.id()
    }

    /// Whether a peer may be able to reach the memory: it was posted, and nothing is known to
    /// have fenced it.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        match self.region.state {
            State::Idle | State::Mapped | State::Spent => false,
            State::Posted | State::Invalidating(_) => !self.is_fenced(),
        }
    }

    /// Whether its local invalidation was posted, and [`Self::invalidated`] has not been asked since.
    #[inline]
    pub(crate) fn is_being_invalidated(&self) -> bool {
        matches!(self.region.state, State::Invalidating(_))
    }

    /// Notes that `msg` has invalidated the region, if it has: the memory is the owner's again, and
    /// the region idle. Returns whether that is so.
    #[inline]
    pub(crate) fn remotely_invalidated<C: Completions>(&mut self, msg: &Received<'_, C>) -> bool {
        let region = &mut **self.region;
        let gate = region.gate.as_ref();
        let by_this = region.state == State::Posted
            && msg.invalidated() == Some(region.rkey())
            && gate.is_some_and(|g| Arc::ptr_eq(g, msg.gate()));
        if by_this {
            region.unmap();
            region.state = State::Idle;
        }
        by_this
    }

    /// Takes the memory back if the peer cannot reach it any more: because its local invalidation
    /// has completed, or its queue pair has been drained, or because it was never posted. Returns
    /// whether that is so.
    ///
    /// After an invalidation the region is idle; after draining it cannot be used again.
    #[inline]
    pub(crate) fn invalidated(&mut self) -> bool {
        let executed = self.is_invalidated();
        if !executed && self.is_live() {
            return false;
        }
        let region = &mut **self.region;
        region.unmap();
        region.state = match region.state {
            State::Idle | State::Mapped => State::Idle,
            _ if executed => State::Idle,
            _ => State::Spent,
        };
        true
    }

    /// Whether a local invalidation has completed.
    #[inline]
    fn is_invalidated(&self) -> bool {
        match (self.region.state, &self.region.gate) {
            (State::Invalidating(position), Some(gate)) => gate.retired() >= position,
            _ => false,
        }
    }

    #[inline]
    fn is_fenced(&self) -> bool {
        self.is_invalidated() || self.region.gate.as_ref().is_some_and(|g| g.is_drained())
    }

    /// Whether it belongs to this protection domain.
    #[inline]
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.region.pd, pd)
    }

    /// Whether it was posted on this gate's queue pair, and nothing was done to fence it yet.
    #[inline]
    pub(super) fn is_posted_on(&self, gate: &Arc<Gate>) -> bool {
        self.region.state == State::Posted
            && self
                .region
                .gate
                .as_ref()
                .is_some_and(|g| Arc::ptr_eq(g, gate))
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.region.state
    }

    #[inline]
    pub(super) fn region(&mut self) -> &mut Region {
        &mut self.region
    }
}

impl Region {
    /// Notes that the region is posted, or about to be, on `gate`'s queue pair.
    #[inline]
    pub(super) fn set_posted(&mut self, gate: &Arc<Gate>) {
        if !self.gate.as_ref().is_some_and(|g| Arc::ptr_eq(g, gate)) {
            self.gate = Some(gate.clone());
        }
        self.state = State::Posted;
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Fences nothing, but sees whether something has.
        let _ = self.invalidated();
        // SAFETY: `self.region` is not used again.
        let mut region = unsafe { ManuallyDrop::take(&mut self.region) };
        if let Some(home) = region.home.take() {
            home.put(region);
        }
    }
}
