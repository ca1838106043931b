// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: its buffers, and posting them.

use core::cell::UnsafeCell;

use kernel::dma::DataDirection;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::slots::{Slot, SlotGroup};
use crate::compat::{casts::u32_as_usize, code::ENOTCONN};
use crate::mem::CachedBox;
use crate::raw as bindings;
use crate::rdma::buffer::Buffer;
use crate::rdma::cq::Done;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::qp::QpConfig;
use crate::rdma::stack::LinkedStack;
use crate::work::{read_once, write_once};

/// The Receives of a queue pair. The queue pair shares them with the messages that are held, which
/// may outlive it.
///
/// # Invariants
///
/// - The slots of `idle`'s groups are neither moved nor dropped before this value is. The queue
///   pair keeps this value until it was destroyed, so no slot is posted then.
/// - No slot has a buffer of more than `idle.size` bytes. While `idle.larger` is empty, every slot
///   has a buffer of that size; else it has one buffer for each slot whose own is smaller. Slots
///   that [`Self::grow`] is making count, if it makes smaller buffers.
/// - A slot is in `idle`'s chain or in `worker`'s, or posted, or belongs to one
///   [`Received`](super::Received) or [`Held`](super::Held).
/// - Only the completion worker accesses `worker`.
#[pin_data]
pub(in super::super) struct RecvQueue {
    shape: QpConfig,
    done: Done,
    /// Number of Receives that have completed, modulo 2^32. Only the completion worker writes it.
    completed: Atomic<u32>,
    worker: UnsafeCell<Worker>,
    /// Number of Receives that are posted together. It changes under the lock of `idle`.
    batch: Atomic<u32>,
    /// Number of Receives that still need a larger buffer. It changes under the lock of `idle`.
    smaller: Atomic<u32>,
    #[pin]
    idle: SpinLock<Idle>,
    progress: Arc<Progress>,
    pd: Arc<Pd>,
}

/// The Receives that the completion worker keeps, so that it takes no lock for each message.
///
/// # Invariants
///
/// - `count` slots are chained through their work requests, from `first` to `last`; both are null
///   if there are none. Neither the device, a [`Received`](super::Received) nor a
///   [`Held`](super::Held) has them.
/// - `completed` is the number in [`RecvQueue::completed`].
struct Worker {
    first: *mut bindings::ib_recv_wr,
    last: *mut bindings::ib_recv_wr,
    count: u32,
    completed: u32,
}

/// Receives to be posted, chained through their work requests.
///
/// # Invariants
///
/// - `head` is the first of `count` work requests that are chained by `next`. All of them belong to
///   slots of `groups`, and neither the device, a [`Received`](super::Received) nor a
///   [`Held`](super::Held) has them.
/// - While `open`, `qp` is the queue pair that the queue belongs to, and exists.
struct Idle {
    head: *mut bindings::ib_recv_wr,
    count: u32,
    /// Number of Receives that were posted, or whose posting failed, modulo 2^32.
    posted: u32,
    /// Number of slots in `groups`, and of those that are being made.
    total: u32,
    /// Size of the buffers that new Receives have, in bytes. No Receive has a larger one.
    size: usize,
    /// Buffers of `size` bytes, one for each Receive that has a smaller one, or is being made with
    /// a smaller one.
    larger: KVVec<CachedBox<Buffer>>,
    /// Whether Receives may be posted.
    open: bool,
    qp: *mut bindings::ib_qp,
    groups: LinkedStack<SlotGroup>,
}

// SAFETY: By the type invariant the chain's members belong to the receive queue. They are accessed
// under the lock around this value only, and any task may call verbs for the queue pair.
unsafe impl Send for Idle {}
// SAFETY: A slot is used by the device, through the lock of `idle`, or by the one `Received` or
// `Held` that owns it; none of these depends on the task.
unsafe impl Send for RecvQueue {}
// SAFETY: Through a shared reference, slots are reached only under the lock of `idle`, or by the
// completion worker, which alone accesses `worker`; a `Received` or `Held` reaches its own slot,
// and no other value does.
unsafe impl Sync for RecvQueue {}

impl RecvQueue {
    /// Allocates and maps the first buffers. The queue is not open yet. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a size that is 0 or does not fit a work request, or if the initial number
    /// exceeds the maximum; `ENOMEM`.
    pub(in super::super) fn new(
        pd: &Arc<Pd>,
        shape: QpConfig,
        progress: &Arc<Progress>,
        done: Done,
    ) -> Result<Arc<Self>> {
        if shape.recv_max < shape.recv_wr {
            return Err(EINVAL);
        }
        let mut idle = Idle {
            head: core::ptr::null_mut(),
            count: 0,
            posted: 0,
            total: shape.recv_wr,
            size: shape.recv_size,
            larger: KVVec::new(),
            open: false,
            qp: core::ptr::null_mut(),
            groups: LinkedStack::new(),
        };
        idle.adopt(SlotGroup::new(pd, 0..shape.recv_wr, shape.recv_size, done)?);
        let batch = batch(&shape, shape.recv_wr);
        let queue = pin_init!(Self {
            shape,
            done,
            batch: Atomic::new(batch),
            completed: Atomic::new(0),
            worker: UnsafeCell::new(Worker {
                first: core::ptr::null_mut(),
                last: core::ptr::null_mut(),
                count: 0,
                completed: 0,
            }),
            smaller: Atomic::new(0),
            idle <- new_spinlock!(idle, "rdma::RecvQueue::idle"),
            progress: progress.clone(),
            pd: pd.clone(),
        });
        Arc::pin_init(queue, GFP_KERNEL)
    }

    /// Opens the queue: Receives may be posted on `qp` now.
    ///
    /// # Safety
    ///
    /// `qp` is the queue pair that owns this queue. It exists until [`Self::close`] has returned.
    pub(in super::super) unsafe fn open(&self, qp: *mut bindings::ib_qp) {
        let mut idle = self.idle.lock();
        // INVARIANT: The caller promises that the queue pair exists while the queue is open.
        idle.qp = qp;
        idle.open = true;
    }

    /// Posts all idle Receives.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open, or the error of the driver. Receives that could not be
    /// posted then stay unused.
    pub(in super::super) fn post_all(&self) -> Result {
        self.idle.lock().post()
    }

    /// Allocates and posts Receives until there are `total`, or as many as the maximum permits.
    /// Returns how many were added. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open; `ENOMEM`; or the error of the driver, after which the
    /// queue pair counts as broken.
    pub(in super::super) fn grow(&self, total: u32) -> Result<u32> {
        let (indices, size) = self.idle.lock().reserve(total.min(self.shape.recv_max))?;
        if indices.is_empty() {
            return Ok(0);
        }
        let n = indices.end - indices.start;
        let made = SlotGroup::new(&self.pd, indices, size, self.done);
        let mut idle = self.idle.lock();
        // If the queue was enlarged meanwhile, there is a larger buffer for each of these Receives.
        let grown = match made {
            Ok(group) => {
                self.adopt(&mut idle, group);
                Ok(n)
            }
            Err(error) => {
                self.forgo(&mut idle, n, size);
                Err(error)
            }
        };
        // Post after an error as well: the Receives that were not created may have been the last
        // smaller ones.
        let posted = idle.post();
        write_once(&self.batch, batch(&self.shape, idle.total));
        if posted.is_err() && idle.open {
            self.progress.set_fatal();
        }
        posted.and(grown)
    }

    /// Adds the slots of a new group, with larger buffers if theirs are too small by now.
    fn adopt(&self, idle: &mut Idle, mut group: CachedBox<SlotGroup>) {
        if !idle.larger.is_empty() {
            for slot in group.slots() {
                self.exchange(idle, slot);
            }
        }
        idle.adopt(group);
    }

    /// Subtracts `n` slots that were counted but could not be created, with buffers of `size`
    /// bytes. If the queue was enlarged meanwhile, frees their larger buffers as well.
    fn forgo(&self, idle: &mut Idle, n: u32, size: usize) {
        idle.total -= n;
        if size != idle.size {
            let left = idle.larger.len().saturating_sub(u32_as_usize(n));
            idle.larger.truncate(left);
            self.count_smaller(idle);
        }
    }

    /// Gives every Receive a buffer of `size` bytes, unless it has one: new Receives at once, and
    /// the others after their next message. Returns [`Self::smaller`]. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if an earlier call has not taken full effect, or the number of Receives has changed
    /// meanwhile; `ENOTCONN` if the queue is not open; `EINVAL` for a size that does not fit a work
    /// request; `ENOMEM`. After an error nothing has changed.
    pub(in super::super) fn enlarge(&self, size: usize) -> Result<u32> {
        let count = self.idle.lock().receives_below(size)?;
        let mut made = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let buffer = Buffer::new(&self.pd, size, DataDirection::FromDevice, GFP_KERNEL)?;
            made.push(buffer, GFP_KERNEL)?;
        }
        let mut idle = self.idle.lock();
        // Receives may have been added or removed, or another task may have enlarged the queue.
        if idle.receives_below(size)? != count {
            return Err(EBUSY);
        }
        if count != 0 {
            idle.size = size;
            core::mem::swap(&mut idle.larger, &mut made);
            self.count_smaller(&idle);
        }
        Ok(self.smaller())
    }

    /// Returns the number of Receives that get a larger buffer after their next message. Once this
    /// is 0, every message up to the larger size can be received.
    #[inline]
    pub(in super::super) fn smaller(&self) -> u32 {
        read_once(&self.smaller)
    }

    /// Publishes the number of smaller Receives.
    fn count_smaller(&self, idle: &Idle) {
        // CAST: there are fewer than 2^32 Receives.
        self.smaller.store(idle.larger.len() as u32, Relaxed);
    }

    /// Closes the queue: no Receive is posted after this.
    pub(in super::super) fn close(&self) {
        self.idle.lock().open = false;
    }

    /// Counts a Receive that has completed, successfully or not.
    ///
    /// # Safety
    ///
    /// The caller is the completion worker.
    pub(in super::super) unsafe fn note_completed(&self) {
        // SAFETY: By the type invariant only the completion worker, the caller, accesses `worker`.
        let worker = unsafe { &mut *self.worker.get() };
        // Nothing else writes the counter.
        worker.completed = worker.completed.wrapping_add(1);
        write_once(&self.completed, worker.completed);
    }

    /// Returns the number of Receives that have completed, modulo 2^32.
    pub(in super::super) fn arrived(&self) -> u32 {
        self.completed.load(Relaxed)
    }

    /// Returns whether as many Receives have completed as were posted. A Receive whose message is
    /// held has completed. The answer is final once the queue is closed.
    pub(in super::super) fn is_flushed(&self) -> bool {
        self.completed.load(Relaxed) == self.idle.lock().posted
    }

    /// Returns the number of Receives that are posted, and of all.
    pub(in super::super) fn counts(&self) -> (u32, u32) {
        let idle = self.idle.lock();
        let posted = idle.posted.wrapping_sub(self.completed.load(Relaxed));
        (posted.min(idle.total), idle.total)
    }

    /// Adds a slot of this queue, which its [`Received`](super::Received) or [`Held`](super::Held)
    /// releases, to the idle Receives. Posts these if the queue is open and they are a batch, or
    /// the last smaller buffer was exchanged. If the driver refuses them, the queue pair counts as
    /// broken.
    #[inline]
    pub(super) fn recycle(&self, slot: &mut Slot) {
        let mut idle = self.idle.lock();
        if !idle.larger.is_empty() {
            return self.recycle_exchanged(&mut idle, slot);
        }
        idle.add(slot);
        if idle.count >= read_once(&self.batch) && idle.open {
            self.post_batch(&mut idle);
        }
    }

    /// Implements [`Self::recycle`] while some Receives have smaller buffers. When none is left,
    /// the idle Receives are posted even if they are no batch, because from then on the completion
    /// worker gathers a batch of its own.
    #[cold]
    fn recycle_exchanged(&self, idle: &mut Idle, slot: &mut Slot) {
        self.exchange(idle, slot);
        idle.add(slot);
        let complete = idle.count >= read_once(&self.batch) || idle.larger.is_empty();
        if complete && idle.open {
            self.post_batch(idle);
        }
    }

    /// Adds a slot of this queue, which its [`Received`](super::Received) releases, to those of the
    /// completion worker. Posts these if they are a batch, and takes the lock only in that case.
    ///
    /// # Safety
    ///
    /// The caller is the completion worker.
    pub(super) unsafe fn recycle_in_worker(&self, slot: &mut Slot) {
        // SAFETY: By the type invariant only the completion worker, the caller, accesses `worker`.
        let worker = unsafe { &mut *self.worker.get() };
        if self.smaller() != 0 {
            return self.recycle_while_growing(worker, slot);
        }
        // INVARIANT: The slot is borrowed exclusively, so neither the device nor a message has it.
        worker.first = slot.chain(worker.first);
        if worker.count == 0 {
            worker.last = worker.first;
        }
        worker.count = worker.count.wrapping_add(1);
        if worker.count >= read_once(&self.batch) {
            self.post_from_worker(worker);
        }
    }

    /// Adds a slot to the idle Receives while some have smaller buffers. The slots of the
    /// completion worker are posted as they are, and get larger buffers after their next message.
    #[cold]
    fn recycle_while_growing(&self, worker: &mut Worker, slot: &mut Slot) {
        if worker.count != 0 {
            self.post_from_worker(worker);
        }
        self.recycle(slot);
    }

    /// Passes the slots of the completion worker on to the idle Receives, and posts all if the
    /// queue is open.
    #[inline(never)]
    fn post_from_worker(&self, worker: &mut Worker) {
        let mut idle = self.idle.lock();
        // SAFETY: By the type invariant `last` is the last work request of the worker's chain,
        // which is not empty, and of which nothing else has a member.
        unsafe { (*worker.last).next = idle.head };
        // INVARIANT: The two chains are joined, and the worker has no slot left.
        (idle.head, worker.first, worker.last) =
            (worker.first, core::ptr::null_mut(), core::ptr::null_mut());
        idle.count += core::mem::take(&mut worker.count);
        if idle.open {
            self.post_batch(&mut idle);
        }
    }

    /// Gives a slot a larger buffer, if its own is too small.
    fn exchange(&self, idle: &mut Idle, slot: &mut Slot) {
        if slot.buffer.len() >= idle.size {
            return;
        }
        if let Some(buffer) = idle.larger.pop() {
            drop(slot.exchange(buffer));
        }
        self.count_smaller(idle);
    }

    /// Posts the idle Receives of a queue that is open. If the driver refuses them, the queue pair
    /// counts as broken.
    #[inline(never)]
    fn post_batch(&self, idle: &mut Idle) {
        if idle.post().is_err() {
            // The consumer may hold a lock while it drops the message, so `Completions::broken` is
            // called after `Completions::received` has returned, and not here.
            self.progress.set_fatal();
        }
    }
}

/// Returns how many of `total` Receives are posted together: a third at most.
fn batch(shape: &QpConfig, total: u32) -> u32 {
    (total / 3).clamp(1, shape.recv_batch.max(1))
}

impl Idle {
    /// Adds the work request of a slot, which nothing else uses, to the chain.
    fn add(&mut self, slot: &mut Slot) {
        // INVARIANT: The slot is borrowed exclusively, so neither the device nor a message has it.
        self.head = slot.chain(self.head);
        self.count += 1;
    }

    /// Adds all slots of a new group.
    fn adopt(&mut self, mut group: CachedBox<SlotGroup>) {
        for slot in group.slots() {
            self.add(slot);
        }
        self.groups.push(group);
    }

    /// Counts the slots that are lacking to `total`, and returns their numbers and the size of
    /// their buffers.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open.
    fn reserve(&mut self, total: u32) -> Result<(core::ops::Range<u32>, usize)> {
        if !self.open {
            return Err(ENOTCONN);
        }
        let first = self.total;
        self.total = total.max(first);
        Ok((first..self.total, self.size))
    }

    /// Returns the number of Receives, if their buffers have less than `size` bytes; else 0.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open; `EBUSY` if some Receives have smaller buffers than
    /// others.
    fn receives_below(&self, size: usize) -> Result<usize> {
        match (self.open, self.larger.is_empty()) {
            (false, _) => Err(ENOTCONN),
            (true, false) => Err(EBUSY),
            (true, true) if self.size < size => Ok(u32_as_usize(self.total)),
            (true, true) => Ok(0),
        }
    }

    /// Posts the chain of idle Receives.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open, or the error of the driver.
    fn post(&mut self) -> Result {
        if !self.open {
            return Err(ENOTCONN);
        }
        let chain = core::mem::replace(&mut self.head, core::ptr::null_mut());
        self.posted = self.posted.wrapping_add(self.count);
        self.count = 0;
        if chain.is_null() {
            return Ok(());
        }
        let mut bad = core::ptr::null();
        // SAFETY: By the type invariants, the queue pair exists because the queue is open, and
        // these are work requests of slots that nothing uses. The slots outlive the queue pair.
        to_result(unsafe { bindings::rr_ib_post_recv(self.qp, chain, &raw mut bad) })
    }
}
