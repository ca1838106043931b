// SPDX-License-Identifier: GPL-2.0

//! The backchannel: calls of the service to its client, the callbacks of NFSv4.1 and later
//! (RFC 8167).
//!
//! The service makes a client transport of the class `rdma backchannel` for a connection when it
//! first calls back. A call is copied into a send buffer of the connection with SUNRPC's send lock
//! held, and never waits. The completion worker recognises the answer and completes the RPC,
//! because every thread of the service may be waiting for that answer.
//!
//! SUNRPC closes the client transport after it has detached the `svc_xprt`. The client transport
//! then drops its endpoint and leaves the connection. The worker that closes the connection does
//! the same, because it may be first. The completion worker never refers to the endpoint, because
//! dropping the endpoint waits for that worker.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::{new_spinlock, SpinLock};

use super::call::in_flight::BACKCHANNEL;
use super::config::MAX_BC_REQUESTS;
use super::conn::endpoint::{Conn, Endpoint};
use super::conn::failure;
use super::conn::owner::BcXprt;
use super::transport::Server;
use crate::compat::code::{ENOTCONN, EOPNOTSUPP};
use crate::conn::backward::{write, Unposted};
use crate::observe::stats::RequesterBreach;
use crate::proto::backward;
use crate::rdma::qp::PostError;
use crate::sunrpc::svc::xprt::{Connected, SvcXprt};
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::{SendError, Transport};
use crate::sunrpc::xprt::{Xprt, XprtHandle};
use crate::wire::message::Body;
use crate::wire::{Direction, Limits, Message};

#[vtable]
impl Transport for BcXprt {
    type Slot = BcSlot;
    type Context = ();

    /// `XPRT_TRANSPORT_BC_RDMA`: that of the class `rdma`, with `XPRT_TRANSPORT_BC`.
    const IDENT: i32 = 256 | i32::MIN;
    const NAME: &'static CStr = c"rdma backchannel";
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const PROTO: &'static CStr = c"rdma";
    const BUFFER_SIZE: usize = 2048;

    fn slots() -> u32 {
        MAX_BC_REQUESTS
    }

    fn max_payload() -> usize {
        PAGE_SIZE
    }

    fn new(slots: u32, _context: &()) -> impl PinInit<Self, Error> {
        Self::init(slots)
    }

    fn new_slot(_index: u32) -> impl PinInit<BcSlot, Error> {
        BcSlot::new()
    }

    /// The service would continue to call over a transport that is closed for another reason than
    /// the end of its connection. The connection is therefore always closed.
    fn close(&self, _xprt: &Xprt<Self>) {
        let Some(ep) = self.take_endpoint() else {
            return;
        };
        drop(ep.shared().owner().backchannel().take());
        ep.shared().force_close();
    }

    fn destroy(&self, xprt: &Xprt<Self>) {
        self.close(xprt);
    }

    fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile) {
        seq_print!(out, "\txprt:\trdma {}\n", xprt.counts());
    }

    fn attach(&self, xprt: &Xprt<Self>, server: &SvcXprt<Connected>) -> Result {
        let server = server.connection::<Server>().ok_or(EINVAL)?;
        let ep = server.endpoint().ok_or(ENOTCONN)?;
        if !ep.shared().terms().permits_backward() {
            return Err(EOPNOTSUPP);
        }
        // CAST: `usize` has at least 32 bits.
        let buffers = MAX_BC_REQUESTS as usize;
        // The requester may accept longer calls later. The longest call fills a page.
        ep.replies().fill(ep.pd(), buffers, PAGE_SIZE)?;
        // Another thread may be attaching a transport to this connection. This transport then has
        // no connection to close.
        let owner = ep.shared().owner();
        owner.backchannel().attach(xprt.handle())?;
        self.set_endpoint(ep.clone());
        // The worker that closes the connection may have found no transport, or a transport without
        // the endpoint.
        if ep.is_closed() {
            owner.end_backchannel();
            drop(self.take_endpoint());
            return Err(ENOTCONN);
        }
        Ok(())
    }

    /// The service repeats a callback at once that failed without being sent. If the requester does
    /// not accept the call, the connection is therefore closed, and the call waits for that.
    fn prepare(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result {
        self.abandon(&rqst);
        if let Some(ep) = self.endpoint().filter(|ep| !fits(ep, &rqst)) {
            ep.shared().force_close();
            return Err(EAGAIN);
        }
        Ok(())
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
        send(xprt, &rqst)
    }

    fn invalidate_call(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        self.abandon(&rqst);
    }

    fn release(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        self.abandon(&rqst);
    }
}

impl BcXprt {
    /// Aborts a call. If the call was sent and not answered, it keeps its credit until the
    /// requester answers.
    fn abandon(&self, rqst: &Rqst<'_, Self>) {
        // The reference is dropped after the lock of the slot is released.
        let ep = self.endpoint();
        rqst.slot().data().abandon(|| {
            if let Some(ep) = &ep {
                self.credits.given_up(ep.shared());
            }
        });
    }
}

/// Returns whether the requester accepts calls, and calls of this length.
//= V2-4.2.2-1 backward direction operation is supported
fn fits(ep: &Endpoint, rqst: &Rqst<'_, BcXprt>) -> bool {
    // CAST: a page is small.
    let max = backward::max_call(&ep.thresholds(), PAGE_SIZE as u32);
    ep.shared().terms().permits_backward() && rqst.send_buf().len() <= max
}

/// Sends a call. The caller holds the send lock. Does not sleep.
///
/// # Errors
///
/// See [`SendError`]. After an error the call has not been sent, or the connection is being closed.
fn send(xprt: &Xprt<BcXprt>, rqst: &Rqst<'_, BcXprt>) -> Result<(), SendError> {
    let data = xprt.data();
    let ep = data.endpoint().ok_or(SendError::NotConnected)?;
    // Without an answer, the credit of the call would never be returned.
    if !rqst.reply_expected() {
        return Err(SendError::Io);
    }
    if !xprt.take_credit(rqst) {
        return Err(SendError::NoCredit);
    }
    let slot = rqst.slot().data();
    // The answer may arrive before the call counts as posted. A call is not sent twice over one
    // connection, because the requester counts its credits.
    if !slot.begin(rqst.xid()) {
        return Err(SendError::Dropped);
    }
    let requested = data.credits.requested();
    let posted = xprt.post_or_wait(&SendError::Again, || {}, || post(&ep, rqst, requested));
    match posted {
        Ok(()) => rqst.mark_sent(),
        Err(_) => slot.revoke(),
    }
    posted
}

/// Writes a call into a buffer that the device is not reading, and posts it.
fn post(ep: &Endpoint, rqst: &Rqst<'_, BcXprt>, credits: u32) -> Result<(), SendError> {
    let message = rqst.send_buf();
    // CAST: `usize` has at least 32 bits.
    let len = message.len() as usize;
    let version = ep.shared().version();
    let header = |out: &mut [u8]| version.inline(out, rqst.xid(), credits, Direction::Call);
    let posted = ep.post_backward(BACKCHANNEL, |out| {
        write(out, header, len, |out| message.copy_to(0, out))
    });
    posted.map_err(|unposted| match unposted {
        Unposted::NoBuffer | Unposted::Refused(PostError::Full) => SendError::Again,
        Unposted::Unwritten | Unposted::Refused(_) => SendError::Dropped,
    })
}

/// Handles an answer to a call over `xprt`. Completion worker.
///
/// An answer that belongs to no call is dropped: its call was aborted, or the requester is faulty.
/// An answer that breaks the protocol fails its call with `EIO`.
#[cold]
pub(crate) fn answer(conn: &Conn, xprt: &XprtHandle<BcXprt>, bytes: &[u8]) {
    let Ok(header) = Message::decode_as(conn.version(), bytes, &Limits::NONE) else {
        return failure::report(conn, 0, RequesterBreach::BackwardForm);
    };
    let (xid, credits) = (header.xid(), &xprt.data().credits);
    // The grant counts even if the call was aborted: it is the requester's latest grant.
    credits.granted(conn, xid, header.credits(), 1);
    match xprt.find(xid) {
        Some(rqst) if rqst.slot().data().answered(xid) => complete(conn, rqst, &header),
        Some(rqst) => {
            // The requester has answered a call that was not sent.
            rqst.disown();
            failure::report(conn, xid, RequesterBreach::BackwardXid);
        }
        None => unmatched(conn, xprt, xid),
    }
}

/// Completes the call that a message answers.
fn complete(conn: &Conn, mut rqst: Pinned<'_, BcXprt>, header: &Message<'_>) {
    if matches!(header.body(), Body::Error(_)) {
        return rqst.fail(EIO);
    }
    match backward::message(header, rqst.recv_buf().capacity()) {
        Ok(message) => {
            let placed = rqst.place_reply(message, None);
            rqst.complete(placed.len);
        }
        Err(_) => {
            rqst.fail(EIO);
            failure::report(conn, header.xid(), RequesterBreach::BackwardForm);
        }
    }
}

/// Handles an answer for which SUNRPC does not wait: its call is being aborted, was aborted before,
/// or never existed.
fn unmatched(conn: &Conn, xprt: &XprtHandle<BcXprt>, xid: u32) {
    let late = xprt.slots().any(|slot| slot.data().answered(xid));
    if !late && !xprt.data().credits.unmatched_answer(conn) {
        failure::report(conn, xid, RequesterBreach::BackwardXid);
    }
}

/// The call of a request slot, as far as the transport tracks it. The methods do not sleep.
#[pin_data]
pub(crate) struct BcSlot {
    /// The XID of a call that was sent and not answered.
    #[pin]
    unanswered: SpinLock<Option<u32>>,
}

impl BcSlot {
    /// Makes a slot without a call.
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            unanswered <- new_spinlock!(None, "rpcrdma::BcSlot::unanswered"),
        })
    }

    /// Begins to send a call. Returns `false` if the slot has an unanswered call, which keeps its
    /// credit.
    fn begin(&self, xid: u32) -> bool {
        let mut unanswered = self.unanswered.lock();
        let vacant = unanswered.is_none();
        if vacant {
            *unanswered = Some(xid);
        }
        vacant
    }

    /// Reverts [`Self::begin`]: the call was not sent.
    fn revoke(&self) {
        *self.unanswered.lock() = None;
    }

    /// Handles the answer to the call with this XID. Returns whether that call was sent and not
    /// answered before.
    fn answered(&self, xid: u32) -> bool {
        let answered = self.unanswered.lock().take_if(|sent| *sent == xid);
        answered.is_some()
    }

    /// Aborts the call. Calls `note` if the call was sent and not answered. The lock is held, so
    /// that a concurrent answer is not counted before `note` has returned.
    fn abandon(&self, note: impl FnOnce()) {
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

    /// Returns whether aborting the call of the slot reports an unanswered call.
    fn abandoned(slot: &BcSlot) -> bool {
        let mut noted = false;
        slot.abandon(|| noted = true);
        noted
    }

    #[test]
    fn a_call_is_sent_once_until_it_is_answered() -> Result {
        let slot = KBox::pin_init(BcSlot::new(), GFP_KERNEL)?;
        assert!(!abandoned(&slot) && !slot.answered(7));
        assert!(slot.begin(7) && !slot.begin(7) && !slot.begin(8));
        assert!(!slot.answered(8) && slot.answered(7) && !slot.answered(7));
        assert!(!abandoned(&slot));
        Ok(())
    }

    #[test]
    fn only_an_unanswered_call_is_abandoned() -> Result {
        let slot = KBox::pin_init(BcSlot::new(), GFP_KERNEL)?;
        assert!(slot.begin(7));
        assert!(abandoned(&slot) && !abandoned(&slot) && !slot.answered(7));
        assert!(slot.begin(8));
        slot.revoke();
        assert!(!abandoned(&slot) && slot.begin(9));
        Ok(())
    }
}
