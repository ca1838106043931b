// SPDX-License-Identifier: GPL-2.0

//! What the file `connections` shows of a requester's connection.
//!
//! The calls are counted when the file is read: sending a call costs nothing for this.

use super::endpoint::Endpoint;
use super::request::{Locked, Offered, Phase, Request};
use super::traced;
use super::transport::Client;
use crate::conn::registry::Shown;
use crate::observe::connections::{Calls, Counts, Credits, Up};
use crate::rdma::mr::DataDirection;
use crate::sunrpc::xprt::transport::ConnectError;
use crate::sunrpc::xprt::Xprt;
use kernel::sync::Arc;

impl Shown for Endpoint {
    fn show(&self) -> Up {
        let role = self.requester();
        let (calls, used) = count(self);
        Up {
            credits: Credits {
                limit: role.credits.requested(),
                granted: role.credits.grant(),
                used,
            },
            calls,
            regions: self.pools.census().into(),
            silent: role.liveness.silent(),
            ..self.describe()
        }
    }

    fn counts(&self) -> Counts {
        self.shared().tally().counts()
    }
}

/// Notes the result of an attempt to connect, for the file.
pub(super) fn attempted(
    client: &Client,
    xprt: &Xprt<Client>,
    made: &Result<Arc<Endpoint>, ConnectError>,
) {
    let peer = traced::shown(xprt);
    let Some(enrolled) = client.enrolled(xprt.net().cookie(), peer) else {
        return;
    };
    match made {
        Ok(ep) => enrolled.up(peer, ep.clone()),
        Err(error) => enrolled.failed(peer, error.to_errno()),
    }
}

/// Counts the calls of a connection by form, and those without a reply.
fn count(ep: &Endpoint) -> (Calls, u32) {
    let (mut calls, mut used) = (Calls::default(), 0);
    for slot in ep.shared().owner().slots() {
        let request: &Request = slot.data();
        let locked = request.lock();
        if locked.state.epoch != ep.epoch() {
            continue;
        }
        match locked.state.phase {
            Phase::Sent => {
                used += u32::from(!locked.state.answered);
                add(&mut calls, &locked);
            }
            Phase::Fencing | Phase::Abandoned => calls.fencing += 1,
            Phase::Idle | Phase::Preparing | Phase::Prepared | Phase::Withdrawn => {}
        }
    }
    (calls, used)
}

/// Adds a call that was sent.
fn add(calls: &mut Calls, locked: &Locked) {
    let state = &locked.state;
    let read = state
        .regions
        .iter()
        .any(|region| region.direction() == DataDirection::ToDevice);
    calls.read += u32::from(read);
    match state.offer {
        Offered::WriteChunk => calls.write += 1,
        Offered::ReplyChunk => calls.reply += 1,
        Offered::Nothing => calls.inline += u32::from(!read),
    }
}
