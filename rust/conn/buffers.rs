// SPDX-License-Identifier: GPL-2.0

//! Send buffers that no request slot owns: for replies to the peer's calls, and spare ones for
//! calls.

use kernel::alloc::allocator::KVmalloc;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::rdma::pd::Pd;
use crate::rdma::send::SendBuf;
use crate::rdma::store::StoredVec;

/// Send buffers for replies to the peer's calls. There are none until [`Self::fill`] is called.
#[pin_data]
pub(crate) struct ReplyBuffers {
    #[pin]
    buffers: SpinLock<KVec<SendBuf>>,
}

impl ReplyBuffers {
    /// Makes an empty set.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            buffers <- new_spinlock!(KVec::new(), "rpcrdma::ReplyBuffers::buffers"),
        })
    }

    /// Allocates `count` buffers of `len` bytes, unless there are buffers already. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(crate) fn fill(&self, pd: &Arc<Pd>, count: usize, len: usize) -> Result {
        if !self.buffers.lock().is_empty() {
            return Ok(());
        }
        let mut fresh = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            fresh.push(SendBuf::new(pd, len, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let mut buffers = self.buffers.lock();
        // Another task may have filled the set in the meantime.
        if buffers.is_empty() {
            core::mem::swap(&mut *buffers, &mut fresh);
        }
        drop(buffers);
        // Buffers that are not needed are unmapped here, outside the lock.
        drop(fresh);
        Ok(())
    }

    /// Calls `post` with a buffer that the device is not reading; `None` if there is none. `post`
    /// must not sleep.
    pub(crate) fn with_free<T>(&self, post: impl FnOnce(&mut SendBuf) -> T) -> Option<T> {
        let mut buffers = self.buffers.lock();
        let free = buffers.iter_mut().find(|buf| !buf.in_flight());
        free.map(post)
    }
}

/// Send buffers of calls that were given up after their Send was posted. The device may still be
/// reading them.
#[pin_data]
pub(crate) struct CallBuffers {
    #[pin]
    given_up: SpinLock<StoredVec<SendBuf, KVmalloc>>,
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
                let room = pd.near().with_capacity(count as usize, GFP_KERNEL)?;
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
