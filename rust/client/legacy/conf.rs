// SPDX-License-Identifier: GPL-2.0

//! Asks the server by the Connection Configuration Protocol of RFC 5666, if a setting says so.
//!
//! The call is the first message of a connection, before its session begins, and nothing else is
//! sent before the answer has arrived. No RPC of SUNRPC is involved.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{msecs_to_jiffies, Jiffies};

use super::super::config::{Config, MAX_SEGMENTS, PADDING};
use super::Link;
use crate::conn::role::XprtRef as _;
use crate::conn::role::{ConnOf, Role};
use crate::conn::terms::Capabilities;
use crate::conn::traced::peer;
use crate::observe::stats::Breach;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::legacy::conf::Configuration;
use crate::proto::legacy::request::{call, hear, Heard};
use crate::rdma::send::SendBuf;
use crate::sunrpc::random;
use crate::wire::conf_rdma::Request;
use crate::wire::message::Body;
use crate::wire::{Direction, Limits, Message, Version};
use crate::work::WakeEvent;

/// The time in milliseconds in which the server has to answer.
const PATIENCE_MS: u32 = 5_000;
/// The time in milliseconds after which a wait checks whether the transport is still needed.
const CHECK_MS: u32 = 500;

/// The exchange of a connection.
#[pin_data]
pub(super) struct Conf {
    /// An answer is awaited.
    waiting: AtomicFlag,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: WakeEvent,
}

/// The data that the lock of [`Conf`] protects.
struct State {
    /// The XID of the call, and the request in the call, until the answer.
    asked: Option<(u32, Request)>,
    /// The outcome of the exchange, once answered.
    outcome: Option<Outcome>,
}

/// The outcome of an exchange.
#[derive(Clone, Copy)]
enum Outcome {
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
        let state = State {
            asked: None,
            outcome: None,
        };
        pin_init!(Self {
            waiting: AtomicFlag::new(false),
            state <- new_spinlock!(state, "rpcrdma::Conf::state"),
            changed <- WakeEvent::new(),
        })
    }

    /// Asks the server, and returns the terms of version one that follow: the server's answer has
    /// precedence over `one`, which its private data say. `out` is a buffer for the call. Sleeps.
    ///
    /// # Errors
    ///
    /// `EPROTO` if the answer is not accepted; `ETIMEDOUT` if none arrives; `ENOTCONN` if the call
    /// cannot be sent.
    //= 5666-6.1-1 before any other RPC program
    //= 5666-6.1-4 sends nothing else until answered
    pub(super) fn ask<R: Role>(
        &self,
        (conn, qp, credits): Link<'_, R>,
        out: &mut SendBuf,
        request: Request,
        one: Thresholds,
    ) -> Result<Thresholds> {
        let xid = random();
        let len = write(out.as_mut_slice(), (xid, credits.requested()), &request)?;
        self.begin(xid, request);
        let no_regions = core::iter::empty();
        let posted = qp.post_send(R::CONTROL, no_regions, out, len, true);
        posted.map_err(|_| ENOTCONN)?;
        let outcome = self.wait(|| conn.owner().is_abandoned());
        trace_outcome(conn, outcome.as_ref());
        match outcome {
            None => Err(ETIMEDOUT),
            Some(Outcome::Rejected) => Err(EPROTO),
            Some(Outcome::Unserved) => Ok(one),
            Some(Outcome::Agreed(agreed)) => {
                configure(conn, &agreed);
                Ok(Thresholds {
                    client_to_server: agreed.max_call,
                    server_to_client: agreed.max_reply,
                    ..one
                })
            }
        }
    }

    /// Handles a message that arrives before the session has begun. Every message but the answer is
    /// dropped. Returns `false` if no answer is awaited.
    pub(super) fn received<R: Role>(&self, conn: &ConnOf<R>, bytes: &[u8]) -> bool {
        if !self.waiting.load(Relaxed) {
            return false;
        }
        let limits = Limits::requester(1, MAX_SEGMENTS);
        let message = Message::decode_as(Version::One, bytes, &limits);
        if !self.hear(message.ok().as_ref()) {
            conn.breach(Breach::Conf);
        }
        true
    }

    /// Notes that the call is about to be sent.
    fn begin(&self, xid: u32, request: Request) {
        self.state.lock().asked = Some((xid, request));
        self.waiting.store(true, Relaxed);
    }

    /// Waits for the answer, until the transport `is_abandoned`. Sleeps.
    fn wait(&self, is_abandoned: impl Fn() -> bool) -> Option<Outcome> {
        let mut left: Jiffies = msecs_to_jiffies(PATIENCE_MS);
        loop {
            let outcome = self.state.lock().outcome;
            if outcome.is_some() || left == 0 || is_abandoned() {
                self.waiting.store(false, Relaxed);
                return outcome;
            }
            let slice = left.min(msecs_to_jiffies(CHECK_MS).max(1));
            let rest = self.changed.wait(slice);
            left -= slice - rest.min(slice);
        }
    }

    /// Handles a message, if it can be decoded. Returns `false` if the message is not the answer,
    /// or if the answer is not accepted.
    fn hear(&self, message: Option<&Message<'_>>) -> bool {
        let mut state = self.state.lock();
        let outcome = message.and_then(|message| state.hear(message));
        if state.outcome.is_none() {
            state.outcome = outcome;
        }
        drop(state);
        self.changed.announce();
        matches!(outcome, Some(Outcome::Agreed(_) | Outcome::Unserved))
    }
}

impl State {
    /// Handles the answer.
    fn hear(&mut self, message: &Message<'_>) -> Option<Outcome> {
        let (xid, request) = self.asked.take_if(|(xid, _)| *xid == message.xid())?;
        let heard = match message.body() {
            Body::Msg { lists, payload } if lists.is_empty() => hear(xid, payload),
            Body::Error(_) => Heard::Refused,
            _ => Heard::Malformed,
        };
        Some(match heard {
            Heard::Malformed => Outcome::Rejected,
            Heard::Refused => Outcome::Unserved,
            Heard::Reply(reply) => {
                Configuration::agree(&request, &reply).map_or(Outcome::Rejected, Outcome::Agreed)
            }
        })
    }
}

/// Returns the configuration that we tell the server. Our device serves `reads` RDMA Reads at the
/// same time.
pub(super) fn request(config: &Config, reads: u8) -> Request {
    Request {
        maxcall_sendsize: config.inline_send,
        maxreply_sendsize: config.receive_size(),
        maxrdmaread: reads.into(),
    }
}

/// Applies the server's answer, apart from the thresholds, before the session begins.
fn configure<R: Role>(conn: &ConnOf<R>, agreed: &Configuration) {
    if !agreed.read_chunks {
        conn.add_capabilities(Capabilities::NO_READ_CHUNKS);
    }
    // The administrator bounds the padding.
    let padding = agreed
        .padding
        .filter(|padding| padding.align() <= PADDING.get());
    if let Some(padding) = padding {
        conn.add_capabilities(Capabilities::aligned(padding.align()));
    }
}

/// Traces the outcome of the exchange.
fn trace_outcome<R: Role>(conn: &ConnOf<R>, outcome: Option<&Outcome>) {
    let (word, agreed) = match outcome {
        None => ("silent", None),
        Some(Outcome::Rejected) => ("rejected", None),
        Some(Outcome::Unserved) => ("unserved", None),
        Some(Outcome::Agreed(agreed)) => ("agreed", Some(agreed)),
    };
    trace::conf_answer(peer(conn.owner()), word, agreed);
}

/// Writes the call. Returns its length.
fn write(out: &mut [u8], (xid, credits): (u32, u32), request: &Request) -> Result<usize> {
    let header = Version::One.inline(out, xid, credits, Direction::Call);
    let at = header.map_err(|_| EMSGSIZE)?;
    let call = call(xid, request);
    let len = at + call.len();
    out.get_mut(at..len).ok_or(EMSGSIZE)?.copy_from_slice(&call);
    Ok(len)
}
