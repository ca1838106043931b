// SPDX-License-Identifier: GPL-2.0

//! The progress of a queue pair, which it shares with the buffers and memory regions posted on it.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, AtomicFlag, Full, Relaxed, Release};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::buffer::Buffer;
use super::mr::region::Region;
use super::scatter::requests::List;
use super::stack::{Linked, LinkedStack};
use crate::mem::{Page, PageRef};
use crate::work::read_once;

/// Which work requests of a queue pair have completed, and which objects are freed when it has been
/// drained.
///
/// # Invariants
///
/// - Every work request up to position `retired` has completed successfully.
/// - `drained` is set only when no work request is outstanding and none can be posted any more: the
///   device no longer uses anything that was posted, and the peer reaches no memory through this
///   queue pair.
#[pin_data]
pub(super) struct Progress {
    retired: Atomic<u64>,
    drained: Atomic<bool>,
    broken: Atomic<bool>,
    /// Whether an error of the queue pair has yet to be reported to the consumer.
    fatal: AtomicFlag,
    #[pin]
    deferred: SpinLock<Deferred>,
}

/// Objects whose owner has dropped them while the device could still use them.
pub(super) struct Deferred {
    pub(super) buffers: LinkedStack<Buffer>,
    pub(super) regions: LinkedStack<Region>,
    pub(super) sources: LinkedStack<List<PageRef>>,
    pub(super) sinks: LinkedStack<List<Page>>,
}

impl Deferred {
    const fn new() -> Self {
        Self {
            buffers: LinkedStack::new(),
            regions: LinkedStack::new(),
            sources: LinkedStack::new(),
            sinks: LinkedStack::new(),
        }
    }
}

impl Progress {
    /// Creates the progress of a new queue pair: nothing has completed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let deferred = Deferred::new();
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
    pub(super) fn retired(&self) -> u64 {
        // ORDERING: pairs with the store in `retire`: the effects of the work request, an
        // invalidation for example, happened before.
        self.retired.load(Acquire)
    }

    /// Records that all work requests up to `position` have completed successfully.
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
        read_once(&self.broken)
    }

    /// Records that the queue pair has failed: nothing is posted on its send queue any more.
    pub(super) fn set_broken(&self) {
        self.broken.store(true, Relaxed);
    }

    /// Records an error of the queue pair that no work request reports: the device reported it, or
    /// Receives could not be posted. The handler of the next Receive reports it to the consumer.
    #[cold]
    pub(super) fn set_fatal(&self) {
        self.set_broken();
        self.fatal.store(true, Relaxed);
    }

    /// Returns whether such an error has yet to be reported, and clears it.
    pub(super) fn take_fatal(&self) -> bool {
        // A queue pair with such an error is broken.
        self.is_broken() && self.fatal.load(Relaxed) && self.fatal.xchg(false, Full)
    }

    /// Records that the queue pair was drained, and frees the deferred objects. May sleep.
    pub(super) fn set_drained(&self) {
        let mut deferred = self.deferred.lock();
        self.drained.store(true, Release);
        let _objects = core::mem::replace(&mut *deferred, Deferred::new());
        // Freeing may sleep, so it happens after the lock has been released.
        drop(deferred);
    }

    /// Keeps an object in a stack of the deferred ones until the queue pair has been drained. If
    /// that has happened already, drops it.
    pub(super) fn defer<T: Linked>(
        &self,
        object: T::Boxed,
        stack: impl FnOnce(&mut Deferred) -> &mut LinkedStack<T>,
    ) {
        let mut deferred = self.deferred.lock();
        if !self.is_drained() {
            return stack(&mut deferred).push(object);
        }
        // Freeing the object may sleep, so it happens after the lock has been released.
        drop(deferred);
    }
}

/// Frees an object now or, if the device may be using it, when the queue pair of its last use has
/// been drained.
pub(super) fn release<T: Linked>(
    mut object: T::Boxed,
    last_use: impl FnOnce(&mut T) -> &mut LastUse,
    stack: impl FnOnce(&mut Deferred) -> &mut LinkedStack<T>,
) {
    // The object drops its reference, or the two would keep each other alive.
    if let Some(progress) = last_use(&mut object).take_progress() {
        progress.defer(object, stack);
    }
}

/// The last work request that uses an object.
///
/// If there is none, the device does not use the object. Otherwise the device may use the object
/// until that work request has completed, or the queue pair of `progress` was drained.
#[derive(Default)]
pub(super) struct LastUse {
    progress: Option<Arc<Progress>>,
    position: u64,
}

impl LastUse {
    /// Sets the work request: that at `position` of the queue pair of `progress`.
    #[inline(always)]
    pub(super) fn set(&mut self, progress: &Arc<Progress>, position: u64) {
        let same = |p: &Arc<Progress>| Arc::ptr_eq(p, progress);
        if !self.progress.as_ref().is_some_and(same) {
            self.progress = Some(progress.clone());
        }
        self.position = position;
    }

    /// Returns whether the device may be using the object.
    #[inline]
    pub(super) fn in_flight(&self) -> bool {
        self.progress
            .as_ref()
            .is_some_and(|p| p.retired() < self.position && !p.is_drained())
    }

    /// Returns whether there was no work request since the last call of [`Self::clear`].
    pub(super) fn is_clear(&self) -> bool {
        self.position == 0
    }

    /// Ends the use of an object that is not in flight.
    pub(super) fn clear(&mut self) {
        self.position = 0;
    }

    /// Takes the progress of the queue pair, if the device may be using the object.
    pub(super) fn take_progress(&mut self) -> Option<Arc<Progress>> {
        self.in_flight().then(|| self.progress.take()).flatten()
    }
}
