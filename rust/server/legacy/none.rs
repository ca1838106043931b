// SPDX-License-Identifier: GPL-2.0

//! The interface of this folder in a build with `RPCRDMA_LEGACY=n`, which does not serve requesters
//! of RFC 5666.
//!
//! `../legacy.rs` describes each item.

use core::convert::Infallible;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::call::budget::Permit;
use super::call::context::Call;
use super::call::in_flight::InFlight;
use crate::compat::code::EOPNOTSUPP;
use crate::conn::role::{ConnOf, QpOf, Role};
use crate::observe::stats::RequesterBreach;
use crate::proto::inline::Thresholds;
use crate::proto::responder::call;
use crate::proto::responder::intake::{self, Arrival, Reason, Refusal};
use crate::rdma::buffer::SendBuf;
use crate::rdma::pd::Pd;
use crate::sunrpc::svc::reply::Reply;
use crate::sunrpc::sysctl::Sysctl;
use crate::wire::{Message, Version};

pub(crate) static SYSCTLS: [&dyn Sysctl; 0] = [];

#[pin_data]
pub(crate) struct Quirks {}

pub(crate) type Sender<'s, R> = (&'s ConnOf<R>, &'s QpOf<R>, &'s InFlight);

pub(crate) type Readable = Infallible;

impl Quirks {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {})
    }

    pub(crate) fn begin(
        &self,
        _pd: &Arc<Pd>,
        _has_private_data: bool,
        _inline: u32,
        _reads: (u8, u8),
    ) -> Result<u8> {
        Ok(0)
    }

    pub(crate) fn received<R: Role>(&self, _to: Sender<'_, R>, _message: &Message<'_>) -> bool {
        false
    }

    #[cold]
    pub(crate) fn take<R: Role>(
        &self,
        _to: Sender<'_, R>,
        _bytes: &[u8],
        arrival: &Arrival<'_>,
    ) -> Result<Option<KVec<u8>>, Refusal> {
        match arrival {
            Arrival::Padded(header) => {
                let why = Reason::Padding("RFC 5666 is left out of this module");
                Err(intake::refuse(Version::One, header.xid(), why))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn takes(&self, _call: &call::Call<'_>) -> bool {
        false
    }

    pub(crate) fn answer<R: Role>(
        &self,
        _to: Sender<'_, R>,
        _call: &call::Call<'_>,
        _credits: u32,
    ) -> Result<(SendBuf, usize)> {
        Err(EOPNOTSUPP)
    }

    pub(crate) fn bounds_reads(&self) -> bool {
        false
    }

    pub(crate) fn forbids_reads(&self) -> bool {
        false
    }

    pub(crate) fn fences_reads(&self) -> bool {
        false
    }

    pub(crate) fn apply(&self, terms: Thresholds) -> Thresholds {
        terms
    }

    pub(crate) fn prepare(
        &self,
        _reply: &mut Reply<'_, Call>,
        _permit: impl FnOnce(usize) -> Option<Permit>,
    ) -> Option<Readable> {
        None
    }

    pub(crate) fn send<R: Role>(
        &self,
        _to: Sender<'_, R>,
        _reply: Reply<'_, Call>,
        readable: Readable,
        _credits: u32,
    ) -> Result {
        match readable {}
    }

    pub(crate) fn resume<R: Role>(&self, _to: Sender<'_, R>) {}

    pub(crate) fn invalidated(&self) {}

    pub(crate) fn overdue(&self) -> Option<(u32, RequesterBreach)> {
        None
    }

    pub(crate) fn pages(&self) -> usize {
        0
    }

    pub(crate) fn clear(&self) {}
}
