// SPDX-License-Identifier: GPL-2.0

//! Events of the headers of calls.

use crate::observe::trace::{count, Cid, Lazy, Source};
use crate::proto::responder::call::Call;
use crate::proto::responder::intake::Reason;
use crate::wire::{Lists, Prefix, Proc, ReadSegment, Segment, What};

events! {
    /// Traces a call that is accepted. Its transport header has `hdr_len` bytes.
    fn decode_rqst(cid: Cid, prefix: Prefix, hdr_len: usize) => svcrdma_decode_rqst {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
        hdrlen: count(hdr_len),
    }

    /// Traces that a message is too short for a header.
    fn decode_short_err(cid: Cid, length: usize) => svcrdma_decode_short_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        hdrlen: count(length),
    }

    /// Traces that a message has a version that is not served.
    fn decode_badvers_err(cid: Cid, prefix: Prefix) => svcrdma_decode_badvers_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
    }

    /// Traces that a message was dropped because of its type, RDMA_ERROR.
    fn decode_drop_err(cid: Cid, prefix: Prefix) => svcrdma_decode_drop_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
    }

    /// Traces that a message has a type that is not served.
    fn decode_badproc_err(cid: Cid, prefix: Prefix) => svcrdma_decode_badproc_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
    }

    /// Traces that a message was refused because of its header, its chunks, or its RPC message.
    fn decode_parse_err(cid: Cid, prefix: Prefix) => svcrdma_decode_parse_err {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        xid: prefix.xid,
        vers: prefix.version,
        proc: prefix.proc,
        credits: prefix.credits,
    }

    /// Traces a segment of a call's read list. It is number `segno` of its chunk.
    fn decode_rseg(cid: Cid, segno: u32, segment: &'a ReadSegment) => svcrdma_decode_rseg {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        segno: segno,
        position: segment.position,
        handle: segment.segment.handle,
        length: segment.segment.length,
        offset: segment.segment.offset,
    }

    /// Traces a segment of a call's write list or reply chunk. It is number `segno` of its chunk.
    fn decode_wseg(cid: Cid, segno: u32, segment: &'a Segment) => svcrdma_decode_wseg {
        cq_id: cid.cq_id,
        completion_id: cid.completion_id as i32,
        segno: segno,
        handle: segment.handle,
        length: segment.length,
        offset: segment.offset,
    }
}

/// Traces the call in a message of these `bytes`, and its chunks, with [`decode_rqst`],
/// [`decode_rseg`] and [`decode_wseg`].
#[inline(always)]
pub(crate) fn decode_call(cid: impl Source<Cid> + Copy, bytes: &[u8], call: &Call<'_>) {
    let header = bytes.len().saturating_sub(call.inline().len());
    decode_rqst(cid, Lazy(|| prefix(bytes)), header);
    decode_lists(cid, call.lists());
}

/// Traces every segment of a call's lists, with [`decode_rseg`] and [`decode_wseg`].
#[inline(always)]
fn decode_lists(cid: impl Source<Cid> + Copy, lists: &Lists<'_>) {
    #[cfg(CONFIG_TRACEPOINTS)]
    if event_enabled!(crate::raw::__tracepoint_svcrdma_decode_rseg)
        || event_enabled!(crate::raw::__tracepoint_svcrdma_decode_wseg)
    {
        trace_segments(cid.get(), lists);
    }
    #[cfg(not(CONFIG_TRACEPOINTS))]
    let _ = (cid, lists);
}

#[cfg(CONFIG_TRACEPOINTS)]
#[cold]
fn trace_segments(cid: Cid, lists: &Lists<'_>) {
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
    for (to, from) in words.iter_mut().zip(bytes) {
        *to = *from;
    }
    Prefix::from_bytes(&words)
}
