// SPDX-License-Identifier: GPL-2.0

//! The handshake: what each peer announces in the private data of the connection manager
//! (RFC 8797), and the terms that follow from it.

use kernel::prelude::*;

use super::lifecycle::Lifecycle;
use super::owner::Owner;
use super::terms::Terms;
use super::traced;
use crate::observe::trace;
use crate::rdma::cm::{CmId, ConnectParams};
use crate::wire::cm_private::{self, Settings};

/// The number of times that a device sends a packet again before it gives the connection up.
const RETRIES: u8 = 6;

/// Asks the peer for a connection, and announces `settings`. The answer comes as an event of the
/// connection manager. `reads` is the number of RDMA Reads by the peer that our device serves at
/// the same time. May sleep.
///
/// # Errors
///
/// Those of [`CmId::connect`].
pub(crate) fn request<O: Owner>(cm: &CmId<Lifecycle<O>>, settings: Settings, reads: u8) -> Result {
    let private_data = cm_private::encode(settings);
    cm.connect(&ConnectParams {
        private_data: &private_data,
        // A requester reads none of the peer's memory.
        initiator_depth: 0,
        responder_resources: reads,
        retry_count: RETRIES,
        // A peer that has posted no Receive has broken the credit rules.
        rnr_retry_count: 0,
        flow_control: false,
    })
}

/// Returns the terms of a requester's connection that is established. `segments` is the most
/// segments of a chunk, for the trace.
pub(crate) fn requester_terms<O: Owner>(
    owner: &O,
    cm: &CmId<Lifecycle<O>>,
    lifecycle: &Lifecycle<O>,
    settings: &Settings,
    segments: u32,
) -> Terms {
    let peer = lifecycle.peer();
    trace::private_data(traced::peer(owner), peer.as_ref());
    let terms = Terms::of_requester(settings, peer);
    trace::inline_thresh(
        &terms.thresholds,
        terms.thresholds.max_inline_call(segments),
        terms.thresholds.max_inline_reply(segments),
        cm.local_addr().bytes(),
        owner.address().bytes(),
    );
    terms
}
