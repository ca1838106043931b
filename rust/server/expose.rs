// SPDX-License-Identifier: GPL-2.0

//! Sends a reply as a read chunk: RFC 5666 sections 3.8 and 5.2.
//!
//! A reply that fits neither inline nor the chunks that its call offers would be an error towards a
//! requester of RFC 8166. One of RFC 5666 reads it, and sends RDMA_DONE.

use kernel::error::code::ENOBUFS;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::budget::Budget;
use super::call::Call;
use super::config::EXPOSED;
use super::endpoint::Endpoint;
use super::exposed::{Exposed, SEGMENTS};
use super::flights::lane;
use super::{refuse, session};
use crate::conn::traced;
use crate::observe::trace;
use crate::proto::responder::reply::Cannot;
use crate::rdma::mr::{DataDirection, Memory, Mr, MrPool};
use crate::rdma::scatter::Source;
use crate::rdma::send::SendBuf;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::{Direction, ListProc};

/// Sends a reply that cannot be sent otherwise, as `why` says, as a read chunk; or answers the call
/// with an error. `credits` are those for its header. May sleep.
///
/// # Errors
///
/// `EMSGSIZE` if the requester was sent an error; another error if the connection is being closed.
#[cold]
pub(super) fn send(ep: &Endpoint, mut reply: Reply<'_, Call>, why: Cannot, credits: u32) -> Result {
    let (message, call) = reply.parts();
    let (xid, len) = (call.xid(), message.len());
    let exposures = &ep.role().exposures;
    // CAST: `usize` has at least 32 bits.
    let pages = (len as usize).div_ceil(PAGE_SIZE) + 2;
    let permit = Budget::take(&ep.role().budget, pages, || ep.role().pages_used());
    let regions = exposures
        .room()
        .and_then(|pool| map(&pool, &message, xid).ok());
    let (Some(permit), Some(regions)) = (permit, regions) else {
        refuse::reply(ep, call, (why, len), credits);
        return Err(EMSGSIZE);
    };
    trace::server::expose_reply(traced::peer(ep.shared().owner()), xid, len);
    let grant = exposures.grant(credits);
    let written = write(ep, call, &regions, grant);
    let (buf, len) = written.inspect_err(|_| ep.shared().force_close())?;
    let source = ep.role().spare.source(ep.pd());
    let mut source = source.inspect_err(|_| ep.shared().force_close())?;
    take_pages(reply, &mut source).inspect_err(|_| ep.shared().force_close())?;
    let exposed = Exposed {
        xid,
        regions,
        _source: source,
        permit,
    };
    let sent = exposures.add(exposed, |regions| {
        ep.role().flights.send_exposing(ep.qp(), regions, buf, len)
    });
    sent.inspect_err(|_| ep.shared().force_close())?;
    EXPOSED.add(lane(ep.qp()), 1);
    session::replied(ep);
    Ok(())
}

/// Maps a reply for the requester to read.
///
/// # Errors
///
/// `ENOBUFS`: there are too few regions; `EMSGSIZE`: it takes too many; another error if the device
/// cannot map it.
fn map(pool: &Arc<MrPool>, message: &XdrBuf<'_>, xid: u32) -> Result<KVec<Mr>> {
    let mut regions = KVec::with_capacity(SEGMENTS, GFP_KERNEL)?;
    let mut pieces = message.pieces(0, message.len()).peekable();
    while !Memory::is_empty(&mut pieces) {
        let mut region = pool.get().ok_or(ENOBUFS)?;
        region.map(&mut pieces, DataDirection::ToDevice, xid)?;
        regions.push_within_capacity(region).map_err(|_| EMSGSIZE)?;
    }
    Ok(regions)
}

/// Writes the message: the whole reply is the read chunk. Returns the length of the message.
fn write(ep: &Endpoint, call: &Call, regions: &[Mr], credits: u32) -> Result<(SendBuf, usize)> {
    let mut buf = ep.send_buffer(ep.thresholds().server_to_client)?;
    let version = call.version();
    let bytes = buf.as_mut_slice();
    let kind = ListProc::Nomsg;
    let header = version.begin(bytes, call.xid(), credits, Direction::Reply, kind);
    let mut header = header.map_err(|_| EMSGSIZE)?;
    for region in regions {
        let segment = traced::segment(region);
        header.segment(0, segment).map_err(|_| EMSGSIZE)?;
    }
    let len = header.finish().map_err(|_| EMSGSIZE)?;
    Ok((buf, len))
}

/// Moves the pages of the reply to the source.
#[inline(always)]
pub(super) fn take_pages(reply: Reply<'_, Call>, source: &mut Source) -> Result {
    let pages = source.pages().ok_or(EBUSY)?;
    pages.reserve(reply.page_count(), GFP_KERNEL)?;
    reply.take(pages).map_err(|_| ENOSPC)
}
