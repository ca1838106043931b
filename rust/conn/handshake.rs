// SPDX-License-Identifier: GPL-2.0

//! The handshake: the announcement of each peer in the private data of the connection manager
//! (RFC 8797), and the terms of version one that follow from both.

use kernel::prelude::*;

use super::connection::Connection;
use super::lifecycle::Lifecycle;
use super::role::{Role, XprtRef};
use super::traced;
use crate::observe::trace;
use crate::proto::inline::Thresholds;
use crate::proto::responder::limits;
use crate::rdma::cm::{CmId, ConnectParams};
use crate::rdma::listen::Request;
use crate::wire::cm_private::{PrivateData, Settings};

/// The number of times that a device retransmits a packet before it reports an error.
const RETRIES: u8 = 6;

/// How long our device waits for an acknowledgement: 4.096 microseconds, doubled this many times,
/// which is 1.07 s. Otherwise the peer chooses the time, which may be hours or unlimited.
const ACK_TIMEOUT: u8 = 18;

/// Asks the peer for a connection, and announces `settings`. The route has been resolved. The
/// answer arrives as an event of the connection manager. `reads` is the number of RDMA Reads by the
/// peer that our device serves at the same time, and `own` the number of those that we may have
/// outstanding. May sleep.
///
/// # Errors
///
/// Those of [`CmId::connect`].
pub(crate) fn request<O: XprtRef>(
    cm: &CmId<Lifecycle<O>>,
    settings: Settings,
    (reads, own): (u8, u8),
) -> Result {
    cm.set_ack_timeout(ACK_TIMEOUT)?;
    let private_data = PrivateData::new(settings);
    cm.connect(&ConnectParams {
        private_data: private_data.as_bytes(),
        // A requester reads the peer's memory only if replies may have read chunks.
        initiator_depth: own,
        responder_resources: reads,
        retry_count: RETRIES,
        traffic_class: None,
    })
}

/// Returns how many RDMA Reads a responder may have outstanding on the connection that `request`
/// asks for. `None` means that no read chunk could ever be served: the request is to be dropped.
pub(crate) fn read_depth(request: &Request) -> Option<u8> {
    let device = request.device()?.limits().max_qp_init_rd_atom;
    limits::read_depth(request.initiator_depth(), device)
}

impl<R: Role> Connection<R> {
    /// Accepts the peer's request for a connection, and announces `settings`. `reads` is the number
    /// of RDMA Reads that this side will have outstanding, as [`read_depth`] returns it, and
    /// `served` the number of those of the peer that are served. `traffic_class` is that of
    /// [`ConnectParams`]. An event of the connection manager, or the peer's first message, ends the
    /// handshake. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`CmId::accept`].
    pub(crate) fn accept(
        &self,
        settings: Settings,
        (reads, served): (u8, u8),
        traffic_class: Option<u8>,
    ) -> Result {
        self.parts.cm.set_ack_timeout(ACK_TIMEOUT)?;
        let private_data = PrivateData::new(settings);
        self.parts.cm.accept(&ConnectParams {
            private_data: private_data.as_bytes(),
            initiator_depth: reads,
            // A requester reads a responder's memory only if replies may have read chunks.
            responder_resources: served,
            // The peer's request says how often this side's device retransmits a packet.
            retry_count: 0,
            traffic_class,
        })
    }
}

/// Returns the terms in version one of a responder's connection that is being accepted with
/// `settings`. The responder invalidates only if both peers have set the R bit (RFC 8797 section
/// 4.1).
pub(crate) fn responder_terms<O: XprtRef>(
    owner: &O,
    lifecycle: &Lifecycle<O>,
    settings: &Settings,
) -> Thresholds {
    let peer = lifecycle.peer();
    trace::private_data(traced::peer(owner), peer.as_ref());
    Thresholds::for_server(settings, peer)
}

/// Returns the terms in version one of a requester's connection that is established. `segments` is
/// the most segments of a chunk, for the trace.
pub(crate) fn requester_terms<O: XprtRef>(
    owner: &O,
    cm: &CmId<Lifecycle<O>>,
    lifecycle: &Lifecycle<O>,
    settings: &Settings,
    segments: u32,
) -> Thresholds {
    let peer = lifecycle.peer();
    trace::private_data(traced::peer(owner), peer.as_ref());
    // A responder may invalidate only if both peers have set the R bit (RFC 8797 section 4.1), but
    // Linux's server invalidates without having set it. Therefore only the bit that we have
    // announced counts.
    let terms = Thresholds {
        remote_invalidation: settings.remote_invalidation,
        ..Thresholds::for_client(settings, peer)
    };
    let call = terms.max_inline_call(segments);
    let reply = terms.max_inline_reply(segments);
    let (ours, theirs) = (cm.local_addr(), owner.address());
    trace::inline_thresh(&terms, call, reply, ours.bytes(), theirs.bytes());
    terms
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_handshake)]
mod tests {
    use super::*;
    use crate::wire::cm_private::{self, Size};

    const OURS: Settings = Settings {
        remote_invalidation: true,
        send: Size::from_bytes(4096),
        receive: Size::from_bytes(8192),
        versions: None,
    };

    /// Returns the terms of a responder that announces [`OURS`]: the longest message from and to
    /// the requester, and whether it may invalidate.
    fn terms(private_data: &[u8]) -> (u32, u32, bool) {
        let sizes = Thresholds::for_server(&OURS, cm_private::decode(private_data));
        (
            sizes.client_to_server,
            sizes.server_to_client,
            sizes.remote_invalidation,
        )
    }

    #[test]
    fn absent_or_garbled_private_data_mean_the_defaults() {
        let mut garbled = cm_private::encode(OURS);
        assert_eq!(terms(&garbled), (4096, 4096, true));
        for byte in garbled.iter_mut().take(1) {
            *byte ^= 1;
        }
        for private_data in [&[][..], &[0; 56], &[0xff; 196], &garbled] {
            assert_eq!(terms(private_data), (1024, 1024, false));
        }
    }

    #[test]
    fn least_sizes_are_1024_bytes() {
        let least = Settings {
            send: Size::from_code(0),
            receive: Size::from_code(0),
            ..OURS
        };
        assert_eq!(terms(&cm_private::encode(least)), (1024, 1024, true));
    }

    #[test]
    fn responder_invalidates_only_if_both_peers_allow_it() {
        for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
            let of = |remote_invalidation| Settings {
                remote_invalidation,
                ..OURS
            };
            let sizes = Thresholds::for_server(&of(ours), Some(of(theirs)));
            assert_eq!(sizes.remote_invalidation, ours && theirs);
        }
    }
}
