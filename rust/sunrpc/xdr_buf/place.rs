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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Length of the whole message, including a chunk and its padding. The RPC is completed with
    /// it. 0: nothing was placed.
    pub(crate) len: u32,
    /// Bytes copied into the receiver's pages.
    pub(crate) copied: usize,
}

/// The buffer of a reply, which the transport fills in.
///
/// # Invariants
///
/// For `'a`: both pointers uphold the invariants of [`XdrBuf`], the two describe the same memory,
/// and no other code accesses either of them or that memory. The head begins `room` bytes of
/// memory and lies in them, and so does the tail behind it, if there are pages.
pub(in super::super) struct XdrBufMut<'a> {
    rcv: *mut raw::xdr_buf,
    private: *mut raw::xdr_buf,
    room: usize,
    _lifetime: PhantomData<&'a mut raw::xdr_buf>,
}

impl XdrBufMut<'_> {
    /// Wraps the two descriptions of a reply's buffer, whose head and tail have `room` bytes.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariants.
    pub(in super::super) unsafe fn from_raw(
        rcv: *mut raw::xdr_buf,
        private: *mut raw::xdr_buf,
        room: usize,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            rcv,
            private,
            room,
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
    /// gets the length of the inline part, so that the payload follows where the decoder expects
    /// it. (Nothing follows the payload but padding: NFS reads a file last.)
    ///
    /// Bytes that do not fit are dropped: the decoder then finds the message too short. So are the
    /// bytes behind the head, if the description is that of no buffer. Nothing is placed if the
    /// head does not fit.
    #[inline(always)]
    pub(in super::super) fn place(&mut self, inline: &[u8], chunk: u32) -> Placed {
        if chunk != 0 {
            return self.place_header(inline, chunk);
        }
        if inline.len() > u32_as_usize(self.buf().head_len()) {
            return self.place_long(inline);
        }
        self.fill_head(inline);
        let len = super::narrow(inline.len());
        Placed { len, copied: 0 }
    }

    /// Places a whole message that is longer than the head.
    fn place_long(&mut self, message: &[u8]) -> Placed {
        let head_len = u32_as_usize(self.buf().head_len());
        let (first, rest) = message.split_at_checked(head_len).unwrap_or((message, &[]));
        if first.len() > self.room {
            return Placed::default();
        }
        self.fill_head(first);
        let (kept, copied) = self.fill_rest(rest);
        let len = super::narrow(first.len()).saturating_add(kept);
        Placed { len, copied }
    }

    /// Places the inline part of a message whose payload is a chunk.
    fn place_header(&mut self, inline: &[u8], chunk: u32) -> Placed {
        // XDR pads to four bytes. A chunk is not longer than the pages for which it was offered.
        let payload = chunk.min(self.buf().page_len()).saturating_add(3) & !3;
        // A header has whole words. Bytes that follow them are padding of the payload.
        let header = inline.get(..inline.len() & !3).unwrap_or_default();
        if header.len() > self.room {
            return Placed::default();
        }
        if super::narrow(header.len()) != self.buf().head_len() {
            self.set_head(header.len());
        }
        self.fill_head(header);
        let len = super::narrow(header.len()).saturating_add(payload);
        Placed { len, copied: 0 }
    }

    /// Sets the length of the head, in both descriptions. The tail remains behind it, within the
    /// memory. `len` is at most `room`.
    fn set_head(&mut self, len: usize) {
        for buf in [self.rcv, self.private] {
            // SAFETY: By the type invariants no other code accesses the description.
            let buf = unsafe { &mut *buf };
            let ([head], [tail]) = (&mut buf.head, &mut buf.tail);
            let grown = len.saturating_sub(head.iov_len);
            tail.iov_base = tail.iov_base.wrapping_byte_add(grown);
            tail.iov_len = tail.iov_len.min(self.room.saturating_sub(len));
            head.iov_len = len;
            let rest = super::narrow(tail.iov_len.saturating_add(len));
            buf.buflen = buf.page_len.saturating_add(rest);
        }
    }

    /// Copies `bytes` to the start of the head. `bytes` is not longer than the head.
    fn fill_head(&mut self, bytes: &[u8]) {
        let base = self.buf().head().iov_base.cast::<u8>();
        // SAFETY: By the type invariants no other code accesses the head, so it does not overlap
        // `bytes`. The callers pass at most as many bytes as the head has.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
    }

    /// Copies `bytes`, as far as they fit, behind the head. Returns the number of bytes copied, and
    /// how many of them went into pages.
    fn fill_rest(&mut self, bytes: &[u8]) -> (u32, usize) {
        let buf = self.buf();
        let start = buf.head_len();
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
        let kept = if rc == 0 { len } else { 0 };
        (kept, u32_as_usize(kept.min(buf.page_len())))
    }
}
