// SPDX-License-Identifier: GPL-2.0

//! The class of a server transport.

use core::cell::UnsafeCell;

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};

use super::transport::Listener;
use crate::raw;

/// The registered class of this module. `xpo_create` has no parameter for its class.
///
/// # Invariants
///
/// While the class of a listener type `L` is registered with SUNRPC, this is a pointer to the
/// `Class<L>`.
static REGISTERED: Atomic<*mut raw::svc_xprt_class> = Atomic::new(core::ptr::null_mut());

/// Returns whether `class` is the registered class of this module.
pub(super) fn is_registered(class: *mut raw::svc_xprt_class) -> bool {
    !class.is_null() && REGISTERED.load(Acquire) == class
}

/// A registered class.
///
/// # Invariants
///
/// The class does not move, and stays alive from `register` until no transport of it exists and
/// none can be created.
#[repr(C)]
pub(super) struct Class<L: Listener> {
    // First, so that a pointer to it is a pointer to the whole.
    raw: UnsafeCell<raw::svc_xprt_class>,
    context: L::Context,
}

// SAFETY: SUNRPC owns `raw` after registration and changes its list entry under a lock of its own.
// The other fields are constant, and a context is `Send`.
unsafe impl<L: Listener> Send for Class<L> {}
// SAFETY: SUNRPC changes `raw` under a lock of its own. The other fields are constant, and a
// context is `Sync`.
unsafe impl<L: Listener> Sync for Class<L> {}

impl<L: Listener> Class<L> {
    /// Makes a class, which is not registered.
    pub(super) fn new(raw: raw::svc_xprt_class, context: L::Context) -> Self {
        Self {
            raw: UnsafeCell::new(raw),
            context,
        }
    }

    /// Makes this the class that [`Self::registered`] returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one already.
    pub(super) fn enter(&self) -> Result {
        REGISTERED
            .cmpxchg(core::ptr::null_mut(), self.as_raw(), Full)
            .map_err(|_| EBUSY)?;
        Ok(())
    }

    /// Reverts a successful [`Self::enter`].
    pub(super) fn leave(&self) {
        REGISTERED.store(core::ptr::null_mut(), Release);
    }

    pub(super) fn as_raw(&self) -> *mut raw::svc_xprt_class {
        self.raw.get()
    }

    /// Returns the value that was passed to [`register`](super::register).
    pub(super) fn context(&self) -> &L::Context {
        &self.context
    }

    /// Returns the class of `L`.
    ///
    /// # Safety
    ///
    /// SUNRPC calls an operation of the class of `L`, and holds a reference to the module.
    pub(super) unsafe fn registered() -> &'static Self {
        // SAFETY: SUNRPC calls operations of a registered class only. By the invariants of
        // `REGISTERED` the pointer is that of the `Class<L>`, which lives while transports can be
        // created.
        unsafe { &*REGISTERED.load(Acquire).cast::<Self>() }
    }
}
