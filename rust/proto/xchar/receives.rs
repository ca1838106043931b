// SPDX-License-Identifier: GPL-2.0

//! Changes the size of posted Receives while a peer relies on it: section 3.1.
//!
//! ```text
//!           a larger size is wanted           on_posting           last smaller Receive is gone
//!   Steady ─────────────────────────► Wanted ────────────► Growing ───────────────► Steady
//!     ▲                                  │                    │
//!     └──────────────────────────────────┴────────────────────┘ the peer asks for less
//! ```
//!
//! A larger size is announced only when every smaller Receive is gone. The size becomes smaller
//! only when the peer has requested that, since the peer has then bounded its own Sends already.

use super::super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::super::wire::xchar::Disposition;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Steady,
    /// The caller has been asked to post Receives of `to` bytes.
    Wanted {
        to: u32,
    },
    /// All Receives posted from now on have `to` bytes.
    Growing {
        to: u32,
        /// Posted Receives of less than `to` bytes.
        smaller: u32,
    },
}

/// The size of our posted Receives: the size that the peer may use, and the next size.
///
/// # Invariants
///
/// No posted Receive is smaller than `announced`, which is at most `posted`. A size that is wanted
/// or growing is larger than `posted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receives {
    announced: u32,
    posted: u32,
    state: State,
    /// A request of the peer is pending.
    asked: bool,
    /// A request of the peer is no longer pending, and the peer has not been notified.
    cleared: bool,
}

impl Receives {
    /// Starts a new connection whose Receives have `posted` bytes.
    //= V2-2.3-1 inline threshold of 4096 bytes
    pub const fn new(posted: u32) -> Self {
        Self {
            announced: posted,
            posted,
            state: State::Steady,
            asked: false,
            cleared: false,
        }
    }

    /// Returns the size that the peer may use, once it has been notified.
    //= XC-3.1-2 not reduced before the partner knows
    pub const fn announced(&self) -> u32 {
        self.announced
    }

    /// Returns the size of the Receives to post, if it is not the size last passed to
    /// [`Receives::on_posting`]. A smaller size than before may be ignored.
    //= XC-3.1-5 at least of the announced size
    pub const fn wanted(&self) -> Option<u32> {
        match self.state {
            State::Wanted { to } => Some(to),
            State::Steady if self.announced < self.posted => Some(self.announced),
            State::Steady | State::Growing { .. } => None,
        }
    }

    /// Requests Receives of `to` bytes, by a local decision. A size that is not larger than the
    /// announced one has no effect: only the peer may reduce it. Otherwise [`Receives::wanted`]
    /// returns the next step.
    //= V2-2.3-3 larger thresholds may be supported
    //= XC-3-4 unrequested change does not disturb
    pub fn want(&mut self, to: u32) {
        if to > self.announced {
            self.grow(to);
        }
    }

    /// Begins to grow to `to` bytes. A growth to another size that is in progress is replaced.
    fn grow(&mut self, to: u32) {
        if to <= self.posted {
            // INVARIANT: every posted Receive has `posted` bytes or more.
            self.announced = to;
            self.settle();
        } else if self.growing() != Some(to) {
            self.state = State::Wanted { to };
        }
    }

    /// Returns the next size, if a growth is in progress.
    pub const fn growing(&self) -> Option<u32> {
        match self.state {
            State::Wanted { to } | State::Growing { to, .. } => Some(to),
            State::Steady => None,
        }
    }

    /// Ends a growth. A request of the peer is no longer pending.
    //= XC-4.4-5 pending request that is overtaken
    fn settle(&mut self) {
        self.state = State::Steady;
        self.cleared |= self.asked;
        self.asked = false;
    }

    /// Records that all Receives posted from now on have `size` bytes, while `smaller` of the
    /// posted ones have less.
    pub fn on_posting(&mut self, size: u32, smaller: u32) {
        match self.state {
            State::Wanted { to } if to == size => {
                self.state = State::Growing { to, smaller };
                self.on_consumed(0);
            }
            // INVARIANT: `size` is not less than `announced`.
            State::Steady if size >= self.announced && size < self.posted => self.posted = size,
            _ => {}
        }
    }

    /// Records that Receives of the requested size cannot be posted. The former size remains.
    pub fn on_post_failed(&mut self) {
        if self.growing().is_some() {
            self.settle();
        }
    }

    /// Records that `count` of the smaller Receives have completed or were flushed.
    //= XC-3.1-1 until all smaller receives are gone
    pub fn on_consumed(&mut self, count: u32) {
        let State::Growing { to, smaller } = self.state else {
            return;
        };
        let smaller = smaller.saturating_sub(count);
        self.state = State::Growing { to, smaller };
        if smaller == 0 {
            // INVARIANT: every posted Receive has `to` bytes.
            self.posted = to;
            self.announced = to;
            self.settle();
        }
    }

    /// Handles a request of the peer for Receives of `want` bytes. The local side accepts
    /// `min..=max`, but nothing below 1024 bytes. Returns the disposition for RESP_XCHAR.
    //= XC-3-2 any request may be rejected
    //= XC-3.1-4 size is reduced only on request
    //= XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
    pub fn on_request(&mut self, want: u32, (min, max): (u32, u32)) -> Disposition {
        if want < min.max(FIRST_MESSAGE_MAX) || want > max {
            return Disposition::Rejected;
        }
        if want <= self.announced {
            // The peer sends no more than `want` bytes from its request on. A growth in progress is
            // cancelled.
            self.announced = want;
            self.settle();
            return Disposition::Done;
        }
        if self.growing().is_some_and(|to| to != want) && want > self.posted {
            return Disposition::Rejected;
        }
        self.grow(want);
        if self.growing().is_none() {
            return Disposition::Done;
        }
        self.asked = true;
        Disposition::Pending
    }

    /// Returns whether a request of the peer is no longer pending and the peer must be notified, by
    /// UPD_XCHAR with the effective size.
    pub const fn has_cleared(&self) -> bool {
        self.cleared
    }

    /// Records that the peer has been notified.
    pub fn on_told(&mut self) {
        self.cleared = false;
    }
}
