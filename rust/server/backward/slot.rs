// SPDX-License-Identifier: GPL-2.0

//! Whether the call of a request slot was sent and not answered.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

/// The transport's part of a request slot. The methods do not sleep.
#[pin_data]
pub(crate) struct Slot {
    /// The XID of a call that was sent and not answered.
    #[pin]
    unanswered: SpinLock<Option<u32>>,
}

impl Slot {
    /// Makes the part of a slot that has no call.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            unanswered <- new_spinlock!(None, "rpcrdma::Slot::unanswered"),
        })
    }

    /// Notes that a call is about to be sent. Returns `false` if a call of the slot was sent and
    /// not answered: the peer has its credit.
    pub(super) fn begin(&self, xid: u32) -> bool {
        let mut unanswered = self.unanswered.lock();
        let vacant = unanswered.is_none();
        if vacant {
            *unanswered = Some(xid);
        }
        vacant
    }

    /// Notes that the call was not sent after all.
    pub(super) fn revoke(&self) {
        *self.unanswered.lock() = None;
    }

    /// Notes the answer to the call with this XID. Returns whether it was sent and not answered.
    pub(super) fn answered(&self, xid: u32) -> bool {
        let mut unanswered = self.unanswered.lock();
        let matches = *unanswered == Some(xid);
        if matches {
            *unanswered = None;
        }
        matches
    }

    /// Gives the call up. Calls `note` if it was sent and not answered: under the lock, so that an
    /// answer which arrives meanwhile is not counted before `note` has returned.
    pub(super) fn give_up(&self, note: impl FnOnce()) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.take().is_some() {
            note();
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_server_slot)]
mod tests {
    use super::*;

    /// Returns whether giving the slot up notes an unanswered call.
    fn given_up(slot: &Slot) -> bool {
        let mut noted = false;
        slot.give_up(|| noted = true);
        noted
    }

    #[test]
    fn a_call_is_sent_once_until_it_is_answered() -> Result {
        let slot = KBox::pin_init(Slot::new(), GFP_KERNEL)?;
        assert!(!given_up(&slot) && !slot.answered(7));
        assert!(slot.begin(7) && !slot.begin(7) && !slot.begin(8));
        assert!(!slot.answered(8) && slot.answered(7) && !slot.answered(7));
        assert!(!given_up(&slot));
        Ok(())
    }

    #[test]
    fn only_an_unanswered_call_is_given_up() -> Result {
        let slot = KBox::pin_init(Slot::new(), GFP_KERNEL)?;
        assert!(slot.begin(7));
        assert!(given_up(&slot) && !given_up(&slot) && !slot.answered(7));
        assert!(slot.begin(8));
        slot.revoke();
        assert!(!given_up(&slot) && slot.begin(9));
        Ok(())
    }
}
