// SPDX-License-Identifier: GPL-2.0

//! A queue of a fixed length, which never allocates after it was made.

use kernel::prelude::*;

/// A first-in, first-out queue.
///
/// # Invariants
///
/// `first < slots.len()` unless there are no slots, and `len <= slots.len()`. The `len` slots from
/// `first` on, modulo the number of slots, are full; the others are empty.
pub(super) struct Ring<T> {
    slots: KVVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// Makes an empty queue with room for `room` values. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(room: u32) -> Result<Self> {
        // CAST: `usize` has at least 32 bits.
        let mut slots = KVVec::with_capacity(room as usize, GFP_KERNEL)?;
        for _ in 0..room {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            len: 0,
        })
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the queue has no room.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the place of the value number `n`.
    #[inline]
    fn place(&self, n: usize) -> usize {
        let place = self.first + n;
        if place < self.slots.len() {
            place
        } else {
            place - self.slots.len()
        }
    }

    /// Appends a value.
    ///
    /// # Errors
    ///
    /// Returns the value if there is no room.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        let place = self.place(self.len);
        match self.slots.get_mut(place) {
            Some(slot) => {
                // By the invariant the slot is empty, so nothing needs to be dropped.
                core::mem::forget(slot.replace(value));
                self.len += 1;
                Ok(())
            }
            None => Err(value),
        }
    }

    /// Makes `value` the oldest one.
    ///
    /// # Errors
    ///
    /// Returns the value if there is no room.
    pub(super) fn push_front(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        let place = self.first.checked_sub(1).unwrap_or(self.slots.len() - 1);
        match self.slots.get_mut(place) {
            Some(slot) => {
                *slot = Some(value);
                self.first = place;
                self.len += 1;
                Ok(())
            }
            None => Err(value),
        }
    }

    /// Removes all values, and leaves a queue without room.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self {
            slots: KVVec::new(),
            first: 0,
            len: 0,
        };
        core::mem::replace(self, empty)
    }

    /// Removes and returns the oldest value.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots.get_mut(self.first)?.take();
        self.first = self.place(1);
        self.len -= 1;
        value
    }

    /// Returns the values, in no certain order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Removes and returns the oldest value for which `is_wanted` returns true. The others keep
    /// their order.
    pub(super) fn take_first(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut taken = None;
        for _ in 0..self.len {
            let value = self.pop()?;
            if taken.is_none() && is_wanted(&value) {
                taken = Some(value);
            } else {
                // The value has just left a place.
                let refused = self.push(value);
                debug_assert!(refused.is_ok());
            }
        }
        taken
    }

    /// Returns the oldest value.
    #[inline]
    pub(super) fn front(&mut self) -> Option<&mut T> {
        self.slots.get_mut(self.first)?.as_mut()
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_ring)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_across_the_end() -> Result {
        let mut ring = Ring::new(3)?;
        for round in 0..10 {
            assert_eq!(ring.push(round), Ok(()));
            assert_eq!(ring.push(round + 100), Ok(()));
            assert_eq!(ring.front(), Some(&mut round.clone()));
            assert_eq!(
                (ring.pop(), ring.pop(), ring.pop()),
                (Some(round), Some(round + 100), None)
            );
        }
        Ok(())
    }

    #[test]
    fn full_ring_returns_the_value() -> Result {
        let mut ring = Ring::new(2)?;
        assert_eq!(
            (ring.push(1), ring.push(2), ring.push(3)),
            (Ok(()), Ok(()), Err(3))
        );
        assert!(ring.is_full());
        assert_eq!((ring.pop(), ring.len()), (Some(1), 1));
        assert_eq!(ring.push(4), Ok(()));
        assert_eq!(ring.pop(), Some(2));
        assert_eq!((ring.push_front(2), ring.push_front(1)), (Ok(()), Err(1)));
        assert_eq!((ring.pop(), ring.pop()), (Some(2), Some(4)));
        assert!(ring.is_empty());
        Ok(())
    }

    #[test]
    fn value_is_taken_out_of_the_middle() -> Result {
        let mut ring = Ring::new(4)?;
        for value in 1..=4 {
            assert_eq!(ring.push(value), Ok(()));
        }
        assert_eq!(ring.take_first(|value| value % 2 == 0), Some(2));
        assert_eq!(ring.take_first(|value| *value > 4), None);
        assert_eq!(ring.iter().sum::<i32>(), 1 + 3 + 4);
        assert_eq!(
            (ring.pop(), ring.pop(), ring.pop()),
            (Some(1), Some(3), Some(4))
        );
        assert!(ring.is_empty());
        Ok(())
    }

    #[test]
    fn ring_without_room_takes_nothing() -> Result {
        let mut ring = Ring::new(0)?;
        assert_eq!((ring.push(1), ring.pop()), (Err(1), None));
        Ok(())
    }
}
