// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over SUNRPC's interfaces for transports.
//!
//! | module | contents |
//! | --- | --- |
//! | [`xprt`] | client transports: `rpc_xprt` and its class |
//! | [`svc`] | server transports: `svc_xprt` and its class |
//! | [`xdr_buf`] | the buffers of an RPC message |
//! | [`address`] | socket addresses as text |
//! | [`random()`] | random numbers |
//! | [`sysctl`] | settings under `/proc/sys/sunrpc` |
//! | [`time`] | jiffies |
//!
//! Everything outside [`xprt`] and [`svc`] serves client and server transports alike. The examples
//! are quoted from the modules `samples/rpc_null_main.rs` and `samples/svc_null_main.rs`, and from
//! the KUnit suites.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use kernel::error::to_result;
use kernel::prelude::*;

pub(crate) mod address;
pub(crate) mod svc;
pub(crate) mod sysctl;
pub(crate) mod time;
pub(crate) mod xdr_buf;
pub(crate) mod xprt;

/// Returns the outcome `rc` of the registration of the class `name` with SUNRPC, and logs a
/// failure. `kind` is the kind of class.
///
/// # Errors
///
/// `EBUSY`: there is such a class; or another error of SUNRPC.
fn registered(rc: kernel::ffi::c_int, kind: &str, name: &CStr) -> Result {
    if rc == EEXIST.to_errno() {
        pr_err!("{kind} {name} is registered already: unload the module that provides it first\n");
        // insmod interprets EEXIST as "this module is loaded".
        return Err(EBUSY);
    }
    to_result(rc)
}

/// Returns a random number. Any context.
pub(crate) fn random() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { kernel::bindings::get_random_u32() }
}
