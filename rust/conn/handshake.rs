// SPDX-License-Identifier: GPL-2.0

//! The handshake: what each peer announces in the private data of the connection manager
//! (RFC 8797), and the terms of version one that follow from it.

use kernel::prelude::*;

use super::lifecycle::Lifecycle;
use super::owner::Owner;
use super::terms;
use super::traced;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::responder::limits;
use crate::proto::session::Announced;
use crate::rdma::cm::{CmId, ConnectParams};
use crate::rdma::listen::Request;
use crate::wire::cm_private::{PrivateData, Settings};

/// The number of times that a device sends a packet again before it gives the connection up.
const RETRIES: u8 = 6;

/// How long a responder's device waits for an acknowledgement: 4.096 microseconds, doubled this
/// many times, which is 1.07 s. Without it, the requester would choose the time, up to hours or
/// without an end.
const ACK_TIMEOUT: u8 = 18;

/// Asks the peer for a connection, and announces `settings`. The answer comes as an event of the
/// connection manager. `reads` is the number of RDMA Reads by the peer that our device serves at
/// the same time, and `own` the number of those that we may have outstanding. May sleep.
///
/// # Errors
///
/// Those of [`CmId::connect`].
pub(crate) fn request<O: Owner>(
    cm: &CmId<Lifecycle<O>>,
    settings: Settings,
    (reads, own): (u8, u8),
) -> Result {
    let private_data = PrivateData::new(settings);
    cm.connect(&ConnectParams {
        private_data: private_data.as_bytes(),
        // A requester reads the peer's memory only if that is one of RFC 5666.
        initiator_depth: own,
        responder_resources: reads,
        retry_count: RETRIES,
        // A peer that has posted no Receive has broken the credit rules.
        rnr_retry_count: 0,
        flow_control: false,
    })
}

/// Returns how many RDMA Reads a responder may have outstanding on the connection that `request`
/// asks for. `None` means that no read chunk could ever be served: the request is to be dropped.
pub(crate) fn read_depth(request: &Request) -> Option<u8> {
    let device = request.device()?.limits().max_qp_init_rd_atom;
    limits::read_depth(request.initiator_depth(), device)
}

/// Accepts the peer's request for a connection, and announces `settings`. `reads` is the number of
/// RDMA Reads that this side will have outstanding, as [`read_depth`] returns it, and `served` the
/// number of those of the peer that are served. The end of the handshake comes as an event of the
/// connection manager, or with the peer's first message. May sleep.
///
/// # Errors
///
/// Those of [`CmId::accept`].
pub(crate) fn answer<O: Owner>(
    cm: &CmId<Lifecycle<O>>,
    settings: Settings,
    (reads, served): (u8, u8),
) -> Result {
    cm.set_ack_timeout(ACK_TIMEOUT)?;
    let private_data = PrivateData::new(settings);
    cm.accept(&ConnectParams {
        private_data: private_data.as_bytes(),
        initiator_depth: reads,
        // A requester reads a responder's memory only if it is one of RFC 5666.
        responder_resources: served,
        // The peer's request says how often this side's device sends a packet again, and a message
        // for which the peer has no Receive.
        retry_count: 0,
        // This is for the peer's messages. A peer that finds no Receive here has sent more calls
        // than it was granted.
        rnr_retry_count: 0,
        flow_control: false,
    })
}

/// Returns the terms in version one of a responder's connection that is being accepted with
/// `settings`.
pub(crate) fn responder_terms<O: Owner>(
    owner: &O,
    lifecycle: &Lifecycle<O>,
    settings: &Settings,
) -> Thresholds {
    let peer = lifecycle.peer();
    trace::private_data(traced::peer(owner), peer.as_ref());
    terms::of_responder(settings, peer)
}

/// Returns what the peer has said about version two.
pub(crate) fn announced<O: Owner>(lifecycle: &Lifecycle<O>) -> Announced {
    Announced::of(lifecycle.peer().as_ref())
}

/// Returns the terms in version one of a requester's connection that is established. `segments` is
/// the most segments of a chunk, for the trace.
pub(crate) fn requester_terms<O: Owner>(
    owner: &O,
    cm: &CmId<Lifecycle<O>>,
    lifecycle: &Lifecycle<O>,
    settings: &Settings,
    segments: u32,
) -> Thresholds {
    let peer = lifecycle.peer();
    trace::private_data(traced::peer(owner), peer.as_ref());
    let terms = terms::of_requester(settings, peer);
    trace::inline_thresh(
        &terms,
        terms.max_inline_call(segments),
        terms.max_inline_reply(segments),
        cm.local_addr().bytes(),
        owner.address().bytes(),
    );
    terms
}
