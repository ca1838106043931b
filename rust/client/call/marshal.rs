// SPDX-License-Identifier: GPL-2.0

//! Marshals a call: chooses its form, registers the memory of its chunks, and writes header and
//! inline part into the send buffer. This file posts no work request.
//!
//! Most calls have at most one chunk, and one memory region takes it. A chunk that exceeds one
//! region gets further regions, one for each segment.

use kernel::prelude::*;

use super::super::config::MAX_SEGMENTS;
use super::super::endpoint::{Endpoint, Regions, Spare};
use super::super::quirks;
use super::super::transport::{task_of, Client};
use super::send::PrepareError;
use super::slot::Contents;
use crate::conn;
use crate::observe::stats::Stats;
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::plan::{
    CallKind, CallShape, Extents, Forms, InlineSpace, ReplyKind, ReplyShape,
};
use crate::rdma::buffer::SendBuf;
use crate::rdma::mr::{DataDirection, Kind, Memory, Mr};
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{Direction, ReadListWriter, ReadSegment, Segment, Version};

/// Call or reply is too long for the transport, or the memory is so scattered that a chunk would
/// take more than [`MAX_SEGMENTS`] segments.
const TOO_LONG: PrepareError = PrepareError::Impossible(EMSGSIZE);

/// Marshals a call into the contents of a slot, which have no other call.
///
/// # Errors
///
/// See [`PrepareError`]. The contents have no call after an error.
#[inline(always)]
pub(super) fn marshal(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    contents: &mut Contents,
    stats: &Stats,
) -> Result<(), PrepareError> {
    contents.xid = rqst.xid();
    // A change after this makes the call void.
    let measured = contents.set_terms(ep.shared().terms());
    let done = measured
        .ok_or(PrepareError::NoBuffer)
        .and_then(|()| assemble(ep, rqst, contents));
    if let Err(error) = done {
        failed(ep, rqst, contents, stats, error);
    }
    done
}

/// Gives the regions back after a failure, and counts and traces the failure.
#[cold]
fn failed(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    contents: &mut Contents,
    stats: &Stats,
    error: PrepareError,
) {
    contents.reset();
    trace::marshal_failed(task_of(rqst), rqst.xid(), error.errno());
    if error == PrepareError::NoRegions {
        trace::nomrs_err(task_of(rqst), conn::traced::peer(ep.shared().owner()));
    }
    stats.failed_marshal.add(1);
}

/// Writes the message, and registers its chunks.
#[inline(always)]
fn assemble(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    contents: &mut Contents,
) -> Result<(), PrepareError> {
    let forms = choose(rqst, &contents.space)?;
    let header = if !forms.is_inline() {
        let header = write_chunks(ep, rqst, forms, contents)?;
        copy_inline(forms.call, &rqst.send_buf(), header, contents)?;
        header
    } else if let Some(header) = write_aligned(ep, rqst, contents)? {
        header
    } else {
        let out = &mut contents.out;
        let header = begin(ep, rqst, forms, contents.terms.version(), out)?.finish()?;
        copy_inline(forms.call, &rqst.send_buf(), header, contents)?;
        header
    };
    account(forms, rqst, header, contents);
    Ok(())
}

/// Chooses the forms of call and reply.
#[inline(always)]
fn choose(rqst: &Rqst<'_, Client>, space: &InlineSpace) -> Result<Forms, PrepareError> {
    let call = call_shape(&rqst.send_buf());
    let reply = reply_shape(&rqst.recv_buf());
    let forms = Forms::choose(&call, &reply, space, || rqst.data_touch());
    forms.map_err(|_| TOO_LONG)
}

/// Returns the lengths of a call as it was encoded.
fn call_shape(buf: &XdrBuf<'_>) -> CallShape {
    CallShape {
        head_len: buf.head_len(),
        page_len: buf.page_len(),
        tail_len: buf.tail_len(),
        payload_in_pages: buf.may_write(),
    }
}

/// Returns the lengths of the buffer for a reply.
pub(super) fn reply_shape(buf: &XdrBuf<'_>) -> ReplyShape {
    ReplyShape {
        head_len: buf.head_len(),
        page_len: buf.page_len(),
        tail_len: buf.tail_len(),
        buflen: buf.buflen(),
        payload_in_pages: buf.may_read(),
    }
}

/// Writes the first words of the header.
#[inline(always)]
fn begin<'b>(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    version: Version,
    out: &'b mut Option<SendBuf>,
) -> Result<ReadListWriter<'b>, PrepareError> {
    let buf = out.as_mut().ok_or(PrepareError::NoBuffer)?.as_mut_slice();
    let credits = ep.requester().credits.requested();
    let call = Direction::Call;
    Ok(version.begin(buf, rqst.xid(), credits, call, forms.proc())?)
}

/// Copies the inline part of the RPC message behind the header, and stores the length of both.
#[inline(always)]
fn copy_inline(
    form: CallKind,
    call: &XdrBuf<'_>,
    header: usize,
    contents: &mut Contents,
) -> Result<(), PrepareError> {
    let out = contents.out.as_mut().ok_or(PrepareError::NoBuffer)?;
    let space = out.as_mut_slice().get_mut(header..).ok_or(TOO_LONG)?;
    let parts = form.inline_parts(&call_shape(call));
    let len = match form {
        CallKind::PositionZero => 0,
        CallKind::Inline => copy(call, 0, parts.len(), space)?,
        CallKind::ReadChunk { .. } if parts.tail().1 == 0 => copy(call, 0, parts.head(), space)?,
        CallKind::ReadChunk { .. } => copy_around(&parts, call, space)?,
    };
    contents.out_len = header + len;
    Ok(())
}

/// Copies `len` bytes of a call, from byte `start` on, to the front of `space`. Returns the number.
#[inline(always)]
fn copy(call: &XdrBuf<'_>, start: u32, len: u32, space: &mut [u8]) -> Result<usize, PrepareError> {
    // CAST: `usize` has at least 32 bits.
    let len = len as usize;
    let dest = space.get_mut(..len).ok_or(TOO_LONG)?;
    call.copy_to(start, dest)
        .map_err(PrepareError::Impossible)?;
    Ok(len)
}

/// Copies the inline bytes before and behind a payload. Returns their number.
#[cold]
fn copy_around(
    parts: &Extents,
    call: &XdrBuf<'_>,
    space: &mut [u8],
) -> Result<usize, PrepareError> {
    let head = copy(call, 0, parts.head(), space)?;
    let (start, len) = parts.tail();
    let behind = space.get_mut(head..).unwrap_or_default();
    let tail = copy(call, call.head_len() + call.page_len() + start, len, behind)?;
    Ok(head + tail)
}

/// Writes an inline call with an aligned payload, if the server asks for alignment and the call has
/// a payload. Returns the length of the header.
#[inline(always)]
fn write_aligned(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    contents: &mut Contents,
) -> Result<Option<usize>, PrepareError> {
    match contents.space.align() {
        0 => Ok(None),
        align => write_aligned_to(align, ep, rqst, contents),
    }
}

#[cold]
fn write_aligned_to(
    align: u32,
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    contents: &mut Contents,
) -> Result<Option<usize>, PrepareError> {
    let call = rqst.send_buf();
    let thresholds = contents.thresholds(contents.terms);
    let thresholds = thresholds.ok_or(PrepareError::NoBuffer)?;
    let out = contents.out.as_mut().ok_or(PrepareError::NoBuffer)?;
    let credits = ep.requester().credits.requested();
    let prefix = (rqst.xid(), credits, task_of(rqst));
    let call = (&call, || rqst.data_touch());
    let written = quirks::write_aligned(align, call, &thresholds, prefix, out.as_mut_slice());
    let lengths = written.map_err(PrepareError::Impossible)?;
    Ok(lengths.map(|(header, len)| {
        contents.out_len = len;
        header
    }))
}

/// Counts and traces the prepared call.
#[inline(always)]
fn account(forms: Forms, rqst: &Rqst<'_, Client>, header: usize, contents: &mut Contents) {
    let (offered, all) = (contents.offered.len(), contents.regions.len());
    let stats = &mut contents.counts;
    match forms.call {
        CallKind::Inline => {}
        CallKind::ReadChunk { .. } => stats.read_chunk(all.wrapping_sub(offered)),
        CallKind::PositionZero => {
            stats.read_chunk(all.wrapping_sub(offered));
            stats.nomsg_call();
        }
    }
    match forms.reply {
        ReplyKind::Inline => {}
        ReplyKind::WriteChunk { .. } => stats.write_chunk(offered, rqst.recv_buf().page_len()),
        ReplyKind::ReplyChunk => stats.reply_chunk(offered, rqst.recv_buf().capacity()),
    }
    stats.pullup(contents.out_len.wrapping_sub(header));
    let (task, xid) = (task_of(rqst), rqst.xid());
    let shape = Lazy(|| call_shape(&rqst.send_buf()));
    trace::marshal(task, xid, header, shape, forms.call, forms.reply);
}

/// A segment whose memory is mapped, for header and trace.
struct Mapped {
    segment: Segment,
    /// The scatterlist entries of its memory region.
    nents: u32,
    /// No other segment of the chunk follows.
    last: bool,
}

/// Registers the chunks of a call, and writes the header. Returns the length of the header. After a
/// failure the caller gives the regions back. Does not sleep, unless mapping memory does.
///
/// # Errors
///
/// See [`PrepareError`].
#[inline(always)]
fn write_chunks(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    contents: &mut Contents,
) -> Result<usize, PrepareError> {
    let Contents {
        out,
        regions,
        spare,
        offered,
        offer,
        terms,
        ..
    } = contents;
    let mut registrar = Registrar {
        pools: &ep.regions,
        rqst,
        regions,
        spare,
    };
    let mut header = begin(ep, rqst, forms, terms.version(), out)?;
    registrar.write_read_chunk(forms.call, &mut header)?;
    registrar.write_reply_memory(forms.reply, header, (offer, offered))
}

/// Writes a segment of the read list.
#[inline(always)]
fn write_segment(
    rqst: &Rqst<'_, Client>,
    position: u32,
    m: &Mapped,
    header: &mut ReadListWriter<'_>,
) -> Result<(), PrepareError> {
    let entry = ReadSegment {
        position,
        segment: m.segment,
    };
    trace::chunk_read(task_of(rqst), &entry, m.nents, m.last);
    Ok(header.segment(position, m.segment)?)
}

/// Registers memory for one call.
struct Registrar<'a> {
    pools: &'a Regions,
    /// The call. Its XID is part of the addresses that the peer gets.
    rqst: &'a Rqst<'a, Client>,
    /// Receives the regions, within its capacity.
    regions: &'a mut KVec<Mr>,
    /// Idle regions, which are used first.
    spare: &'a mut Spare,
}

impl Registrar<'_> {
    /// Registers the memory that the responder reads, and writes the read list.
    //= 5666-3.7-2 round-up not in a read chunk
    #[inline(always)]
    fn write_read_chunk(
        &mut self,
        form: CallKind,
        header: &mut ReadListWriter<'_>,
    ) -> Result<(), PrepareError> {
        let (rqst, call) = (self.rqst, self.rqst.send_buf());
        let (kind, direction) = (self.pools.widest(), DataDirection::ToDevice);
        match form {
            CallKind::Inline => Ok(()),
            // The tail begins with the padding of the pages, which is not sent.
            CallKind::ReadChunk { position } => {
                self.map(call.payload(), Kind::Plain, direction, |m| {
                    write_segment(rqst, position, &m, header)
                })
            }
            CallKind::PositionZero => self.map(call.sections(), kind, direction, |m| {
                write_segment(rqst, 0, &m, header)
            }),
        }
    }

    /// Registers the memory that the responder writes, and writes the rest of the header. Returns
    /// the length of the header.
    //= 5666-3.6-2 one chunk, for the pages
    //= 5666-5.2-1 reply chunk for the whole reply
    #[inline(always)]
    fn write_reply_memory(
        &mut self,
        form: ReplyKind,
        header: ReadListWriter<'_>,
        (offer, offered): (&mut ReplyKind, &mut KVec<Segment>),
    ) -> Result<usize, PrepareError> {
        let (task, reply) = (task_of(self.rqst), self.rqst.recv_buf());
        let mut note = |segment| {
            let noted = offered.push_within_capacity(segment);
            noted.map_err(|_| TOO_LONG)
        };
        let (kind, direction) = (self.pools.widest(), DataDirection::FromDevice);
        *offer = form;
        match form {
            ReplyKind::Inline => Ok(header.finish()?),
            ReplyKind::WriteChunk => {
                let mut chunk = header.write_list()?.chunk()?;
                self.map(reply.payload(), Kind::Plain, direction, |m| {
                    trace::chunk_write(task, &m.segment, m.nents, m.last);
                    note(m.segment)?;
                    Ok(chunk.segment(m.segment)?)
                })?;
                Ok(chunk.end().finish()?)
            }
            ReplyKind::ReplyChunk => {
                let mut chunk = header.write_list()?.reply_chunk()?;
                self.map(reply.sections(), kind, direction, |m| {
                    trace::chunk_reply(task, &m.segment, m.nents, m.last);
                    note(m.segment)?;
                    Ok(chunk.segment(m.segment)?)
                })?;
                Ok(chunk.finish())
            }
        }
    }

    /// Maps `memory` in regions of the given kind where possible, and calls `encode` for each.
    ///
    /// # Errors
    ///
    /// See [`PrepareError`].
    #[inline(always)]
    fn map(
        &mut self,
        mut memory: impl Memory,
        kind: Kind,
        direction: DataDirection,
        mut encode: impl FnMut(Mapped) -> Result<(), PrepareError>,
    ) -> Result<(), PrepareError> {
        for _ in 0..MAX_SEGMENTS {
            let spare = self.spare.of(kind).take().or_else(|| self.pools.get(kind));
            let mut region = spare.ok_or(PrepareError::NoRegions)?;
            let done = region.map(&mut memory, direction, self.rqst.xid());
            let done = done.inspect(|_| {
                trace::mr_map(task_of(self.rqst), conn::traced::region(&region));
            });
            let mapped = Mapped {
                segment: conn::traced::segment(&region),
                nents: region.nents(),
                last: memory.is_empty(),
            };
            let kept = self.regions.push_within_capacity(region);
            kept.map_err(|_| TOO_LONG)?;
            done.map_err(PrepareError::of_mapping)?;
            let last = mapped.last;
            encode(mapped)?;
            if last {
                return Ok(());
            }
        }
        Err(TOO_LONG)
    }
}
