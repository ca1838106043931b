// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: its buffers, and posting them.

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::slots::{Group, Slot};
use crate::raw as bindings;
use crate::rdma::cq::Done;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Progress;
use crate::rdma::stack::Stack;

/// The number and the size of the Receives of a queue pair.
#[derive(Clone, Copy)]
pub(in super::super) struct Shape {
    /// Number of Receives that are made with the queue.
    pub(in super::super) count: u32,
    /// Largest number of Receives, which the queue of the device has room for.
    pub(in super::super) max: u32,
    /// Size of a buffer in bytes.
    pub(in super::super) size: usize,
    /// Number of Receives that are posted together.
    pub(in super::super) batch: u32,
}

/// The Receives of a queue pair. The queue pair shares them with the messages that are held, which
/// may outlive it.
///
/// # Invariants
///
/// - The slots of `idle`'s groups are neither moved nor dropped before this value is. The queue
///   pair keeps this value until it was destroyed, so no slot is posted then.
/// - A slot is in `idle`'s chain, or posted, or belongs to one [`Received`](super::Received) or
///   [`Held`](super::Held).
#[pin_data]
pub(in super::super) struct RecvQueue {
    shape: Shape,
    done: Done,
    /// Number of Receives that have completed, modulo 2^32. Only the completion worker writes it.
    completed: Atomic<u32>,
    #[pin]
    idle: SpinLock<Idle>,
    progress: Arc<Progress>,
    pd: Arc<Pd>,
}

/// Receives that are to be posted, chained through their work requests.
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
    /// Whether Receives may be posted.
    open: bool,
    qp: *mut bindings::ib_qp,
    groups: Stack<Group>,
}

// SAFETY: By the type invariant the chain's members belong to the receive queue. They are accessed
// under the lock around this value only, and any task may call verbs for the queue pair.
unsafe impl Send for Idle {}
// SAFETY: A slot is used by the device, through the lock of `idle`, or by the one `Received` or
// `Held` that owns it; none of these depends on the task.
unsafe impl Send for RecvQueue {}
// SAFETY: Through a shared reference, slots are reached only under the lock of `idle`; a `Received`
// or `Held` reaches its own slot, and no other value does.
unsafe impl Sync for RecvQueue {}

impl RecvQueue {
    /// Allocates and maps the first buffers. The queue is not open yet. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a size that is 0 or does not fit a work request, or if there may be fewer
    /// buffers than are asked for at first; `ENOMEM`; `EIO` if the device cannot map the memory.
    pub(in super::super) fn new(
        pd: &Arc<Pd>,
        shape: Shape,
        progress: &Arc<Progress>,
        done: Done,
    ) -> Result<Arc<Self>> {
        if shape.max < shape.count {
            return Err(EINVAL);
        }
        let mut idle = Idle {
            head: core::ptr::null_mut(),
            count: 0,
            posted: 0,
            total: shape.count,
            open: false,
            qp: core::ptr::null_mut(),
            groups: Stack::new(),
        };
        idle.adopt(Group::new(pd, 0..shape.count, shape.size, done)?);
        let shape = Shape {
            batch: shape.batch.clamp(1, shape.count.max(1)),
            ..shape
        };
        let queue = pin_init!(Self {
            shape,
            done,
            completed: Atomic::new(0),
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
        // INVARIANT: The caller promises that the queue pair exists as long as the queue is open.
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

    /// Allocates `n` more Receives, or as many as there may be, and posts them. Returns their
    /// number. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open; `ENOMEM`; `EIO` if the device cannot map the memory; or
    /// the error of the driver, after which the queue pair counts as broken.
    pub(in super::super) fn grow(&self, n: u32) -> Result<u32> {
        let indices = self.idle.lock().reserve(n, self.shape.max)?;
        if indices.is_empty() {
            return Ok(0);
        }
        let n = indices.end - indices.start;
        let made = Group::new(&self.pd, indices, self.shape.size, self.done);
        let mut idle = self.idle.lock();
        match made {
            Ok(group) => idle.adopt(group),
            Err(error) => {
                idle.total -= n;
                return Err(error);
            }
        }
        let posted = idle.post();
        if posted.is_err() && idle.open {
            self.progress.set_fatal();
        }
        posted.map(|()| n)
    }

    /// Closes the queue: no Receive is posted after this.
    pub(in super::super) fn close(&self) {
        self.idle.lock().open = false;
    }

    /// Notes that a Receive has completed, successfully or not. Called by the completion worker.
    #[inline]
    pub(in super::super) fn note_completed(&self) {
        // Nothing else writes the counter, so a load and a store will do.
        let before = self.completed.load(Relaxed);
        self.completed.store(before.wrapping_add(1), Relaxed);
    }

    /// Returns whether as many Receives have completed as were posted. A Receive whose message is
    /// held has completed. The answer is final once the queue is closed.
    pub(in super::super) fn is_flushed(&self) -> bool {
        self.completed.load(Relaxed) == self.idle.lock().posted
    }

    /// Adds a slot of this queue, which its [`Received`](super::Received) or
    /// [`Held`](super::Held) gives up, to the idle Receives. Posts these if they are a batch and
    /// the queue is open. If the driver refuses them, the queue pair counts as broken.
    #[inline]
    pub(super) fn recycle(&self, slot: &mut Slot) {
        let mut idle = self.idle.lock();
        idle.add(slot);
        if idle.count >= self.shape.batch && idle.open {
            self.post_batch(&mut idle);
        }
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

impl Idle {
    /// Adds the work request of a slot, which nothing else uses, to the chain.
    #[inline]
    fn add(&mut self, slot: &mut Slot) {
        // INVARIANT: The slot is borrowed exclusively, so neither the device nor a message has it.
        self.head = slot.chain(self.head);
        self.count += 1;
    }

    /// Adds all slots of a new group.
    fn adopt(&mut self, mut group: KBox<Group>) {
        for slot in group.slots() {
            self.add(slot);
        }
        self.groups.push(group);
    }

    /// Counts `n` more slots, or as many as there may be up to `max`, and returns their numbers.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the queue is not open.
    fn reserve(&mut self, n: u32, max: u32) -> Result<core::ops::Range<u32>> {
        if !self.open {
            return Err(ENOTCONN);
        }
        let first = self.total;
        self.total += n.min(max.saturating_sub(first));
        Ok(first..self.total)
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
