// SPDX-License-Identifier: GPL-2.0

//! How a call lies in the pages of an `svc_rqst`.
//!
//! The inline part fills `rq_pages` from the first page on. A payload lies in the second page and
//! those after it. SUNRPC's decoder reads head, pages and tail in this order, and requires that
//! their lengths add up to the length of the message.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// A payload that lies outside the inline part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    /// Bytes of the inline part that come before the payload in the message.
    pub(crate) at: usize,
    /// Length with its XDR padding.
    pub(crate) len: usize,
}

/// The lengths of the parts of a call. The tail follows the head in the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) head: usize,
    pub(super) pages: usize,
    pub(super) tail: usize,
}

impl Layout {
    /// Computes the layout of a call with `inline` bytes in the pages from the first one on, and
    /// with `payload`, in `slots` pages.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the call does not fit, or the inline part is longer than a page and there is a
    /// payload. `EINVAL` if a length is no multiple of four bytes, or the payload lies behind the
    /// end of the inline part.
    pub(super) fn new(inline: usize, payload: Option<Payload>, slots: usize) -> Result<Self> {
        let Payload { at, len } = payload.unwrap_or(Payload {
            at: inline.min(PAGE_SIZE),
            len: inline.saturating_sub(PAGE_SIZE),
        });
        if payload.is_some() && inline > PAGE_SIZE {
            return Err(EMSGSIZE);
        }
        let tail = if payload.is_some() {
            inline.checked_sub(at).ok_or(EINVAL)?
        } else {
            0
        };
        if [at, len, tail].iter().any(|part| part % 4 != 0) {
            return Err(EINVAL);
        }
        if len.div_ceil(PAGE_SIZE) >= slots {
            return Err(EMSGSIZE);
        }
        Ok(Self {
            head: at,
            pages: len,
            tail,
        })
    }

    /// Returns the length of the message.
    pub(super) fn len(&self) -> usize {
        self.head
            .saturating_add(self.pages)
            .saturating_add(self.tail)
    }
}
