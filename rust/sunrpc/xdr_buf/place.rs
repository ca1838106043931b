// SPDX-License-Identifier: GPL-2.0

//! Copies a reply to the buffer in which its receiver expects it.
//!
//! SUNRPC has two descriptions of a reply's buffer, `rq_rcv_buf` for the decoder and
//! `rq_private_buf` for the transport, which must be equal when the RPC is completed.

use core::marker::PhantomData;

use super::XdrBuf;
use crate::compat::casts::u32_as_usize;
use crate::raw;

/// The result of placing a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Length of the whole message, including a chunk and its padding. The RPC is completed with
    /// it.
    pub(crate) len: u32,
    /// Bytes copied into the receiver's pages.
    pub(crate) copied: usize,
}

/// The buffer of a reply, which the transport fills in.
///
/// # Invariants
///
/// For `'a`: both pointers uphold the invariants of [`XdrBuf`], the two describe the same memory,
/// and no other code accesses either of them or that memory.
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

    fn buf(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the buffer upholds the invariants of `XdrBuf`.
        unsafe { XdrBuf::from_raw(self.rcv) }
    }

    /// Places a reply with the inline part `inline` and, if `chunk` is above 0, as many bytes of
    /// payload that the peer wrote to a write chunk for the buffer's pages.
    ///
    /// Without a chunk the message fills head, pages and tail in this order. With a chunk the head
    /// is truncated to the length of the inline part, so that the payload follows where the decoder
    /// expects it; if the inline part is longer than the head, the rest goes behind the payload and
    /// its XDR padding.
    ///
    /// Bytes that do not fit are dropped: the decoder then finds the message too short.
    #[inline(always)]
    pub(in super::super) fn place(&mut self, inline: &[u8], chunk: u32) -> Placed {
        // XDR pads to four bytes. A chunk is not longer than the pages for which it was offered.
        let chunk = chunk.min(self.buf().page_len());
        let payload = chunk.checked_next_multiple_of(4).unwrap_or(chunk);
        let head_len = self.buf().head_len();
        if inline.len() > u32_as_usize(head_len) {
            return self.place_long(inline, payload);
        }
        let inline_len = super::narrow(inline.len());
        if chunk != 0 && inline_len != head_len {
            self.truncate_head(inline_len);
        }
        self.fill_head(inline);
        Placed {
            len: inline_len.saturating_add(payload),
            copied: 0,
        }
    }

    /// Places an inline part that is longer than the head. `payload` is the length of the chunk
    /// with its padding.
    fn place_long(&mut self, inline: &[u8], payload: u32) -> Placed {
        let (first, rest) = inline
            .split_at_checked(u32_as_usize(self.buf().head_len()))
            .unwrap_or((inline, &[]));
        self.fill_head(first);
        let (kept, copied) = self.fill_rest(rest, payload);
        let first = super::narrow(first.len());
        Placed {
            len: first.saturating_add(payload).saturating_add(kept),
            copied,
        }
    }

    /// Truncates the head to `len` bytes, in both descriptions.
    fn truncate_head(&mut self, len: u32) {
        for buf in [self.rcv, self.private] {
            // SAFETY: By the type invariants no other code accesses the description.
            let buf = unsafe { &mut *buf };
            let [head] = &mut buf.head;
            let delta = head.iov_len.saturating_sub(u32_as_usize(len));
            head.iov_len -= delta;
            buf.buflen = buf.buflen.saturating_sub(super::narrow(delta));
        }
    }

    /// Copies `bytes` to the start of the head. `bytes` is not longer than the head.
    fn fill_head(&mut self, bytes: &[u8]) {
        let base = self.buf().head().iov_base.cast::<u8>();
        // SAFETY: By the type invariants no other code accesses the head, so it does not overlap
        // `bytes`. `place` and `place_long` pass at most as many bytes as the head has.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
    }

    /// Copies `bytes`, as far as they fit, to the offset `skip` bytes behind the head. Returns
    /// the number of bytes copied, and how many of them went into pages.
    fn fill_rest(&mut self, bytes: &[u8], skip: u32) -> (u32, usize) {
        let buf = self.buf();
        let start = buf.head_len().saturating_add(skip);
        let room = buf.capacity().saturating_sub(start);
        let len = room.min(super::narrow(bytes.len()));
        if len == 0 || buf.lacks_pages() {
            return (0, 0);
        }
        // SAFETY: By the type invariants the buffer is well-formed and not accessed by other code.
        // The range lies within it. `bytes` has `len` bytes, which the call only reads.
        let rc = unsafe {
            raw::write_bytes_to_xdr_buf(self.rcv, start, bytes.as_ptr().cast_mut().cast(), len)
        };
        if rc != 0 {
            return (0, 0);
        }
        let in_pages = len.min(buf.page_len().saturating_sub(skip));
        (len, u32_as_usize(in_pages))
    }
}
