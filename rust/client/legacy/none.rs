// SPDX-License-Identifier: GPL-2.0

//! The interface of this folder in a build with `RPCRDMA_LEGACY=n`, which does not support servers
//! of RFC 5666.
//!
//! `../legacy.rs` describes each item.

use kernel::prelude::*;

use super::config::Config;
use crate::conn::credits::CallCredits;
use crate::conn::role::{ConnOf, QpOf, Role};
use crate::observe::trace::{Lazy, Task};
use crate::proto::inline::Thresholds;
use crate::proto::requester::reply::{Offer, Outcome, Violation};
use crate::rdma::buffer::SendBuf;
use crate::rdma::device::Limits;
use crate::rdma::qp::Tag;
use crate::sunrpc::sysctl::Sysctl;
use crate::sunrpc::xdr_buf::XdrBuf;
use crate::wire::message::Body;
use crate::wire::Message;

pub(crate) static KNOBS: [&dyn Sysctl; 0] = [];
pub(super) const TAGS: u32 = 0;

pub(super) type Link<'a, R> = (&'a ConnOf<R>, &'a QpOf<R>, &'a CallCredits);
pub(super) type Calls<'a> = dyn Fn(&mut dyn FnMut(u32)) + 'a;

type Fetched = (u32, KVVec<u8>, KVVec<u8>);

#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) reads: u8,
    pub(super) send_wr: u32,
}

impl Settings {
    pub(super) fn new(_limits: &Limits) -> Self {
        Self {
            reads: 0,
            send_wr: 0,
        }
    }
}

#[pin_data]
pub(super) struct Quirks {
    pub(super) reads: ReadReplies,
}

pub(super) struct ReadReplies;

impl Quirks {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self { reads: ReadReplies })
    }

    pub(super) fn note_peer(&self, _has_private_data: bool) {}

    pub(super) fn begin<R: Role>(
        &self,
        _link: Link<'_, R>,
        _reads: (Settings, u8),
        _config: &Config,
        _call: (&mut SendBuf, u32),
        (one, _): (Thresholds, &dyn Fn() -> bool),
    ) -> Result<Thresholds> {
        Ok(one)
    }

    pub(super) fn received_early<R: Role>(&self, _conn: &ConnOf<R>, _bytes: &[u8]) -> bool {
        false
    }

    pub(super) fn check_segments(
        &self,
        _body: &Body<'_>,
        _offer: &Offer<'_>,
    ) -> Result<Outcome, Violation> {
        Err(Violation::SegmentLength)
    }
}

impl ReadReplies {
    pub(super) fn announced<'m, R: Role>(
        &self,
        _link: Link<'_, R>,
        _bytes: &'m [u8],
        _calls: &Calls<'_>,
    ) -> Option<Message<'m>> {
        None
    }

    pub(super) fn is_reading(&self, _xid: u32) -> bool {
        false
    }

    pub(super) fn answered(&self, _xid: u32) {}

    pub(super) fn decline(&self, _xid: u32) {}

    pub(super) fn read<R: Role>(
        &self,
        _link: (&ConnOf<R>, &QpOf<R>),
        _reply: &Message<'_>,
        _bytes: &[u8],
        _max: u32,
    ) -> Result<(), Option<Violation>> {
        Ok(())
    }

    pub(super) fn fetched<R: Role>(&self, _conn: &ConnOf<R>, _tag: Tag) -> Result<Option<Fetched>> {
        Ok(None)
    }

    pub(super) fn start<R: Role>(&self, _qp: &QpOf<R>) -> Result {
        Ok(())
    }

    pub(super) fn account<R: Role>(&self, _link: Link<'_, R>, _calls: &Calls<'_>) {}
}

pub(super) fn write_aligned(
    _align: u32,
    _call: (&XdrBuf<'_>, impl Fn() -> bool),
    _thresholds: &Thresholds,
    _prefix: (u32, u32, Lazy<impl FnOnce() -> Task + Copy>),
    _out: &mut [u8],
) -> Result<Option<(usize, usize)>> {
    Ok(None)
}
