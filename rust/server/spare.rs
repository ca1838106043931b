// SPDX-License-Identifier: GPL-2.0

//! Page lists that no operation uses, and memory regions. A list keeps what it has allocated, so
//! that an operation of the same size allocates nothing.

use kernel::alloc::Flags;
use kernel::error::code::ENOBUFS;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::rdma::mr::MrPool;
use crate::rdma::pd::Pd;
use crate::rdma::scatter::{Sink, Source};

/// The most lists of each kind that a connection keeps.
const MOST: usize = 8;
/// The most pages of a list for a call that no call uses: what a small payload needs.
pub(super) const KEPT_PAGES: usize = 1;
/// The most memory regions for RDMA Reads of one connection, unless a single call needs more.
const MOST_REGIONS: u32 = 256;
/// The regions that are made when there are too few.
const MORE_REGIONS: u32 = 8;

/// The spare page lists and memory regions of one connection. They belong to its protection domain.
#[pin_data]
pub(super) struct Spare {
    #[pin]
    sources: SpinLock<KVec<Source>>,
    #[pin]
    sinks: SpinLock<KVec<Sink>>,
    /// RDMA Reads need memory regions.
    needs_regions: bool,
    #[pin]
    regions: SpinLock<Option<Arc<MrPool>>>,
    /// The most regions.
    most_regions: u32,
    /// How often a call has given back its regions. Those of a call that could not be prepared do
    /// not count, or such a call would wait for itself.
    returned: Atomic<u32>,
}

impl Spare {
    /// Makes a set without lists. `regions` are for RDMA Reads, where the device needs them; one
    /// call needs `most` at most. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(regions: Option<Arc<MrPool>>, most: u32) -> Result<impl PinInit<Self>> {
        let sources = KVec::with_capacity(MOST, GFP_KERNEL)?;
        let sinks = KVec::with_capacity(MOST, GFP_KERNEL)?;
        Ok(pin_init!(Self {
            sources <- new_spinlock!(sources, "rpcrdma::Spare::sources"),
            sinks <- new_spinlock!(sinks, "rpcrdma::Spare::sinks"),
            needs_regions: regions.is_some(),
            regions <- new_spinlock!(regions, "rpcrdma::Spare::regions"),
            most_regions: most.max(MOST_REGIONS),
            returned: Atomic::new(0),
        }))
    }

    /// Returns an empty list for the pages of a reply. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(super) fn source(&self, pd: &Arc<Pd>) -> Result<Source> {
        let spare = self.sources.lock().pop();
        spare.map_or_else(|| Source::new(pd), Ok)
    }

    /// Returns a list for the pages of a call, with at most [`KEPT_PAGES`] pages. May sleep if
    /// `gfp` allows it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(super) fn sink(&self, pd: &Arc<Pd>, gfp: Flags) -> Result<Sink> {
        let spare = self.sinks.lock().pop();
        spare.map_or_else(|| Sink::new(pd, gfp), Ok)
    }

    /// Returns the memory regions for RDMA Reads, if the device needs them.
    #[inline]
    pub(super) fn regions(&self) -> Option<Arc<MrPool>> {
        if self.needs_regions {
            self.regions.lock().clone()
        } else {
            None
        }
    }

    /// Makes more memory regions. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are as many as allowed; `ENOMEM`, or another error of the device.
    #[cold]
    pub(super) fn grow_regions(&self) -> Result {
        let pool = self.regions().ok_or(ENOBUFS)?;
        let room = self.most_regions.saturating_sub(pool.total());
        if room == 0 {
            return Err(ENOBUFS);
        }
        pool.grow(MORE_REGIONS.min(room))
    }

    /// Returns whether calls use memory regions, so that some will be free again.
    #[cold]
    pub(super) fn uses_regions(&self) -> bool {
        self.regions().is_some_and(|pool| {
            let census = pool.census();
            census.idle + census.unusable < census.total
        })
    }

    /// Returns whether a call that has found too few regions may find enough later: calls use some,
    /// or there are as many as any call needs, and another call that was being prepared had some.
    #[cold]
    pub(super) fn may_have_regions(&self) -> bool {
        let enough = self.regions().is_some_and(|pool| {
            let census = pool.census();
            census.total - census.unusable >= self.most_regions
        });
        enough || self.uses_regions()
    }

    /// Returns a number that changes when a call gives back its regions.
    #[inline]
    pub(super) fn returned(&self) -> u32 {
        self.returned.load(Relaxed)
    }

    /// Notes that a call has given back its list, and with it its regions. Returns whether it may
    /// have had some.
    #[inline]
    pub(super) fn note_returned(&self) -> bool {
        if self.needs_regions {
            self.returned.add(1, Relaxed);
        }
        self.needs_regions
    }

    /// Takes a list back, after freeing its pages. Does not sleep.
    #[inline]
    pub(super) fn put_source(&self, mut source: Source) {
        if source.clear() {
            keep(&self.sources, source);
        }
    }

    /// Takes back a list that is not in flight, with at most [`KEPT_PAGES`] pages. Does not sleep.
    #[inline]
    pub(super) fn put_sink(&self, sink: Sink) {
        keep(&self.sinks, sink);
    }

    /// Drops all lists, and the regions. May sleep.
    pub(super) fn clear(&self) {
        let sources = core::mem::take(&mut *self.sources.lock());
        let sinks = core::mem::take(&mut *self.sinks.lock());
        let regions = self.regions.lock().take();
        drop((sources, sinks, regions));
    }
}

/// Keeps a list, unless there are enough.
#[inline]
fn keep<T>(lists: &SpinLock<KVec<T>>, list: T) {
    let mut lists = lists.lock();
    // The room was made with the set. A list that finds none is dropped after the lock.
    let refused = lists.push_within_capacity(list);
    drop(lists);
    drop(refused);
}
