// SPDX-License-Identifier: GPL-2.0

//! Request slots. A slot serves one RPC at a time, and lives as long as its transport.
//!
//! SUNRPC sees a slot as its `rpc_rqst`, and keeps free slots on `xprt->free` and waiting RPCs in a
//! backlog (`xprt_alloc_slot`, `xprt_free_slot`). Because the number of slots equals `min_reqs` and
//! `max_reqs`, SUNRPC neither allocates nor frees one.

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::prelude::*;
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
/// - `credit_epoch` is meaningful while `rqst.rq_cong` is set. While the request is being sent, the
///   task that holds the send lock accesses it; after that the task that owns the request.
/// - Only the task that owns the request accesses `buffers` and `hook`.
#[repr(C)]
#[pin_data]
pub(crate) struct Slot<T: Transport> {
    rqst: Opaque<raw::rpc_rqst>,
    index: u32,
    pub(super) claimed: Cell<bool>,
    pub(super) credit_epoch: Cell<u32>,
    pub(super) buffers: Buffers,
    pub(super) hook: Hook,
    #[pin]
    data: T::Slot,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: SUNRPC uses an `rpc_rqst` from any thread; the other fields are `Send` or, by the type
// invariants, accessed by one task at a time.
unsafe impl<T: Transport> Send for Slot<T> {}
// SAFETY: Shared references reach `rqst` only through raw pointers, under SUNRPC's rules. By the
// type invariants one thread at a time accesses `claimed`, `credit_epoch`, `buffers` and `hook`.
// The other fields are `Sync`.
unsafe impl<T: Transport> Sync for Slot<T> {}

impl<T: Rpc> Slot<T> {
    /// Creates slot number `index`. May sleep.
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
                claimed: Cell::new(false),
                credit_epoch: Cell::new(0),
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
    /// Returns the number of the slot: below [`Transport::slots`], unique in the transport.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the transport's part of the slot.
    #[inline]
    pub(crate) fn data(&self) -> &T::Slot {
        &self.data
    }

    /// Returns the C structure.
    #[inline]
    pub(super) fn as_rqst(&self) -> *mut raw::rpc_rqst {
        self.rqst.get()
    }

    /// Returns the slot whose first field is `rqst`.
    ///
    /// # Safety
    ///
    /// - `rqst` is embedded in a `Slot<T>`.
    /// - That slot outlives `'a`.
    #[inline]
    pub(super) unsafe fn from_rqst<'a>(rqst: NonNull<raw::rpc_rqst>) -> &'a Self {
        // SAFETY: By the safety requirements there is a slot, and by the type invariants it starts
        // at its `rqst`.
        unsafe { rqst.cast::<Self>().as_ref() }
    }

    /// Assigns the slot to the next RPC in the backlog, or puts it on the free list. Process
    /// context.
    ///
    /// Called when SUNRPC does not use the slot any more, and once for a new slot.
    pub(super) fn free(&self, xprt: &Xprt<T>) {
        // SAFETY: Slot and transport are alive and belong together. No task uses the request; the
        // call clears it or passes it on under `reserve_lock`.
        unsafe { raw::xprt_free_slot(xprt.as_raw(), self.as_rqst()) };
    }
}
