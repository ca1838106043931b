// SPDX-License-Identifier: GPL-2.0

//! Spare page lists and memory regions of a connection.
//!
//! A spare list keeps its allocations, its pages and their part of the budget, so that an operation
//! of the same size allocates nothing and takes no lock of other connections.

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{delay::fsleep, Delta};

use super::budget::Permit;
use crate::compat::code::ENOBUFS;
use crate::mem::Page;
use crate::rdma::mr::MrPool;
use crate::rdma::pd::Pd;
use crate::rdma::scatter::Sink;
use crate::sunrpc::time;

/// The maximum number of memory regions for RDMA Reads of one connection, unless a single call
/// needs more.
const MOST_REGIONS: u32 = 256;
/// How often a thread of the service retries to map memory for which the DMA layer has no space,
/// because bounce buffers are few, with a pause before each attempt.
pub(crate) const MAPPING_PAUSES: u32 = 50;
const MAPPING_PAUSE: Delta = Delta::from_millis(20);
/// Threads of the service that wait for space in the DMA layer.
pub(crate) static PAUSING: Atomic<i32> = Atomic::new(0);
/// How long a call for which the DMA layer has no space may be repeated, and when a call that was
/// not repeated is forgotten, in seconds.
const SPACE_PATIENCE: u32 = 60;
const FORGOTTEN: u32 = 2 * SPACE_PATIENCE;
/// Regions that are added when there are too few.
const MORE_REGIONS: u32 = 8;

/// A call for which the DMA layer had no space, of any connection: the XID, and in the low 32 bits
/// the time in seconds when that was noticed. Zero: there is none.
static LACKING: Atomic<u64> = Atomic::new(0);

/// Records that the DMA layer had no space for a call, or that there was no memory. Returns whether
/// the call has been repeated for [`SPACE_PATIENCE`], because the pool of bounce buffers may be too
/// small for it. Any context.
///
/// The calls are observed one after the other.
pub(crate) fn lacks_space(xid: u32) -> bool {
    // CAST: the high bits of the time do not matter.
    let (now, old) = (time::seconds() as u32, LACKING.load(Relaxed));
    // CAST: the two halves.
    let (known, waited) = ((old >> 32) as u32, now.wrapping_sub(old as u32));
    let over = known == xid && (SPACE_PATIENCE..FORGOTTEN).contains(&waited);
    if over || old == 0 || waited >= FORGOTTEN {
        let new = u64::from(xid) << 32 | u64::from(now);
        LACKING.store(if over { 0 } else { new }, Relaxed);
    }
    over
}

/// Waits for a moment, in which other calls may leave space in the DMA layer. Sleeps.
pub(crate) fn pause() {
    PAUSING.add(1, Relaxed);
    fsleep(MAPPING_PAUSE);
    PAUSING.add(-1, Relaxed);
}

/// A page list for a call, and the pages of the budget that are for the list: no fewer than it has,
/// unless a single call is longer than the whole budget.
pub(crate) struct Store {
    pub(crate) sink: Sink,
    pub(crate) permit: Permit,
    /// A call has used the list since the last check of the connection.
    pub(super) recent: bool,
}

impl Store {
    /// Makes a list without pages, which are for `permit` to take. May sleep if `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: &Arc<Pd>, permit: Permit, gfp: Flags) -> Result<KBox<Self>> {
        let store = Self {
            sink: Sink::new(pd, gfp)?,
            permit,
            recent: true,
        };
        Ok(KBox::new(store, gfp)?)
    }

    /// Frees the pages, and returns them to the budget.
    #[cold]
    pub(super) fn empty(&mut self) {
        self.sink.pages().into_iter().for_each(Page::free_all);
        self.permit.give_back();
    }
}

/// The memory regions of one connection. They belong to its protection domain.
#[pin_data]
pub(crate) struct Spare {
    /// RDMA Reads need memory regions.
    needs_regions: bool,
    #[pin]
    regions: SpinLock<Option<Arc<MrPool>>>,
    /// The maximum number of regions.
    most_regions: u32,
    /// How often a call has returned its regions. A call that could not be prepared does not count,
    /// because such a call would wait for itself.
    returned: Atomic<u32>,
}

impl Spare {
    /// Makes the value of a connection. `regions` are for RDMA Reads, if the device needs them; a
    /// call needs at most `most`.
    pub(crate) fn new(regions: Option<Arc<MrPool>>, most: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            needs_regions: regions.is_some(),
            regions <- new_spinlock!(regions, "rpcrdma::Spare::regions"),
            most_regions: most.max(MOST_REGIONS),
            returned: Atomic::new(0),
        })
    }

    /// Returns the memory regions for RDMA Reads, if the device needs them.
    pub(crate) fn regions(&self) -> Option<Arc<MrPool>> {
        let needed = self.needs_regions;
        needed.then(|| self.regions.lock().clone()).flatten()
    }

    /// Allocates more memory regions. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the maximum is reached; `ENOMEM`, or another error of the device.
    #[cold]
    pub(crate) fn grow_regions(&self) -> Result {
        let pool = self.regions().ok_or(ENOBUFS)?;
        let room = self.most_regions.saturating_sub(pool.total());
        if room == 0 {
            return Err(ENOBUFS);
        }
        pool.grow(MORE_REGIONS.min(room))
    }

    /// Returns whether calls use memory regions, so that some will become free.
    #[cold]
    pub(crate) fn uses_regions(&self) -> bool {
        self.regions().is_some_and(|pool| {
            let counts = pool.counts();
            counts.idle + counts.unusable < counts.total
        })
    }

    /// Returns whether a call that found too few regions may find enough later: other calls use
    /// regions, or there are as many regions as any call needs and another call in preparation held
    /// some of them.
    #[cold]
    pub(crate) fn may_have_regions(&self) -> bool {
        let enough = self.regions().is_some_and(|pool| {
            let counts = pool.counts();
            counts.total - counts.unusable >= self.most_regions
        });
        enough || self.uses_regions()
    }

    /// Returns how often a call has returned its regions.
    pub(crate) fn returned(&self) -> u32 {
        self.returned.load(Relaxed)
    }

    /// Records that a call has returned its list and thereby its regions. Returns whether it may
    /// have had regions.
    pub(crate) fn note_returned(&self) -> bool {
        if self.needs_regions {
            self.returned.add(1, Relaxed);
        }
        self.needs_regions
    }

    /// Drops the regions. May sleep.
    pub(crate) fn clear(&self) {
        let _regions = self.regions.lock().take();
    }
}
