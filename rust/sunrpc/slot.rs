// SPDX-License-Identifier: GPL-2.0

//! Request slots: what serves one RPC at a time, for as long as the transport lives.
//!
//! A slot is handed to SUNRPC as its `rpc_rqst`. SUNRPC's own `xprt->free` list and backlog do the
//! bookkeeping (`xprt_alloc_slot`, `xprt_free_slot`); with as many slots as `min_reqs` and
//! `max_reqs` say they neither allocate nor free one.
//!
//! ```text
//!            alloc_slot              free_slot, the transport agrees
//!   Idle ───────────────► Serving ──────────────────────────────────► Idle
//!                            │  free_slot, the transport does not      ▲
//!                            └────────────────────────► Retired ───────┘ recycle
//! ```

use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::types::Opaque;

use super::buffer::Buffers;
use super::scratch::Scratch;
use super::transport::Transport;
use super::xprt::Xprt;
use crate::raw;

/// Who of two lets go last: SUNRPC, for which [`Slot::retire`] speaks, or the transport, for which
/// [`Slot::recycle`] does. They come in either order, or at the same time.
struct Parting(Atomic<u32>);

impl Parting {
    /// Neither has let go.
    const NONE: u32 = 0;
    const SUNRPC: u32 = 1;
    const TRANSPORT: u32 = 2;

    const fn new() -> Self {
        Self(Atomic::new(Self::NONE))
    }

    /// `who` lets go. `true`: the other one has done so before, and all begins anew.
    fn leave(&self, who: u32) -> bool {
        // ORDERING: an exchange, so that of two that come together one finds the other's mark; fully
        // ordered, so that it then sees what the other one has done.
        let before = self.0.xchg(who, Full);
        let last = before != Self::NONE && before != who;
        if last {
            // Nobody comes before the slot is handed out again, which takes `reserve_lock` as freeing
            // it does.
            self.0.store(Self::NONE, Relaxed);
        }
        last
    }
}

/// One request slot.
///
/// # Invariants
///
/// - `rqst` is the first field: a pointer to it is a pointer to the slot.
/// - `claimed` is accessed under the transport's `queue_lock` only, and set while a
///   [`Pinned`](super::reply::Pinned) or [`Parked`](super::reply::Parked) of this slot exists.
/// - `credit_epoch` is meaningful while `rqst.rq_cong` is set.
#[repr(C)]
#[pin_data]
pub(crate) struct Slot<T: Transport> {
    rqst: Opaque<raw::rpc_rqst>,
    index: u32,
    pub(super) claimed: Atomic<bool>,
    pub(super) credit_epoch: Atomic<u32>,
    parting: Parting,
    pub(super) buffers: Buffers,
    pub(super) scratch: Scratch,
    #[pin]
    data: T::Slot,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread; the rest is `Send` by itself.
unsafe impl<T: Transport> Send for Slot<T> {}
// SAFETY: Shared references reach `rqst` only through raw pointers, under SUNRPC's rules; `buffers`
// and `scratch` are touched only by the task that owns the request; the rest is `Sync` by itself.
unsafe impl<T: Transport> Sync for Slot<T> {}

impl<T: Transport> Slot<T> {
    /// Makes slot number `index`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of [`Transport::new_slot`].
    pub(super) fn new(index: u32) -> Result<Pin<KBox<Self>>> {
        let data = T::new_slot(index);
        KBox::try_pin_init(
            try_pin_init!(Self {
                rqst: Opaque::zeroed(),
                index,
                claimed: Atomic::new(false),
                credit_epoch: Atomic::new(0),
                parting: Parting::new(),
                buffers: Buffers::new(T::BUFFER_SIZE)?,
                scratch: Scratch::new(),
                data <- data,
                _pin: PhantomPinned,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Number of the slot: below [`Transport::slots`], unique in the transport.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// The transport's part.
    #[inline]
    pub(crate) fn data(&self) -> &T::Slot {
        &self.data
    }

    /// The request, for calls into C.
    #[inline]
    pub(super) fn as_rqst(&self) -> *mut raw::rpc_rqst {
        self.rqst.get()
    }

    /// The slot that `rqst` is the first field of.
    ///
    /// # Safety
    ///
    /// - `rqst` is embedded in a `Slot<T>`.
    /// - That slot outlives `'a`.
    #[inline]
    pub(super) unsafe fn from_rqst<'a>(rqst: NonNull<raw::rpc_rqst>) -> &'a Self {
        // SAFETY: By the safety requirements there is a slot, and by the type invariants it begins
        // where its `rqst` does.
        unsafe { rqst.cast::<Self>().as_ref() }
    }

    /// SUNRPC lets go of the slot. Process context.
    pub(super) fn retire(&self, xprt: &Xprt<T>) {
        // Otherwise `recycle` will free it, unless it has overtaken us.
        if xprt.transport().slot_free(xprt, self) || self.parting.leave(Parting::SUNRPC) {
            self.free(xprt);
        }
    }

    /// The transport lets go of the slot, see [`Xprt::recycle`].
    pub(super) fn recycle(&self, xprt: &Xprt<T>) {
        if self.parting.leave(Parting::TRANSPORT) {
            self.free(xprt);
        }
    }

    /// Gives the slot to the next RPC in the backlog, or puts it on the free list.
    pub(super) fn free(&self, xprt: &Xprt<T>) {
        // SAFETY: Both belong to the same live transport. SUNRPC has given up the request (or has
        // never had it), so nobody else uses it; the call zeroes or hands it on under `reserve_lock`.
        unsafe { raw::xprt_free_slot(xprt.as_raw(), self.as_rqst()) };
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_slot)]
mod tests {
    use super::*;

    /// Lets `first` go before `second`, as often as a slot may be used.
    fn check(first: u32, second: u32) {
        let parting = Parting::new();
        for _ in 0..3 {
            assert!(!parting.leave(first));
            assert!(parting.leave(second));
        }
    }

    // Each side is one atomic operation: two that meet come in one of these orders.

    #[test]
    fn recycled_after_it_was_retired() {
        check(Parting::SUNRPC, Parting::TRANSPORT);
    }

    #[test]
    fn recycled_before_it_was_retired() {
        check(Parting::TRANSPORT, Parting::SUNRPC);
    }

    #[test]
    fn recycled_twice_is_not_retired() {
        let parting = Parting::new();
        assert!(!parting.leave(Parting::TRANSPORT));
        assert!(!parting.leave(Parting::TRANSPORT));
        assert!(parting.leave(Parting::SUNRPC));
    }
}
