// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection as they are now, for readers that hold no lock.
//!
//! In version one the handshake sets the terms once. In version two, messages of the peer change
//! them. Each change has a number, the *generation* of the terms: a message that was prepared under
//! an older generation may be too long for the peer, or of another version.

use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};

use crate::proto::inline::Thresholds;
use crate::proto::session::Terms;
use crate::wire::Version;

/// The connection speaks version two.
const TWO: u32 = 1 << 0;
/// The responder may invalidate the requester's R_keys.
const INVALIDATION: u32 = 1 << 1;
/// See [`Terms::watch`].
const WATCH: u32 = 1 << 2;
/// See [`Terms::permits_backward`].
const BACKWARD: u32 = 1 << 3;

/// The terms of a connection.
pub(super) struct Live {
    client_to_server: Atomic<u32>,
    server_to_client: Atomic<u32>,
    /// [`TWO`], [`INVALIDATION`], [`WATCH`] and [`BACKWARD`].
    flags: Atomic<u32>,
    generation: Atomic<u32>,
}

impl Live {
    /// Makes the terms of a connection before its handshake: version one, without invalidation.
    pub(super) const fn new() -> Self {
        let least = Thresholds::DEFAULT;
        Self {
            client_to_server: Atomic::new(least.client_to_server),
            server_to_client: Atomic::new(least.server_to_client),
            flags: Atomic::new(WATCH),
            generation: Atomic::new(u32::MAX),
        }
    }

    /// Takes over the terms of a session. Returns whether they have changed. The caller holds the
    /// lock of the session.
    pub(super) fn publish(&self, terms: &Terms) -> bool {
        if terms.generation == self.generation.load(Relaxed) {
            return false;
        }
        let sizes = terms.thresholds();
        self.client_to_server.store(sizes.client_to_server, Relaxed);
        self.server_to_client.store(sizes.server_to_client, Relaxed);
        self.flags.store(flags(terms, &sizes), Relaxed);
        // ORDERING: A context that reads this generation sees these terms. One that reads an older
        // generation may see a mixture, which is void as soon as it compares the generations.
        self.generation.store(terms.generation, Release);
        true
    }

    /// Returns the thresholds.
    #[inline]
    pub(super) fn thresholds(&self) -> Thresholds {
        let flags = self.flags.load(Relaxed);
        Thresholds {
            client_to_server: self.client_to_server.load(Relaxed),
            server_to_client: self.server_to_client.load(Relaxed),
            remote_invalidation: flags & INVALIDATION != 0,
            version: version(flags),
        }
    }

    /// Returns the number of the latest change.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// Returns the version that the connection speaks.
    #[inline]
    pub(super) fn version(&self) -> Version {
        version(self.flags.load(Relaxed))
    }

    /// Returns whether the responder may invalidate the requester's R_keys.
    #[inline]
    pub(super) fn remote_invalidation(&self) -> bool {
        self.flags.load(Relaxed) & INVALIDATION != 0
    }

    /// Returns whether messages may concern the session: in version two, and before the first
    /// reply.
    #[inline]
    pub(super) fn concerns_session(&self) -> bool {
        self.flags.load(Relaxed) & (TWO | WATCH) != 0
    }

    /// Returns whether each message concerns the session.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.flags.load(Relaxed) & WATCH != 0
    }

    /// Returns whether calls of the backward direction are allowed.
    pub(super) fn permits_backward(&self) -> bool {
        self.flags.load(Relaxed) & BACKWARD != 0
    }
}

/// Returns the flags that stand for `terms`.
fn flags(terms: &Terms, sizes: &Thresholds) -> u32 {
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    flag(matches!(terms.version, Version::Two), TWO)
        | flag(sizes.remote_invalidation, INVALIDATION)
        | flag(terms.watch, WATCH)
        | flag(terms.permits_backward(), BACKWARD)
}

/// Returns the version that flags stand for.
#[inline]
const fn version(flags: u32) -> Version {
    if flags & TWO != 0 {
        Version::Two
    } else {
        Version::One
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_live)]
mod tests {
    use super::*;
    use crate::proto::session::Side;
    use crate::wire::xchar::BackwardSupport;

    /// Returns terms of a requester in version two: their generation, and the longest call.
    fn terms(generation: u32, send: u32) -> Terms {
        Terms {
            side: Side::Client,
            version: Version::Two,
            settled: true,
            watch: false,
            generation,
            void_before: 0,
            send,
            receive: 8192,
            expected: 4096,
            may_invalidate: false,
            expect_invalidation: true,
            backward: BackwardSupport::General,
        }
    }

    #[test]
    fn version_one_is_in_force_before_the_handshake() {
        let live = Live::new();
        assert!(live.thresholds() == Thresholds::DEFAULT);
        assert!(live.version() == Version::One && !live.remote_invalidation());
        assert!(live.is_watched() && live.concerns_session());
    }

    #[test]
    fn first_terms_are_published() {
        let live = Live::new();
        assert!(live.publish(&terms(0, 16384)));
        let sizes = live.thresholds();
        assert_eq!(
            (sizes.client_to_server, sizes.server_to_client),
            (16384, 4096)
        );
        assert!(sizes.version == Version::Two && sizes.remote_invalidation);
        assert!(live.remote_invalidation() && live.permits_backward());
        assert_eq!(live.generation(), 0);
    }

    #[test]
    fn terms_change_with_their_generation_alone() {
        let live = Live::new();
        assert!(live.publish(&terms(6, 4096)));
        assert!(!live.publish(&terms(6, 2048)));
        assert_eq!(live.thresholds().client_to_server, 4096);
        assert!(live.publish(&terms(7, 2048)));
        assert_eq!(live.thresholds().client_to_server, 2048);
        assert_eq!(live.generation(), 7);
    }

    #[test]
    fn responder_sends_to_the_client() {
        let live = Live::new();
        live.publish(&Terms {
            side: Side::Server,
            may_invalidate: true,
            expect_invalidation: false,
            ..terms(1, 4096)
        });
        let sizes = live.thresholds();
        assert_eq!(
            (sizes.client_to_server, sizes.server_to_client),
            (8192, 4096)
        );
        assert!(live.remote_invalidation());
    }

    #[test]
    fn messages_concern_the_session_in_version_two_or_while_watched() {
        for (version, watch) in [
            (Version::One, false),
            (Version::One, true),
            (Version::Two, false),
        ] {
            let live = Live::new();
            live.publish(&Terms {
                version,
                watch,
                backward: BackwardSupport::None,
                ..terms(1, 4096)
            });
            assert_eq!(live.is_watched(), watch);
            assert_eq!(live.concerns_session(), watch || version == Version::Two);
            assert!(!live.permits_backward());
        }
    }
}
