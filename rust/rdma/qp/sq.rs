// SPDX-License-Identifier: GPL-2.0

//! Accounting of a send queue: how much room it has, and which work requests have completed.
//!
//! Work requests are numbered from 1 in the order of posting; the number is the *position*. Most of
//! them are unsignalled: their completion is not reported. A work request is *retired* when it is
//! known to have completed, because it, or a later one, was signalled and has completed. Retiring
//! gives the queue its room back, so some work requests are signalled for that alone.
//!
//! Completions should arrive in the order of posting. siw reports an RDMA Read when its response
//! has arrived, and may report later work requests before that (`siw_qp_sq_process()`). Such a
//! completion is recorded, and passed on when those before it have arrived, because memory is
//! released by position.

use kernel::alloc::allocator::KVmalloc;
use kernel::prelude::*;

use crate::compat::casts::u32_as_usize;
use crate::mem::{CachedVec, NumaAlloc};

/// The reason why a completion retires nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetireError {
    /// An older work request is outstanding. [`SendQueue::retire_early`] returns it later.
    Early,
    /// No signalled work request of the tag is outstanding: the completion is impossible.
    Unknown,
}

/// The queue has too little space for the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

/// Room for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// Position of the chain's last work request.
    pub(super) position: u64,
    /// Whether that work request has to be signalled.
    pub(super) signalled: bool,
}

/// A signalled work request that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// Position of the work request. It and all before it have completed.
    pub(super) position: u64,
    /// Whether the consumer asked for the completion.
    pub(super) wanted: bool,
    /// Whether a chain was refused since the last completion, so that the consumer waits for space.
    pub(super) room: bool,
    /// Whether [`SendQueue::retire_early`] may return more.
    pub(super) more: bool,
}

/// A signalled work request that is outstanding. It has few bits, because a queue has many of them.
#[derive(Clone, Copy, Default)]
struct Signal {
    /// The number of work requests since the signalled one before, and of this one.
    covered: u32,
    /// Number of the [`Tag`](super::Tag) that the work request belongs to, and the flags.
    tag: u32,
}

impl Signal {
    /// Whether the consumer asked for the completion.
    const WANTED: u32 = 1 << 31;
    /// Whether it has completed, before an older one.
    const EARLY: u32 = 1 << 30;
    /// The bits of the tag.
    const TAG: u32 = Self::EARLY - 1;
}

/// Returns whether a chain of `n` work requests can be posted to a queue of `depth` as soon as all
/// signalled work requests have completed. Up to a quarter of the queue may then hold unsignalled
/// ones.
pub(crate) const fn holds_chain(depth: u32, n: u32) -> bool {
    n <= depth - longest_run(depth)
}

/// Returns how many unsignalled work requests may follow the last signalled one: a quarter of the
/// queue, and none if it has less than four. A chain that would exceed this ends with a signal.
const fn longest_run(depth: u32) -> u32 {
    depth / 4
}

/// The state of one send queue.
///
/// # Invariants
///
/// - `retired <= posted`, and their difference is at most `depth`.
/// - `signals` is a ring buffer of `depth` entries. `count` of them, from `first` on, are the
///   signalled work requests between `retired` and `posted`, oldest first.
/// - The oldest of them is outstanding. `early` of the others have completed.
pub(super) struct SendQueue {
    depth: u32,
    longest_run: u32,
    posted: u64,
    retired: u64,
    /// Number of unsignalled work requests since the last signalled one.
    run: u32,
    signals: CachedVec<Signal, KVmalloc>,
    first: usize,
    count: usize,
    early: usize,
    /// Whether a chain was refused since the last completion.
    refused: bool,
}

impl SendQueue {
    /// Creates the state of an empty queue of `depth` work requests. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a depth of 0; `ENOMEM`.
    pub(super) fn new(alloc: NumaAlloc<'_>, depth: u32) -> Result<Self> {
        if depth == 0 {
            return Err(EINVAL);
        }
        let mut signals: CachedVec<_, KVmalloc> =
            alloc.with_capacity(u32_as_usize(depth), GFP_KERNEL)?;
        signals.extend_with(u32_as_usize(depth), Signal::default(), GFP_KERNEL)?;
        Ok(Self {
            depth,
            longest_run: longest_run(depth),
            posted: 0,
            retired: 0,
            run: 0,
            signals,
            first: 0,
            count: 0,
            early: 0,
            refused: false,
        })
    }

    /// Returns the position of the last work request that was posted.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns the number of work requests for which there is space, and the length of the queue.
    pub(super) fn room(&self) -> (u32, u32) {
        // CAST: by the type invariant the difference is at most `depth`.
        let used = (self.posted - self.retired) as u32;
        (self.depth.saturating_sub(used), self.depth)
    }

    /// Reserves space for a chain of `n` work requests. The last one belongs to `tag`, and is
    /// signalled if `wanted`, or if there would be too many consecutive unsignalled ones.
    ///
    /// # Errors
    ///
    /// [`QueueFull`]: the queue is as before.
    // `Qp::submit` is compiled once for each role. Without the attribute, the compiler inlines this
    // function only if it has a single caller.
    #[inline(always)]
    pub(super) fn reserve(
        &mut self,
        n: u32,
        tag: u32,
        wanted: bool,
    ) -> Result<Reservation, QueueFull> {
        // INVARIANT: This comparison keeps the difference within `depth`.
        let used = self.posted.wrapping_sub(self.retired);
        if used.saturating_add(n.into()) > self.depth.into() {
            self.refused = true;
            return Err(QueueFull);
        }
        self.posted = self.posted.wrapping_add(n.into());
        let position = self.posted;
        let run = self.run.saturating_add(n);
        let signalled = wanted || run > self.longest_run;
        if signalled {
            self.run = 0;
            let wanted = if wanted { Signal::WANTED } else { 0 };
            self.push_signal(Signal {
                covered: run,
                tag: tag & Signal::TAG | wanted,
            });
        } else {
            self.run = run;
        }
        Ok(Reservation {
            position,
            signalled,
        })
    }

    /// Adds a signalled work request to the ring buffer. The buffer has an entry for each work
    /// request between `retired` and `posted`, so there is a free one.
    #[inline(always)]
    fn push_signal(&mut self, signal: Signal) {
        let signals = &mut self.signals[..];
        let mut index = self.first + self.count;
        if index >= signals.len() {
            index -= signals.len();
        }
        if let Some(free) = signals.get_mut(index) {
            *free = signal;
            self.count += 1;
        }
    }

    /// Records that the oldest signalled work request of `tag` that is outstanding has completed.
    ///
    /// # Errors
    ///
    /// [`RetireError`]. If it is unknown, the queue is as before.
    pub(super) fn retire(&mut self, tag: u32) -> Result<Retired, RetireError> {
        if self.count == 0 {
            return Err(RetireError::Unknown);
        }
        let oldest = self.signals.get(self.first);
        let signal = *oldest.ok_or(RetireError::Unknown)?;
        if signal.tag & Signal::TAG != tag {
            return Err(self.note_early(tag));
        }
        Ok(self.retire_first(&signal))
    }

    /// Retires the oldest signalled work request if it has completed before. Also returns its tag.
    #[cold]
    pub(super) fn retire_early(&mut self) -> Option<(u32, Retired)> {
        let signal = *self.signals.get(self.first)?;
        if self.count == 0 || signal.tag & Signal::EARLY == 0 {
            return None;
        }
        self.early -= 1;
        Some((signal.tag & Signal::TAG, self.retire_first(&signal)))
    }

    /// Removes the oldest signalled work request, and retires all up to it.
    #[inline(always)]
    fn retire_first(&mut self, signal: &Signal) -> Retired {
        self.first += 1;
        if self.first == self.signals.len() {
            self.first = 0;
        }
        self.count -= 1;
        self.retired = self.retired.wrapping_add(signal.covered.into());
        Retired {
            position: self.retired,
            wanted: signal.tag & Signal::WANTED != 0,
            room: core::mem::take(&mut self.refused),
            more: self.early != 0,
        }
    }

    /// Records that a work request completed before the oldest one.
    #[cold]
    fn note_early(&mut self, tag: u32) -> RetireError {
        let (wrapped, older) = self.signals.split_at_mut(self.first);
        // By its full name, because `pin_init` has a `chain` of its own.
        let found = Iterator::chain(older.iter_mut(), wrapped)
            .take(self.count)
            .find(|signal| signal.tag & (Signal::TAG | Signal::EARLY) == tag);
        let Some(signal) = found else {
            return RetireError::Unknown;
        };
        signal.tag |= Signal::EARLY;
        self.early += 1;
        RetireError::Early
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_sq)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_many_as_its_depth() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 8)?;
        for position in 1..=8 {
            assert_eq!(queue.reserve(1, 0, false).map(|a| a.position), Ok(position));
        }
        assert_eq!(queue.reserve(1, 0, false), Err(QueueFull));
        Ok(())
    }

    #[test]
    fn signals_after_a_quarter_of_the_queue() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 16)?;
        let mut quiet = 0;
        for _ in 0..1000 {
            match queue.reserve(1, 0, false) {
                Ok(a) if a.signalled => quiet = 0,
                Ok(_) => quiet += 1,
                Err(QueueFull) => assert!(queue.retire(0).is_ok()),
            }
            assert!(quiet <= 4);
        }
        Ok(())
    }

    #[test]
    fn something_signalled_is_outstanding_when_full() -> Result {
        for depth in 1..40 {
            let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, depth)?;
            for i in 0..400 {
                let n = (i % 5 + 1).min(depth);
                while queue.reserve(n, 0, false).is_err() {
                    let retired = queue.retire(0);
                    assert!(retired.is_ok() || !holds_chain(depth, n));
                    if retired.is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn forced_signals_differ_from_wanted_ones() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 4)?;
        assert!(!queue.reserve(1, 0, false).map_err(|_| EINVAL)?.signalled);
        // The second consecutive one must be signalled: a quarter of four is one.
        assert!(queue.reserve(1, 0, false).map_err(|_| EINVAL)?.signalled);
        assert!(queue.reserve(1, 0, true).map_err(|_| EINVAL)?.signalled);
        let forced = queue.retire(0).map_err(|_| EINVAL)?;
        assert_eq!((forced.position, forced.wanted), (2, false));
        let wanted = queue.retire(0).map_err(|_| EINVAL)?;
        assert_eq!((wanted.position, wanted.wanted), (3, true));
        assert_eq!(queue.retire(0), Err(RetireError::Unknown));
        Ok(())
    }

    #[test]
    fn reports_room_once_after_a_refusal() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 2)?;
        queue.reserve(1, 0, true).map_err(|_| EINVAL)?;
        queue.reserve(1, 0, true).map_err(|_| EINVAL)?;
        assert_eq!(queue.reserve(1, 0, true), Err(QueueFull));
        assert!(queue.retire(0).map_err(|_| EINVAL)?.room);
        assert!(!queue.retire(0).map_err(|_| EINVAL)?.room);
        Ok(())
    }

    #[test]
    fn ring_buffer_wraps() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 3)?;
        for position in 1..100 {
            assert_eq!(queue.reserve(1, 0, true).map(|a| a.position), Ok(position));
            assert_eq!(queue.retire(0).map(|r| r.position), Ok(position));
        }
        Ok(())
    }

    #[test]
    fn early_completions_wait_for_the_oldest() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 3)?;
        // The ring buffer wraps within the three.
        queue.reserve(2, 0, true).map_err(|_| EINVAL)?;
        queue.retire(0).map_err(|_| EINVAL)?;
        for tag in [7, 8, 9] {
            queue.reserve(1, tag, true).map_err(|_| EINVAL)?;
        }
        for tag in [9, 8] {
            assert_eq!(queue.retire(tag), Err(RetireError::Early));
            assert_eq!(queue.retire(tag), Err(RetireError::Unknown));
            assert_eq!(queue.retire_early(), None);
        }
        assert_eq!(queue.reserve(1, 0, true), Err(QueueFull));
        let oldest = queue.retire(7).map_err(|_| EINVAL)?;
        assert_eq!((oldest.position, oldest.room, oldest.more), (3, true, true));
        let rest = [queue.retire_early(), queue.retire_early()];
        let rest = rest.map(|one| one.map(|(tag, r)| (tag, r.position, r.wanted, r.more)));
        assert_eq!(rest, [Some((8, 4, true, true)), Some((9, 5, true, false))]);
        assert_eq!((queue.retire_early(), queue.room()), (None, (3, 3)));
        Ok(())
    }

    #[test]
    fn early_completions_of_one_tag_are_its_oldest() -> Result {
        let mut queue = SendQueue::new(NumaAlloc::ANYWHERE, 8)?;
        // The second one must be signalled.
        for (n, tag, wanted) in [(1, 7, true), (3, 8, false), (1, 8, true)] {
            queue.reserve(n, tag, wanted).map_err(|_| EINVAL)?;
        }
        assert_eq!(queue.retire(8), Err(RetireError::Early));
        assert!(queue.retire(7).map_err(|_| EINVAL)?.more);
        let early = queue
            .retire_early()
            .map(|(tag, r)| (tag, r.position, r.wanted));
        assert_eq!(early, Some((8, 4, false)));
        assert_eq!(queue.retire_early(), None);
        let last = queue.retire(8).map_err(|_| EINVAL)?;
        assert_eq!((last.position, last.wanted, last.more), (5, true, false));
        Ok(())
    }

    #[test]
    fn depth_of_zero_is_refused() {
        assert!(SendQueue::new(NumaAlloc::ANYWHERE, 0).is_err());
    }
}
