// SPDX-License-Identifier: GPL-2.0

//! The steps in which a call is prepared, whatever its chunks: the first words of the header, the
//! inline part of the RPC message, and the counters.

use kernel::prelude::*;

use super::endpoint::Endpoint;
use super::register::RegisterError;
use super::request::State;
use super::transport::Client;
use super::{shape, traced};
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::plan::{CallKind, Extents, Forms, ReplyKind};
use crate::rdma::send::SendBuf;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{Direction, EncodeError, ReadListWriter, Version};

/// Why a call could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarshalError {
    /// No memory region is idle at the moment.
    NoRegions,
    /// The request has no send buffer at the moment.
    NoBuffer,
    /// The DMA layer has no room at the moment.
    NoMapping,
    /// This transport cannot carry the call: it is too long, or its memory cannot be mapped.
    Impossible(Error),
}

impl MarshalError {
    /// Returns the (negative) errno that trace events show.
    pub(super) fn errno(self) -> i32 {
        match self {
            Self::NoRegions => EAGAIN,
            Self::NoBuffer => ENOBUFS,
            Self::NoMapping => ENOMEM,
            Self::Impossible(error) => error,
        }
        .to_errno()
    }
}

impl From<RegisterError> for MarshalError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::NoRegions => Self::NoRegions,
            RegisterError::TooManySegments => Self::Impossible(EMSGSIZE),
            RegisterError::Map(ENOMEM) => Self::NoMapping,
            RegisterError::Map(error) => Self::Impossible(error),
        }
    }
}

impl From<EncodeError> for MarshalError {
    fn from(_: EncodeError) -> Self {
        Self::Impossible(EMSGSIZE)
    }
}

/// Writes the first words of the header.
#[inline(always)]
pub(super) fn begin<'b>(
    ep: &Endpoint,
    rqst: &Rqst<'_, Client>,
    forms: Forms,
    version: Version,
    out: &'b mut Option<SendBuf>,
) -> Result<ReadListWriter<'b>, MarshalError> {
    let buf = out.as_mut().ok_or(MarshalError::NoBuffer)?.as_mut_slice();
    let credits = ep.requester().credits.requested();
    let call = Direction::Call;
    Ok(version.begin(buf, rqst.xid(), credits, call, forms.proc())?)
}

/// Copies the inline part of the RPC message behind the header, and notes the length of both.
#[inline(always)]
pub(super) fn copy_inline(
    form: CallKind,
    call: &XdrBuf<'_>,
    header: usize,
    state: &mut State,
) -> Result<(), MarshalError> {
    let out = state.out.as_mut().ok_or(MarshalError::NoBuffer)?;
    let room = out.as_mut_slice().get_mut(header..);
    let room = room.ok_or(MarshalError::Impossible(EMSGSIZE))?;
    let parts = form.inline_parts(&shape::call(call));
    let len = match form {
        CallKind::PositionZero => 0,
        CallKind::Inline => copy(call, 0, parts.len(), room)?,
        CallKind::ReadChunk { .. } if parts.tail().1 == 0 => copy(call, 0, parts.head(), room)?,
        CallKind::ReadChunk { .. } => copy_around(&parts, call, room)?,
    };
    state.out_len = header + len;
    Ok(())
}

/// Copies `len` bytes of a call, from byte `start` on, to the front of `room`. Returns the number.
#[inline(always)]
fn copy(call: &XdrBuf<'_>, start: u32, len: u32, room: &mut [u8]) -> Result<usize, MarshalError> {
    // CAST: `usize` has at least 32 bits.
    let len = len as usize;
    let dest = room.get_mut(..len);
    let dest = dest.ok_or(MarshalError::Impossible(EMSGSIZE))?;
    call.copy_to(start, dest)
        .map_err(MarshalError::Impossible)?;
    Ok(len)
}

/// Copies what is inline before and behind a payload. Returns the number of bytes.
#[cold]
fn copy_around(parts: &Extents, call: &XdrBuf<'_>, room: &mut [u8]) -> Result<usize, MarshalError> {
    let head = copy(call, 0, parts.head(), room)?;
    let (start, len) = parts.tail();
    let behind = room.get_mut(head..).unwrap_or_default();
    let tail = copy(call, call.head_len() + call.page_len() + start, len, behind)?;
    Ok(head + tail)
}

/// Counts and traces the prepared call.
#[inline(always)]
pub(super) fn account(forms: Forms, rqst: &Rqst<'_, Client>, header: usize, state: &mut State) {
    let (offered, all) = (state.offered.len(), state.regions.len());
    let stats = &mut state.counts;
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
    stats.pullup(state.out_len.wrapping_sub(header));
    trace::marshal(
        traced::task(rqst),
        rqst.xid(),
        header,
        Lazy(|| shape::call(&rqst.send_buf())),
        forms.call,
        forms.reply,
    );
}
