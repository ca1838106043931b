// SPDX-License-Identifier: GPL-2.0

//! Requests: one RPC on a transport, from its encoding to its end.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;

use super::super::xdr_buf::{self, XdrBuf};
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

/// A live request.
///
/// # Invariants
///
/// For `'a`: the pointer is that of an initialised `rpc_rqst` with a task, embedded in a `Slot<T>`,
/// which SUNRPC neither frees nor assigns to another RPC. Its XDR buffers are set up.
///
/// # Examples
///
/// ```ignore
/// let mut call = [0; CALL_WORDS * 4];
/// rqst.send_buf()
///     .copy_to(0, &mut call)
///     .map_err(|_| SendError::Io)?;
/// rqst.mark_sent();
/// ```
pub(crate) struct Rqst<'a, T: Transport> {
    rqst: NonNull<raw::rpc_rqst>,
    _lifetime: PhantomData<&'a Slot<T>>,
}

impl<'a, T: Transport> Rqst<'a, T> {
    /// Wraps `rqst`.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariants.
    #[inline]
    pub(super) unsafe fn from_raw(rqst: NonNull<raw::rpc_rqst>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            rqst,
            _lifetime: PhantomData,
        }
    }

    /// Returns the C structure.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut raw::rpc_rqst {
        self.rqst.as_ptr()
    }

    #[inline]
    fn task(&self) -> *mut raw::rpc_task {
        // SAFETY: By the type invariants the request is alive. Its task does not change.
        unsafe { (*self.as_raw()).rq_task }
    }

    /// Returns the XID, in host order.
    #[inline]
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: By the type invariants the request is alive. SUNRPC set the XID when it
        // initialised the request.
        u32::from_be(unsafe { (*self.as_raw()).rq_xid })
    }

    /// Returns the slot that contains the request.
    #[inline]
    pub(crate) fn slot(&self) -> &'a Slot<T> {
        // SAFETY: By the type invariants the request is embedded in a `Slot<T>` for `'a`.
        unsafe { Slot::from_rqst(self.rqst) }
    }

    /// Returns the number of the RPC's task, as SUNRPC's trace events show it.
    #[inline]
    pub(crate) fn task_id(&self) -> u32 {
        // SAFETY: By the type invariants the task is alive.
        u32::from(unsafe { (*self.task()).tk_pid })
    }

    /// Returns the number of the RPC client, as SUNRPC's trace events show it; `u32::MAX` if there
    /// is no client.
    #[inline]
    pub(crate) fn client_id(&self) -> u32 {
        // SAFETY: By the type invariants the task is alive, and it holds a reference to its client.
        unsafe {
            let client = (*self.task()).tk_client;
            if client.is_null() {
                u32::MAX
            } else {
                (*client).cl_clid
            }
        }
    }

    /// Returns the encoded call.
    #[inline]
    pub(crate) fn send_buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer is set up. SUNRPC does not change it while the
        // request is prepared or sent.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_snd_buf) }
    }

    /// Returns the buffer for the reply.
    #[inline]
    pub(crate) fn recv_buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer is set up. SUNRPC does not change it before the
        // request is completed.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_rcv_buf) }
    }

    /// Returns whether the RPC has a reply. A call without results, which has none, is rare.
    #[inline]
    pub(crate) fn reply_expected(&self) -> bool {
        // SAFETY: By the type invariants the task is alive; its procedure is static data.
        unsafe {
            let proc_info = (*self.task()).tk_msg.rpc_proc;
            !proc_info.is_null() && (*proc_info).p_decode.is_some()
        }
    }

    /// Returns whether the authentication flavour must process all data (`RPCAUTH_AUTH_DATATOUCH`:
    /// integrity or privacy). The peer must not place data in chunks in that case.
    #[inline]
    pub(crate) fn data_touch(&self) -> bool {
        // SAFETY: By the type invariants the request is set up: its credential, and with that the
        // authentication flavour, was bound before the call was encoded.
        let flags = unsafe {
            let cred = (*self.as_raw()).rq_cred;
            if cred.is_null() || (*cred).cr_auth.is_null() {
                return false;
            }
            (*(*cred).cr_auth).au_flags
        };
        flags & (1 << raw::RPCAUTH_AUTH_DATATOUCH) != 0
    }

    /// Counts the call as sent, for the RPC's statistics. The start of its transmission was
    /// recorded before [`Rpc::send`](super::transport::Rpc::send) was called.
    #[inline]
    pub(crate) fn mark_sent(&self) {
        let rqst = self.as_raw();
        // SAFETY: By the type invariants the request is alive. The member changes under the send
        // lock, which the caller holds.
        unsafe { (*rqst).rq_xmit_bytes_sent += (*rqst).rq_snd_buf.len as usize };
    }

    /// Records the start of the transmission, from which SUNRPC computes the round-trip time.
    #[inline]
    pub(super) fn mark_start(&self) {
        // SAFETY: By the type invariants the request is alive. The member changes under the send
        // lock, which the caller holds. `ktime_get` has no preconditions after boot.
        unsafe { (*self.as_raw()).rq_xtime = k::ktime_get() };
    }

    /// Allocates the pages that the receiver of the reply did not provide (`XDRBUF_SPARSE_PAGES`).
    /// The receiver owns them afterwards. May sleep; only in
    /// [`Rpc::prepare`](super::transport::Rpc::prepare).
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the pages allocated so far stay in the buffer, and the next call keeps them.
    #[inline]
    pub(crate) fn fill_sparse(&self) -> Result {
        let buf = self.recv_buf();
        if !buf.sparse() {
            return Ok(());
        }
        xdr_buf::fill_sparse(&buf)
    }
}
