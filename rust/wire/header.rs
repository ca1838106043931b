// SPDX-License-Identifier: GPL-2.0

//! What the decoded messages of all versions have in common.

use super::Prefix;

/// A decoded message whose body is a `B`: [`super::v1::Body`] or [`super::v2::Body`]. All
/// accessors are infallible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<B> {
    xid: u32,
    credits: u32,
    header_len: usize,
    body: B,
}

impl<B> Header<B> {
    /// Puts together what was decoded.
    #[inline]
    pub(super) const fn new(prefix: &Prefix, header_len: usize, body: B) -> Self {
        Self {
            xid: prefix.xid,
            credits: prefix.credits,
            header_len,
            body,
        }
    }

    /// Transaction ID, in the XID space of the message's direction.
    #[inline]
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Credits requested (call) or granted (reply), as sent: clamp before use.
    #[inline]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// What follows the four fixed words.
    #[inline]
    pub const fn body(&self) -> &B {
        &self.body
    }

    /// Length of the header in bytes: where the RPC message starts, if one follows.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }
}
