// SPDX-License-Identifier: GPL-2.0

//! RFC 5666: the differences of servers that implement no later specification.
//!
//! This file is the door: the other files of the client use nothing else of this folder. They call
//! it `quirks`. With `RPCRDMA_LEGACY=n` the build takes `legacy/none.rs` in its place, and
//! everything below compiles to nothing.
//!
//! Such a server sends no private data (RFC 8797 is younger). The forms that RFC 8166 has withdrawn
//! are only used towards a server that has sent none, or that has asked for them by the Connection
//! Configuration Protocol.
//!
//! - [`conf`]: the server is asked for its configuration, before the session begins.
//! - [`read_chunks`]: the server returns replies in read chunks, and waits for an RDMA_DONE.
//! - [`align`]: the server wants the payload of an inline call aligned, by padding before it
//!   (RDMA_MSGP, section 3.9). The threshold of the padding is chosen such that no other item of
//!   the call has padding before it.
//! - [`check_segments`]: the server includes the round-up in the length of a write chunk.
//!
//! The capabilities of the connection ([`Capabilities`]) tell the other files that one of these
//! applies, so a connection to any other server executes nothing of this folder.

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};

use super::config::Config;
use crate::conn::credits::CallCredits;
use crate::conn::role::{ConnOf, QpOf, Role};
use crate::conn::terms::Capabilities;
use crate::observe::trace::{self, Lazy, Task};
use crate::proto::inline::Thresholds;
use crate::proto::legacy::padded::{room, Room};
use crate::proto::legacy::padding::Padding;
use crate::proto::legacy::round_up;
use crate::proto::requester::reply::{Offer, Outcome, Violation};
use crate::rdma::device::Limits;
use crate::rdma::send::SendBuf;
use crate::sunrpc::sysctl::{IntSysctl, Sysctl};
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::message::Body;
use crate::wire::v1::begin_padded;

mod conf;
mod read_chunks;

pub(super) use read_chunks::MOST as TAGS;

/// 1: a server is asked by the Connection Configuration Protocol.
static CONF: IntSysctl = IntSysctl::new(c"rdma_conf", 0, 0, 1);
/// 1: replies of a server that sends no private data may have read chunks.
static READ_CHUNKS: IntSysctl = IntSysctl::new(c"rdma_read_chunks", 0, 0, 1);

/// The tunables of this folder.
pub(crate) static KNOBS: [Sysctl; 2] = [Sysctl::Int(&CONF), Sysctl::Int(&READ_CHUNKS)];

/// The most RDMA Reads of a server's memory that may be outstanding.
const READS: u8 = 4;

/// The tunables as they are when a connection is made, with the limits of its device.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// The server is asked for its configuration.
    asks: bool,
    /// The RDMA Reads of the server's memory that may be outstanding.
    reads: u8,
}

impl Settings {
    /// Reads the tunables.
    pub(super) fn new(limits: &Limits) -> Self {
        let reads = READ_CHUNKS.get() != 0 && !limits.reads_need_regions;
        Self {
            asks: CONF.get() != 0,
            reads: if reads {
                limits.max_qp_init_rd_atom.min(READS)
            } else {
                0
            },
        }
    }

    /// Returns how many RDMA Reads of the server's memory may be outstanding: none, unless they are
    /// allowed, and the device does them without memory regions.
    pub(super) fn reads(self) -> u8 {
        self.reads
    }

    /// Returns the work requests that these RDMA Reads may take on the send queue.
    pub(super) fn send_wr(self) -> u32 {
        match self.reads {
            0 => 0,
            _ => read_chunks::WORK_REQUESTS,
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
    conf: conf::Conf,
    /// The replies with read chunks.
    #[pin]
    pub(super) reads: read_chunks::ReadReplies,
}

impl Quirks {
    /// Makes the state of a new connection.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            may_be_old: AtomicFlag::new(false),
            conf <- conf::Conf::new(),
            reads <- read_chunks::ReadReplies::new(),
        })
    }

    /// Notes whether the server has sent private data.
    pub(super) fn note_peer(&self, has_private_data: bool) {
        self.may_be_old.store(!has_private_data, Relaxed);
    }

    /// Prepares a connection that begins in version one: asks the server for its configuration, and
    /// permits read chunks in replies, as `settings` say. `out` is a buffer for the call, `tag` the
    /// first of [`TAGS`] tags, `served` the RDMA Reads that our device serves at the same time.
    /// Returns the terms of version one: the server's answer has precedence over `one`, which its
    /// private data say. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. `EPROTO` if the answer is not accepted; `ETIMEDOUT` if none arrives; `ENOTCONN` if
    /// the call cannot be sent.
    pub(super) fn begin<R: Role>(
        &self,
        (conn, qp, credits): Link<'_, R>,
        (settings, served): (Settings, u8),
        config: &Config,
        (out, tag): (&mut SendBuf, u32),
        one: Thresholds,
    ) -> Result<Thresholds> {
        let mut terms = one;
        if settings.asks {
            let request = conf::request(config, served);
            terms = self.conf.ask((conn, qp, credits), out, request, one)?;
        }
        if settings.reads != 0 && self.may_be_old.load(Relaxed) {
            self.reads.enable(config.slots, tag)?;
            conn.add_capabilities(Capabilities::DONES);
        }
        Ok(terms)
    }

    /// Handles a message that arrives before the session has begun. Returns `false` if no answer is
    /// awaited here. Completion worker.
    pub(super) fn received_early<R: Role>(&self, conn: &ConnOf<R>, bytes: &[u8]) -> bool {
        self.conf.received(conn, bytes)
    }

    /// Compares a reply with a write chunk that is longer than `offer` once more: the server may
    /// have included the round-up in its length.
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

/// The place of an aligned payload in a message.
pub(super) type Place = Room;

/// Returns the place of the payload of an inline call over a connection with these thresholds.
/// `None`: the call has no payload, or there is no space for the padding.
pub(super) fn align(
    align: u32,
    call: &XdrBuf<'_>,
    data_touch: impl Fn() -> bool,
    thresholds: &Thresholds,
) -> Option<Place> {
    let padding = Padding::new(align, align)?;
    if call.page_len() == 0 || data_touch() || !call.may_write() || !begins_payload(call) {
        return None;
    }
    let lens = (call.head_len(), call.page_len(), call.tail_len());
    room(&padding, lens, thresholds)
}

/// Returns whether the head ends with the length of the payload: then the pages are opaque data.
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
pub(super) fn write_aligned(
    place: &Place,
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

/// Traces a call that was written by [`write_aligned`].
pub(super) fn trace_aligned(place: &Place, task: Lazy<impl FnOnce() -> Task + Copy>, xid: u32) {
    trace::padded_call(task, xid, place.align, place.pad);
}
