// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over SUNRPC's interfaces for transports.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`xprt`] | client transports: `rpc_xprt` and its class |
//! | [`xdr_buf`] | the buffers of an RPC message, of either role |
//! | [`sysctl`] | settings under `/proc/sys/sunrpc` |
//!
//! Server transports (`svc_xprt`) will stand beside [`xprt`], in `svc`. Neither names the other.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

#![allow(
    dead_code,
    unused_imports,
    reason = "one transport alone does not need all of it; samples do"
)]

pub(crate) mod sysctl;
pub(crate) mod xdr_buf;
pub(crate) mod xprt;
