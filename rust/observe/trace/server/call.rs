// SPDX-License-Identifier: GPL-2.0

//! Events of calls: Receives, headers, RDMA Reads.

use kernel::time::{Instant, Monotonic};

use crate::observe::trace::{count, Cid, Lazy, Peer, Source, WcStatus};
use crate::proto::responder::call::Call;
use crate::proto::responder::intake::Reason;
use crate::wire::{Lists, Prefix, Proc, ReadSegment, Segment, What};

events! {
    /// Traces that a Receive was posted.
    fn post_recv(cid: Cid) => svcrdma_post_recv {
        cid(cid),
    }

    /// Traces that Receives could not be posted. `status` is the negative errno.
    fn rq_post_err(peer: Peer, status: i32) => svcrdma_rq_post_err {
        addr: peer.endpoint(),
        status: status,
    }

    /// Traces that a message of `received` bytes arrived.
    fn wc_recv(cid: Cid, received: usize) => svcrdma_wc_recv {
        cid(cid),
        received: count(received),
    }
}

events! {
    class(cid: Cid, wc: WcStatus) {
        cid(cid),
        status: wc.status as usize,
        vendor_err: wc.vendor_err,
    }

    /// Traces that a Receive was flushed, because the connection ended.
    fn wc_recv_flush => svcrdma_wc_recv_flush;

    /// Traces that a Receive failed.
    fn wc_recv_err => svcrdma_wc_recv_err;

    /// Traces that an RDMA Read was flushed, because the connection ended.
    fn wc_read_flush => svcrdma_wc_read_flush;

    /// Traces that an RDMA Read failed.
    fn wc_read_err => svcrdma_wc_read_err;
}

events! {
    /// Traces a call that is accepted. Its transport header has `hdr_len` bytes.
    fn decode_rqst(cid: Cid, prefix: Prefix, hdr_len: usize) => svcrdma_decode_rqst {
        cid(cid),
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
        hdrlen: count(hdr_len),
    }

    /// Traces that a message is too short for a header.
    fn decode_short_err(cid: Cid, length: usize) => svcrdma_decode_short_err {
        cid(cid),
        hdrlen: count(length),
    }

    /// Traces a segment of a call's read list. It is number `segno` of its chunk.
    fn decode_rseg(cid: Cid, segno: u32, segment: &'a ReadSegment) => svcrdma_decode_rseg {
        cid(cid),
        segno: segno,
        position: segment.position,
        segment(segment.segment),
    }

    /// Traces a segment of a call's write list or reply chunk. It is number `segno` of its chunk.
    fn decode_wseg(cid: Cid, segno: u32, segment: &'a Segment) => svcrdma_decode_wseg {
        cid(cid),
        segno: segno,
        segment(segment),
    }
}

events! {
    class(cid: Cid, prefix: Prefix) {
        cid(cid),
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
    }

    /// Traces that a message has a version that is not served.
    fn decode_badvers_err => svcrdma_decode_badvers_err;

    /// Traces that a message was dropped because of its type, RDMA_ERROR.
    fn decode_drop_err => svcrdma_decode_drop_err;

    /// Traces that a message has an unsupported type.
    fn decode_badproc_err => svcrdma_decode_badproc_err;

    /// Traces that a message was refused because of its header, its chunks, or its RPC message.
    fn decode_parse_err => svcrdma_decode_parse_err;
}

/// Traces the call in a message of these `bytes`, and its chunks, with [`decode_rqst`],
/// [`decode_rseg`] and [`decode_wseg`].
#[inline(always)]
pub(crate) fn decode_call(cid: impl Source<Cid> + Copy, bytes: &[u8], call: &Call<'_>) {
    let header = bytes.len().saturating_sub(call.inline().len());
    decode_rqst(cid, Lazy(|| prefix(bytes)), header);
    if event_enabled!(crate::raw::__tracepoint_svcrdma_decode_rseg)
        || event_enabled!(crate::raw::__tracepoint_svcrdma_decode_wseg)
    {
        decode_lists(cid.get(), call.lists());
    }
}

/// Traces every segment of a call's lists, with [`decode_rseg`] and [`decode_wseg`].
#[cold]
fn decode_lists(cid: Cid, lists: &Lists<'_>) {
    let (mut position, mut segno) = (None, 0);
    for segment in lists.read_list() {
        segno = match position {
            Some(same) if same == segment.position => segno + 1,
            _ => 0,
        };
        position = Some(segment.position);
        decode_rseg(cid, segno, &segment);
    }
    for chunk in lists.write_list().chain(lists.reply_chunk()) {
        for (segno, segment) in chunk.segments().enumerate() {
            decode_wseg(cid, count(segno), &segment);
        }
    }
}

/// Traces the refusal of a message of these `bytes`, with the event that belongs to the reason.
#[cold]
pub(in crate::observe) fn refused(cid: impl Source<Cid>, bytes: &[u8], reason: &Reason) {
    let (cid, prefix) = (cid.get(), prefix(bytes));
    match reason {
        Reason::Short => decode_short_err(cid, bytes.len()),
        Reason::Version(_) => decode_badvers_err(cid, prefix),
        Reason::Type(Proc::Error) => decode_drop_err(cid, prefix),
        Reason::Type(_) => decode_badproc_err(cid, prefix),
        Reason::Header(error) if matches!(error.what, What::Proc(_)) => {
            decode_badproc_err(cid, prefix);
        }
        Reason::Header(_) | Reason::Message(_) | Reason::Padding(_) | Reason::Chunks(_) => {
            decode_parse_err(cid, prefix);
        }
    }
}

/// Returns the first four words of a message. Missing bytes are zero.
fn prefix(bytes: &[u8]) -> Prefix {
    let mut words = [0; Prefix::LEN];
    crate::text::copy(&mut words, bytes);
    Prefix::from_bytes(&words)
}

/// The time at which RDMA Reads were posted. The clock is not read while [`wc_read`] is disabled.
#[derive(Clone, Copy)]
pub(crate) struct Posted(Option<Instant<Monotonic>>);

impl Posted {
    /// No time: no RDMA Reads were posted.
    pub(crate) const NEVER: Self = Self(None);

    /// Returns the current time.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        if event_enabled!(crate::raw::__tracepoint_svcrdma_wc_read) {
            return Self(Some(Instant::now()));
        }
        Self(None)
    }

    /// Returns the elapsed microseconds; zero if the event was disabled at that time.
    fn elapsed_us(&self) -> i64 {
        self.0.map_or(0, |then| then.elapsed().as_micros_ceil())
    }
}

events! {
    /// Traces that the RDMA Reads of a call were posted, with `work_requests` work requests.
    fn post_read_chunk(cid: Cid, work_requests: u32) => svcrdma_post_read_chunk {
        cid(cid),
        sqecount: work_requests as i32,
    }

    /// Traces that the RDMA Reads of a call, which were posted at `posted`, completed with `bytes`
    /// bytes.
    fn wc_read(cid: Cid, bytes: u32, posted: Posted) => svcrdma_wc_read {
        cid(cid),
        read_latency: posted.elapsed_us(),
        totalbytes: bytes,
    }

    /// Traces that a thread of nfsd took a call whose RDMA Reads are complete.
    fn read_finished(cid: Cid) => svcrdma_read_finished {
        cid(cid),
    }

    /// Traces that the `nents` ranges of local memory for a segment of the requester could not be
    /// mapped. `status` is the negative errno.
    fn dma_map_rw_err(cq_id: u32, segment: &'a Segment, nents: u32, status: i32)
        => svcrdma_dma_map_rw_err {
        cq_id: cq_id,
        handle: segment.handle,
        offset: segment.offset,
        nents: nents,
        status: status,
    }
}

events! {
    /// Traces that a call waits, and its connection takes no more: the calls that are being fetched
    /// leave too little memory for `needed` bytes.
    fn pages_short(peer: Peer, xid: u32, needed: usize) => svcrdma_pages_short {
        addr: peer.endpoint(),
        xid: xid,
        length: count(needed),
    }
}
