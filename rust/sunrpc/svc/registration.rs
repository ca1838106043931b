// SPDX-License-Identifier: GPL-2.0

//! Registration of a listener type with SUNRPC.

use core::pin::Pin;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::ThisModule;

use super::class::Class;
use super::ops;
use super::transport::Listener;
use crate::raw;

/// Registers `L` with SUNRPC. May sleep.
///
/// A module does this last in its initialisation, because listeners may be created before this
/// returns. The value must not be dropped before the module is unloaded; every transport holds a
/// reference to the module.
///
/// # Errors
///
/// `EBUSY` if another module provides a server transport with the same name, or this module has
/// registered another one; `ENOMEM`.
///
/// # Safety
///
/// `L::Connection` uses a [piece](crate::mem::Piece) of a reply only until
/// [`send`](super::transport::Connection::send) returns, or as long as it owns the pages that it
/// has taken from that reply.
///
/// # Examples
///
/// ```ignore
/// let refuse = module_parameters::refuse.value() != 0;
/// // SAFETY: The connection does not use the address of a reply's memory.
/// let class = unsafe { registration::register::<Null>(module, refuse) }?;
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
        xcl_ops: ops::listener::<L>(),
        xcl_max_payload: L::MAX_PAYLOAD,
        xcl_ident: L::IDENT,
        ..Default::default()
    };
    let class = KBox::pin(Class::new(raw, context), GFP_KERNEL)?;
    class.enter()?;
    // INVARIANT: The class has entered.
    let registration = ClassRegistration { class };
    // SAFETY: The class is complete, pinned and lives until it is unregistered.
    match unsafe { raw::svc_reg_xprt_class(registration.class.as_raw()) } {
        0 => Ok(registration),
        rc if rc == EEXIST.to_errno() => {
            pr_err!(
                "RPC server transport {} exists: unload the module that provides it first\n",
                L::NAME
            );
            // insmod interprets EEXIST as "this module is loaded".
            Err(EBUSY)
        }
        rc => to_result(rc).and(Err(EINVAL)),
    }
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
        self.class.leave();
    }
}
