// SPDX-License-Identifier: GPL-2.0

//! A list of boxed objects that are linked through themselves: putting one in never allocates,
//! so it works in `Drop`.

use kernel::prelude::*;

/// An object with room for a link.
pub(super) trait Linked: Sized {
    /// Where the link is kept while the object is in a [`Stack`].
    fn link(&mut self) -> &mut Option<KBox<Self>>;
}

/// Last in, first out: what was used last is warmest in the cache.
pub(super) struct Stack<T: Linked> {
    head: Option<KBox<T>>,
    len: u32,
}

impl<T: Linked> Stack<T> {
    /// The empty stack.
    pub(super) const fn new() -> Self {
        Self { head: None, len: 0 }
    }

    /// Number of objects.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Puts one on top.
    #[inline]
    pub(super) fn push(&mut self, mut item: KBox<T>) {
        *item.link() = self.head.take();
        self.head = Some(item);
        self.len += 1;
    }

    /// Takes the one on top.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<KBox<T>> {
        let mut item = self.head.take()?;
        self.head = item.link().take();
        self.len -= 1;
        Some(item)
    }

    /// Takes all of them.
    #[inline]
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }
}

impl<T: Linked> Drop for Stack<T> {
    fn drop(&mut self) {
        // One after the other: dropping the links of a long list would recurse.
        while self.pop().is_some() {}
    }
}
