// SPDX-License-Identifier: GPL-2.0

//! The class of a server transport, and its registration.

use core::cell::UnsafeCell;
use core::pin::Pin;

use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::ThisModule;

use super::transport::Listener;
use super::xprt::{Implementation, Listening};
use crate::raw;
use crate::sunrpc::registered;

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
    /// The value that was passed to [`register`].
    pub(super) context: L::Context,
}

// SAFETY: SUNRPC owns `raw` after registration and changes its list entry under a lock of its own.
// The other fields are constant, and a context is `Send`.
unsafe impl<L: Listener> Send for Class<L> {}
// SAFETY: SUNRPC changes `raw` under a lock of its own. The other fields are constant, and a
// context is `Sync`.
unsafe impl<L: Listener> Sync for Class<L> {}

impl<L: Listener> Class<L> {
    pub(super) fn as_raw(&self) -> *mut raw::svc_xprt_class {
        self.raw.get()
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

/// Registers `L` with SUNRPC. May sleep.
///
/// A module does this as the last step of its initialisation, because listeners may be created
/// before this returns. The value must not be dropped before the module is unloaded; every
/// transport holds a reference to the module.
///
/// # Errors
///
/// `EBUSY` if another module provides a server transport with the same name, or this module has
/// registered a server transport already; `ENOMEM`.
///
/// # Safety
///
/// `L::Connection` uses a [piece](crate::mem::Piece) of a reply only until
/// [`send`](super::transport::Connection::send) returns, or while it owns the pages that it took
/// from that reply.
///
/// # Examples
///
/// ```ignore
/// let refuse = compat::parameter!(refuse) != 0;
/// // SAFETY: The connection does not use the address of a reply's memory.
/// let class = unsafe { svc::register::<Null>(module, refuse) }?;
/// Ok(Self { _class: class })
/// ```
pub(crate) unsafe fn register<L: Listener>(
    module: &'static ThisModule,
    context: L::Context,
) -> Result<ClassRegistration<L>> {
    const { assert!(!L::NAME.is_empty()) };
    let raw = raw::svc_xprt_class {
        xcl_name: L::NAME.as_char_ptr(),
        xcl_owner: module.as_ptr(),
        xcl_ops: &<L as Implementation<Listening>>::OPS,
        xcl_max_payload: L::MAX_PAYLOAD,
        xcl_ident: L::IDENT,
        ..Default::default()
    };
    let raw = UnsafeCell::new(raw);
    let class = KBox::pin(Class::<L> { raw, context }, GFP_KERNEL)?;
    let entered = REGISTERED.cmpxchg(core::ptr::null_mut(), class.as_raw(), Full);
    entered.map_err(|_| EBUSY)?;
    // INVARIANT: The class was entered above.
    let registration = ClassRegistration { class };
    // SAFETY: The class is complete, pinned and lives until it is unregistered.
    let rc = unsafe { raw::svc_reg_xprt_class(registration.class.as_raw()) };
    registered(rc, "RPC server transport", L::NAME)?;
    Ok(registration)
}

/// Keeps a class registered.
///
/// # Invariants
///
/// [`Class::registered`] returns `class`.
pub(crate) struct ClassRegistration<L: Listener> {
    class: Pin<KBox<Class<L>>>,
}

impl<L: Listener> Drop for ClassRegistration<L> {
    fn drop(&mut self) {
        // SAFETY: The list entry of the class is initialised, also if SUNRPC has refused the class,
        // and removing it twice does nothing. No transport of the class exists: each holds a
        // reference to the module, which is being unloaded or could not be initialised.
        unsafe { raw::svc_unreg_xprt_class(self.class.as_raw()) };
        REGISTERED.store(core::ptr::null_mut(), Release);
    }
}
