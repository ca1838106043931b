// SPDX-License-Identifier: GPL-2.0

//! What a queue pair shares with the buffers and memory regions that were posted on it.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::buffer::Buffer;
use super::region::Region;
use super::stack::Stack;

/// How far a queue pair has come, and what waits for its end.
///
/// # Invariants
///
/// - Every work request up to position `retired` has completed, successfully.
/// - `drained` is set only when no work request is outstanding, and none can be posted any more:
///   the device uses nothing that was posted, and the peer reaches no memory through this queue
///   pair.
#[pin_data]
pub(super) struct Gate {
    retired: Atomic<u64>,
    drained: Atomic<bool>,
    broken: Atomic<bool>,
    #[pin]
    orphans: SpinLock<Orphans>,
}

/// Objects whose owner let go of them while they were in use.
struct Orphans {
    buffers: Stack<Buffer>,
    regions: Stack<Region>,
}

impl Gate {
    /// For a new queue pair.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let orphans = Orphans {
            buffers: Stack::new(),
            regions: Stack::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                retired: Atomic::new(0),
                drained: Atomic::new(false),
                broken: Atomic::new(false),
                orphans <- new_spinlock!(orphans, "rdma::Gate::orphans"),
            }),
            GFP_KERNEL,
        )
    }

    /// Position of the last work request that is known to have completed.
    #[inline]
    pub(super) fn retired(&self) -> u64 {
        // ORDERING: pairs with the store in `retire`: what the completion was about has happened.
        self.retired.load(Acquire)
    }

    /// Notes that the work requests up to `position` have completed.
    #[inline]
    pub(super) fn retire(&self, position: u64) {
        self.retired.store(position, Release);
    }

    /// Whether the queue pair is out of use for good.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Acquire)
    }

    /// Whether something failed that only a new connection repairs.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
    }

    /// Notes such a failure.
    #[inline]
    pub(super) fn break_off(&self) {
        self.broken.store(true, Relaxed);
    }

    /// Notes that the queue pair has been drained, and frees what was waiting for it. May sleep.
    pub(super) fn close(&self) {
        let mut orphans = self.orphans.lock();
        self.drained.store(true, Release);
        let buffers = orphans.buffers.take();
        let regions = orphans.regions.take();
        drop(orphans);
        drop((buffers, regions));
    }

    /// Keeps a buffer until the queue pair is drained.
    ///
    /// # Errors
    ///
    /// The buffer itself, if that has happened already.
    pub(super) fn keep_buffer(&self, buffer: KBox<Buffer>) -> Result<(), KBox<Buffer>> {
        let mut orphans = self.orphans.lock();
        if self.is_drained() {
            return Err(buffer);
        }
        orphans.buffers.push(buffer);
        Ok(())
    }

    /// Keeps a memory region until the queue pair is drained.
    ///
    /// # Errors
    ///
    /// The region itself, if that has happened already.
    pub(super) fn keep_region(&self, region: KBox<Region>) -> Result<(), KBox<Region>> {
        let mut orphans = self.orphans.lock();
        if self.is_drained() {
            return Err(region);
        }
        orphans.regions.push(region);
        Ok(())
    }
}
