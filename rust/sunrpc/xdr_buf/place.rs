// SPDX-License-Identifier: GPL-2.0

//! Putting a reply where its receiver expects it.
//!
//! SUNRPC keeps two descriptions of a reply's buffer, `rq_rcv_buf` for the decoder and
//! `rq_private_buf` for the transport, which must agree when the RPC is completed.

use core::marker::PhantomData;

use super::XdrBuf;
use crate::raw;

/// How a reply was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Length of the whole message, chunk and its padding included: what the RPC is completed with.
    pub(crate) len: u32,
    /// Bytes copied into the receiver's pages.
    pub(crate) copied: usize,
}

/// The buffer of a reply, to be filled in.
///
/// # Invariants
///
/// For `'a`: both pointers uphold the invariants of [`XdrBuf`], the two describe the same memory,
/// and nobody else uses either or that memory.
pub(in super::super) struct XdrBufMut<'a> {
    rcv: *mut raw::xdr_buf,
    private: *mut raw::xdr_buf,
    _lifetime: PhantomData<&'a mut raw::xdr_buf>,
}

impl XdrBufMut<'_> {
    /// Wraps the two descriptions of a reply's buffer.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariants.
    #[inline]
    pub(in super::super) unsafe fn from_raw(
        rcv: *mut raw::xdr_buf,
        private: *mut raw::xdr_buf,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            rcv,
            private,
            _lifetime: PhantomData,
        }
    }

    #[inline]
    fn buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants.
        unsafe { XdrBuf::from_raw(self.rcv) }
    }

    /// Places a reply of which `inline` came in the message and, if that is above 0, `chunk` bytes
    /// of payload through a write chunk that covers the buffer's pages.
    ///
    /// Without a chunk the message fills head, pages and tail in this order. With one, the head is
    /// cut to what came inline, so that the payload follows where the decoder looks for it; should
    /// more have come than fits the head, the rest goes behind the payload and its XDR padding.
    ///
    /// What does not fit is dropped: the decoder then finds the message too short.
    pub(in super::super) fn place(&mut self, inline: &[u8], chunk: u32) -> Placed {
        // XDR pads to four bytes. No chunk reaches beyond the pages it was offered for.
        let chunk = chunk.min(self.buf().page_len());
        let payload = chunk.checked_next_multiple_of(4).unwrap_or(chunk);
        let head_len = self.buf().head_len();
        let inline_len = u32::try_from(inline.len()).unwrap_or(u32::MAX);
        if chunk == 0 && inline_len <= head_len {
            self.fill_head(inline);
            return Placed {
                len: inline_len,
                copied: 0,
            };
        }
        if chunk != 0 && inline_len < head_len {
            self.cut_head(inline_len);
        }
        // CAST: `usize` has at least 32 bits.
        let (first, rest) = inline
            .split_at_checked(self.buf().head_len() as usize)
            .unwrap_or((inline, &[]));
        self.fill_head(first);
        let (kept, copied) = self.fill_rest(rest, payload);
        let first = u32::try_from(first.len()).unwrap_or(u32::MAX);
        Placed {
            len: first.saturating_add(payload).saturating_add(kept),
            copied,
        }
    }

    /// Cuts the head to `len` bytes, in both descriptions.
    fn cut_head(&mut self, len: u32) {
        for buf in [self.rcv, self.private] {
            // SAFETY: By the type invariants.
            let buf = unsafe { &mut *buf };
            let [head] = &mut buf.head;
            // CAST: `usize` has at least 32 bits; the second one only cuts.
            let delta = head.iov_len.saturating_sub(len as usize);
            head.iov_len -= delta;
            buf.buflen = buf.buflen.saturating_sub(super::narrow(delta));
        }
    }

    /// Copies `bytes`, no more than the head is long, to its beginning.
    #[inline]
    fn fill_head(&mut self, bytes: &[u8]) {
        let base = self.buf().head().iov_base.cast::<u8>();
        // SAFETY: By the type invariants the head is memory of its own, and `place` has seen to it
        // that `bytes` is no longer.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
    }

    /// Copies what of `bytes` fits behind the head and `skip` bytes more. Returns how much that was,
    /// and how much of it went into pages.
    fn fill_rest(&mut self, bytes: &[u8], skip: u32) -> (u32, usize) {
        let buf = self.buf();
        let start = buf.head_len().saturating_add(skip);
        let room = buf.capacity().saturating_sub(start);
        let len = room.min(super::narrow(bytes.len()));
        if len == 0 || buf.lacks_pages() {
            return (0, 0);
        }
        // SAFETY: By the type invariants the buffer is well-formed and ours, and the range from
        // `start` on lies within it; `bytes` has `len` bytes, which the call only reads.
        let rc = unsafe {
            raw::write_bytes_to_xdr_buf(self.rcv, start, bytes.as_ptr().cast_mut().cast(), len)
        };
        if rc != 0 {
            return (0, 0);
        }
        let in_pages = len.min(buf.page_len().saturating_sub(skip));
        // CAST: `usize` has at least 32 bits.
        (len, in_pages as usize)
    }
}
