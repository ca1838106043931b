// SPDX-License-Identifier: GPL-2.0

//! Accounting of a send queue: how much room there is, and which work requests complete.
//!
//! Work requests are numbered from 1 in the order they are posted; that number is a *position*.
//! Most of them are unsignalled, that is, complete silently. The queue gets its room back when a
//! later one that is signalled completes, so one is signalled every so often, whether its owner
//! cares or not. Completions come in the order of posting.

use kernel::prelude::*;

/// A completion that cannot be: none was outstanding, or another tag's was next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfOrder;

/// The chain does not fit the queue now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What to do with the last work request of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// Its position.
    pub(super) position: u64,
    /// Whether it is to be signalled.
    pub(super) signalled: bool,
}

/// A signalled work request that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// Its position: it and all before it are done.
    pub(super) position: u64,
    /// Whether its owner asked to be told.
    pub(super) wanted: bool,
    /// Whether a chain was turned away since the last time: there is room now.
    pub(super) room: bool,
}

/// A signalled work request that is outstanding.
#[derive(Clone, Copy)]
struct Signal {
    position: u64,
    /// Whose it is: the number of a [`Tag`](super::qp::Tag).
    tag: u32,
    /// Whether its owner asked for the signal.
    wanted: bool,
}

/// The books of one send queue.
///
/// # Invariants
///
/// - `retired <= posted`, and at most `depth` are between them.
/// - `signals` is a ring of the signalled ones among these, oldest first: `count` entries from
///   `first` on.
pub(super) struct Books {
    depth: u32,
    longest_run: u32,
    posted: u64,
    retired: u64,
    /// Unsignalled ones since the last that was signalled.
    run: u32,
    signals: KVVec<Signal>,
    first: usize,
    count: usize,
    starved: bool,
}

impl Books {
    /// For a queue of `depth` work requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a depth of 0, `ENOMEM`.
    pub(super) fn new(depth: u32) -> Result<Self> {
        if depth == 0 {
            return Err(EINVAL);
        }
        let none = Signal {
            position: 0,
            tag: 0,
            wanted: false,
        };
        // CAST: `usize` has at least 32 bits.
        let signals = KVVec::from_elem(none, depth as usize, GFP_KERNEL)?;
        Ok(Self {
            depth,
            // One in four at least, and every one of a tiny queue.
            longest_run: depth / 4,
            posted: 0,
            retired: 0,
            run: 0,
            signals,
            first: 0,
            count: 0,
            starved: false,
        })
    }

    /// Whether anything was ever entered.
    pub(super) fn is_used(&self) -> bool {
        self.posted != 0
    }

    /// Enters a chain of `n` work requests, the last of which belongs to `tag` and is signalled if
    /// `wanted`.
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing is entered.
    #[inline]
    pub(super) fn admit(&mut self, n: u32, tag: u32, wanted: bool) -> Result<Admission, Full> {
        // INVARIANT: this comparison keeps the distance within `depth`.
        if self.posted - self.retired + u64::from(n) > u64::from(self.depth) {
            self.starved = true;
            return Err(Full);
        }
        self.posted += u64::from(n);
        let position = self.posted;
        let signalled = wanted || self.run + n > self.longest_run;
        if signalled {
            self.run = 0;
            self.note(Signal {
                position,
                tag,
                wanted,
            });
        } else {
            self.run += n;
        }
        Ok(Admission {
            position,
            signalled,
        })
    }

    /// Adds to the ring, which has a place for each work request between `retired` and `posted`.
    #[inline]
    fn note(&mut self, signal: Signal) {
        let mut place = self.first + self.count;
        if place >= self.signals.len() {
            place -= self.signals.len();
        }
        if let Some(free) = self.signals.get_mut(place) {
            *free = signal;
            self.count += 1;
        }
    }

    /// A signalled work request of `tag` has completed. It must be the oldest one outstanding.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`]: nothing is known to have completed.
    #[inline]
    pub(super) fn retire(&mut self, tag: u32) -> Result<Retired, OutOfOrder> {
        if self.count == 0 {
            return Err(OutOfOrder);
        }
        let signal = *self.signals.get(self.first).ok_or(OutOfOrder)?;
        if signal.tag != tag {
            return Err(OutOfOrder);
        }
        self.first += 1;
        if self.first == self.signals.len() {
            self.first = 0;
        }
        self.count -= 1;
        self.retired = signal.position;
        Ok(Retired {
            position: self.retired,
            wanted: signal.wanted,
            room: core::mem::take(&mut self.starved),
        })
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_rdma_sq)]
mod tests {
    use super::*;

    #[test]
    fn fills_to_the_brim_and_no_further() -> Result {
        let mut books = Books::new(8)?;
        for position in 1..=8 {
            assert_eq!(books.admit(1, 0, false).map(|a| a.position), Ok(position));
        }
        assert_eq!(books.admit(1, 0, false), Err(Full));
        Ok(())
    }

    #[test]
    fn signals_before_a_run_gets_long() -> Result {
        let mut books = Books::new(16)?;
        let mut quiet = 0;
        for _ in 0..1000 {
            match books.admit(1, 0, false) {
                Ok(a) if a.signalled => quiet = 0,
                Ok(_) => quiet += 1,
                Err(Full) => assert!(books.retire(0).is_ok()),
            }
            assert!(quiet <= 4);
        }
        Ok(())
    }

    #[test]
    fn never_stuck_when_full() -> Result {
        for depth in 1..40 {
            let mut books = Books::new(depth)?;
            for i in 0..400 {
                let n = (i % 5 + 1).min(depth);
                while books.admit(n, 0, false).is_err() {
                    // Something signalled must be outstanding, unless the chain needs more than
                    // three quarters of the queue.
                    let retired = books.retire(0);
                    assert!(retired.is_ok() || n > depth - depth / 4);
                    if retired.is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn tells_forced_signals_from_wanted_ones() -> Result {
        let mut books = Books::new(4)?;
        assert!(!books.admit(1, 0, false).map_err(|_| EINVAL)?.signalled);
        // The second in a row is forced: a quarter of four is one.
        assert!(books.admit(1, 0, false).map_err(|_| EINVAL)?.signalled);
        assert!(books.admit(1, 0, true).map_err(|_| EINVAL)?.signalled);
        let forced = books.retire(0).map_err(|_| EINVAL)?;
        assert_eq!((forced.position, forced.wanted), (2, false));
        let wanted = books.retire(0).map_err(|_| EINVAL)?;
        assert_eq!((wanted.position, wanted.wanted), (3, true));
        assert_eq!(books.retire(0), Err(OutOfOrder));
        Ok(())
    }

    #[test]
    fn says_once_that_there_is_room_again() -> Result {
        let mut books = Books::new(2)?;
        books.admit(1, 0, true).map_err(|_| EINVAL)?;
        books.admit(1, 0, true).map_err(|_| EINVAL)?;
        assert_eq!(books.admit(1, 0, true), Err(Full));
        assert!(books.retire(0).map_err(|_| EINVAL)?.room);
        assert!(!books.retire(0).map_err(|_| EINVAL)?.room);
        Ok(())
    }

    #[test]
    fn ring_wraps() -> Result {
        let mut books = Books::new(3)?;
        for position in 1..100 {
            assert_eq!(books.admit(1, 0, true).map(|a| a.position), Ok(position));
            assert_eq!(books.retire(0).map(|r| r.position), Ok(position));
        }
        Ok(())
    }

    #[test]
    fn a_completion_out_of_turn_retires_nothing() -> Result {
        let mut books = Books::new(8)?;
        for tag in [7, 8] {
            books.admit(1, tag, true).map_err(|_| EINVAL)?;
        }
        // The second one cannot be done before the first.
        assert_eq!(books.retire(8), Err(OutOfOrder));
        assert_eq!(books.retire(7).map(|r| r.position), Ok(1));
        assert_eq!(books.retire(7), Err(OutOfOrder));
        assert_eq!(books.retire(8).map(|r| r.position), Ok(2));
        assert_eq!(books.retire(8), Err(OutOfOrder));
        Ok(())
    }

    #[test]
    fn refuses_a_queue_of_nothing() {
        assert!(Books::new(0).is_err());
    }
}
