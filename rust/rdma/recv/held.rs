// SPDX-License-Identifier: GPL-2.0

//! Messages that outlive the handler of their completion.

use kernel::sync::Arc;

use super::queue::RecvQueue;
use super::Filled;

/// A message that has arrived, in its Receive buffer, which its owner may keep and pass to another
/// thread. Dropping it posts the Receive again. It may outlive the queue pair; dropping it then
/// frees the buffer.
///
/// # Examples
///
/// A handler keeps messages as long as there is room for them:
///
/// ```
/// if h.held.len() < h.held.capacity() {
///     drop(h.held.push_within_capacity(msg.hold()));
/// }
/// ```
///
/// # Context
///
/// A message may be dropped in process context, with spinlocks held, but not in an interrupt or
/// softirq. Dropping the last object of a [`Pd`](crate::rdma::pd::Pd) sleeps, and a message keeps
/// the `Pd`. An owner that drops messages with spinlocks held must therefore keep the `Pd` alive
/// meanwhile, as the queue pair does. A message also delays the removal of the device.
///
/// # Invariants
///
/// The slot of `filled` is one of `queue`.
pub(crate) struct Held {
    queue: Arc<RecvQueue>,
    filled: Filled,
}

// SAFETY: A held message owns its slot and a reference to the queue, both of which any task may
// use.
unsafe impl Send for Held {}
// SAFETY: Through a shared reference, the slot is only read.
unsafe impl Sync for Held {}

impl Held {
    /// Takes a message over.
    ///
    /// # Safety
    ///
    /// The slot of `filled` is one of `queue`.
    #[inline]
    pub(super) unsafe fn new(queue: Arc<RecvQueue>, filled: Filled) -> Self {
        // INVARIANT: The caller promises it.
        Self { queue, filled }
    }

    /// Returns the message.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.filled.bytes()
    }

    /// Returns the R_key that the message has invalidated, if it came by Send With Invalidate.
    #[inline]
    #[allow(dead_code, reason = "for the sample rdma_ping")]
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.filled.invalidated
    }

    /// Returns the number of the Receive, for traces.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.filled.index()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the slot is one of `queue`. This is the destructor, so the
        // value is not used after this.
        unsafe { self.filled.give_back(&self.queue) };
    }
}
