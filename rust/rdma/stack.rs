// SPDX-License-Identifier: GPL-2.0

//! A list of boxed objects, each of which has the link to the next. Adding an object never
//! allocates, so `Drop` implementations can do it.

use core::ops::DerefMut;

/// An object with a field for a link.
pub(super) trait Linked: Sized {
    /// A box of such objects.
    type Boxed: DerefMut<Target = Self>;

    /// Returns the field for the link to the next object of a [`LinkedStack`].
    fn link(&mut self) -> &mut Option<Self::Boxed>;
}

/// A last-in, first-out list: the object that was used last is most likely still in the cache.
pub(super) struct LinkedStack<T: Linked> {
    head: Option<T::Boxed>,
    len: u32,
}

impl<T: Linked> LinkedStack<T> {
    /// Creates an empty stack.
    pub(super) const fn new() -> Self {
        Self { head: None, len: 0 }
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds an object on top.
    pub(super) fn push(&mut self, mut item: T::Boxed) {
        *item.link() = self.head.take();
        self.head = Some(item);
        self.len += 1;
    }

    /// Removes the object on top.
    pub(super) fn pop(&mut self) -> Option<T::Boxed> {
        let mut item = self.head.take()?;
        self.head = item.link().take();
        self.len -= 1;
        Some(item)
    }
}

impl<T: Linked> Drop for LinkedStack<T> {
    fn drop(&mut self) {
        // Objects are dropped in a loop: dropping a long chain of boxes would recurse.
        while self.pop().is_some() {}
    }
}
