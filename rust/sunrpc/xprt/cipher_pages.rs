// SPDX-License-Identifier: GPL-2.0

//! Pages into which an authentication flavour encrypts a call.
//!
//! The flavour allocates them when it encodes the call (RPCSEC_GSS with privacy:
//! `alloc_enc_pages()` of `net/sunrpc/auth_gss/auth_gss.c`), and stores in `rq_release_snd_buf` the
//! function that frees them. It calls that function itself when the call is encoded again: after a
//! timeout, the server may still be reading the previous encoding at that time. This module
//! therefore replaces the function with [`free_after_invalidation`], which lets the transport end
//! the server's access first.

use core::cell::Cell;
use core::ptr::NonNull;

use super::ops;
use super::slot::Slot;
use super::transport::{Rpc, Transport};
use crate::raw;

/// Type of the function with which a flavour frees its pages.
type FreePages = unsafe extern "C" fn(*mut raw::rpc_rqst);

/// The flavour's function while [`free_after_invalidation`] replaces it.
///
/// # Invariants
///
/// - Accessed only by the task that owns the slot's request.
/// - Holds a function exactly while the request's `rq_release_snd_buf` is
///   [`free_after_invalidation`].
pub(super) struct Hook(Cell<Option<FreePages>>);

impl Hook {
    /// Returns the state in which no function is replaced.
    pub(super) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Returns whether a function is replaced.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

/// Replaces the flavour's function, if the call that was just encoded has one.
///
/// # Safety
///
/// `rqst` is embedded in a `Slot<T>`, and the caller runs in the task that owns the request.
#[inline]
pub(super) unsafe fn hook<T: Rpc>(rqst: NonNull<raw::rpc_rqst>) {
    // SAFETY: By the safety requirements a slot contains the request, and no other task accesses
    // either member.
    let (saved, current) = unsafe {
        let slot = Slot::<T>::from_rqst(rqst);
        (&slot.hook.0, &mut (*rqst.as_ptr()).rq_release_snd_buf)
    };
    if current.is_some() && saved.get().is_none() {
        // INVARIANT: Both change together.
        saved.set(current.replace(free_after_invalidation::<T>));
    }
}

/// Restores the flavour's function and returns it, if it was replaced. The caller guarantees that
/// no device or peer accesses the pages any more.
///
/// # Safety
///
/// `rqst` is embedded in a `Slot<T>`, and the caller runs in the task that owns the request.
#[inline]
pub(super) unsafe fn unhook<T: Transport>(rqst: NonNull<raw::rpc_rqst>) -> Option<FreePages> {
    // SAFETY: By the safety requirements a slot contains the request.
    let original = unsafe { Slot::<T>::from_rqst(rqst) }.hook.0.take()?;
    // INVARIANT: Both change together.
    // SAFETY: By the safety requirements no other task accesses the member.
    unsafe { (*rqst.as_ptr()).rq_release_snd_buf = Some(original) };
    Some(original)
}

/// Frees the pages of the previous encoding after the transport has ended all access to them. May
/// sleep.
///
/// # Safety
///
/// The flavour calls this when it encodes the call again: in the task that owns the request, which
/// has left all queues.
unsafe extern "C" fn free_after_invalidation<T: Rpc>(rqst: *mut raw::rpc_rqst) {
    // SAFETY: Only `hook` passes this function on, with a request that is embedded in a `Slot<T>`.
    // By the safety requirements the caller is the task that owns it. The flavour's function gets
    // the request for which the flavour had stored it.
    unsafe {
        let (xprt, call) = ops::parts::<T>(rqst);
        xprt.transport().invalidate_call(xprt, call);
        if let Some(free) = unhook::<T>(NonNull::new_unchecked(rqst)) {
            free(rqst);
        }
    }
}
