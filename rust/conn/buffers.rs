// SPDX-License-Identifier: GPL-2.0

//! Send buffers that no request slot owns: for replies to the peer's calls, and spare ones for
//! calls.

use kernel::alloc::allocator::KVmalloc;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::mem::CachedVec;
use crate::rdma::pd::Pd;
use crate::rdma::send::SendBuf;

/// The number of Sends from [`ReplyBuffers`] that share a completion.
const SHARED: usize = 4;

/// Send buffers for replies to the peer's calls. There are none until [`Self::fill`] is called.
#[pin_data]
pub(crate) struct ReplyBuffers {
    #[pin]
    ring: SpinLock<Ring>,
}

/// Buffers that are used in turn. Work requests of one queue pair complete in order, so that the
/// next buffer is free if any is.
#[derive(Default)]
struct Ring {
    buffers: KVec<SendBuf>,
    /// The index of the buffer that is used next.
    next: usize,
}

impl ReplyBuffers {
    /// Makes an empty set.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ring <- new_spinlock!(Ring::default(), "rpcrdma::ReplyBuffers::ring"),
        })
    }

    /// Allocates `count` buffers of `len` bytes, unless there are buffers already. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(crate) fn fill(&self, pd: &Arc<Pd>, count: usize, len: usize) -> Result {
        if !self.ring.lock().buffers.is_empty() {
            return Ok(());
        }
        let mut fresh = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            fresh.push(SendBuf::new(pd, len, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let mut ring = self.ring.lock();
        // Another task may have filled the set in the meantime.
        if ring.buffers.is_empty() {
            core::mem::swap(&mut ring.buffers, &mut fresh);
        }
        drop(ring);
        // Buffers that are not needed are unmapped here, outside the lock.
        drop(fresh);
        Ok(())
    }

    /// Calls `post` with a buffer that the device is not reading; `None` if there is none. `post`
    /// posts it, and must not sleep. The Send is to be signalled if the second argument of `post`
    /// says so: among all buffers there is one such Send, so that they become free however quiet
    /// the connection is.
    pub(crate) fn with_free<E>(
        &self,
        post: impl FnOnce(&mut SendBuf, bool) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut ring = self.ring.lock();
        let Ring { buffers, next } = &mut *ring;
        let (n, end) = (*next, buffers.len().wrapping_sub(1));
        let free = buffers.get_mut(n).filter(|buf| !buf.in_flight())?;
        let posted = post(free, n % SHARED == SHARED - 1 || n == end);
        if posted.is_ok() {
            *next = if n == end { 0 } else { n + 1 };
        }
        Some(posted)
    }
}

/// Send buffers of calls that were given up after their Send was posted. The device may still be
/// reading them.
#[pin_data]
pub(crate) struct CallBuffers {
    #[pin]
    given_up: SpinLock<CachedVec<SendBuf, KVmalloc>>,
}

impl CallBuffers {
    /// Makes an empty set with room for `count` buffers. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: &Pd, count: u32) -> impl PinInit<Self, Error> + use<'_> {
        try_pin_init!(Self {
            given_up <- {
                // CAST: `usize` has at least 32 bits.
                let room = pd.allocator().with_capacity(count as usize, GFP_KERNEL)?;
                new_spinlock!(room, "rpcrdma::CallBuffers::given_up")
            },
        }? Error)
    }

    /// Takes a buffer that the device may still be reading, and returns another one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(crate) fn exchange(&self, pd: &Arc<Pd>, old: SendBuf) -> Result<SendBuf> {
        let len = old.capacity();
        match self.keep(old) {
            Some(buf) => Ok(buf),
            None => SendBuf::new(pd, len, GFP_ATOMIC),
        }
    }

    /// Keeps `old`, and returns a buffer that the device has finished with, if there is one.
    fn keep(&self, old: SendBuf) -> Option<SendBuf> {
        let mut given_up = self.given_up.lock();
        if let Some(done) = given_up.iter_mut().find(|buf| !buf.in_flight()) {
            return Some(core::mem::replace(done, old));
        }
        // Without room, `old` is freed when the queue pair is drained.
        let _ = given_up.push_within_capacity(old);
        None
    }
}
