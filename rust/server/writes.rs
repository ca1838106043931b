// SPDX-License-Identifier: GPL-2.0

//! The RDMA Writes of a reply.

use kernel::prelude::*;

use super::config::WRITES;
use super::endpoint::Endpoint;
use super::flights::lane;
use super::responder::unmapped;
use crate::proto::responder::reply::Write;
use crate::rdma::qp::Remote;
use crate::rdma::scatter::Source;
use crate::sunrpc::xdr_buf::XdrBuf;

/// The RDMA Writes of a reply, as they are added to a list.
pub(super) struct Writes<'w> {
    ep: &'w Endpoint,
    message: &'w XdrBuf<'w>,
    /// The list, once there is one.
    source: Option<Source>,
    /// RDMA Writes so far. Those that follow each other in a segment count as one.
    segments: u64,
    /// R_key and address behind the last one.
    end: Option<(u32, u64)>,
    /// The first error.
    result: Result,
}

impl<'w> Writes<'w> {
    /// Begins with none.
    #[inline]
    pub(super) fn new(ep: &'w Endpoint, message: &'w XdrBuf<'w>) -> Self {
        Self {
            ep,
            message,
            source: None,
            segments: 0,
            end: None,
            result: Ok(()),
        }
    }

    /// Adds one, unless there was an error. May sleep.
    #[inline]
    pub(super) fn add(&mut self, write: &Write) {
        if self.result.is_ok() {
            self.result = self.try_add(write);
        }
    }

    #[inline]
    fn try_add(&mut self, write: &Write) -> Result {
        let (len, to) = (write.range.len, remote(write));
        self.segments += u64::from(self.end != Some((to.rkey, to.addr)));
        self.end = Some((to.rkey, to.addr.wrapping_add(u64::from(len))));
        let source = match &mut self.source {
            Some(source) => source,
            none => none.insert(self.ep.role().spare.source(self.ep.pd())?),
        };
        place(self.ep, self.message, source, write)
    }

    /// Removes and returns the list, if there are any RDMA Writes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the device cannot map the reply.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<Option<Source>> {
        self.result?;
        if self.source.is_some() {
            WRITES.add(lane(self.ep.qp()), self.segments);
        }
        Ok(self.source.take())
    }
}

/// Makes the list of the only RDMA Write of a reply. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EIO` if the device cannot map the reply.
#[inline(always)]
pub(super) fn single(ep: &Endpoint, message: &XdrBuf<'_>, write: &Write) -> Result<Source> {
    let mut source = ep.role().spare.source(ep.pd())?;
    place(ep, message, &mut source, write)?;
    WRITES.add(lane(ep.qp()), 1);
    Ok(source)
}

/// Adds an RDMA Write to a list. May sleep.
#[inline(always)]
fn place(ep: &Endpoint, message: &XdrBuf<'_>, source: &mut Source, write: &Write) -> Result {
    let (len, to) = (write.range.len, remote(write));
    let pieces = message.pieces(write.range.start, len);
    let added = source.write(pieces, to, ep.limits().sges);
    added.inspect_err(|error| unmapped(ep.qp(), to, len, *error))
}

/// Returns where an RDMA Write writes to.
#[inline]
fn remote(write: &Write) -> Remote {
    Remote {
        addr: write.offset,
        rkey: write.handle,
    }
}
