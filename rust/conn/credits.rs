// SPDX-License-Identifier: GPL-2.0

//! The peer's credits for our calls over one connection.
//!
//! The responder of these calls grants credits with each answer (RFC 8166 section 3.3.1). A call
//! that was sent and then aborted occupies a credit until the peer answers it. No other file keeps
//! the grant; the transport is notified how many calls may be in flight.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};

use super::role::XprtRef;
use super::state::ConnState;
use super::traced;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::credits::{effective, Credits};
use crate::work::read_once;

/// The credits of one connection. All methods are for process context and do not sleep.
#[pin_data]
pub(crate) struct CallCredits {
    /// The credits that each call requests. A larger grant counts as this number.
    requested: u32,
    /// The effective grant, for readers without the lock. It changes under the lock.
    grant: Atomic<u32>,
    /// The grant that changes nothing; zero while the credit of an operation waits for replies.
    known: Atomic<u32>,
    #[pin]
    ledger: SpinLock<Ledger>,
}

struct Ledger {
    credits: Credits,
    /// The number of calls in flight of which the transport was last notified.
    announced: u32,
    /// The credits of messages other than calls, as the role counts them.
    charge: u32,
    operation: Operation,
}

/// An operation of version two, for a responder that may have no Receives beyond one for each
/// credit. The reply to a later call shows that the operation has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// No operation.
    None,
    /// A credit is kept free for the operation.
    Kept,
    /// The operation was sent. It has arrived after this many replies, one more than the calls in
    /// flight at that time.
    Sent(u32),
}

impl CallCredits {
    /// Makes the credits of a connection before its first reply: one.
    pub(crate) fn new(requested: u32) -> impl PinInit<Self> {
        let first = Credits::FIRST.limit();
        let ledger = Ledger {
            credits: Credits::FIRST,
            announced: first,
            charge: 0,
            operation: Operation::None,
        };
        pin_init!(Self {
            requested,
            grant: Atomic::new(first),
            known: Atomic::new(first),
            ledger <- new_spinlock!(ledger, "rpcrdma::CallCredits::ledger"),
        })
    }

    /// Returns the credits that each call asks for.
    pub(crate) fn requested(&self) -> u32 {
        self.requested
    }

    /// Returns the effective grant.
    pub(crate) fn grant(&self) -> u32 {
        read_once(&self.grant)
    }

    /// Takes the grant of a message with this XID. `replies` is one for the answer to a call, and
    /// zero for any other message. Call this before any other step with an answer.
    #[inline(always)]
    pub(crate) fn granted(
        &self,
        conn: &ConnState<impl Sized, impl XprtRef>,
        xid: u32,
        grant: u32,
        replies: u32,
    ) {
        let limit = effective(grant, self.requested);
        if grant == 0 {
            trace::bad_credits(traced::peer(conn.owner()), xid, grant, limit);
            conn.breach(Breach::BadCredits);
        }
        if limit != read_once(&self.known) {
            self.change(conn, |ledger| {
                ledger.credits.set_limit(limit);
                ledger.replied(replies);
                self.grant.store(limit, Relaxed);
                self.known.store(ledger.known(), Relaxed);
            });
        }
    }

    /// Handles the abort of an unanswered call. The peer still processes the call.
    pub(crate) fn given_up(&self, conn: &ConnState<impl Sized, impl XprtRef>) {
        self.change(conn, |ledger| ledger.credits.given_up());
    }

    /// Handles an answer that matches no call. If calls were aborted, the answer is for one of
    /// them. Returns whether there were such calls.
    pub(crate) fn unmatched_answer(&self, conn: &ConnState<impl Sized, impl XprtRef>) -> bool {
        self.change(conn, |ledger| ledger.credits.unmatched_reply())
    }

    /// Sets how many credits messages other than calls take. One call may always be in flight.
    #[cfg(RPCRDMA_LEGACY)]
    pub(crate) fn set_charge(&self, conn: &ConnState<impl Sized, impl XprtRef>, charge: u32) {
        self.change(conn, |ledger| ledger.charge = charge);
    }

    /// Keeps a credit free for an operation. Returns whether the operation may be sent now:
    /// `in_flight` counts no more calls than the other credits permit. If not, the credit stays
    /// free. A grant of one credit leaves none for operations.
    pub(crate) fn keep_one(
        &self,
        conn: &ConnState<impl Sized, impl XprtRef>,
        in_flight: impl Fn() -> u32,
    ) -> bool {
        let left = self.change(conn, |ledger| {
            let left = ledger.credits.left();
            if left > 1 && ledger.operation == Operation::None {
                ledger.operation = Operation::Kept;
            }
            match ledger.operation {
                Operation::Kept => left,
                Operation::None | Operation::Sent(_) => 0,
            }
        });
        // The transport has been notified, so the number of calls no longer rises.
        left > 1 && in_flight() < left
    }

    /// Records that the operation for which a credit was kept has been sent, with `in_flight` calls
    /// in flight.
    pub(crate) fn sent_one(&self, in_flight: u32) {
        let mut ledger = self.ledger.lock();
        let unanswered = in_flight.saturating_add(ledger.credits.unanswered());
        ledger.operation = Operation::Sent(unanswered.saturating_add(1));
        self.known.store(ledger.known(), Relaxed);
    }

    /// Returns how many calls and messages without an answer may be in flight, besides the calls
    /// that were aborted.
    pub(crate) fn left(&self) -> u32 {
        self.ledger.lock().credits.left()
    }

    /// Changes the credits, and notifies the transport if the number of calls that may be in flight
    /// has changed. Returns what `change` returns.
    //= 5666-3.3-5 always has at least one credit
    //= 5666-4.1-4 not in excess of granted limit
    fn change<T>(
        &self,
        conn: &ConnState<impl Sized, impl XprtRef>,
        change: impl FnOnce(&mut Ledger) -> T,
    ) -> T {
        let mut ledger = self.ledger.lock();
        let changed = change(&mut ledger);
        let credits = match ledger.credits.left() {
            0 => 0,
            left => left.saturating_sub(ledger.taken()).max(1),
        };
        if credits == ledger.announced {
            return changed;
        }
        ledger.announced = credits;
        // The lock is held, so that the last notification has the latest number.
        conn.while_open(|owner| {
            if !owner.set_credits(credits) {
                conn.forced.store(true, Relaxed);
                owner.force_close();
            }
        });
        changed
    }
}

impl Ledger {
    /// Returns how many credits messages other than calls take.
    fn taken(&self) -> u32 {
        let operations = u32::from(self.operation != Operation::None);
        self.charge.saturating_add(operations)
    }

    /// Handles replies. Sends arrive in order: after enough replies, one of them answers a call
    /// that was sent after the operation.
    fn replied(&mut self, replies: u32) {
        if let Operation::Sent(left) = self.operation {
            self.operation = match left.saturating_sub(replies) {
                0 => Operation::None,
                left => Operation::Sent(left),
            };
        }
    }

    /// Returns the grant that changes nothing.
    fn known(&self) -> u32 {
        match self.operation {
            Operation::Sent(_) => 0,
            Operation::None | Operation::Kept => self.credits.limit(),
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_credits)]
mod tests {
    use super::*;
    use crate::mem::SockAddr;
    use crate::observe::trace::Peer;
    use kernel::sync::Arc;

    /// A transport, and whether it does without credits for a while.
    struct Patient(bool);

    impl XprtRef for Patient {
        fn peer(&self) -> Peer {
            Peer::new(&"192.0.2.1", 20049)
        }

        fn address(&self) -> SockAddr {
            SockAddr::new([192, 0, 2, 1], 20049)
        }

        fn is_abandoned(&self) -> bool {
            false
        }

        fn force_close(&self) {
            assert!(!self.0);
        }

        fn set_credits(&self, credits: u32) -> bool {
            self.0 || credits != 0
        }
    }

    /// Returns whether a connection is closed whose only credit an aborted call occupies.
    fn is_closed(patient: bool) -> Result<bool> {
        let conn: Arc<ConnState<(), _>> = ConnState::new(1, Patient(patient), ())?;
        let credits = KBox::pin_init(CallCredits::new(2), GFP_KERNEL)?;
        credits.given_up(&conn);
        assert_eq!(credits.left(), 0);
        let forced = conn.is_forced();
        assert!(credits.unmatched_answer(&conn) && credits.left() == 1);
        assert_eq!(conn.is_forced(), forced);
        Ok(forced)
    }

    #[test]
    fn only_a_transport_that_needs_a_credit_closes_its_connection() -> Result {
        assert!(is_closed(false)? && !is_closed(true)?);
        Ok(())
    }
}
