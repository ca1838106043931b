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

/// The bits of a size in the word of [`Live`], far more than the largest size needs.
const SIZE: u32 = 24;
/// The mask of a size.
const SIZE_MAX: u64 = (1 << SIZE) - 1;
/// The connection speaks version two. This and the next bits are behind the two sizes.
const TWO: u64 = 1 << (2 * SIZE);
/// The responder may invalidate the requester's R_keys.
const INVALIDATION: u64 = TWO << 1;
/// See [`Terms::watch`].
const WATCH: u64 = TWO << 2;
/// See [`Terms::permits_backward`].
const BACKWARD: u64 = TWO << 3;

/// The terms of a connection, in one word, so that a call reads them at once.
pub(super) struct Live {
    /// The longest message from client to server, the longest one from server to client, [`TWO`],
    /// [`INVALIDATION`], [`WATCH`] and [`BACKWARD`].
    word: Atomic<u64>,
    generation: Atomic<u32>,
}

impl Live {
    /// Makes the terms of a connection before its handshake: version one, without invalidation.
    pub(super) const fn new() -> Self {
        Self {
            word: Atomic::new(word(&Thresholds::DEFAULT, WATCH)),
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
        self.word.store(word(&sizes, flags(terms)), Relaxed);
        // ORDERING: A context that reads this generation sees these terms.
        self.generation.store(terms.generation, Release);
        true
    }

    /// Returns the thresholds.
    #[inline]
    pub(super) fn thresholds(&self) -> Thresholds {
        let word = self.word.load(Relaxed);
        Thresholds {
            // CAST: a size has 24 bits.
            client_to_server: (word & SIZE_MAX) as u32,
            server_to_client: (word >> SIZE & SIZE_MAX) as u32,
            remote_invalidation: word & INVALIDATION != 0,
            version: version(word),
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
        version(self.word.load(Relaxed))
    }

    /// Returns whether the responder may invalidate the requester's R_keys.
    #[inline]
    pub(super) fn remote_invalidation(&self) -> bool {
        self.word.load(Relaxed) & INVALIDATION != 0
    }

    /// Returns whether messages may concern the session: in version two, and before the first
    /// reply.
    #[inline]
    pub(super) fn concerns_session(&self) -> bool {
        self.word.load(Relaxed) & (TWO | WATCH) != 0
    }

    /// Returns whether each message concerns the session.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.word.load(Relaxed) & WATCH != 0
    }

    /// Returns whether calls of the backward direction are allowed.
    pub(super) fn permits_backward(&self) -> bool {
        self.word.load(Relaxed) & BACKWARD != 0
    }
}

/// Returns the flags of terms that thresholds do not have.
fn flags(terms: &Terms) -> u64 {
    flag(terms.watch, WATCH) | flag(terms.permits_backward(), BACKWARD)
}

/// Returns the word that stands for thresholds and other flags.
const fn word(sizes: &Thresholds, flags: u64) -> u64 {
    size(sizes.client_to_server)
        | size(sizes.server_to_client) << SIZE
        | flag(matches!(sizes.version, Version::Two), TWO)
        | flag(sizes.remote_invalidation, INVALIDATION)
        | flags
}

/// Returns a size as the word has it.
const fn size(bytes: u32) -> u64 {
    // CAST: widening; `From` is not const.
    let bytes = bytes as u64;
    if bytes < SIZE_MAX {
        bytes
    } else {
        SIZE_MAX
    }
}

const fn flag(set: bool, flag: u64) -> u64 {
    if set {
        flag
    } else {
        0
    }
}

/// Returns the version that a word stands for.
#[inline]
const fn version(word: u64) -> Version {
    if word & TWO != 0 {
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
