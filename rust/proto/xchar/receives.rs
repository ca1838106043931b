// SPDX-License-Identifier: GPL-2.0

//! Changes the size of posted Receives while a peer relies on it: section 3.1.
//!
//! State: for version two.
//!
//! ```text
//!            grow(to)                        last smaller Receive is gone
//!   Steady ───────────► Growing{to, smaller} ───────────────────────────► Steady(to), announce
//!     ▲                     │
//!     └─────────────────────┘ the peer asks for less
//! ```
//!
//! A larger size is announced only when every smaller Receive is gone. The size becomes smaller
//! only when the peer has requested that, since the peer has then bounded its own Sends already.

use super::super::super::wire::xchar::{Characteristic, Disposition};

/// An UPD_XCHAR to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// The new receive buffer size in bytes.
    pub size: u32,
    /// Whether a request of the peer is no longer pending.
    pub pending_cleared: bool,
}

impl Announce {
    /// Returns the value to encode.
    pub const fn value(&self) -> Characteristic<'static> {
        Characteristic::ReceiveBufferSize(self.size)
    }
}

/// Why a size may not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The size is not larger than the one that the peer relies on. Only the peer may reduce it.
    NotLarger,
    /// An earlier change is still in progress.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Steady,
    Growing {
        to: u32,
        /// Posted Receives of less than `to` bytes.
        smaller: u32,
        /// Whether the peer has requested it.
        asked: bool,
    },
}

/// The size of our posted Receives: the one that the peer relies on, and the one that will follow.
///
/// # Invariants
///
/// No posted Receive is smaller than `announced`. A growing size is larger than `announced`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receives {
    announced: u32,
    state: State,
}

impl Receives {
    /// Starts a new connection, on which the peer relies on Receives of `announced` bytes: the
    /// default of the version, or the size in INIT_XCHAR.
    //= V2-2.3-1 inline threshold of 4096 bytes
    pub const fn new(announced: u32) -> Self {
        Self {
            announced,
            state: State::Steady,
        }
    }

    /// Returns the size that the peer relies on.
    pub const fn announced(&self) -> u32 {
        self.announced
    }

    /// Returns the smallest size that a new Receive may have.
    //= XC-3.1-2 not reduced before the partner knows
    //= XC-3.1-5 at least of the announced size
    pub const fn floor(&self) -> u32 {
        match self.state {
            State::Steady => self.announced,
            State::Growing { to, .. } => to,
        }
    }

    /// Begins to post Receives of `to` bytes, while `smaller` posted ones have less. Returns the
    /// announcement to send at once if there are no smaller ones.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    //= V2-2.3-3 larger thresholds may be supported
    //= XC-3-4 unrequested change does not disturb
    //= XC-4.4-2 unrequested change may be announced
    pub fn grow(&mut self, to: u32, smaller: u32) -> Result<Option<Announce>, Refused> {
        self.start_growing(to, smaller, false)
    }

    fn start_growing(
        &mut self,
        to: u32,
        smaller: u32,
        asked: bool,
    ) -> Result<Option<Announce>, Refused> {
        if self.state != State::Steady {
            return Err(Refused::Busy);
        }
        if to <= self.announced {
            return Err(Refused::NotLarger);
        }
        // INVARIANT: `to` is larger than `announced`, by the comparison.
        self.state = State::Growing { to, smaller, asked };
        Ok(self.on_consumed(0))
    }

    /// Notes that `count` of the smaller Receives have completed or were flushed. Returns the
    /// announcement to send when they are all gone.
    //= XC-3.1-1 until all smaller receives are gone
    pub fn on_consumed(&mut self, count: u32) -> Option<Announce> {
        let State::Growing { to, smaller, asked } = self.state else {
            return None;
        };
        let smaller = smaller.saturating_sub(count);
        if smaller > 0 {
            self.state = State::Growing { to, smaller, asked };
            return None;
        }
        // INVARIANT: every posted Receive has `to` bytes.
        self.announced = to;
        self.state = State::Steady;
        Some(Announce {
            size: to,
            pending_cleared: asked,
        })
    }

    /// Handles a REQ_XCHAR of the peer. Only the size of Receives can change; see
    /// [`Receives::on_request`] for the arguments and the result. Requests for other
    /// characteristics are rejected, unknown ones included (section 4.3).
    //= XC-4.3-5 unknown are rejected
    pub fn on_wanted(
        &mut self,
        want: &Characteristic<'_>,
        smaller: u32,
        range: (u32, u32),
    ) -> (Disposition, Option<Announce>) {
        match *want {
            Characteristic::ReceiveBufferSize(size) => self.on_request(size, smaller, range),
            _ => (Disposition::Rejected, None),
        }
    }

    /// Handles a request of the peer for Receives of `want` bytes. The local side accepts
    /// `min..=max`. `smaller` is the number of posted Receives with less than `want` bytes.
    ///
    /// Returns the disposition for RESP_XCHAR, and the announcement that has to follow it, if any.
    //= XC-3-2 any request may be rejected
    //= XC-3.1-4 size is reduced only on request
    //= XC-4.2-1 REQ_XCHAR is answered by RESP_XCHAR
    pub fn on_request(
        &mut self,
        want: u32,
        smaller: u32,
        (min, max): (u32, u32),
    ) -> (Disposition, Option<Announce>) {
        if want < min || want > max {
            return (Disposition::Rejected, None);
        }
        if want <= self.announced {
            // The peer sends no more than `want` bytes from its request on. A growth in progress is
            // cancelled.
            self.announced = want;
            self.state = State::Steady;
            return (Disposition::Done, None);
        }
        match self.start_growing(want, smaller, true) {
            Ok(None) => (Disposition::Pending, None),
            // There is no smaller Receive, so the change is in effect.
            Ok(Some(_)) => (Disposition::Done, None),
            Err(_) => (Disposition::Rejected, None),
        }
    }
}
