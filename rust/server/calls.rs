// SPDX-License-Identifier: GPL-2.0

//! The calls of a connection: how many are in progress, and contexts that none of them uses.
//!
//! A connection shares this with its transport, and not with its queue pair: SUNRPC may keep a
//! context for long after the queue pair is gone.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::call::Call;
use crate::proto::responder::call;
use crate::proto::responder::grant::{Excess, Grant};
use crate::work::Once;

/// Calls beyond the grant that are served all the same.
pub(super) const SPARE: u32 = 16;

/// The calls of one connection.
#[pin_data]
pub(super) struct Calls {
    #[pin]
    state: SpinLock<State>,
    /// The number of operations that wait for room on the send queue.
    parked: Atomic<u32>,
}

struct State {
    /// The requester's credits.
    grant: Grant,
    /// Contexts that no call uses. None of them has anything to be fetched.
    free: KVec<KBox<Call>>,
}

/// Why a call is not begun.
pub(super) enum Unbegun {
    /// The requester has too many calls in progress.
    Excess,
    /// There is no memory.
    NoMemory,
}

impl Calls {
    /// Makes the calls of a connection whose grant never exceeds `credits`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(credits: u32) -> Result<Arc<Self>> {
        let state = State {
            grant: Grant::new(credits, SPARE),
            // CAST: `usize` has at least 32 bits.
            free: KVec::with_capacity(credits as usize, GFP_KERNEL)?,
        };
        let calls = pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::Calls::state"),
            parked: Atomic::new(0),
        });
        Arc::pin_init(calls, GFP_KERNEL)
    }

    /// Counts `call`, which came with Receive number `receive`. Returns its context, and how many
    /// more Receives to post, most often none; [`Self::on_posted`] follows when they are. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// See [`Unbegun`]. The call is not counted then.
    #[inline]
    pub(super) fn begin(
        &self,
        call: &call::Call<'_>,
        receive: u32,
    ) -> Result<(KBox<Call>, u32), Unbegun> {
        let mut state = self.state.lock();
        let more = match state.grant.on_call(call.credits()) {
            Ok(more) => more,
            Err(Excess) => return Err(Unbegun::Excess),
        };
        let free = state.free.pop();
        drop(state);
        match Call::begin(free, call, receive, GFP_KERNEL) {
            Ok(context) => Ok((context, more)),
            Err(_) => {
                self.state.lock().grant.on_dropped();
                Err(Unbegun::NoMemory)
            }
        }
    }

    /// Counts `call` and returns its context, if no context has to be allocated and no Receive to
    /// be posted for it. Does not sleep.
    pub(super) fn begin_now(&self, call: &call::Call<'_>, receive: u32) -> Option<KBox<Call>> {
        let mut state = self.state.lock();
        if state.free.is_empty() || !state.grant.on_call_within() {
            return None;
        }
        let free = state.free.pop();
        drop(state);
        let begun = Call::begin(free, call, receive, GFP_NOWAIT);
        if begun.is_err() {
            self.state.lock().grant.on_dropped();
        }
        begun.ok()
    }

    /// Notes that a call is being answered. Returns the credits for the header of the reply.
    #[inline]
    pub(super) fn answer(&self, call: &mut Call) -> u32 {
        call.counted = false;
        self.state.lock().grant.on_reply()
    }

    /// Takes a context back. A call that was not answered no longer uses its credit.
    #[inline]
    pub(super) fn put(&self, call: KBox<Call>) {
        let mut state = self.state.lock();
        if call.counted {
            state.grant.on_dropped();
        }
        let refused = state.free.push_within_capacity(call);
        drop(state);
        // Without room the context is freed.
        drop(refused);
    }

    /// Grants fewer credits than `requested` from now on, but one at least.
    pub(super) fn grant_below(&self, requested: u32) {
        self.state.lock().grant.keep_below(requested);
    }

    /// Notes that `more` further Receives are posted.
    pub(super) fn on_posted(&self, more: u32) {
        self.state.lock().grant.on_posted(more);
    }

    /// Returns the grant of the latest reply. Messages that answer no call grant the same: a larger
    /// number would allow calls that count as an excess.
    pub(super) fn granted(&self) -> u32 {
        self.state.lock().grant.granted()
    }

    /// Returns the grant of the latest reply, and the number of calls that were not answered.
    pub(super) fn credits(&self) -> (u32, u32) {
        let state = self.state.lock();
        (state.grant.granted(), state.grant.in_progress())
    }

    /// Sets the number of operations that wait for room on the send queue.
    pub(super) fn set_parked(&self, parked: u32) {
        self.parked.store(parked, Relaxed);
    }

    /// Returns the number of operations that wait for room on the send queue. Any context.
    #[inline]
    pub(super) fn parked(&self) -> u32 {
        self.parked.read_once()
    }
}
