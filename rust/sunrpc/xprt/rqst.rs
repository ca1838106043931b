// SPDX-License-Identifier: GPL-2.0

//! Requests: an RPC on a transport, from its encoding to its end.
//!
//! # Pages of a cipher
//!
//! An authentication flavour may encrypt a call into pages that it allocates when it encodes the
//! call (RPCSEC_GSS with privacy: `alloc_enc_pages()` of `net/sunrpc/auth_gss/auth_gss.c`). It
//! stores in `rq_release_snd_buf` the function that frees them, and calls that function itself when
//! the call is encoded again: after a timeout, the server may still be reading the previous
//! encoding at that time. This module therefore replaces the function with
//! [`free_after_invalidation`], which lets the transport end the server's access first.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::prelude::*;

use super::super::xdr_buf::XdrBuf;
use super::ops;
use super::slot::{Slot, GROWTH};
use super::transport::Transport;
use crate::compat::casts::u32_as_usize;
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
    pub(super) unsafe fn from_raw(rqst: NonNull<raw::rpc_rqst>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            rqst,
            _lifetime: PhantomData,
        }
    }

    /// Returns the C structure.
    pub(super) fn as_raw(&self) -> *mut raw::rpc_rqst {
        self.rqst.as_ptr()
    }

    fn task(&self) -> *mut raw::rpc_task {
        // SAFETY: By the type invariants the request is alive. Its task does not change.
        unsafe { (*self.as_raw()).rq_task }
    }

    /// Returns the XID, in host order.
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: By the type invariants the request is alive. SUNRPC set the XID when it
        // initialised the request.
        u32::from_be(unsafe { (*self.as_raw()).rq_xid })
    }

    /// Returns the slot that contains the request.
    pub(crate) fn slot(&self) -> &'a Slot<T> {
        // SAFETY: By the type invariants the request is embedded in a `Slot<T>` for `'a`.
        unsafe { Slot::from_rqst(self.rqst) }
    }

    /// Returns the number of the RPC's task, as SUNRPC's trace events show it.
    pub(crate) fn task_id(&self) -> u32 {
        // SAFETY: By the type invariants the task is alive.
        u32::from(unsafe { (*self.task()).tk_pid })
    }

    /// Returns the number of the RPC client, as SUNRPC's trace events show it; `u32::MAX` if there
    /// is no client.
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
    pub(crate) fn send_buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer is set up. SUNRPC does not change it while the
        // request is prepared or sent.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_snd_buf) }
    }

    /// Returns the buffer for the reply.
    pub(crate) fn recv_buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer is set up. SUNRPC does not change it before the
        // request is completed.
        unsafe { XdrBuf::from_raw(&raw mut (*self.as_raw()).rq_rcv_buf) }
    }

    /// Corrects the description of the reply's buffer, if the head that SUNRPC has computed is
    /// longer than the buffer that it has asked for: the tail, of which SUNRPC has computed a
    /// negative length, is what is left of the memory. Only in `prepare_request`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE`: the head is longer than the memory.
    pub(super) fn fit_reply(&self) -> Result {
        let rqst = self.as_raw();
        // SAFETY: By the type invariants the request is alive. Only the task that encodes the call
        // accesses the description, and the caller runs in that task.
        let (size, buf) = unsafe { ((*rqst).rq_rcvsize, &mut (*rqst).rq_rcv_buf) };
        let ([head], [tail]) = (&buf.head, &mut buf.tail);
        if head.iov_len > size {
            let room = usize::min(size.saturating_add(GROWTH), self.slot().buffers.room.get());
            tail.iov_len = room.checked_sub(head.iov_len).ok_or(EMSGSIZE)?;
            // CAST: Far below 4 GiB.
            buf.buflen = buf.page_len.saturating_add(room as u32);
        }
        Ok(())
    }

    /// Returns whether the RPC has a reply. Calls without a reply are rare.
    pub(crate) fn reply_expected(&self) -> bool {
        // SAFETY: By the type invariants the task is alive; its procedure is static data.
        unsafe {
            let proc_info = (*self.task()).tk_msg.rpc_proc;
            !proc_info.is_null() && (*proc_info).p_decode.is_some()
        }
    }

    /// Returns whether the authentication flavour must process all data (`RPCAUTH_AUTH_DATATOUCH`:
    /// integrity or privacy). The peer must not place data in chunks in that case.
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
    /// recorded before [`Transport::send`](super::transport::Transport::send) was called.
    pub(crate) fn mark_sent(&self) {
        let rqst = self.as_raw();
        // SAFETY: By the type invariants the request is alive. The member changes under the send
        // lock, which the caller holds.
        unsafe { (*rqst).rq_xmit_bytes_sent += u32_as_usize((*rqst).rq_snd_buf.len) };
    }

    /// Records the start of the transmission, from which SUNRPC computes the round-trip time.
    pub(super) fn mark_start(&self) {
        // SAFETY: By the type invariants the request is alive. The member changes under the send
        // lock, which the caller holds. `ktime_get` has no preconditions after boot.
        unsafe { (*self.as_raw()).rq_xtime = k::ktime_get() };
    }
}

/// Type of the function with which a flavour frees its pages.
type FreePages = unsafe extern "C" fn(*mut raw::rpc_rqst);

/// The flavour's function while [`free_after_invalidation`] replaces it.
///
/// # Invariants
///
/// - Accessed only by the task that owns the slot's request.
/// - Holds a function exactly while the request's `rq_release_snd_buf` is
///   [`free_after_invalidation`].
pub(super) struct Hook(Cell<Option<FreePages>>);

impl Hook {
    /// Returns the state in which no function is replaced.
    pub(super) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Returns whether a function is replaced.
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

/// Replaces the flavour's function, if the call that was just encoded has one.
///
/// # Safety
///
/// `rqst` is embedded in a `Slot<T>`, and the caller runs in the task that owns the request.
pub(super) unsafe fn hook<T: Transport>(rqst: NonNull<raw::rpc_rqst>) {
    // SAFETY: By the safety requirements a slot contains the request, and no other task accesses
    // either member.
    let (saved, current) = unsafe {
        let slot = Slot::<T>::from_rqst(rqst);
        (&slot.hook.0, &mut (*rqst.as_ptr()).rq_release_snd_buf)
    };
    if current.is_some() && saved.get().is_none() {
        // INVARIANT: Both change together.
        saved.set(current.replace(free_after_invalidation::<T>));
    }
}

/// Restores the flavour's function and returns it, if it was replaced. The caller guarantees that
/// no device or peer still accesses the pages.
///
/// # Safety
///
/// `rqst` is embedded in a `Slot<T>`, and the caller runs in the task that owns the request.
pub(super) unsafe fn unhook<T: Transport>(rqst: NonNull<raw::rpc_rqst>) -> Option<FreePages> {
    // SAFETY: By the safety requirements a slot contains the request.
    let original = unsafe { Slot::<T>::from_rqst(rqst) }.hook.0.take()?;
    // INVARIANT: Both change together.
    // SAFETY: By the safety requirements no other task accesses the member.
    unsafe { (*rqst.as_ptr()).rq_release_snd_buf = Some(original) };
    Some(original)
}

/// Frees the pages of the previous encoding after the transport has ended all access to them. May
/// sleep.
///
/// # Safety
///
/// The flavour calls this when it encodes the call again: in the task that owns the request, which
/// has left all queues.
unsafe extern "C" fn free_after_invalidation<T: Transport>(rqst: *mut raw::rpc_rqst) {
    // SAFETY: Only `hook` passes this function on, with a request that is embedded in a `Slot<T>`.
    // By the safety requirements the caller is the task that owns it. The flavour's function gets
    // the request for which the flavour had stored it.
    unsafe {
        let (xprt, call) = ops::parts::<T>(rqst);
        xprt.data().invalidate_call(xprt, call);
        if let Some(free) = unhook::<T>(NonNull::new_unchecked(rqst)) {
            free(rqst);
        }
    }
}
