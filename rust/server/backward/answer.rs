// SPDX-License-Identifier: GPL-2.0

//! Completes calls to the requester when their answers arrive.
//!
//! An answer that belongs to no call is dropped: its call was given up, or the requester is wrong.
//! An answer that breaks the protocol fails its call with `EIO`.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::super::breach;
use super::super::responder::Conn;
use super::super::route::Caller;
use super::callback::Callback;
use crate::observe::stats::RequesterBreach;
use crate::proto::backward;
use crate::sunrpc::xprt::reply::Pinned;
use crate::sunrpc::xprt::XprtHandle;
use crate::wire::message::Body;
use crate::wire::{Limits, Message};

/// An answer has no chunks.
const LIMITS: Limits = Limits::NONE;

/// The client transport as its connection sees it.
///
/// It refers to the state that completions reach, and not to the endpoint: the completion worker
/// may drop the last reference to this value, and an endpoint waits for the completion worker when
/// it is dropped.
pub(super) struct Client {
    xprt: XprtHandle<Callback>,
    conn: Arc<Conn>,
}

impl Client {
    /// Makes the connection's view of a client transport.
    pub(super) fn new(xprt: XprtHandle<Callback>, conn: Arc<Conn>) -> Self {
        Self { xprt, conn }
    }
}

impl Caller for Client {
    fn answer(&self, bytes: &[u8]) {
        let Ok(header) = Message::decode_as(self.conn.version(), bytes, &LIMITS) else {
            return self.breach(0, RequesterBreach::BackwardForm);
        };
        let (xid, credits) = (header.xid(), self.xprt.data().credits());
        // The grant counts even if the call was given up: it is the requester's latest one.
        credits.granted(&*self.conn, xid, header.credits());
        match self.xprt.find(xid) {
            Some(rqst) if rqst.slot().data().answered(xid) => self.complete(rqst, &header),
            Some(rqst) => {
                // The requester has answered a call that was not sent.
                rqst.disown();
                self.breach(xid, RequesterBreach::BackwardXid);
            }
            None => self.unmatched(xid),
        }
    }

    fn set_credits(&self, credits: u32) {
        self.xprt.set_credits(credits);
    }

    fn wake_senders(&self) {
        self.xprt.wake_write_space();
    }

    fn leave(&self) {
        drop(self.xprt.data().take_endpoint());
    }
}

impl Client {
    /// Completes the call that a message answers.
    fn complete(&self, mut rqst: Pinned<'_, Callback>, header: &Message<'_>) {
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
                self.breach(header.xid(), RequesterBreach::BackwardForm);
            }
        }
    }

    /// Handles an answer for which SUNRPC does not wait: its call is being given up, was given up
    /// before, or never existed.
    fn unmatched(&self, xid: u32) {
        let late = self.xprt.slots().any(|slot| slot.data().answered(xid));
        let credits = self.xprt.data().credits();
        if !late && !credits.unmatched_answer(&*self.conn) {
            self.breach(xid, RequesterBreach::BackwardXid);
        }
    }

    fn breach(&self, xid: u32, breach: RequesterBreach) {
        breach::report(&self.conn, xid, breach);
    }
}
