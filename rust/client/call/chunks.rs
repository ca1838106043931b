// SPDX-License-Identifier: GPL-2.0

//! Registers the chunks of a call, and writes them into its header.
//!
//! Most calls have one chunk, and one memory region takes it. A chunk that no region takes as a
//! whole gets further regions, a segment each.

use kernel::prelude::*;

use super::super::config::MAX_SEGMENTS;
use super::super::endpoint::regions::{Regions, Spare};
use super::super::endpoint::Endpoint;
use super::super::transport::{task_of, Client};
use super::contents::{Contents, Offered};
use super::prepare::{begin, PrepareError};
use crate::conn;
use crate::observe::trace;
use crate::proto::requester::plan::{CallKind, Forms, ReplyKind};
use crate::rdma::mr::{DataDirection, Kind, Memory, Mr};
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{ReadListWriter, ReadSegment, Segment};

/// The memory is so scattered that a chunk would take more than [`MAX_SEGMENTS`] segments.
const TOO_MANY_SEGMENTS: PrepareError = PrepareError::Impossible(EMSGSIZE);

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
pub(super) fn write(
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
        (offer, offered): (&mut Offered, &mut KVec<Segment>),
    ) -> Result<usize, PrepareError> {
        let (task, reply) = (task_of(self.rqst), self.rqst.recv_buf());
        let mut note = |segment| {
            let noted = offered.push_within_capacity(segment);
            noted.map_err(|_| PrepareError::Impossible(EMSGSIZE))
        };
        let (kind, direction) = (self.pools.widest(), DataDirection::FromDevice);
        match form {
            ReplyKind::Inline => Ok(header.finish()?),
            ReplyKind::WriteChunk => {
                *offer = Offered::WriteChunk;
                let mut chunk = header.write_list()?.chunk()?;
                self.map(reply.payload(), Kind::Plain, direction, |m| {
                    trace::chunk_write(task, &m.segment, m.nents, m.last);
                    note(m.segment)?;
                    Ok(chunk.segment(m.segment)?)
                })?;
                Ok(chunk.end().finish()?)
            }
            ReplyKind::ReplyChunk => {
                *offer = Offered::ReplyChunk;
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

    /// Maps `memory` in regions of the given kind, if there are such, and calls `encode` for each.
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
            let spare = self.spare.take(kind).or_else(|| self.pools.get(kind));
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
            kept.map_err(|_| TOO_MANY_SEGMENTS)?;
            done.map_err(PrepareError::of_mapping)?;
            let last = mapped.last;
            encode(mapped)?;
            if last {
                return Ok(());
            }
        }
        Err(TOO_MANY_SEGMENTS)
    }
}
