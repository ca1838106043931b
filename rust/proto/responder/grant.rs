// SPDX-License-Identifier: GPL-2.0

//! Credits that a responder grants to the requester of a connection.
//!
//! RFC 8166 section 3.3.1. A grant is a promise that this number of Receives is posted. It starts
//! small, doubles whenever the requester uses it up and requests more, and decreases with
//! [`Grant::set_max`]. The requester uses up the grant if as many calls are in progress, or if
//! calls often arrive while others are in progress: most calls of a requester without credits may
//! still be in transit.
//!
//! The requester learns of a lower grant when the reply arrives. Until then it may send as many
//! calls as the previous grant permitted. Of the calls that arrive after the reply was posted, at
//! most that number can have been sent without knowledge of the reply, because all of them were
//! outstanding at one time. When that number of calls has arrived, the lower grant is effective.

/// The grant of one connection.
///
/// # Invariants
///
/// `1 <= granted <= allowed <= posted`, `1 <= target <= max`, and one of `countdown` and `patience`
/// is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The maximum grant.
    max: u32,
    /// The number of calls beyond the grant that are still served.
    spare: u32,
    /// The grant as soon as this number of Receives is posted.
    target: u32,
    /// Receives that are kept posted for calls.
    posted: u32,
    /// The grant of the latest reply.
    granted: u32,
    /// An upper bound, known to the responder, of the calls that the requester may have
    /// outstanding.
    allowed: u32,
    /// Calls that have yet to arrive before `allowed` falls to `granted`.
    countdown: u32,
    /// Calls that have arrived and were not answered.
    in_progress: u32,
    /// Calls that have yet to arrive beside others before the grant grows. None during a countdown,
    /// when such calls do not make the grant grow.
    patience: u32,
}

/// The requester has more calls outstanding than it can have been granted. The connection is
/// closed, because the number of replies would be unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess;

impl Grant {
    /// The first grant. It is small, as most connections are idle.
    pub const FIRST: u32 = 16;

    /// Calls for each credit of the grant that arrive beside others before it grows.
    const PATIENCE: u32 = 4;

    /// Makes the grant of a new connection that never exceeds `max`. As many Receives as the first
    /// grant must be posted before the connection is accepted.
    ///
    /// `spare` calls beyond the grant are still served: a requester may abort an RPC, and reuse its
    /// credit before the RPC is answered.
    //= 5666-6.1-3 begin with more than one receive
    pub fn new(max: u32, spare: u32) -> Self {
        let max = max.max(1);
        let first = max.min(Self::FIRST);
        // INVARIANT: all are `first`, which is at least one and at most `max`.
        Self {
            max,
            spare,
            target: first,
            posted: first,
            granted: first,
            allowed: first,
            countdown: 0,
            in_progress: 0,
            patience: first.saturating_mul(Self::PATIENCE),
        }
    }

    /// Records that a call has arrived whose header requests `wanted` credits. Returns how many
    /// more Receives to post, usually none; the caller calls [`Self::on_posted`] when they are
    /// posted.
    ///
    /// # Errors
    ///
    /// [`Excess`]: close the connection.
    #[inline]
    //= 5666-3.3-4 requests in excess of the grant
    pub fn on_call(&mut self, wanted: u32) -> Result<u32, Excess> {
        if self.in_progress >= self.allowed.saturating_add(self.spare) {
            return Err(Excess);
        }
        self.in_progress = self.in_progress.saturating_add(1);
        let beside = u32::from(self.in_progress > 1);
        self.patience = self.patience.saturating_sub(beside);
        if self.countdown != 0 {
            self.count_down();
        }
        let patient = self.patience != 0 || self.countdown != 0;
        let growing = self.granted != self.target;
        if patient && (growing || self.in_progress < self.granted) {
            return Ok(0);
        }
        Ok(self.grow(growing, wanted))
    }

    /// Records that a call has arrived, as [`Self::on_call`] does, unless the grant or the bound
    /// may change. Returns whether the call was recorded.
    pub fn on_call_within(&mut self) -> bool {
        // `granted` is at least one, and more than what is in progress if this call is within.
        let within = self.in_progress < self.granted.wrapping_sub(1) && self.patience > 1;
        if within {
            let beside = u32::from(self.in_progress != 0);
            self.patience = self.patience.wrapping_sub(beside);
            self.in_progress = self.in_progress.wrapping_add(1);
        }
        within
    }

    #[cold]
    fn count_down(&mut self) {
        self.countdown = self.countdown.saturating_sub(1);
        if self.countdown == 0 {
            // INVARIANT: `granted` is at least one, and at most what `allowed` was. The calls in
            // progress may be more than it now; then the next one is an excess.
            self.allowed = self.granted;
            self.begin_patience();
        }
    }

    fn begin_patience(&mut self) {
        // INVARIANT: there is none during a countdown.
        self.patience = match self.countdown {
            0 => self.target.saturating_mul(Self::PATIENCE),
            _ => 0,
        };
    }

    /// Handles a requester that uses up its grant. If the grant is `growing` for long, the Receives
    /// could not be posted, and are requested again.
    #[cold]
    fn grow(&mut self, growing: bool, wanted: u32) -> u32 {
        if !growing {
            let most = self.max.min(wanted);
            // INVARIANT: the target only rises here, to `max` at most.
            self.target = self.target.max(self.target.saturating_mul(2).min(most));
        }
        self.begin_patience();
        self.target.saturating_sub(self.posted)
    }

    /// Returns the grant of the latest reply.
    pub const fn granted(&self) -> u32 {
        self.granted
    }

    /// Records that `more` further Receives are posted.
    pub fn on_posted(&mut self, more: u32) {
        // INVARIANT: `posted` only rises.
        self.posted = self.posted.saturating_add(more);
    }

    /// Records that a call is being answered. Returns the credits for the header of the reply.
    //= 5666-3.3-2 a grant is not zero
    //= 5666-3.3-5 always has at least one credit
    //= 5666-3.3-7 grant may be larger or smaller
    //= 5666-3.3-8 server can always reply
    pub fn on_reply(&mut self) -> u32 {
        self.in_progress = self.in_progress.saturating_sub(1);
        let grant = self.target.min(self.posted);
        if grant != self.granted {
            self.change(grant);
        }
        grant
    }

    #[cold]
    fn change(&mut self, grant: u32) {
        // INVARIANT: `grant` is at least one and at most `posted`; `allowed` is not less than it.
        self.granted = grant;
        if grant >= self.allowed {
            self.allowed = grant;
            self.countdown = 0;
        } else {
            self.countdown = self.allowed;
        }
        self.begin_patience();
    }

    /// Records that a call will not be answered.
    pub fn on_dropped(&mut self) {
        self.in_progress = self.in_progress.saturating_sub(1);
    }

    /// Grants fewer credits than `requested` from now on, but at least one: a requester without
    /// other Receives then has one for a message that is not a reply.
    pub fn keep_below(&mut self, requested: u32) {
        self.set_max(self.max.min(requested.saturating_sub(1)));
    }

    /// Sets the maximum grant from now on. Later replies announce it.
    pub fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        // INVARIANT: neither is zero.
        self.target = self.target.min(self.max);
    }

    /// Returns how many Receives are kept posted for calls.
    #[cfg(any(test, fuzzing, RPCRDMA_KUNIT))]
    pub const fn posted(&self) -> u32 {
        self.posted
    }

    /// Returns the maximum number of calls that the requester may have outstanding.
    #[cfg(any(test, fuzzing, RPCRDMA_KUNIT))]
    pub const fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Returns how many calls have arrived and were not answered.
    pub const fn in_progress(&self) -> u32 {
        self.in_progress
    }
}
