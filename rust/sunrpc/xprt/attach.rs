// SPDX-License-Identifier: GPL-2.0

//! Transports that use the connection of a server transport, with which a service calls its client.
//!
//! `rpc_create()` passes the connection to the `setup` hook. [`svc::callback`] describes whose
//! references keep both transports.
//!
//! SUNRPC's sysfs can add a transport to those of a client, and then passes the connection of an
//! existing transport, which may have been freed. A connection has one callback transport at most,
//! so [`setup`](super::setup) refuses this before it looks at the connection: sysfs passes no
//! source address.
//!
//! [`svc::callback`]: super::super::svc::callback

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::types::ScopeGuard;

use super::super::svc::xprt::SvcXprt;
use super::handle::Xprt;
use super::ops::NO_OPS;
use super::support::{Attached, ReconnectSupport};
use super::transport::Attach;
use crate::raw;

impl<T: Attach> ReconnectSupport<T> for Attached {
    type State = ();

    const CONNECTS: bool = false;
    const OPS: raw::rpc_xprt_ops = NO_OPS;

    fn new_state() -> impl PinInit<(), Error> {
        Ok(())
    }

    /// Marks the transport as connected: its connection exists before it does. All time-outs stay
    /// 0, so SUNRPC does not close it when it is idle.
    fn init_raw(xprt: &mut raw::rpc_xprt) {
        xprt.state |= 1 << raw::XPRT_BOUND | 1 << raw::XPRT_CONNECTED;
    }

    /// Calls [`Attach::attach`], and makes the transport the one of its connection.
    ///
    /// # Safety
    ///
    /// SUNRPC has supplied `args` in order to create the transport.
    unsafe fn attach(xprt: &Xprt<T>, args: &raw::xprt_create) -> Result {
        if args.srcaddr.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements SUNRPC has supplied the arguments. With a source
        // address they are those of a service, which has a reference to the connection.
        let server = unsafe { SvcXprt::of_service(args.bc_xprt) }?;
        xprt.transport().attach(xprt, server)?;
        let detach = ScopeGuard::new(|| xprt.transport().destroy(xprt));
        let raw_xprt = xprt.as_raw();
        // SAFETY: The transport is alive and new, and this thread alone has access to it. The
        // second reference is taken for `xpt_bc_xprt`. If `offer` fails, the transport is freed
        // whatever its reference count is.
        unsafe {
            (*raw_xprt).bc_xprt = args.bc_xprt;
            raw::xprt_get(raw_xprt);
            server.offer(NonNull::new_unchecked(raw_xprt))?;
        }
        detach.dismiss();
        if server.is_closing() {
            // SUNRPC may have closed the connection just before, and has not closed this transport
            // then. Another close does no harm.
            xprt.transport().close(xprt);
            xprt.disconnect_done();
        }
        Ok(())
    }

    fn cancel(_xprt: &Xprt<T>) {}
}
