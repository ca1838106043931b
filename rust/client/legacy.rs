// SPDX-License-Identifier: GPL-2.0

//! RFC 5666: the differences of servers that implement no later specification.
//!
//! This file is the interface of the folder: the other files of the client use nothing else of it.
//! They call it `quirks`. With `RPCRDMA_LEGACY=n` the build uses `legacy/none.rs` instead, and
//! everything below is left out.
//!
//! Such a server sends no private data, because RFC 8797 is younger. The forms that RFC 8166
//! withdrew are only used with a server that has sent none, or that has asked for them by the
//! Connection Configuration Protocol.
//!
//! - [`Conf`] asks the server for its configuration. The call is the first message of a connection,
//!   before its session begins, and nothing else is sent before the answer has arrived. SUNRPC is
//!   not involved.
//! - [`read_chunks`]: the server returns replies in read chunks, and waits for an RDMA_DONE.
//! - [`write_aligned`]: the server requests alignment of the payload of an inline call, by padding
//!   before the payload (RDMA_MSGP, section 3.9). The threshold of the padding is chosen such that
//!   no other item of the call is padded.
//! - [`check_segments`]: the server includes the round-up in the length of a write chunk.
//!
//! The capabilities of the connection ([`Capabilities`]) show the other files whether one of these
//! applies, so a connection to any other server executes no code of this folder.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};
use kernel::time::{msecs_to_jiffies, Jiffies};

use super::config::{Config, MAX_SEGMENTS, PADDING};
use crate::compat::code::{ENOTCONN, EPROTO};
use crate::conn::credits::CallCredits;
use crate::conn::role::{ConnOf, QpOf, Role, XprtRef as _};
use crate::conn::terms::Capabilities;
use crate::conn::traced::peer;
use crate::observe::stats::Breach;
use crate::observe::trace::{self, Lazy, Task};
use crate::proto::inline::Thresholds;
use crate::proto::legacy::conf::{call, hear, Configuration, Heard};
use crate::proto::legacy::padded::{room, Padding, Room};
use crate::proto::legacy::round_up;
use crate::proto::requester::reply::{Offer, Outcome, Violation};
use crate::rdma::buffer::SendBuf;
use crate::rdma::device::Limits;
use crate::sunrpc::random;
use crate::sunrpc::sysctl::{IntSysctl, Sysctl};
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::conf_rdma::Request;
use crate::wire::message::Body;
use crate::wire::v1::begin_padded;
use crate::wire::{Direction, Limits as ReplyLimits, Message, Version};
use crate::work::WakeEvent;

mod read_chunks;

pub(super) use read_chunks::MOST as TAGS;

/// 1: the client asks a server for its configuration (Connection Configuration Protocol).
static CONF: IntSysctl = IntSysctl::new(c"rdma_conf", 0, 0, 1);
/// 1: replies of a server that sends no private data may have read chunks.
static READ_CHUNKS: IntSysctl = IntSysctl::new(c"rdma_read_chunks", 0, 0, 1);

/// The tunables of this folder.
pub(crate) static KNOBS: [&dyn Sysctl; 2] = [&CONF, &READ_CHUNKS];

/// The time in milliseconds within which the server must answer.
const PATIENCE_MS: u32 = 5_000;
/// The time in milliseconds after which a wait checks whether the transport is still needed.
const CHECK_MS: u32 = 500;

/// The maximum number of outstanding RDMA Reads of a server's memory.
const READS: u8 = 4;

/// The tunables, sampled when a connection is made, and the limits of its device.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Whether the server is asked for its configuration.
    asks: bool,
    /// The RDMA Reads of the server's memory that may be outstanding: none, unless they are
    /// permitted and the device supports them without memory regions.
    pub(super) reads: u8,
    /// The work requests that these RDMA Reads may take on the send queue.
    pub(super) send_wr: u32,
}

impl Settings {
    /// Reads the tunables.
    pub(super) fn new(limits: &Limits) -> Self {
        let (reads, send_wr) = if READ_CHUNKS.get() != 0 && !limits.reads_need_regions {
            (
                limits.max_qp_init_rd_atom.min(READS),
                read_chunks::WORK_REQUESTS,
            )
        } else {
            (0, 0)
        };
        Self {
            asks: CONF.get() != 0,
            reads,
            send_wr,
        }
    }
}

/// A connection and its credits.
pub(super) type Link<'a, R> = (&'a ConnOf<R>, &'a QpOf<R>, &'a CallCredits);
/// Calls its argument with the XID of each call in flight.
pub(super) type Calls<'a> = dyn Fn(&mut dyn FnMut(u32)) + 'a;

/// The state of a connection to a server that may implement RFC 5666.
#[pin_data]
pub(super) struct Quirks {
    /// The server has sent no private data.
    may_be_old: AtomicFlag,
    #[pin]
    conf: Conf,
    /// The replies with read chunks.
    #[pin]
    pub(super) reads: read_chunks::ReadReplies,
}

impl Quirks {
    /// Makes the state of a new connection.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            may_be_old: AtomicFlag::new(false),
            conf <- Conf::new(),
            reads <- read_chunks::ReadReplies::new(),
        })
    }

    /// Records whether the server has sent private data.
    pub(super) fn note_peer(&self, has_private_data: bool) {
        self.may_be_old.store(!has_private_data, Relaxed);
    }

    /// Prepares a connection that begins in version one: asks the server for its configuration, and
    /// permits read chunks in replies, as `settings` say. `out` is a buffer for the call, `tag` the
    /// first of [`TAGS`] tags, `served` the RDMA Reads that our device serves at the same time.
    /// Returns the terms of version one: the server's answer has precedence over `one`, which
    /// follows from its private data. `ended` returns whether the connection has ended. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. `EPROTO` if the answer is not accepted; `ETIMEDOUT` if none arrives; `ENOTCONN` if
    /// the call cannot be sent, or the connection has ended.
    pub(super) fn begin<R: Role>(
        &self,
        (conn, qp, credits): Link<'_, R>,
        (settings, served): (Settings, u8),
        config: &Config,
        (out, tag): (&mut SendBuf, u32),
        (one, ended): (Thresholds, &dyn Fn() -> bool),
    ) -> Result<Thresholds> {
        let mut terms = one;
        if settings.asks {
            // The configuration that we announce to the server.
            let request = Request {
                maxcall_sendsize: config.inline_send,
                maxreply_sendsize: config.receive_size(),
                maxrdmaread: served.into(),
            };
            terms = self
                .conf
                .ask((conn, qp, credits), out, request, (one, ended))?;
        }
        if settings.reads != 0 && self.may_be_old.load(Relaxed) {
            self.reads.enable(config.slots, tag)?;
            conn.add_capabilities(Capabilities::DONES);
        }
        Ok(terms)
    }

    /// Handles a message that arrives before the session begins. Every message except the answer is
    /// dropped. Returns `false` if no answer is awaited. Completion worker.
    pub(super) fn received_early<R: Role>(&self, conn: &ConnOf<R>, bytes: &[u8]) -> bool {
        if !self.conf.waiting.load(Relaxed) {
            return false;
        }
        let limits = ReplyLimits::requester(1, MAX_SEGMENTS);
        let message = Message::decode_as(Version::One, bytes, &limits);
        if !self.conf.hear(message.ok().as_ref()) {
            conn.breach(Breach::Conf);
        }
        true
    }

    /// Compares a reply whose write chunk is longer than `offer` once more: the server may have
    /// included the round-up in its length.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] found.
    #[cold]
    pub(super) fn check_segments(
        &self,
        body: &Body<'_>,
        offer: &Offer<'_>,
    ) -> Result<Outcome, Violation> {
        if self.may_be_old.load(Relaxed) {
            round_up::check_rounded_up(body, offer)
        } else {
            Err(Violation::SegmentLength)
        }
    }
}

/// Writes and traces an inline call whose payload begins at a multiple of `align`. Returns the
/// length of the header, and that of header and message. `None`: the call has no payload, or there
/// is no space for the padding.
///
/// # Errors
///
/// `EMSGSIZE`.
pub(super) fn write_aligned(
    align: u32,
    (call, data_touch): (&XdrBuf<'_>, impl Fn() -> bool),
    thresholds: &Thresholds,
    (xid, credits, task): (u32, u32, Lazy<impl FnOnce() -> Task + Copy>),
    out: &mut [u8],
) -> Result<Option<(usize, usize)>> {
    let Some(place) = place(align, call, data_touch, thresholds) else {
        return Ok(None);
    };
    let lengths = write_at(&place, (xid, credits), call, out)?;
    trace::padded_call(task, xid, place.align, place.pad);
    Ok(Some(lengths))
}

/// Returns the place of the payload of an inline call over a connection with these thresholds.
fn place(
    align: u32,
    call: &XdrBuf<'_>,
    data_touch: impl Fn() -> bool,
    thresholds: &Thresholds,
) -> Option<Room> {
    let padding = Padding::new(align, align)?;
    if call.page_len() == 0 || data_touch() || !call.may_write() || !begins_payload(call) {
        return None;
    }
    let lens = (call.head_len(), call.page_len(), call.tail_len());
    room(&padding, lens, thresholds)
}

/// Returns whether the head ends with the length of the payload. If it does, the pages are opaque
/// data.
fn begins_payload(call: &XdrBuf<'_>) -> bool {
    let mut len = [0; 4];
    let at = call.head_len().checked_sub(4);
    at.is_some_and(|at| call.copy_to(at, &mut len).is_ok())
        && u32::from_be_bytes(len) == call.page_len()
}

/// Writes a call with its payload at `place`. Returns the length of header and message.
///
/// # Errors
///
/// `EMSGSIZE`.
fn write_at(
    place: &Room,
    (xid, credits): (u32, u32),
    call: &XdrBuf<'_>,
    out: &mut [u8],
) -> Result<(usize, usize)> {
    let header = begin_padded(out, xid, credits, place.align, place.thresh);
    let at = header
        .and_then(|header| header.finish())
        .map_err(|_| EMSGSIZE)?;
    // CAST: `usize` has at least 32 bits, here and below.
    let head = at + call.head_len() as usize;
    let data = head + place.pad as usize;
    let end = data + (call.page_len() + call.tail_len()) as usize;
    call.copy_to(0, out.get_mut(at..head).ok_or(EMSGSIZE)?)?;
    out.get_mut(head..data).ok_or(EMSGSIZE)?.fill(0);
    call.copy_to(call.head_len(), out.get_mut(data..end).ok_or(EMSGSIZE)?)?;
    Ok((at, end))
}

/// The CONF_RDMA exchange of a connection.
#[pin_data]
struct Conf {
    /// An answer is awaited.
    waiting: AtomicFlag,
    #[pin]
    state: SpinLock<Asked>,
    #[pin]
    changed: WakeEvent,
}

/// The data that the lock of [`Conf`] protects.
#[derive(Default)]
struct Asked {
    /// The XID of the call, and the request in the call, until the answer.
    asked: Option<(u32, Request)>,
    /// The answer, once it has arrived.
    answer: Option<Answer>,
}

/// The server's answer.
#[derive(Clone, Copy)]
enum Answer {
    /// The connection is configured.
    Agreed(Configuration),
    /// The server does not serve the protocol: the connection continues as if it had not been
    /// asked.
    Unserved,
    /// The answer is not accepted.
    Rejected,
}

impl Conf {
    /// Makes the state of a connection before the server is asked.
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            waiting: AtomicFlag::new(false),
            state <- new_spinlock!(Asked::default(), "rpcrdma::Conf::state"),
            changed <- WakeEvent::new(),
        })
    }

    /// Asks the server, and returns the resulting terms of version one: the server's answer has
    /// precedence over `one`, which follows from its private data. `out` is a buffer for the call.
    /// `ended` returns whether the connection has ended. Sleeps.
    ///
    /// # Errors
    ///
    /// `EPROTO` if the answer is not accepted; `ETIMEDOUT` if none arrives; `ENOTCONN` if the call
    /// cannot be sent, or the connection has ended.
    //= 5666-6.1-1 before any other RPC program
    //= 5666-6.1-4 sends nothing else until answered
    fn ask<R: Role>(
        &self,
        (conn, qp, credits): Link<'_, R>,
        out: &mut SendBuf,
        request: Request,
        (one, ended): (Thresholds, &dyn Fn() -> bool),
    ) -> Result<Thresholds> {
        let xid = random();
        let len = write(out.as_mut_slice(), (xid, credits.requested()), &request)?;
        self.state.lock().asked = Some((xid, request));
        self.waiting.store(true, Relaxed);
        let no_regions = core::iter::empty();
        let posted = qp.post_send(R::CONTROL, no_regions, out, len, true);
        posted.map_err(|_| ENOTCONN)?;
        let answer = self.wait(|| !ended() && !conn.owner().is_abandoned());
        let (word, agreed) = match &answer {
            None if ended() => ("silent", Err(ENOTCONN)),
            None => ("silent", Err(ETIMEDOUT)),
            Some(Answer::Rejected) => ("rejected", Err(EPROTO)),
            Some(Answer::Unserved) => ("unserved", Ok(None)),
            Some(Answer::Agreed(agreed)) => ("agreed", Ok(Some(agreed))),
        };
        trace::conf_answer(peer(conn.owner()), word, agreed.ok().flatten());
        Ok(agreed?.map_or(one, |agreed| {
            configure(conn, agreed);
            Thresholds {
                client_to_server: agreed.max_call,
                server_to_client: agreed.max_reply,
                ..one
            }
        }))
    }

    /// Waits for the answer, while it `is_needed`. Sleeps.
    fn wait(&self, is_needed: impl Fn() -> bool) -> Option<Answer> {
        let mut left: Jiffies = msecs_to_jiffies(PATIENCE_MS);
        loop {
            let answer = self.state.lock().answer;
            if answer.is_some() || left == 0 || !is_needed() {
                self.waiting.store(false, Relaxed);
                return answer;
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
        let answer = message.and_then(|message| state.hear(message));
        if state.answer.is_none() {
            state.answer = answer;
        }
        drop(state);
        self.changed.announce();
        matches!(answer, Some(Answer::Agreed(_) | Answer::Unserved))
    }
}

impl Asked {
    /// Handles the answer.
    fn hear(&mut self, message: &Message<'_>) -> Option<Answer> {
        let (xid, request) = self.asked.take_if(|(xid, _)| *xid == message.xid())?;
        let heard = match message.body() {
            Body::Msg { lists, payload } if lists.is_empty() => hear(xid, payload),
            Body::Error(_) => Heard::Refused,
            _ => Heard::Malformed,
        };
        Some(match heard {
            Heard::Malformed => Answer::Rejected,
            Heard::Refused => Answer::Unserved,
            Heard::Reply(reply) => {
                Configuration::agree(&request, &reply).map_or(Answer::Rejected, Answer::Agreed)
            }
        })
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

/// Writes the call. Returns its length.
fn write(out: &mut [u8], (xid, credits): (u32, u32), request: &Request) -> Result<usize> {
    let header = Version::One.inline(out, xid, credits, Direction::Call);
    let at = header.map_err(|_| EMSGSIZE)?;
    let call = call(xid, request);
    let len = at + call.len();
    out.get_mut(at..len).ok_or(EMSGSIZE)?.copy_from_slice(&call);
    Ok(len)
}
