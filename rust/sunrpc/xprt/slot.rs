// SPDX-License-Identifier: GPL-2.0

//! Request slots: what serves one RPC at a time, for as long as the transport lives.
//!
//! A slot is handed to SUNRPC as its `rpc_rqst`. SUNRPC's own `xprt->free` list and backlog do the
//! bookkeeping (`xprt_alloc_slot`, `xprt_free_slot`); with as many slots as `min_reqs` and
//! `max_reqs` say they neither allocate nor free one.

use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::types::Opaque;

use super::buffer::Buffers;
use super::cipher_pages::Hook;
use super::handle::Xprt;
use super::transport::{Rpc, Transport};
use crate::raw;

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
    pub(super) buffers: Buffers,
    pub(super) hook: Hook,
    #[pin]
    data: T::Slot,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread; the rest is `Send` by itself.
unsafe impl<T: Transport> Send for Slot<T> {}
// SAFETY: Shared references reach `rqst` only through raw pointers, under SUNRPC's rules; `buffers`
// and `hook` are touched only by the task that owns the request; the rest is `Sync` by itself.
unsafe impl<T: Transport> Sync for Slot<T> {}

impl<T: Rpc> Slot<T> {
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
                buffers: Buffers::new(T::BUFFER_SIZE)?,
                hook: Hook::new(),
                data <- data,
                _pin: PhantomPinned,
            }? Error),
            GFP_KERNEL,
        )
    }
}

impl<T: Transport> Slot<T> {
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

    /// Gives the slot to the next RPC in the backlog, or puts it on the free list. To be called when
    /// SUNRPC has let go of it, and before it is handed out for the first time. Process context.
    pub(super) fn free(&self, xprt: &Xprt<T>) {
        // SAFETY: Both belong to the same live transport. SUNRPC has given up the request (or has
        // never had it), so nobody else uses it; the call zeroes or hands it on under `reserve_lock`.
        unsafe { raw::xprt_free_slot(xprt.as_raw(), self.as_rqst()) };
    }
}
