// SPDX-License-Identifier: GPL-2.0

//! Pages that an authentication flavour encrypts a call into.
//!
//! They belong to the flavour, which allocates them as it encodes the call (RPCSEC_GSS with privacy:
//! `alloc_enc_pages()` of `net/sunrpc/auth_gss/auth_gss.c`) and leaves in `rq_release_snd_buf` how they
//! are freed. It frees them itself when the call is encoded anew: after a timeout that may be while
//! the server still reads the last encoding. So that function is kept here, and its place taken by
//! [`withdrawn`], which asks the transport first.

use core::cell::Cell;
use core::ptr::NonNull;

use super::ops;
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

/// How a flavour frees its pages.
type Release = unsafe extern "C" fn(*mut raw::rpc_rqst);

/// The flavour's function, while ours stands in for it.
///
/// # Invariants
///
/// Accessed only by the task that owns the slot's request. Holds a function exactly while
/// [`withdrawn`] is in the request's `rq_release_snd_buf`.
pub(super) struct Scratch(Cell<Option<Release>>);

impl Scratch {
    /// Nothing to stand in for.
    pub(super) const fn new() -> Self {
        Self(Cell::new(None))
    }
}

/// Stands in for the flavour's function from here on, if the call that was just encoded has one.
///
/// # Safety
///
/// `rqst` is embedded in a `Slot<T>`, and the caller runs in the task that owns it.
#[inline]
pub(super) unsafe fn guard<T: Transport>(rqst: NonNull<raw::rpc_rqst>) {
    // SAFETY: By the safety requirements; nobody else touches the field.
    let (kept, place) = unsafe {
        let slot = Slot::<T>::from_rqst(rqst);
        (&slot.scratch.0, &mut (*rqst.as_ptr()).rq_release_snd_buf)
    };
    if place.is_some() && kept.get().is_none() {
        // INVARIANT: Both change.
        kept.set(place.replace(withdrawn::<T>));
    }
}

/// Gives the flavour's function its place back: there is nothing to ask the transport any more.
///
/// # Safety
///
/// As for [`guard`].
#[inline]
pub(super) unsafe fn unguard<T: Transport>(rqst: NonNull<raw::rpc_rqst>) -> Option<Release> {
    // SAFETY: By the safety requirements.
    let theirs = unsafe { Slot::<T>::from_rqst(rqst) }.scratch.0.take()?;
    // INVARIANT: Both change.
    // SAFETY: By the safety requirements; nobody else touches the field.
    unsafe { (*rqst.as_ptr()).rq_release_snd_buf = Some(theirs) };
    Some(theirs)
}

/// The call is being encoded anew, and the pages of the last encoding are to be freed. May sleep.
///
/// # Safety
///
/// To be called by the flavour as it encodes: in the task that owns the request, which has left all
/// queues.
unsafe extern "C" fn withdrawn<T: Transport>(rqst: *mut raw::rpc_rqst) {
    // SAFETY: By the safety requirements. Only `guard` hands this function out, so the request is
    // that of a transport of `T`, embedded in a slot. The flavour's function gets what it expects.
    unsafe {
        let (xprt, call) = ops::parts::<T>(rqst);
        xprt.transport().withdraw(xprt, call);
        if let Some(theirs) = unguard::<T>(NonNull::new_unchecked(rqst)) {
            theirs(rqst);
        }
    }
}
