// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection in version one, which follow from the private data of both peers.

use crate::proto::inline::Thresholds;
use crate::wire::cm_private::Settings;

/// Returns the terms of a requester that has announced `local` and has found `peer` in the
/// responder's private data, if it had any.
///
/// RFC 8797 section 4.1 lets a responder invalidate only if both peers have set the R bit, but
/// Linux's server invalidates without having set it. So the bit that we have announced counts.
pub(super) fn of_requester(local: &Settings, peer: Option<Settings>) -> Thresholds {
    Thresholds {
        remote_invalidation: local.remote_invalidation,
        ..Thresholds::for_client(local, peer)
    }
}

/// Returns the terms of a responder that announces `local` and has found `peer` in the requester's
/// private data, if it had any.
///
/// The responder keeps to RFC 8797 section 4.1: it invalidates only if both peers have set the R
/// bit.
pub(super) fn of_responder(local: &Settings, peer: Option<Settings>) -> Thresholds {
    Thresholds::for_server(local, peer)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_terms)]
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
        let sizes = of_responder(&OURS, cm_private::decode(private_data));
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
            let sizes = of_responder(&of(ours), Some(of(theirs)));
            assert_eq!(sizes.remote_invalidation, ours && theirs);
        }
    }
}
