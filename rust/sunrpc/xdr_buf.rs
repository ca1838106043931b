// SPDX-License-Identifier: GPL-2.0

//! XDR buffers: an RPC message as SUNRPC stores it, in a head, pages and a tail.
//!
//! C header: [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

mod pieces;
mod place;
#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
mod tests;

pub(crate) use self::pieces::Pieces;
pub(crate) use self::place::Placed;
pub(super) use self::place::XdrBufMut;

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};
use kernel::prelude::*;

use crate::compat::casts::u32_as_usize;
use crate::mem::{Payload, Sections};
use crate::raw;

/// Converts a length to the type of the C interface. XDR buffers are far smaller than 4 GiB.
fn narrow(len: usize) -> u32 {
    // CAST: A longer buffer would count as a shorter one.
    len as u32
}

/// A message buffer. Offsets and lengths are in bytes; head, pages and tail form one continuous
/// range in this order.
///
/// # Invariants
///
/// For `'a`:
///
/// - The pointer is that of an initialised `xdr_buf`, whose pointers and lengths do not change.
/// - `head` and `tail` describe memory of the direct map (`kmalloc`, or an allocated page) or have
///   length 0; `pages` has room for `page_base + page_len` bytes, and null entries only where
///   `XDRBUF_SPARSE_PAGES` is set.
pub(crate) struct XdrBuf<'a> {
    buf: NonNull<raw::xdr_buf>,
    _lifetime: PhantomData<&'a raw::xdr_buf>,
}

impl<'a> XdrBuf<'a> {
    /// Wraps `buf`.
    ///
    /// # Safety
    ///
    /// - `buf` is not null.
    /// - The caller upholds the type invariants.
    pub(super) unsafe fn from_raw(buf: *mut raw::xdr_buf) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            // SAFETY: By the safety requirements `buf` is not null.
            buf: unsafe { NonNull::new_unchecked(buf) },
            _lifetime: PhantomData,
        }
    }

    fn raw(&self) -> &raw::xdr_buf {
        // SAFETY: By the type invariants the buffer is initialised and does not change.
        unsafe { self.buf.as_ref() }
    }

    fn head(&self) -> &raw::kvec {
        let [head] = &self.raw().head;
        head
    }

    fn tail(&self) -> &raw::kvec {
        let [tail] = &self.raw().tail;
        tail
    }

    /// Returns the number of bytes in the head.
    pub(crate) fn head_len(&self) -> u32 {
        narrow(self.head().iov_len)
    }

    /// Returns the number of bytes in the pages.
    pub(crate) fn page_len(&self) -> u32 {
        self.raw().page_len
    }

    /// Returns the number of bytes in the tail.
    pub(crate) fn tail_len(&self) -> u32 {
        narrow(self.tail().iov_len)
    }

    /// Returns the length of the encoded message.
    pub(crate) fn len(&self) -> u32 {
        self.raw().len
    }

    /// Returns the maximum length of the message: for a reply, the longest acceptable length.
    pub(crate) fn buflen(&self) -> u32 {
        self.raw().buflen
    }

    /// Returns the number of bytes in head, pages and tail together; 0 for the description of a
    /// buffer that cannot exist, because it has 4 GiB or more.
    pub(crate) fn capacity(&self) -> u32 {
        let len = self.head_len().checked_add(self.page_len());
        let len = len.and_then(|len| len.checked_add(self.tail_len()));
        len.unwrap_or(0)
    }

    fn has(&self, flag: u32) -> bool {
        self.raw().flags & flag != 0
    }

    /// Returns whether the pages are the target of a file read, so that a write chunk may be
    /// offered for them (`XDRBUF_READ`).
    pub(crate) fn may_read(&self) -> bool {
        self.has(raw::XDRBUF_READ)
    }

    /// Returns whether the pages are the source of a file write, so that a read chunk may be
    /// offered for them (`XDRBUF_WRITE`).
    pub(crate) fn may_write(&self) -> bool {
        self.has(raw::XDRBUF_WRITE)
    }

    /// Returns whether some of the pages may be missing (`XDRBUF_SPARSE_PAGES`).
    fn sparse(&self) -> bool {
        self.has(raw::XDRBUF_SPARSE_PAGES)
    }

    /// Copies `out.len()` bytes, starting at `offset`, to `out`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range exceeds the buffer.
    #[inline(always)]
    pub(crate) fn copy_to(&self, offset: u32, out: &mut [u8]) -> Result {
        let head = self.head();
        let from = u32_as_usize(offset);
        if from
            .checked_add(out.len())
            .is_some_and(|end| end <= head.iov_len)
        {
            // SAFETY: The range lies within the head, which by the type invariants is valid memory.
            // `out` is exclusively borrowed, so it does not overlap the head.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    head.iov_base.cast::<u8>().add(from),
                    out.as_mut_ptr(),
                    out.len(),
                );
            }
            return Ok(());
        }
        self.copy_scattered(offset, out)
    }

    /// Implements [`Self::copy_to`] for a range that exceeds the head.
    fn copy_scattered(&self, offset: u32, out: &mut [u8]) -> Result {
        let len = u32::try_from(out.len()).map_err(|_| EINVAL)?;
        // The C function adds `offset` and lengths without a check, so the sum must not overflow.
        offset
            .checked_add(len)
            .filter(|&end| end <= self.capacity())
            .ok_or(EINVAL)?;
        // SAFETY: By the type invariants the buffer is well-formed, and the call does not change
        // it; the range lies within it; `out` has room for `len` bytes.
        let rc = unsafe {
            raw::read_bytes_from_xdr_buf(self.buf.as_ptr(), offset, out.as_mut_ptr().cast(), len)
        };
        (rc == 0).then_some(()).ok_or(EINVAL)
    }

    /// Returns the memory of `len` bytes, starting at `offset`, in order and in as few pieces as
    /// possible: adjacent pages are merged. Ends early at the end of the buffer or at a missing
    /// page.
    ///
    /// The user of the pieces guarantees that none is used after SUNRPC may have freed the memory;
    /// for a client transport see [`Transport`], section "Memory".
    ///
    /// [`Transport`]: super::xprt::transport::Transport
    pub(crate) fn pieces(&self, offset: u32, len: u32) -> Pieces<'_> {
        Pieces::new(self.raw(), offset, len)
    }

    /// Returns the memory of the pages, which ends at a missing page.
    ///
    /// As with [`Self::pieces`], the user guarantees that the memory is not used after SUNRPC may
    /// have freed it.
    pub(crate) fn payload(&self) -> Payload<'_> {
        pieces::payload(self.raw(), 0, u32::MAX)
    }

    /// Returns the memory of head, pages and tail, in which the pages end at a missing page.
    ///
    /// As with [`Self::pieces`], the user guarantees that the memory is not used after SUNRPC may
    /// have freed it.
    pub(crate) fn sections(&self) -> Sections<'_> {
        pieces::sections(self.raw())
    }

    /// Returns whether a page is missing.
    fn lacks_pages(&self) -> bool {
        self.sparse() && self.page_slots().iter().any(|slot| slot.get().is_null())
    }

    /// Returns the entries of `pages` that the buffer uses.
    fn page_slots(&self) -> &[core::cell::Cell<*mut k::page>] {
        let buf = self.raw();
        if buf.page_len == 0 || buf.pages.is_null() {
            return &[];
        }
        let base = u32_as_usize(buf.page_base);
        let within = base % PAGE_SIZE;
        let count = (within + u32_as_usize(buf.page_len)).div_ceil(PAGE_SIZE);
        // SAFETY: By the type invariants `pages` has that many entries from there on. Only the RPC
        // that owns the buffer accesses them, from one thread at a time.
        unsafe { core::slice::from_raw_parts(buf.pages.add(base >> PAGE_SHIFT).cast(), count) }
    }

    /// Allocates the pages that the receiver of a reply did not provide (`XDRBUF_SPARSE_PAGES`),
    /// with zeros: a server may claim to have written more than it has. The receiver owns them
    /// afterwards. May sleep; only in
    /// [`Transport::prepare`](super::xprt::transport::Transport::prepare).
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the pages allocated so far stay in the buffer, and the next call keeps them.
    pub(crate) fn fill_sparse(&self) -> Result {
        let slots = if self.sparse() {
            self.page_slots()
        } else {
            &[]
        };
        for slot in slots {
            if slot.get().is_null() {
                // SAFETY: The function has no preconditions. The mask is that for the current task.
                let page = unsafe { k::alloc_pages(raw::rpc_task_gfp_mask() | k::__GFP_ZERO, 0) };
                if page.is_null() {
                    return Err(ENOMEM);
                }
                slot.set(page);
            }
        }
        Ok(())
    }
}
