// SPDX-License-Identifier: GPL-2.0

//! The progress of a queue pair, which it shares with the buffers and memory regions posted on it.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, AtomicFlag, Full, Relaxed, Release};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::buffer::Buffer;
use super::mr::region::Region;
use super::stack::Stack;

/// Which work requests of a queue pair have completed, and which objects are freed when it has been
/// drained.
///
/// # Invariants
///
/// - Every work request up to position `retired` has completed successfully.
/// - `drained` is set only when no work request is outstanding and none can be posted any more:
///   the device uses nothing that was posted, and the peer reaches no memory through this queue
///   pair.
#[pin_data]
pub(super) struct Progress {
    retired: Atomic<u64>,
    drained: Atomic<bool>,
    broken: Atomic<bool>,
    /// Whether an error of the queue pair is still to be reported to the consumer.
    fatal: AtomicFlag,
    #[pin]
    deferred: SpinLock<Deferred>,
}

/// Objects whose owner has dropped them while the device could still use them.
struct Deferred {
    buffers: Stack<Buffer>,
    regions: Stack<Region>,
}

impl Progress {
    /// Makes the progress of a new queue pair: nothing has completed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let deferred = Deferred {
            buffers: Stack::new(),
            regions: Stack::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                retired: Atomic::new(0),
                drained: Atomic::new(false),
                broken: Atomic::new(false),
                fatal: AtomicFlag::new(false),
                deferred <- new_spinlock!(deferred, "rdma::Progress::deferred"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the position of the last work request that is known to have completed.
    #[inline]
    pub(super) fn retired(&self) -> u64 {
        // ORDERING: pairs with the store in `retire`: the effects of the work request, an
        // invalidation for example, happened before.
        self.retired.load(Acquire)
    }

    /// Notes that all work requests up to `position` have completed successfully.
    #[inline]
    pub(super) fn retire(&self, position: u64) {
        self.retired.store(position, Release);
    }

    /// Returns whether the queue pair has been drained.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Acquire)
    }

    /// Returns whether the queue pair has failed, so that a new connection is needed.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
    }

    /// Notes that the queue pair has failed: nothing is posted on its send queue any more.
    #[inline]
    pub(super) fn set_broken(&self) {
        self.broken.store(true, Relaxed);
    }

    /// Notes an error of the queue pair that no work request reports: the device has reported it,
    /// or Receives could not be posted. The handler of the next Receive reports it to the consumer.
    #[cold]
    pub(super) fn set_fatal(&self) {
        self.set_broken();
        self.fatal.store(true, Relaxed);
    }

    /// Returns whether such an error is to be reported, and forgets it.
    #[inline]
    pub(super) fn take_fatal(&self) -> bool {
        self.fatal.load(Relaxed) && self.fatal.xchg(false, Full)
    }

    /// Notes that the queue pair has been drained, and frees the deferred objects. May sleep.
    pub(super) fn set_drained(&self) {
        let mut deferred = self.deferred.lock();
        self.drained.store(true, Release);
        let buffers = deferred.buffers.take_all();
        let regions = deferred.regions.take_all();
        // Freeing may sleep, so it happens after the lock has been released.
        drop(deferred);
        drop((buffers, regions));
    }

    /// Keeps a buffer until the queue pair has been drained.
    ///
    /// # Errors
    ///
    /// Returns the buffer itself if the queue pair has been drained already.
    pub(super) fn defer_buffer(&self, buffer: KBox<Buffer>) -> Result<(), KBox<Buffer>> {
        let mut deferred = self.deferred.lock();
        if self.is_drained() {
            return Err(buffer);
        }
        deferred.buffers.push(buffer);
        Ok(())
    }

    /// Keeps a memory region until the queue pair has been drained.
    ///
    /// # Errors
    ///
    /// Returns the region itself if the queue pair has been drained already.
    pub(super) fn defer_region(&self, region: KBox<Region>) -> Result<(), KBox<Region>> {
        let mut deferred = self.deferred.lock();
        if self.is_drained() {
            return Err(region);
        }
        deferred.regions.push(region);
        Ok(())
    }
}
