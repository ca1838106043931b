// SPDX-License-Identifier: GPL-2.0

//! Requests: one RPC on a transport, from its encoding to its end.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;

use super::super::xdr_buf::{self, XdrBuf};
use super::handle::Xprt;
use super::slot::Slot;
use super::transport::Transport;
use crate::raw;

/// A live request.
///
/// # Invariants
///
/// For `'a`: the pointer is that of an initialised `rpc_rqst` with a task, embedded in a `Slot<T>`,
/// which SUNRPC neither frees nor hands to another RPC. Its XDR buffers are set up.
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

    /// The request, for calls into C.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut raw::rpc_rqst {
        self.rqst.as_ptr()
    }

    #[inline]
    fn task(&self) -> *mut raw::rpc_task {
        // SAFETY: By the type invariants; the task of a request does not change while it lives.
        unsafe { (*self.as_raw()).rq_task }
    }

    /// The transaction's ID, in host order.
    #[inline]
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: By the type invariants; the XID was set before anybody could see the request.
        u32::from_be(unsafe { (*self.as_raw()).rq_xid })
    }

    /// The slot that serves the request.
    #[inline]
    pub(crate) fn slot(&self) -> &'a Slot<T> {
        // SAFETY: By the type invariants.
        unsafe { Slot::from_rqst(self.rqst) }
    }

    /// Number of the RPC's task, as SUNRPC's trace events show it.
    #[inline]
    pub(crate) fn task_id(&self) -> u32 {
        // SAFETY: By the type invariants the task is alive.
        u32::from(unsafe { (*self.task()).tk_pid })
    }

    /// Number of the RPC client, as SUNRPC's trace events show it; all ones if there is none.
    #[inline]
    pub(crate) fn client_id(&self) -> u32 {
        // SAFETY: By the type invariants the task is alive, and with it its client.
        unsafe {
            let client = (*self.task()).tk_client;
            if client.is_null() {
                u32::MAX
            } else {
                (*client).cl_clid
            }
        }
    }

    /// The encoded call.
    #[inline]
    pub(crate) fn send_buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer is set up. It does not change while the request
        // is being prepared or sent.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_snd_buf) }
    }

    /// Where the reply goes.
    #[inline]
    pub(crate) fn recv_buf(&self) -> XdrBuf<'_> {
        // SAFETY: As for `send_buf`.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_rcv_buf) }
    }

    /// Is there going to be a reply? (The opposite is rare: a call without results.)
    #[inline]
    pub(crate) fn reply_expected(&self) -> bool {
        // SAFETY: By the type invariants the task is alive; its procedure is static data.
        unsafe {
            let proc_info = (*self.task()).tk_msg.rpc_proc;
            !proc_info.is_null() && (*proc_info).p_decode.is_some()
        }
    }

    /// Must the authentication flavour see all data as it passes (`RPCAUTH_AUTH_DATATOUCH`: integrity
    /// or privacy)? Then none may be placed by the peer behind its back.
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

    /// Has this call been sent over the connection that `xprt` has now? RPC-over-RDMA forbids
    /// sending it twice.
    #[inline]
    pub(crate) fn was_sent_on(&self, xprt: &Xprt<T>) -> bool {
        // SAFETY: By the type invariants; the field changes under the send lock.
        let cookie = unsafe { (*self.as_raw()).rq_connect_cookie };
        cookie == xprt.connect_cookie()
    }

    /// Counts the call as sent, for the RPC's statistics. (Its start of transmission has been noted
    /// before [`Transport::send`] was called.)
    #[inline]
    pub(crate) fn mark_sent(&self) {
        let rqst = self.as_raw();
        // SAFETY: By the type invariants; the field changes under the send lock.
        unsafe { (*rqst).rq_xmit_bytes_sent += (*rqst).rq_snd_buf.len as usize };
    }

    /// Notes when the transmission begins: the round-trip time counts from here.
    #[inline]
    pub(super) fn mark_start(&self) {
        // SAFETY: By the type invariants; the field changes under the send lock. `ktime_get` has no
        // preconditions after boot.
        unsafe { (*self.as_raw()).rq_xtime = k::ktime_get() };
    }

    /// Allocates the pages that the receiver of the reply has left out (`XDRBUF_SPARSE_PAGES`).
    /// The pages become the receiver's. May sleep; only in [`Transport::prepare`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; what was allocated stays and will be found by the next try.
    #[inline]
    pub(crate) fn fill_sparse(&self) -> Result {
        let buf = self.recv_buf();
        if !buf.sparse() {
            return Ok(());
        }
        xdr_buf::fill_sparse(&buf)
    }
}
