// SPDX-License-Identifier: GPL-2.0

//! Queues: the ring, which allocates only when it is made; and the messages and fetched calls of a
//! connection that wait for a thread of the service.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::context::Call;
use crate::rdma::recv::Held;
use crate::sunrpc::svc::xprt::{Connected, Handle};
use crate::work::read_once;

/// A first-in, first-out queue.
///
/// # Invariants
///
/// The number of slots is a power of two and at least `room`, or zero. `first < slots.len()` unless
/// there are no slots, and `len <= room`. The `len` slots from `first` on, modulo the number of
/// slots, are full; the others are empty.
pub(crate) struct Ring<T> {
    slots: KVVec<Option<T>>,
    first: usize,
    len: usize,
    room: usize,
}

impl<T> Ring<T> {
    /// Makes an empty queue for `room` values. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(room: u32) -> Result<Self> {
        // CAST: `usize` has at least 32 bits.
        let room = room as usize;
        let places = room.next_power_of_two();
        let mut slots = KVVec::with_capacity(places, GFP_KERNEL)?;
        for _ in 0..places {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            len: 0,
            room,
        })
    }

    /// Returns whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of values that can be appended.
    pub(crate) fn room(&self) -> usize {
        // By the invariant the difference is not negative.
        self.room.wrapping_sub(self.len)
    }

    /// Returns the place of the next value that is appended.
    pub(crate) fn next(&self) -> usize {
        self.place(self.first.wrapping_add(self.len))
    }

    /// Reduces a number to that of a slot.
    fn place(&self, n: usize) -> usize {
        // By the invariant this is the remainder, if there are slots.
        n & self.slots.len().wrapping_sub(1)
    }

    /// Appends a value.
    ///
    /// # Errors
    ///
    /// Returns the value if the queue is full.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        self.insert(self.next(), self.first, value)
    }

    /// Inserts `value` before the oldest value.
    ///
    /// # Errors
    ///
    /// Returns the value if the queue is full.
    pub(crate) fn push_front(&mut self, value: T) -> Result<(), T> {
        let first = self.place(self.first.wrapping_sub(1));
        self.insert(first, first, value)
    }

    /// Puts a value into the empty slot `place`, and makes `first` the slot of the oldest value.
    #[inline(always)]
    fn insert(&mut self, place: usize, first: usize, value: T) -> Result<(), T> {
        match self.slots.get_mut(place) {
            Some(slot) if self.len < self.room => {
                // By the invariant the slot is empty, so nothing needs to be dropped.
                core::mem::forget(slot.replace(value));
                self.first = first;
                self.len = self.len.wrapping_add(1);
                Ok(())
            }
            _ => Err(value),
        }
    }

    /// Takes the slots of `fresh`, which is empty, if they are more. A queue without capacity takes
    /// none. Returns the slots that are not needed, which the caller drops without a lock.
    pub(crate) fn enlarge(&mut self, mut fresh: Self) -> Self {
        if self.room == 0 || fresh.room <= self.room {
            return fresh;
        }
        // The places go on.
        fresh.first = fresh.place(self.first);
        while let Some(value) = self.pop() {
            // `fresh` has more room than there are values.
            let refused = fresh.push(value);
            debug_assert!(refused.is_ok());
        }
        core::mem::replace(self, fresh)
    }

    /// Moves all values to the returned queue, and leaves a queue without capacity.
    pub(crate) fn take(&mut self) -> Self {
        let nothing = Self {
            slots: KVVec::new(),
            first: 0,
            len: 0,
            room: 0,
        };
        core::mem::replace(self, nothing)
    }

    /// Removes and returns the oldest value.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (_, value) = self.pop_if(|_| true)?;
        Some(value)
    }

    /// Removes and returns the oldest value with its place, if `is_wanted` returns true for it.
    pub(crate) fn pop_if(&mut self, is_wanted: impl FnOnce(&mut T) -> bool) -> Option<(usize, T)> {
        let place = self.first;
        // By the invariant the slot is empty if there is no value.
        let value = self.slots.get_mut(place)?.take_if(is_wanted)?;
        self.first = self.place(place.wrapping_add(1));
        self.len = self.len.wrapping_sub(1);
        Some((place, value))
    }

    /// Iterates over the values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Removes and returns the oldest value for which `is_wanted` returns true. The others keep
    /// their order.
    pub(crate) fn take_first(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut taken = None;
        for _ in 0..self.len {
            let value = self.pop()?;
            if taken.is_none() && is_wanted(&value) {
                taken = Some(value);
            } else {
                // `pop` has freed a place for the value.
                let refused = self.push(value);
                debug_assert!(refused.is_ok());
            }
        }
        taken
    }
}

/// The queue of one connection, and the transport whose threads empty the queue.
#[pin_data]
pub(crate) struct ReadyQueue {
    #[pin]
    state: SpinLock<ReadyState>,
    /// Whether only threads may fetch calls, for readers without the lock: the queue is stalled, or
    /// the requester bounds the RDMA Reads.
    threads_fetch: Atomic<bool>,
}

struct ReadyState {
    messages: Ring<Held>,
    fetched: Ring<KBox<Call>>,
    /// The oldest message is a call for which there are no pages, or no memory regions.
    stalled: bool,
    /// The requester bounds the RDMA Reads of this side.
    bounded: bool,
    /// The transport, from when it is accepted until its connection is given up. SUNRPC frees a
    /// transport without a handle, and the connection may end much later.
    xprt: Option<Handle<Connected>>,
}

impl ReadyState {
    /// Wakes a thread of the service. Does not sleep.
    #[inline(always)]
    fn wake(&self) {
        if let Some(xprt) = &self.xprt {
            xprt.data_arrived();
        }
    }
}

/// The next thing that a thread of the service receives.
pub(crate) enum Ready {
    /// A message.
    Message(Held),
    /// A call whose RDMA Reads have completed.
    Fetched(KBox<Call>),
}

impl ReadyQueue {
    /// Makes an empty queue for `messages` messages and `calls` fetched calls. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(messages: u32, calls: u32) -> Result<Arc<Self>> {
        let state = ReadyState {
            messages: Ring::new(messages)?,
            fetched: Ring::new(calls)?,
            stalled: false,
            bounded: false,
            xprt: None,
        };
        let queue = pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::ReadyQueue::state"),
            threads_fetch: Atomic::new(false),
        });
        Arc::pin_init(queue, GFP_KERNEL)
    }

    /// Makes room for `messages` messages and `calls` fetched calls. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn grow(&self, messages: u32, calls: u32) -> Result {
        let (messages, calls) = (Ring::new(messages)?, Ring::new(calls)?);
        let mut state = self.state.lock();
        let messages = state.messages.enlarge(messages);
        let rest = (messages, state.fetched.enlarge(calls));
        drop(state);
        drop(rest);
        Ok(())
    }

    /// Sets the transport, which a thread of the service accepts; or drops its handle, because its
    /// connection is given up.
    pub(in crate::server) fn set_xprt(&self, xprt: Option<Handle<Connected>>) {
        self.state.lock().xprt = xprt;
    }

    /// Calls `act` with the transport, if there is one. Returns whether there is. `act` does not
    /// sleep.
    pub(crate) fn with_xprt(&self, act: impl FnOnce(&Handle<Connected>)) -> bool {
        self.state.lock().xprt.as_ref().map(act).is_some()
    }

    /// Queues a message and wakes a thread. Returns the message if the queue has been closed by
    /// [`Self::clear`].
    #[inline(always)]
    pub(crate) fn push_message(&self, message: Held) -> Result<(), Held> {
        let mut state = self.state.lock();
        state.messages.push(message)?;
        state.wake();
        Ok(())
    }

    /// Queues a fetched call and wakes a thread. Returns the call if the queue has been closed by
    /// [`Self::clear`].
    #[inline(always)]
    pub(crate) fn push_fetched(&self, call: KBox<Call>) -> Result<(), KBox<Call>> {
        let mut state = self.state.lock();
        state.fetched.push(call)?;
        state.wake();
        Ok(())
    }

    /// Removes and returns the next fetched call, or the oldest message. Calls `emptied` if nothing
    /// is left that may be received now, under the lock that new arrivals take.
    #[inline(always)]
    pub(crate) fn pop(&self, emptied: impl FnOnce()) -> Option<Ready> {
        let mut state = self.state.lock();
        let next = match state.fetched.pop() {
            Some(call) => Some(Ready::Fetched(call)),
            None if state.stalled => None,
            None => state.messages.pop().map(Ready::Message),
        };
        let idle = state.stalled || state.messages.is_empty();
        if idle && state.fetched.is_empty() {
            emptied();
        }
        next
    }

    /// Puts back a message for whose call there are no pages or no memory regions. No message is
    /// received until [`Self::resume`] is called.
    #[cold]
    pub(crate) fn stall(&self, message: Held) {
        let mut state = self.state.lock();
        self.set_stalled(&mut state, true);
        // A queue that was closed refuses the message, which is then dropped without the lock.
        let _refused = state.messages.push_front(message);
        drop(state);
    }

    /// Resumes receiving if a message waits for pages or memory regions, and wakes a thread. The
    /// lock orders this with [`Self::stall`]: what an earlier caller returned is counted by the
    /// thread after it has stalled the queue.
    pub(crate) fn resume(&self) {
        if self.unstall() {
            self.state.lock().wake();
        }
    }

    /// Implements [`Self::resume`] for a caller that queues a message afterwards, and so wakes a
    /// thread. Returns whether messages wait.
    pub(crate) fn unstall(&self) -> bool {
        let mut state = self.state.lock();
        let stalled = state.stalled;
        self.set_stalled(&mut state, false);
        stalled && !state.messages.is_empty()
    }

    fn set_stalled(&self, state: &mut ReadyState, stalled: bool) {
        state.stalled = stalled;
        self.threads_fetch.store(stalled || state.bounded, Relaxed);
    }

    /// Sets whether the requester bounds the RDMA Reads of this side, so that only threads of the
    /// service fetch calls.
    pub(crate) fn set_bounded(&self, bounded: bool) {
        let mut state = self.state.lock();
        state.bounded = bounded;
        self.threads_fetch.store(bounded || state.stalled, Relaxed);
    }

    /// Returns whether only threads may fetch calls. A thread may change that at any time.
    pub(crate) fn threads_fetch(&self) -> bool {
        read_once(&self.threads_fetch)
    }

    /// Returns whether the oldest message waits for pages or memory regions.
    pub(super) fn is_stalled(&self) -> bool {
        self.state.lock().stalled
    }

    /// Returns the number of pages of the budget that fetched calls use.
    #[cold]
    pub(crate) fn pages(&self) -> usize {
        let state = self.state.lock();
        state.fetched.iter().map(|call| call.pages()).sum()
    }

    /// Drops all messages and calls that have not been received, and closes the queue. May sleep.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        // The values are dropped without the lock.
        let _dropped = (state.messages.take(), state.fetched.take());
        drop(state);
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_queue)]
mod tests {
    use super::*;

    impl ReadyQueue {
        /// Makes a queue without capacity that waits for pages.
        pub(in crate::server::call) fn stalled() -> Result<Arc<Self>> {
            let queue = Self::new(0, 0)?;
            queue.stall_again();
            Ok(queue)
        }

        /// Makes the queue wait for pages again.
        pub(in crate::server::call) fn stall_again(&self) {
            self.set_stalled(&mut self.state.lock(), true);
        }
    }

    #[test]
    fn first_in_first_out_across_the_end() -> Result {
        let mut ring = Ring::new(3)?;
        for round in 0..10 {
            assert_eq!(ring.push(round), Ok(()));
            assert_eq!(ring.push(round + 100), Ok(()));
            assert!(ring.pop_if(|oldest| *oldest != round).is_none());
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
        assert_eq!(ring.room(), 0);
        assert_eq!((ring.pop(), ring.len()), (Some(1), 1));
        assert_eq!(ring.push(4), Ok(()));
        assert_eq!(ring.pop(), Some(2));
        assert_eq!((ring.push_front(2), ring.push_front(1)), (Ok(()), Err(1)));
        assert_eq!((ring.pop(), ring.pop()), (Some(2), Some(4)));
        assert!(ring.is_empty());
        Ok(())
    }

    #[test]
    fn larger_ring_keeps_the_order() -> Result {
        let mut ring = Ring::new(2)?;
        assert_eq!((ring.push(0), ring.pop()), (Ok(()), Some(0)));
        assert_eq!((ring.push(1), ring.push(2)), (Ok(()), Ok(())));
        assert_eq!(ring.enlarge(Ring::new(5)?).room(), 2);
        assert_eq!((ring.push(3), ring.room()), (Ok(()), 2));
        assert_eq!(ring.enlarge(Ring::new(4)?).room(), 4);
        for value in 1..=3 {
            assert_eq!(ring.pop(), Some(value));
        }
        drop(ring.take());
        assert_eq!(ring.enlarge(Ring::new(4)?).room(), 4);
        assert_eq!(ring.push(4), Err(4));
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
