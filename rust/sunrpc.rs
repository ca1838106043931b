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
//!
//! Everything outside [`xprt`] and [`svc`] serves client and server transports alike.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

pub(crate) mod address;
pub(crate) mod svc;
pub(crate) mod sysctl;
pub(crate) mod time;
pub(crate) mod xdr_buf;
pub(crate) mod xprt;

/// Returns a random number. Any context.
pub(crate) fn random() -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { kernel::bindings::get_random_u32() }
}
