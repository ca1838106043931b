// SPDX-License-Identifier: GPL-2.0

//! Requesters of RFC 5666. This file is the whole interface: the other files of the server do not
//! know how such a requester differs.
//!
//! The messages are calls with padding (RDMA_MSGP), RDMA_DONE, calls of the Connection
//! Configuration Protocol, which the service does not see, and replies as read chunks
//! ([`read_chunks`]). The module uses nothing of the connection but its arguments.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

use super::call::budget::Permit;
use super::call::context::Call;
use super::call::in_flight::{lane, InFlight};
use super::config::REGION_PAGES;
use crate::conn::role::{ConnOf, QpOf, Role};
use crate::conn::traced;
use crate::observe::requester;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace::{self, Lazy, Peer};
use crate::proto::inline::Thresholds;
use crate::proto::legacy::padded::{Padded, Unfit};
use crate::proto::legacy::service::{self, Answer, Reads};
use crate::proto::responder::call;
use crate::proto::responder::intake::{self, Arrival, Reason, Refusal};
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::{Kind, Mr, MrPool};
use crate::rdma::pd::Pd;
use crate::rdma::scatter::Source;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::sysctl::{Counter, IntSysctl, Sysctl};
use crate::sunrpc::time;
use crate::wire::message::Body;
use crate::wire::{conf_rdma, Direction, ListProc, Message, Version};
use crate::work::read_once;

mod read_chunks;

use read_chunks::{Place, ReadChunkReplies, ReadChunkReply, Stage};

/// The memory regions of a connection that permits replies as read chunks.
const REGIONS: u32 = 32;

/// Calls with padding that were received. The stock module has none of these sysctls.
static PADDED: Counter = Counter::new(c"rdma_stat_padded");

/// RDMA_DONEs that were received.
static DONE: Counter = Counter::new(c"rdma_stat_done");

/// Calls of the Connection Configuration Protocol that were answered.
static CONF: Counter = Counter::new(c"rdma_stat_conf");

/// Replies that were sent as read chunks.
static EXPOSED: Counter = Counter::new(c"rdma_stat_exposed");

/// Whether a reply to a client without private data may be a read chunk, if the chunks that the
/// client offers are too short.
static READ_CHUNKS: IntSysctl = IntSysctl::new(c"read_chunks", 0, 0, 1);

/// The alignment in bytes that the server recommends for opaque data in the Connection
/// Configuration Protocol. A client that follows the recommendation sends RDMA_MSGP. With 4 there
/// is no padding.
static ALIGN: IntSysctl = IntSysctl::new(c"conf_align", 4, 4, 65536);

/// The settings and counters.
pub(crate) static SYSCTLS: [&dyn Sysctl; 6] =
    [&PADDED, &DONE, &CONF, &ALIGN, &EXPOSED, &READ_CHUNKS];

/// Returns the alignment that the server recommends: a power of two.
fn align() -> u32 {
    let align = ALIGN.get();
    1 << align.checked_ilog2().unwrap_or(2)
}

/// The state of a connection whose requester may implement only RFC 5666.
#[pin_data]
pub(crate) struct Quirks {
    /// The length of this side's Receives in bytes, and of the longest message that it sends.
    inline: Atomic<u32>,
    /// The RDMA Reads that this side may have outstanding.
    reads: Atomic<u32>,
    /// The longest inline reply in bytes that the client accepts; zero before the client sets it.
    max_reply: Atomic<u32>,
    /// The RDMA Reads that the client can have active, or `u32::MAX` if that is no limit.
    theirs: Atomic<u32>,
    #[pin]
    replies: ReadChunkReplies,
}

/// The objects of a connection that are needed to send a message.
pub(crate) type Sender<'s, R> = (&'s ConnOf<R>, &'s QpOf<R>, &'s InFlight);

/// A reply for the requester to read: its place among such replies, its memory regions, and its
/// pages of the budget.
pub(crate) struct Readable<'q>(Place<'q>, KVec<Mr>, Permit);

impl Quirks {
    /// Makes the state of a connection before its handshake.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inline: Atomic::new(0),
            reads: Atomic::new(0),
            max_reply: Atomic::new(0),
            theirs: Atomic::new(u32::MAX),
            replies <- ReadChunkReplies::new(),
        })
    }

    /// Begins with the result of the handshake: whether the requester has sent private data, the
    /// length of this side's Receives, the RDMA Reads that this side may have outstanding, and
    /// those that the requester wants to. Returns how many of the latter are served. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn begin(
        &self,
        pd: &Arc<Pd>,
        has_private_data: bool,
        inline: u32,
        (reads, wanted): (u8, u8),
    ) -> Result<u8> {
        self.inline.store(inline, Relaxed);
        self.reads.store(reads.into(), Relaxed);
        let limits = pd.limits();
        let served = wanted.min(limits.max_qp_rd_atom);
        let depth = limits.max_frmr_depth.min(REGION_PAGES);
        if READ_CHUNKS.get() == 0 || has_private_data || served == 0 || depth == 0 {
            return Ok(0);
        }
        let pool = MrPool::new(pd.clone(), depth, Kind::Plain, REGIONS)?;
        self.replies.enable(pool)?;
        Ok(served)
    }

    /// Handles a message that does not concern the session. Returns `false` for a message that a
    /// thread of the service has to receive. Completion worker.
    pub(crate) fn received<R: Role>(&self, to: Sender<'_, R>, message: &Message<'_>) -> bool {
        let done = matches!(message.body(), Body::Done);
        if done {
            self.done(to, message.xid());
        }
        done
    }

    /// Handles a message of these `bytes` that is no ordinary call. Returns the bytes of an
    /// ordinary message to process instead, if any. May sleep.
    ///
    /// # Errors
    ///
    /// The refusal of the message.
    #[cold]
    pub(crate) fn take<R: Role>(
        &self,
        to: Sender<'_, R>,
        bytes: &[u8],
        arrival: &Arrival<'_>,
    ) -> Result<Option<KVec<u8>>, Refusal> {
        match arrival {
            Arrival::Padded(header) => without_padding(to, bytes, header),
            Arrival::Done(xid) => {
                self.done(to, *xid);
                Ok(None)
            }
            // The responder has no calls of the forward direction that could be answered, and
            // version one has no optional operations.
            Arrival::Call(_) | Arrival::Reply(_) | Arrival::Optional(_) => Ok(None),
        }
    }

    /// Handles an RDMA_DONE for the reply with this XID: frees the memory that the requester could
    /// read. Process context.
    #[cold]
    fn done<R: Role>(&self, to: Sender<'_, R>, xid: u32) {
        let (conn, qp, _) = to;
        DONE.add(lane(qp), 1);
        let bytes = self.replies.done(xid);
        trace::server::done_received(peer(conn), xid, bytes);
        if bytes != 0 {
            return self.resume(to);
        }
        conn.tally().breach();
        requester::breach(peer(conn), xid, RequesterBreach::Done);
    }

    /// Returns whether a call is one of the Connection Configuration Protocol, which the service
    /// does not see. A call with read chunks is left to the service, which has no such program.
    pub(crate) fn takes(&self, call: &call::Call<'_>) -> bool {
        service::is_ours(call.inline()) && call.pulled() == 0 && call.version() == Version::One
    }

    /// Returns the answer to a call of the Connection Configuration Protocol. The call takes no
    /// credit, as its answer is sent at once; `credits` are those of the latest reply. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[cold]
    pub(crate) fn answer<R: Role>(
        &self,
        to: Sender<'_, R>,
        call: &call::Call<'_>,
        credits: u32,
    ) -> Result<(SendBuf, usize)> {
        CONF.add(lane(to.1), 1);
        let (answer, max_reply) = self.answer_conf(call);
        if let Some(reply) = max_reply {
            trace::server::conf_call(peer(to.0), call.xid(), reply);
        }
        write_answer(to, call.xid(), credits, &answer)
    }

    /// Answers a call of the Connection Configuration Protocol, and keeps the limits that the
    /// client sets. Returns the answer, and the longest inline reply in bytes if the call sets
    /// limits.
    fn answer_conf(&self, call: &call::Call<'_>) -> (Answer, Option<u32>) {
        let (most, reads) = (self.inline.load(Relaxed), self.reads.load(Relaxed));
        let ours = conf_rdma::Reply {
            maxcall_sendsize: most,
            align: align(),
            maxrdmaread: reads,
        };
        let answer = Answer::to(call.inline(), &ours);
        let max_reply = answer.request().map(|request| {
            let reply = service::max_reply(request, most);
            let theirs = match service::reads(request.maxrdmaread, reads) {
                Reads::Free => u32::MAX,
                _ => request.maxrdmaread,
            };
            self.max_reply.store(reply, Relaxed);
            self.theirs.store(theirs, Relaxed);
            reply
        });
        (answer, max_reply)
    }

    /// Returns whether the requester bounds the RDMA Reads of this side.
    pub(crate) fn bounds_reads(&self) -> bool {
        self.theirs.load(Relaxed) != u32::MAX
    }

    /// Returns whether the requester serves no RDMA Reads.
    #[cold]
    pub(crate) fn forbids_reads(&self) -> bool {
        self.allowed() == Reads::Forbidden
    }

    /// Returns whether RDMA Reads must be executed one after the other.
    #[cold]
    pub(crate) fn fences_reads(&self) -> bool {
        self.allowed() == Reads::Single
    }

    /// Returns the RDMA Reads that this side may issue.
    #[cold]
    fn allowed(&self) -> Reads {
        service::reads(self.theirs.load(Relaxed), self.reads.load(Relaxed))
    }

    /// Applies the limits that the requester has set to the terms for a reply. They have precedence
    /// over private data, which the requester sent earlier. Version two sets limits in other ways.
    pub(crate) fn apply(&self, terms: Thresholds) -> Thresholds {
        match (read_once(&self.max_reply), terms.version) {
            (0, _) | (_, Version::Two) => terms,
            (server_to_client, Version::One) => Thresholds {
                server_to_client,
                ..terms
            },
        }
    }

    /// Prepares, for the requester to read, a reply that cannot be sent otherwise. `permit` takes
    /// pages of the budget. Returns `None` if the requester does not read replies, if it may read
    /// too many already, or if there are too few pages or memory regions. May sleep.
    #[cold]
    pub(crate) fn prepare(
        &self,
        reply: &mut Reply<'_, Call>,
        permit: impl FnOnce(usize) -> Option<Permit>,
    ) -> Option<Readable<'_>> {
        let (message, call) = reply.parts();
        if call.version != Version::One || self.forbids_reads() {
            return None;
        }
        let (place, pool) = self.replies.place()?;
        // CAST: `usize` has at least 32 bits.
        let permit = permit((message.len() as usize).div_ceil(PAGE_SIZE) + 2)?;
        let regions = read_chunks::map(&pool, &message, call.xid).ok()?;
        Some(Readable(place, regions, permit))
    }

    /// Sends a reply for the requester to read, now or when there is space on the send queue.
    /// `credits` are those for its header. May sleep.
    ///
    /// # Errors
    ///
    /// The connection must be closed.
    #[cold]
    pub(crate) fn send<R: Role>(
        &self,
        to: Sender<'_, R>,
        mut reply: Reply<'_, Call>,
        Readable(place, regions, permit): Readable<'_>,
        credits: u32,
    ) -> Result {
        let ((conn, qp, _), (message, call)) = (to, reply.parts());
        let xid = call.xid;
        trace::server::expose_reply(peer(conn), xid, message.len());
        let grant = self.replies.grant(credits);
        let message = write_readable(to, call, &regions, grant)?;
        let mut source = Source::new(qp.pd())?;
        reply.take(source.pages().ok_or(EBUSY)?)?;
        let reply = ReadChunkReply {
            xid,
            regions,
            _source: source,
            permit,
            stage: Stage::Unsent(Some(message)),
            since: time::seconds(),
        };
        self.replies.add(place, reply)?;
        EXPOSED.add(lane(qp), 1);
        self.resume(to);
        Ok(())
    }

    /// Posts what is due, while there is space on the send queue. Process context.
    pub(crate) fn resume<R: Role>(&self, (conn, qp, in_flight): Sender<'_, R>) {
        if self.replies.resume(in_flight, qp).is_err() {
            conn.force_close();
        }
    }

    /// Frees the memory of the replies whose regions are invalidated. Completion worker.
    pub(crate) fn invalidated(&self) {
        self.replies.reap();
    }

    /// Returns the XID of a reply that the requester has not finished reading in time, and the kind
    /// of breach.
    pub(crate) fn overdue(&self) -> Option<(u32, RequesterBreach)> {
        Some((self.replies.overdue()?, RequesterBreach::NoDone))
    }

    /// Returns the number of pages of the budget that the replies use.
    pub(crate) fn pages(&self) -> usize {
        self.replies.pages()
    }

    /// Drops all replies, after the queue pair has been drained. May sleep.
    pub(crate) fn clear(&self) {
        self.replies.clear();
    }
}

/// Returns the peer of a connection, for traces.
fn peer<R: Role>(conn: &ConnOf<R>) -> Lazy<impl FnOnce() -> Peer + Copy + use<'_, R>> {
    traced::peer(conn.owner())
}

/// Returns a message with padding as a message without padding. The result is a copy, which only
/// calls with padding pay for. Without memory for the copy the connection is closed, so that the
/// requester, which would get no answer, repeats the call over a new connection. May sleep.
///
/// # Errors
///
/// The refusal of the message.
fn without_padding<R: Role>(
    (conn, qp, _): Sender<'_, R>,
    bytes: &[u8],
    header: &Message<'_>,
) -> Result<Option<KVec<u8>>, Refusal> {
    let mut copy = KVec::new();
    let copied = copy_without_padding(bytes, header, &mut copy);
    let copied = copied
        .map_err(|why| intake::refuse(Version::One, header.xid(), Reason::Padding(why.text())))?;
    if copied.is_err() {
        conn.force_close();
        return Ok(None);
    }
    PADDED.add(lane(qp), 1);
    trace::server::padded_call(peer(conn), header.xid(), bytes.len() - copy.len());
    Ok(Some(copy))
}

/// Copies a message without its padding. The outer result is about the message, the inner one about
/// the memory.
fn copy_without_padding(
    bytes: &[u8],
    header: &Message<'_>,
    copy: &mut KVec<u8>,
) -> Result<Result, Unfit> {
    let mut copied = Ok(());
    Padded::new(bytes, header)?.pieces(|piece| {
        copied = copied.and_then(|()| Ok(copy.extend_from_slice(piece, GFP_KERNEL)?));
    })?;
    Ok(copied)
}

/// Writes the message of an answer. Returns its length.
fn write_answer<R: Role>(
    (_, qp, in_flight): Sender<'_, R>,
    xid: u32,
    credits: u32,
    answer: &Answer,
) -> Result<(SendBuf, usize)> {
    let header = Version::One.min_header();
    // CAST: a small number.
    let room = (header + service::MAX) as u32;
    let mut buf = in_flight.send_buffer(qp.pd(), room)?;
    let bytes = buf.as_mut_slice();
    let at = Version::One.inline(bytes, xid, credits, Direction::Reply);
    let at = at.map_err(|_| EMSGSIZE)?;
    let len = at + answer.bytes().len();
    let out = bytes.get_mut(at..len).ok_or(EMSGSIZE)?;
    out.copy_from_slice(answer.bytes());
    Ok((buf, len))
}

/// Writes a message whose read chunk is the whole reply. Returns its length.
fn write_readable<R: Role>(
    (conn, qp, in_flight): Sender<'_, R>,
    call: &Call,
    regions: &[Mr],
    credits: u32,
) -> Result<(SendBuf, usize)> {
    let room = conn.thresholds().server_to_client;
    let mut buf = in_flight.send_buffer(qp.pd(), room)?;
    let (bytes, kind) = (buf.as_mut_slice(), ListProc::Nomsg);
    let header = Version::One.begin(bytes, call.xid, credits, Direction::Reply, kind);
    let mut header = header.map_err(|_| EMSGSIZE)?;
    for region in regions {
        let segment = traced::segment(region);
        header.segment(0, segment).map_err(|_| EMSGSIZE)?;
    }
    let len = header.finish().map_err(|_| EMSGSIZE)?;
    Ok((buf, len))
}
