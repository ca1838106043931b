// SPDX-License-Identifier: GPL-2.0

//! Credits that a responder grants to the requester of a connection.
//!
//! RFC 8166 section 3.3.1. A grant is a promise: so many Receives are posted. It begins small, and
//! doubles whenever the requester makes use of it and asks for more. It never falls. Use is that
//! all of it is in progress, or that calls often arrive while others are in progress: of a
//! requester that has no credit left most calls may be on their way, and not here.

/// The grant of one connection.
///
/// # Invariants
///
/// `1 <= granted <= posted`, and `1 <= target <= max`. None of them falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The most that may ever be granted.
    max: u32,
    /// Calls beyond the grant that are served all the same.
    spare: u32,
    /// What is to be granted, as soon as so many Receives are posted.
    target: u32,
    /// Receives that are kept posted for calls.
    posted: u32,
    /// The grant of the latest reply: the most calls that the requester may have outstanding.
    granted: u32,
    /// Calls that have arrived and were not answered.
    in_progress: u32,
    /// Calls that are still to arrive beside others before the grant grows.
    patience: u32,
}

/// The requester has more calls outstanding than it can have been granted. The connection is
/// closed: their replies would have no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess;

impl Grant {
    /// The first grant. It is small, as most connections are idle.
    pub const FIRST: u32 = 16;

    /// Calls for each credit of the grant that arrive beside others before it grows.
    const PATIENCE: u32 = 4;

    /// Makes the grant of a new connection that never exceeds `max`. [`Self::granted`] Receives
    /// have to be posted before the connection is accepted.
    ///
    /// `spare` calls beyond the grant are served all the same: a requester may give an RPC up, and
    /// use its credit again before it is answered.
    //= 5666-6.1-3 begin with more than one receive
    pub const fn new(max: u32, spare: u32) -> Self {
        let max = if max == 0 { 1 } else { max };
        let first = if max < Self::FIRST { max } else { Self::FIRST };
        // INVARIANT: all are `first`, which is at least one and at most `max`.
        Self {
            max,
            spare,
            target: first,
            posted: first,
            granted: first,
            in_progress: 0,
            patience: first.saturating_mul(Self::PATIENCE),
        }
    }

    /// Notes that a call has arrived whose header asks for `wanted` credits. Returns how many more
    /// Receives to post, most often none; [`Self::on_posted`] follows when they are.
    ///
    /// # Errors
    ///
    /// [`Excess`]: close the connection.
    #[inline]
    //= 5666-3.3-4 requests in excess of the grant
    pub fn on_call(&mut self, wanted: u32) -> Result<u32, Excess> {
        if self.in_progress >= self.granted.saturating_add(self.spare) {
            return Err(Excess);
        }
        self.in_progress = self.in_progress.saturating_add(1);
        let beside = u32::from(self.in_progress > 1);
        self.patience = self.patience.saturating_sub(beside);
        let growing = self.granted != self.target;
        if self.patience != 0 && (growing || self.in_progress < self.granted) {
            return Ok(0);
        }
        Ok(self.grow(growing, wanted))
    }

    /// Notes that a call has arrived, as [`Self::on_call`] does, if the grant may not change.
    /// Returns whether it does.
    #[inline]
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

    fn begin_patience(&mut self) {
        self.patience = self.target.saturating_mul(Self::PATIENCE);
    }

    /// The requester makes use of what was granted. If it is `growing` for long, the Receives could
    /// not be posted: they are asked for again.
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

    /// Notes that `more` further Receives are posted.
    pub fn on_posted(&mut self, more: u32) {
        // INVARIANT: `posted` only rises.
        self.posted = self.posted.saturating_add(more);
    }

    /// Notes that a call is being answered. Returns the credits for the header of the reply.
    #[inline]
    //= 5666-3.3-2 a grant is not zero
    //= 5666-3.3-5 always has at least one credit
    //= 5666-3.3-8 server can always reply
    pub fn on_reply(&mut self) -> u32 {
        self.in_progress = self.in_progress.saturating_sub(1);
        let grant = self.target.min(self.posted);
        if grant != self.granted {
            // INVARIANT: at least one and at most `posted`, and neither of the two ever falls.
            self.granted = grant;
            self.begin_patience();
        }
        grant
    }

    /// Notes that a call will not be answered.
    pub fn on_dropped(&mut self) {
        self.in_progress = self.in_progress.saturating_sub(1);
    }

    /// Returns how many calls have arrived and were not answered.
    pub const fn in_progress(&self) -> u32 {
        self.in_progress
    }
}
