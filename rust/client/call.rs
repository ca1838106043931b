// SPDX-License-Identifier: GPL-2.0

//! The life of one RPC: its slot, its call, and its reply.
//!
//! [`SlotTable`] has the slots of a transport. It finds and counts the calls of a connection, and
//! prepares and resets all slots when a connection begins and ends.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{Arc, SpinLockGuard};

use self::slot::{Contents, Locked, Slot, FOREVER};
use super::endpoint::Endpoint;
use super::transport::Client;
use crate::observe::connections::Calls;
use crate::observe::stats::CallCounts;
use crate::proto::requester::plan::ReplyKind;
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::DataDirection;
use crate::rdma::pd::Pd;
use crate::sunrpc::xprt::Xprt;

pub(super) mod fence;
pub(super) mod marshal;
pub(super) mod reply;
pub(super) mod send;
pub(super) mod slot;

/// The slots of a transport. Each method takes the lock of one slot after the other.
#[derive(Clone, Copy)]
pub(crate) struct SlotTable<'a>(&'a Xprt<Client>);

impl<'a> SlotTable<'a> {
    /// Returns the slots of a transport.
    pub(in crate::client) fn of(xprt: &'a Xprt<Client>) -> Self {
        Self(xprt)
    }

    fn slots(self) -> impl Iterator<Item = &'a Slot> {
        self.0.slots().map(|slot| slot.data())
    }

    /// Returns the slots that may not be idle.
    ///
    /// ORDERING: the flag is set before a call is posted. Whoever handles a message of the server
    /// sees it for the call that the message answers, since the device orders the two.
    fn used(self) -> impl Iterator<Item = &'a Slot> {
        self.slots().filter(|slot| slot.is_in_use())
    }

    /// Gives every slot a send buffer of `len` bytes for connection number `epoch`. The slots have
    /// been swept since the last connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. Some slots may have a buffer then.
    pub(in crate::client) fn begin_connection(self, pd: &Arc<Pd>, len: u32, epoch: u32) -> Result {
        for slot in self.slots() {
            // CAST: `usize` has at least 32 bits.
            let buf = SendBuf::new(pd, len as usize, GFP_KERNEL)?;
            slot.lock().begin_connection(buf, epoch);
        }
        Ok(())
    }

    /// Gives every slot its connection, whose number [`Self::begin_connection`] has set.
    pub(in crate::client) fn set_endpoint(self, ep: &Arc<Endpoint>) {
        for slot in self.slots() {
            // INVARIANT: `begin_connection` has set the number of `ep`.
            slot.lock().ep = Some(ep.clone());
        }
    }

    /// Calls `act` with the XID of each unanswered call that was sent over connection number
    /// `epoch`.
    pub(in crate::client) fn each_unanswered(self, epoch: u32, act: &mut dyn FnMut(u32)) {
        for slot in self.used() {
            let locked = slot.lock();
            if locked.is_unanswered(epoch) {
                act(locked.contents.xid);
            }
        }
    }

    /// Counts the unanswered calls that were sent over connection number `epoch`.
    pub(in crate::client) fn unanswered(self, epoch: u32) -> u32 {
        let mut calls = 0;
        self.each_unanswered(epoch, &mut |_| calls += 1);
        calls
    }

    /// Returns whether a call that waits for its reply over connection number `epoch` has exposed
    /// memory under this R_key.
    fn exposes(self, epoch: u32, rkey: u32) -> bool {
        self.used().any(|slot| {
            let locked = slot.lock();
            locked.is_sent(epoch) && locked.contents.live().any(|region| region.rkey() == rkey)
        })
    }

    /// Marks the call with this XID as answered, for which SUNRPC no longer waits, and calls `act`
    /// with its contents. Returns whether there is such a call, or such a call that was answered
    /// before.
    fn mark_answered(self, epoch: u32, xid: u32, act: impl Fn(&mut Contents)) -> bool {
        let mark = |slot: &Slot| {
            let mut locked = slot.lock();
            if locked.contents.xid != xid || locked.epoch != epoch {
                return false;
            }
            let (contents, known) = locked.mark_answered();
            if let Some(contents) = contents {
                act(contents);
                slot.wake();
            }
            known
        };
        let likely = self.0.slot(self.0.data().lingering.load(Relaxed));
        let likely = likely
            .map(|slot| slot.data())
            .filter(|slot: &&Slot| slot.is_in_use());
        likely.is_some_and(mark) || self.used().any(mark)
    }

    /// Calls `send` with the message of the call with this XID, which was sent over connection
    /// number `epoch`. Returns what `send` returns; `false` if there is no such call.
    pub(in crate::client) fn resend(
        self,
        epoch: u32,
        xid: u32,
        send: impl Fn(&[u8]) -> bool,
    ) -> bool {
        self.used().any(|slot| {
            let mut locked = slot.lock();
            let found = locked.is_sent(epoch) && locked.contents.xid == xid;
            found && locked.contents.message().is_some_and(&send)
        })
    }

    /// Takes the memory regions back from all prepared calls that have not been sent, and the spare
    /// regions of all slots. Otherwise the call at the head of the queue waits for these regions,
    /// and the calls behind it wait for that call.
    fn take_regions_back(self) {
        for slot in self.slots() {
            slot.lock().take_regions_back();
        }
    }

    /// Waits until no call of former terms is being posted. A call is posted under the lock of its
    /// slot, after its terms have been compared.
    pub(in crate::client) fn wait_for_posts(self) {
        for slot in self.slots() {
            drop(slot.lock());
        }
    }

    /// Returns whether a slot's send buffer has less than `len` bytes.
    pub(in crate::client) fn has_shorter_buffer(self, len: usize) -> bool {
        self.slots()
            .any(|slot| slot.lock().contents.has_shorter_buffer(len))
    }

    /// Gives each idle slot that was ever used a send buffer of `len` bytes. The other slots get
    /// theirs later. If memory is short, a slot keeps its buffer and sends shorter messages.
    pub(in crate::client) fn lengthen_buffers(self, ep: &Endpoint, len: usize) {
        for slot in self.slots() {
            if lengthen_buffer(slot, ep, len).is_err() {
                return;
            }
        }
    }

    /// Adds the counters of all slots.
    pub(in crate::client) fn counts(self) -> CallCounts {
        let mut counts = CallCounts::default();
        for slot in self.slots() {
            counts.add(&slot.lock().contents.counts);
        }
        counts
    }

    /// Counts the calls of connection number `epoch` by form, and those without a reply.
    pub(in crate::client) fn calls(self, epoch: u32) -> (Calls, u32) {
        let (mut calls, mut unanswered) = (Calls::default(), 0);
        for slot in self.used() {
            let locked = slot.lock();
            if locked.fencing(epoch).is_some() {
                calls.fencing += 1;
            } else if locked.is_sent(epoch) {
                unanswered += u32::from(!locked.answered);
                count_form(&mut calls, &locked.contents);
            }
        }
        (calls, unanswered)
    }

    /// Calls `act` with each slot that waits for a chain of LOCAL_INV over connection number
    /// `epoch`.
    fn each_fencing(self, epoch: u32, act: impl Fn(&Slot, SpinLockGuard<'_, Locked>)) {
        for slot in self.slots() {
            let locked = slot.lock();
            if locked.fencing(epoch).is_some() {
                act(slot, locked);
            }
        }
    }

    /// Calls `act` with every slot of connection number `epoch`, and takes the connection and its
    /// objects from the slot. No call is prepared any more for a connection that has been closed.
    /// May sleep.
    fn sweep(self, epoch: u32, act: impl Fn(&Slot, SpinLockGuard<'_, Locked>)) {
        for slot in self.slots() {
            slot.wait_while(FOREVER, Locked::is_preparing);
            let mut locked = slot.lock();
            if locked.epoch != epoch {
                continue;
            }
            let taken = (locked.contents.out.take(), locked.ep.take());
            act(slot, locked);
            // Regions and buffer are dropped outside the lock. The reference may be the last one.
            let spare = core::mem::take(&mut slot.lock().contents.spare);
            drop((taken, spare));
        }
    }
}

/// Adds a call that was sent.
fn count_form(calls: &mut Calls, contents: &Contents) {
    let mut regions = contents.regions.iter();
    let read = regions.any(|region| region.direction() == DataDirection::ToDevice);
    calls.read += u32::from(read);
    match contents.offer {
        ReplyKind::WriteChunk => calls.write += 1,
        ReplyKind::ReplyChunk => calls.reply += 1,
        ReplyKind::Inline => calls.inline += u32::from(!read),
    }
}

/// Gives an idle slot a send buffer of `len` bytes if its present buffer is shorter.
///
/// # Errors
///
/// `ENOMEM`. The slot keeps its buffer.
fn lengthen_buffer(slot: &Slot, ep: &Endpoint, len: usize) -> Result {
    let may = |locked: &Locked| locked.is_idle() && locked.epoch == ep.epoch();
    let locked = slot.lock();
    if !may(&locked) || !locked.contents.has_shorter_buffer(len) {
        return Ok(());
    }
    drop(locked);
    let mut buf = Some(SendBuf::new(ep.pd(), len, GFP_NOWAIT)?);
    let mut locked = slot.lock();
    if may(&locked) && !ep.is_closed() {
        buf = buf.and_then(|buf| locked.contents.set_buffer(buf));
    }
    // The buffer that is not needed is unmapped outside the lock.
    drop(locked);
    drop(buf);
    Ok(())
}
