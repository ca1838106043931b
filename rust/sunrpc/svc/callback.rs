// SPDX-License-Identifier: GPL-2.0

//! The connection over which a service calls its client (NFSv4.1 and later).
//!
//! SUNRPC makes a client transport for such a connection when the service first calls back, and
//! uses it until the connection ends:
//!
//! ```text
//! service                   SUNRPC                      client transport
//! -------                   ------                      ----------------
//! rpc_create (first)        setup                       attached, xpt_bc_xprt set
//! rpc_create (later)        takes it from xpt_bc_xprt
//! rpc_shutdown_client       waits for the calls
//!                           xpo_detach, then close      detached
//!                           svc_xprt_free               last reference put, destroyed
//! ```
//!
//! `xpt_bc_xprt` has a reference of its own, which `svc_xprt_free()` puts. The client transport
//! holds no reference to the connection. It may use the `svc_xprt` only while `setup` runs, when
//! the service has a reference. After that it uses objects with references of their own, which it
//! drops when it is closed.
//!
//! C headers: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full};

use super::class;
use super::transport::Connection;
use super::xprt::{Connected, SvcXprt};
use crate::raw;

impl SvcXprt<Connected> {
    /// Returns the implementation, if it is a complete `C`.
    pub(crate) fn connection<C: Connection>(&self) -> Option<&C> {
        let xprt = self.implemented_by::<C>()?;
        // SAFETY: The transport is complete.
        Some(unsafe { xprt.data() })
    }

    /// Returns the connection that `xprt` points to.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is no connection of this module's class.
    ///
    /// # Safety
    ///
    /// `xprt` is null, or an `svc_xprt` that is alive during `'a` and that a service has accepted
    /// or listens on.
    pub(in super::super) unsafe fn of_service<'a>(xprt: *mut raw::svc_xprt) -> Result<&'a Self> {
        if xprt.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements the transport is alive. Its class does not change.
        // Other bits of the flags may change meanwhile; the volatile access does not race with
        // that, as `test_bit()` does not. The bit of a listener does not change after it was
        // created.
        let (class, flags) = unsafe {
            let flags = (&raw const (*xprt).xpt_flags).read_volatile();
            ((*xprt).xpt_class, flags)
        };
        if !class::is_registered(class) || flags & (1 << raw::XPT_LISTENER) != 0 {
            return Err(EINVAL);
        }
        // SAFETY: All transports of the class are those of `New`, and start with a `SvcXprt`. One
        // that is no listener is a connection. By the safety requirements it is alive.
        Ok(unsafe { &*xprt.cast::<Self>() })
    }

    /// Makes `client` the transport with which the service calls back over this connection.
    ///
    /// After this, [`Self::is_closing`] returns whether SUNRPC may have searched for the client
    /// transport before, in order to close it.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is such a transport already.
    ///
    /// # Safety
    ///
    /// The caller passes on a reference to `client`, unless the function fails.
    pub(in super::super) unsafe fn offer(&self, client: NonNull<raw::rpc_xprt>) -> Result {
        // SAFETY: The transport is alive, and the member aligned. SUNRPC writes it only when it
        // frees the transport; its reads do not tear.
        let member = unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).xpt_bc_xprt) };
        // ORDERING: `svc_delete_xprt()` marks the connection as dead before it reads the member.
        // The full barrier orders this store before the caller's test of that mark.
        member
            .cmpxchg(core::ptr::null_mut(), client.as_ptr(), Full)
            .map_err(|_| EBUSY)?;
        Ok(())
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_callback)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_one_client_transport() -> Result {
        let server = KBox::pin_init(SvcXprt::<Connected>::blank(), GFP_KERNEL)?;
        let mut clients: [KBox<raw::rpc_xprt>; 2] = [
            KBox::new(Default::default(), GFP_KERNEL)?,
            KBox::new(Default::default(), GFP_KERNEL)?,
        ];
        let [first, second] = clients
            .each_mut()
            .map(|client| NonNull::from(&mut **client));
        // SAFETY: The connection is freed before the client transports, without putting a
        // reference.
        let offered = unsafe { [server.offer(first), server.offer(second)] };
        assert_eq!(offered, [Ok(()), Err(EBUSY)]);
        // SAFETY: The connection is alive, and no other thread has access to it.
        let kept = unsafe { (*server.as_raw()).xpt_bc_xprt };
        assert!(kept == first.as_ptr());
        Ok(())
    }

    #[test]
    fn only_a_connection_of_the_registered_class_is_accepted() -> Result {
        // SAFETY: A null pointer is allowed.
        let none = unsafe { SvcXprt::of_service(core::ptr::null_mut()) };
        assert!(none.is_err_and(|error| error == EINVAL));
        let server = KBox::pin_init(SvcXprt::<Connected>::blank(), GFP_KERNEL)?;
        // SAFETY: The connection is alive.
        let of = |xprt| unsafe { SvcXprt::of_service(xprt) };
        assert!(of(server.as_raw()).is_err_and(|error| error == EINVAL));
        let mut class = raw::svc_xprt_class::default();
        // SAFETY: No other thread has access to the connection.
        unsafe { (*server.as_raw()).xpt_class = &raw mut class };
        assert!(of(server.as_raw()).is_err_and(|error| error == EINVAL));
        Ok(())
    }
}
