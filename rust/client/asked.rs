// SPDX-License-Identifier: GPL-2.0

//! The state of an exchange by the Connection Configuration Protocol of RFC 5666.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{msecs_to_jiffies, Jiffies};

use crate::proto::legacy::conf::{Answered, Configuration, Exchange};
use crate::proto::legacy::request::{hear, Heard};
use crate::wire::conf_rdma::Request;
use crate::wire::message::Body;
use crate::wire::Message;
use crate::work::Change;

/// How long the server may take to answer, in milliseconds.
const PATIENCE_MS: u32 = 5_000;
/// How often a wait looks whether the transport is still needed, in milliseconds.
const LOOK_MS: u32 = 500;

/// The exchange of a connection.
#[pin_data]
pub(super) struct Conf {
    /// An answer is awaited.
    waiting: AtomicFlag,
    #[pin]
    asked: SpinLock<Asked>,
    #[pin]
    changed: Change,
}

struct Asked {
    xid: u32,
    exchange: Exchange,
    /// What the answer has led to.
    outcome: Option<Outcome>,
}

/// What came of asking.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The connection is configured.
    Agreed(Configuration),
    /// The server does not serve the protocol: the connection is as if nothing had been asked.
    Unserved,
    /// The answer is not accepted.
    Rejected,
}

impl Conf {
    /// Makes the state of a connection over which nothing was asked.
    pub(super) fn new() -> impl PinInit<Self> {
        let asked = Asked {
            xid: 0,
            exchange: Exchange::Initial,
            outcome: None,
        };
        pin_init!(Self {
            waiting: AtomicFlag::new(false),
            asked <- new_spinlock!(asked, "rpcrdma::Conf::asked"),
            changed <- Change::new(),
        })
    }

    /// Notes that the call is about to be sent.
    pub(super) fn begin(&self, xid: u32, request: Request) {
        let mut asked = self.asked.lock();
        asked.xid = xid;
        asked.exchange.on_request(request);
        drop(asked);
        self.waiting.store(true, Relaxed);
    }

    /// Waits for the answer, until the transport `is_abandoned`. Sleeps.
    pub(super) fn wait(&self, is_abandoned: impl Fn() -> bool) -> Option<Outcome> {
        let mut left: Jiffies = msecs_to_jiffies(PATIENCE_MS);
        loop {
            let outcome = self.asked.lock().outcome;
            if outcome.is_some() || left == 0 || is_abandoned() {
                self.waiting.store(false, Relaxed);
                return outcome;
            }
            let slice = left.min(msecs_to_jiffies(LOOK_MS).max(1));
            let rest = self.changed.wait(slice);
            left -= slice - rest.min(slice);
        }
    }

    /// Handles a message, if it can be decoded. Returns `false` if it is not the answer, or if the
    /// answer is not accepted.
    pub(super) fn hear(&self, message: Option<&Message<'_>>) -> bool {
        let mut asked = self.asked.lock();
        let message = message.filter(|message| message.xid() == asked.xid);
        let outcome = message.and_then(|message| asked.hear(message));
        if asked.outcome.is_none() {
            asked.outcome = outcome;
        }
        drop(asked);
        self.changed.announce();
        matches!(outcome, Some(Outcome::Agreed(_) | Outcome::Unserved))
    }

    /// Returns whether an answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed)
    }
}

impl Asked {
    /// Handles the answer.
    fn hear(&mut self, message: &Message<'_>) -> Option<Outcome> {
        let heard = match message.body() {
            Body::Msg { lists, payload } if lists.is_empty() => hear(self.xid, payload),
            Body::Error(_) => Heard::Refused,
            _ => Heard::Malformed,
        };
        Some(match heard {
            Heard::Malformed => Outcome::Rejected,
            Heard::Refused => {
                self.exchange.on_error();
                Outcome::Unserved
            }
            Heard::Reply(reply) => match self.exchange.on_reply(&reply) {
                Answered::Agreed(agreed) => Outcome::Agreed(agreed),
                Answered::Rejected => Outcome::Rejected,
                Answered::Unasked => return None,
            },
        })
    }
}
