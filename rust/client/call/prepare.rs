// SPDX-License-Identifier: GPL-2.0

//! Prepares a call: chooses its form, registers memory, and writes header and inline part into the
//! send buffer. No work request is posted here.
//!
//! As a rule this happens outside the send lock, when SUNRPC has just encoded the call. It happens
//! under the send lock if there was no connection then, or a different one.
//!
//! The lock of the slot is held, unless mapping memory may take long or sleep on this device
//! ([`Regions::are_slow`]). On such a device the task takes the contents of the slot, and leaves
//! the slot in phase Preparing. Nothing else changes a slot in this phase: other tasks find no
//! regions to take back, and the sweep of a closed connection waits for the end of the phase.
//! Mapping allocates without I/O, so it never waits for a connection that the sweep delays. On
//! other devices mapping is a matter of some instructions, and taking the lock twice would cost
//! more than it saves.
//!
//! [`Regions::are_slow`]: super::super::endpoint::regions::Regions::are_slow

use kernel::prelude::*;
use kernel::sync::{Arc, SpinLockGuard};

use super::super::endpoint::Endpoint;
use super::super::quirks;
use super::super::transport::{task_of, Client};
use super::chunks;
use super::contents::Contents;
use super::slot::{Locked, Slot};
use crate::conn;
use crate::mem::MemallocScope;
use crate::observe::stats::Stats;
use crate::observe::trace::{self, Lazy};
use crate::proto::requester::plan::{
    CallKind, CallShape, Extents, Forms, InlineSpace, ReplyKind, ReplyShape,
};
use crate::rdma::send::SendBuf;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::wire::{Direction, EncodeError, ReadListWriter, Version};

/// Why a call could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum PrepareError {
    /// There is no connection at the moment.
    NotConnected,
    /// No memory region is idle at the moment.
    NoRegions,
    /// The slot has no send buffer at the moment.
    NoBuffer,
    /// The DMA layer has no room at the moment.
    NoMapping,
    /// This transport cannot carry the call: it is too long, or its memory cannot be mapped.
    Impossible(Error),
}

impl PrepareError {
    /// Returns the (negative) errno that trace events show.
    fn errno(self) -> i32 {
        match self {
            Self::NotConnected => ENOTCONN,
            Self::NoRegions => EAGAIN,
            Self::NoBuffer => ENOBUFS,
            Self::NoMapping => ENOMEM,
            Self::Impossible(error) => error,
        }
        .to_errno()
    }

    /// Translates the error of mapping memory for DMA.
    pub(super) fn of_mapping(error: Error) -> Self {
        match error {
            ENOMEM => Self::NoMapping,
            error => Self::Impossible(error),
        }
    }
}

impl From<EncodeError> for PrepareError {
    fn from(_: EncodeError) -> Self {
        Self::Impossible(EMSGSIZE)
    }
}

/// Prepares a call for the connection of its slot. A call that is under way is left alone. Does not
/// sleep, unless the driver of the device does.
///
/// # Errors
///
/// See [`PrepareError`]. The slot is idle after an error.
#[inline(never)]
pub(in crate::client) fn prepare(
    rqst: &Rqst<'_, Client>,
    stats: &Stats,
) -> Result<(), PrepareError> {
    let slot: &Slot = rqst.slot().data();
    let mut locked = slot.lock();
    // ORDERING: a connection is marked as closed before its sweep takes this lock. So the sweep
    // finds the phase Preparing, or the mark is seen here.
    let ep = locked.ep.as_ref().filter(|ep| !ep.is_closed());
    let ep = ep.ok_or(PrepareError::NotConnected)?;
    if ep.regions.are_slow() {
        let ep = ep.clone();
        return prepare_unlocked(&ep, (slot, locked), rqst, stats);
    }
    let Some((ep, contents)) = locked.begin_prepare() else {
        return Ok(());
    };
    marshal(ep, rqst, contents, stats)?;
    locked.set_prepared(slot);
    Ok(())
}

/// Prepares a call without the lock of its slot. May sleep.
#[cold]
fn prepare_unlocked(
    ep: &Arc<Endpoint>,
    (slot, mut locked): (&Slot, SpinLockGuard<'_, Locked>),
    rqst: &Rqst<'_, Client>,
    stats: &Stats,
) -> Result<(), PrepareError> {
    let Some(mut contents) = locked.begin_preparing(slot) else {
        return Ok(());
    };
    drop(locked);
    let noio = MemallocScope::noio();
    contents.reset();
    let done = marshal(ep, rqst, &mut contents, stats);
    drop(noio);
    slot.end_preparing(contents, done.is_ok());
    done
}

/// Marshals a call into the contents of a slot, which have no other call.
///
/// # Errors
///
/// See [`PrepareError`]. The contents have no call after an error.
#[inline(always)]
fn marshal(
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
    stats.failed_marshal();
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
        let header = chunks::write(ep, rqst, forms, contents)?;
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
    forms.map_err(|_| PrepareError::Impossible(EMSGSIZE))
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
pub(super) fn begin<'b>(
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

/// Copies the inline part of the RPC message behind the header, and notes the length of both.
#[inline(always)]
fn copy_inline(
    form: CallKind,
    call: &XdrBuf<'_>,
    header: usize,
    contents: &mut Contents,
) -> Result<(), PrepareError> {
    let out = contents.out.as_mut().ok_or(PrepareError::NoBuffer)?;
    let space = out.as_mut_slice().get_mut(header..);
    let space = space.ok_or(PrepareError::Impossible(EMSGSIZE))?;
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
    let dest = space.get_mut(..len);
    let dest = dest.ok_or(PrepareError::Impossible(EMSGSIZE))?;
    call.copy_to(start, dest)
        .map_err(PrepareError::Impossible)?;
    Ok(len)
}

/// Copies the bytes that are inline before and behind a payload. Returns their number.
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

/// Writes an inline call whose payload is aligned, if the server asks for that and the call has a
/// payload. Returns the length of the header.
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
    let thresholds = contents.thresholds().ok_or(PrepareError::NoBuffer)?;
    let Some(place) = quirks::align(align, &call, || rqst.data_touch(), &thresholds) else {
        return Ok(None);
    };
    let out = contents.out.as_mut().ok_or(PrepareError::NoBuffer)?;
    let prefix = (rqst.xid(), ep.requester().credits.requested());
    let (header, len) = quirks::write_aligned(&place, prefix, &call, out.as_mut_slice())
        .map_err(PrepareError::Impossible)?;
    contents.out_len = len;
    quirks::trace_aligned(&place, task_of(rqst), rqst.xid());
    Ok(Some(header))
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
    trace::marshal(
        task_of(rqst),
        rqst.xid(),
        header,
        Lazy(|| call_shape(&rqst.send_buf())),
        forms.call,
        forms.reply,
    );
}
