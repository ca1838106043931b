// SPDX-License-Identifier: GPL-2.0

//! The way from a connection to the client transport that calls over it.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::proto::backward;
use crate::wire::Version;

/// A client transport, as its connection sees it. The methods are for process context, and do not
/// sleep.
pub(super) trait Caller: Send + Sync {
    /// Handles an answer. Completion worker.
    fn answer(&self, bytes: &[u8]);

    /// Sets the number of calls that may be in flight.
    fn set_credits(&self, credits: u32);

    /// Wakes the senders that found no room on the send queue, or no buffer.
    fn wake_senders(&self);

    /// Drops its reference to the connection, which is closed. Not for the completion worker.
    fn leave(&self);
}

/// The way from a connection to the client transport that calls over it, if there is one.
#[pin_data]
pub(super) struct Route {
    /// Whether there is a caller, for readers without the lock. It changes under the lock.
    exists: Atomic<bool>,
    #[pin]
    caller: SpinLock<Option<Arc<dyn Caller>>>,
}

impl Route {
    /// Makes a route that leads nowhere.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            exists: Atomic::new(false),
            caller <- new_spinlock!(None, "rpcrdma::Route::caller"),
        })
    }

    /// Sets the caller.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one already.
    pub(super) fn attach(&self, caller: Arc<dyn Caller>) -> Result {
        let mut place = self.caller.lock();
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(caller);
        self.exists.store(true, Release);
        Ok(())
    }

    /// Removes the caller.
    pub(super) fn detach(&self) {
        let old = self.take();
        drop(old);
    }

    /// Removes the caller, and has it drop its reference to the connection, which is closed.
    pub(super) fn end(&self) {
        if let Some(caller) = self.take() {
            caller.leave();
        }
    }

    fn take(&self) -> Option<Arc<dyn Caller>> {
        let mut place = self.caller.lock();
        self.exists.store(false, Release);
        place.take()
    }

    fn caller(&self) -> Option<Arc<dyn Caller>> {
        self.caller.lock().clone()
    }

    /// Gives a message of this version to the caller if it is an answer to a call. Returns whether
    /// it did. Completion worker; does not sleep.
    #[inline]
    pub(super) fn answer(&self, version: impl FnOnce() -> Version, bytes: &[u8]) -> bool {
        self.exists.load(Acquire) && backward::is_answer(version(), bytes) && self.pass_on(bytes)
    }

    #[cold]
    fn pass_on(&self, bytes: &[u8]) -> bool {
        let caller = self.caller();
        if let Some(caller) = &caller {
            caller.answer(bytes);
        }
        caller.is_some()
    }

    /// Sets the number of calls that may be in flight. Process context; does not sleep.
    pub(super) fn set_credits(&self, credits: u32) {
        if let Some(caller) = self.caller() {
            caller.set_credits(credits);
        }
    }

    /// Wakes the senders of calls: the send queue has room, or a buffer is free. Process context;
    /// does not sleep.
    pub(super) fn wake_senders(&self) {
        if let Some(caller) = self.caller() {
            caller.wake_senders();
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_route)]
mod tests {
    use super::*;
    use kernel::sync::atomic::Relaxed;

    /// An answer: RDMA_ERROR.
    const ANSWER: [u8; 20] = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2];
    /// No answer: RDMA_DONE.
    const OTHER: [u8; 16] = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];

    /// Counts what it is told.
    struct Counting {
        answers: Atomic<u32>,
        credits: Atomic<u32>,
        wakes: Atomic<u32>,
        leaves: Atomic<u32>,
    }

    impl Caller for Counting {
        fn answer(&self, bytes: &[u8]) {
            assert!(bytes == ANSWER);
            self.answers.add(1, Relaxed);
        }

        fn set_credits(&self, credits: u32) {
            self.credits.store(credits, Relaxed);
        }

        fn wake_senders(&self) {
            self.wakes.add(1, Relaxed);
        }

        fn leave(&self) {
            self.leaves.add(1, Relaxed);
        }
    }

    fn counting() -> Result<Arc<Counting>> {
        let counting = Counting {
            answers: Atomic::new(0),
            credits: Atomic::new(0),
            wakes: Atomic::new(0),
            leaves: Atomic::new(0),
        };
        Ok(Arc::new(counting, GFP_KERNEL)?)
    }

    #[test]
    fn only_answers_reach_the_caller_and_only_while_there_is_one() -> Result {
        let route = KBox::pin_init(Route::new(), GFP_KERNEL)?;
        let caller = counting()?;
        assert!(!route.answer(|| Version::One, &ANSWER));
        route.set_credits(3);
        route.wake_senders();

        route.attach(caller.clone())?;
        assert!(route.attach(counting()?).is_err_and(|error| error == EBUSY));
        assert!(route.answer(|| Version::One, &ANSWER));
        assert!(!route.answer(|| Version::One, &OTHER));
        assert!(!route.answer(|| Version::One, &[]));
        route.set_credits(2);
        route.wake_senders();

        route.detach();
        assert!(!route.answer(|| Version::One, &ANSWER));
        route.set_credits(1);
        route.wake_senders();
        route.end();
        route.attach(caller.clone())?;
        route.end();
        assert!(!route.answer(|| Version::One, &ANSWER));
        let counts = [
            &caller.answers,
            &caller.credits,
            &caller.wakes,
            &caller.leaves,
        ];
        assert_eq!(counts.map(|count| count.load(Relaxed)), [1, 2, 1, 1]);
        Ok(())
    }
}
