// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection, for readers that hold no lock.
//!
//! In version one the handshake sets the terms once. In version two, messages of the peer change
//! them. A message that was prepared under other terms may be too long for the peer, or have
//! another version.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::proto::inline::Thresholds;
use crate::proto::requester::plan::CallOptions;
use crate::proto::session::Terms;
use crate::wire::Version;
use crate::work::read_once;

/// The bits of a size in the word, far more than the largest size needs.
const SIZE: u32 = 24;
/// The mask of a size.
const SIZE_MAX: u64 = (1 << SIZE) - 1;
/// The connection speaks version two. This bit and the next ones are behind the two sizes.
const TWO: u64 = 1 << (2 * SIZE);
/// The responder may invalidate the requester's R_keys.
const INVALIDATION: u64 = TWO << 1;
/// See [`Terms::watch`].
const WATCH: u64 = TWO << 2;
/// See [`Terms::permits_backward`].
const BACKWARD: u64 = TWO << 3;
/// See [`Capabilities::NO_READ_CHUNKS`].
const NO_READ_CHUNKS: u64 = TWO << 4;
/// See [`Capabilities::DONES`].
const DONES: u64 = TWO << 5;
/// The first bit of the logarithm of [`CallOptions::align`]; zero means that there is none.
const ALIGN: u32 = 2 * SIZE + 6;
/// The mask of that logarithm.
const ALIGN_MAX: u64 = 31;

/// Properties of a connection that are known before its session begins, and do not change.
#[cfg(RPCRDMA_LEGACY)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

#[cfg(RPCRDMA_LEGACY)]
impl Capabilities {
    /// Calls have no read chunks.
    pub(crate) const NO_READ_CHUNKS: Self = Self(NO_READ_CHUNKS);
    /// Replies may have read chunks. Each such reply is followed by an RDMA_DONE, a message that
    /// takes a credit and gets no reply.
    pub(crate) const DONES: Self = Self(DONES);

    /// The payload of an inline call begins at a multiple of `bytes`, a power of two. One byte
    /// means that there is no alignment.
    pub(crate) const fn aligned(bytes: u32) -> Self {
        // CAST: widening; `From` is not const.
        Self((bytes.trailing_zeros() as u64 & ALIGN_MAX) << ALIGN)
    }
}

/// The terms of a connection, in one word that is read at once.
pub(super) struct TermsWord {
    terms: Atomic<u64>,
    /// The [`Capabilities`]. They are complete before the session begins.
    capabilities: Atomic<u64>,
}

/// The terms at the time of a read: the longest message from client to server, the longest one from
/// server to client, the flags of the session's [`Terms`], and the [`Capabilities`].
///
/// A message that was prepared for equal terms is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermsSnapshot(u64);

impl TermsWord {
    /// Makes the terms of a connection before its handshake: version one, without invalidation.
    pub(super) const fn new() -> Self {
        Self {
            terms: Atomic::new(word(&Thresholds::DEFAULT) | WATCH),
            capabilities: Atomic::new(0),
        }
    }

    /// Publishes the terms of a session. Returns whether they have changed. The caller holds the
    /// lock of the session.
    pub(super) fn publish(&self, terms: &Terms) -> bool {
        let new = word(&terms.thresholds())
            | flag(terms.watch, WATCH)
            | flag(terms.permits_backward(), BACKWARD)
            | self.capabilities.load(Relaxed);
        let changed = new != self.terms.load(Relaxed);
        if changed {
            self.terms.store(new, Relaxed);
        }
        changed
    }

    /// Returns the effective terms.
    pub(super) fn read(&self) -> TermsSnapshot {
        TermsSnapshot(read_once(&self.terms))
    }

    /// Adds capabilities. Only one context calls this, before the session begins.
    #[cfg(RPCRDMA_LEGACY)]
    pub(super) fn add(&self, more: Capabilities) {
        let all = self.capabilities.load(Relaxed) | more.0;
        self.capabilities.store(all, Relaxed);
    }
}

impl TermsSnapshot {
    /// Terms that no connection has.
    pub(crate) const NEVER: Self = Self(0);

    /// Returns the thresholds.
    pub(crate) const fn thresholds(self) -> Thresholds {
        Thresholds {
            // CAST: a size has 24 bits.
            client_to_server: (self.0 & SIZE_MAX) as u32,
            server_to_client: (self.0 >> SIZE & SIZE_MAX) as u32,
            remote_invalidation: self.remote_invalidation(),
            version: self.version(),
        }
    }

    /// Returns the version that the connection speaks.
    pub(crate) const fn version(self) -> Version {
        match self.0 & TWO {
            0 => Version::One,
            _ => Version::Two,
        }
    }

    /// Returns whether the responder may invalidate the requester's R_keys.
    pub(crate) const fn remote_invalidation(self) -> bool {
        self.0 & INVALIDATION != 0
    }

    /// Returns whether messages may be for the session (in version two and before the first reply),
    /// or may be replies with read chunks.
    pub(crate) const fn concerns_session(self) -> bool {
        self.0 & (TWO | WATCH | DONES) != 0
    }

    /// Returns the version of ordinary messages: RPC messages, and errors about them. `None` while
    /// any message may be for the session, or be a reply with read chunks.
    pub(crate) const fn plain_version(self) -> Option<Version> {
        // Version one is tested first: one comparison suffices.
        if !self.concerns_session() {
            Some(Version::One)
        } else if self.0 & (WATCH | DONES) == 0 {
            Some(Version::Two)
        } else {
            None
        }
    }

    /// Returns whether replies may have read chunks ([`Capabilities::DONES`]).
    pub(crate) const fn has_dones(self) -> bool {
        self.0 & DONES != 0
    }

    /// Returns the other limits of calls.
    pub(crate) const fn options(self) -> CallOptions {
        CallOptions {
            read_chunks: self.0 & NO_READ_CHUNKS == 0,
            align: match self.0 >> ALIGN & ALIGN_MAX {
                0 => 0,
                log => 1 << log,
            },
        }
    }

    /// Returns whether each message is for the session.
    pub(crate) const fn is_watched(self) -> bool {
        self.0 & WATCH != 0
    }

    /// Returns whether calls of the backward direction are permitted.
    pub(crate) const fn permits_backward(self) -> bool {
        self.0 & BACKWARD != 0
    }
}

/// Returns the thresholds as encoded in the word.
const fn word(sizes: &Thresholds) -> u64 {
    size(sizes.client_to_server)
        | size(sizes.server_to_client) << SIZE
        | flag(matches!(sizes.version, Version::Two), TWO)
        | flag(sizes.remote_invalidation, INVALIDATION)
}

/// Returns a size as encoded in the word.
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

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_conn_terms)]
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
        let word = TermsWord::new();
        assert!(word.read().thresholds() == Thresholds::DEFAULT);
        assert!(word.read().version() == Version::One && !word.read().remote_invalidation());
        assert!(word.read().is_watched() && word.read().concerns_session());
    }

    #[test]
    fn first_terms_are_published() {
        let word = TermsWord::new();
        assert!(word.publish(&terms(0, 16384)));
        let sizes = word.read().thresholds();
        assert_eq!(
            (sizes.client_to_server, sizes.server_to_client),
            (16384, 4096)
        );
        assert!(sizes.version == Version::Two && sizes.remote_invalidation);
        assert!(word.read().remote_invalidation() && word.read().permits_backward());
    }

    #[test]
    fn only_a_change_is_one() {
        let word = TermsWord::new();
        assert!(word.publish(&terms(6, 4096)));
        let before = word.read();
        assert!(!word.publish(&terms(7, 4096)) && word.read() == before);
        assert!(word.publish(&terms(8, 2048)) && word.read() != before);
        assert_eq!(word.read().thresholds().client_to_server, 2048);
        assert!(before != TermsSnapshot::NEVER && word.read() != TermsSnapshot::NEVER);
    }

    #[test]
    fn responder_sends_to_the_client() {
        let word = TermsWord::new();
        word.publish(&Terms {
            side: Side::Server,
            may_invalidate: true,
            expect_invalidation: false,
            ..terms(1, 4096)
        });
        let sizes = word.read().thresholds();
        assert_eq!(
            (sizes.client_to_server, sizes.server_to_client),
            (8192, 4096)
        );
        assert!(word.read().remote_invalidation());
    }

    #[cfg(RPCRDMA_LEGACY)]
    #[test]
    fn capabilities_are_a_part_of_all_terms() {
        let word = TermsWord::new();
        assert!(word.read().options() == CallOptions::DEFAULT && !word.read().has_dones());
        word.add(Capabilities::NO_READ_CHUNKS);
        word.add(Capabilities::aligned(512));
        let options = CallOptions {
            read_chunks: false,
            align: 512,
        };
        for (generation, send) in [(0, 4096), (1, 2048)] {
            assert!(word.publish(&terms(generation, send)));
            assert!(word.read().options() == options && !word.read().has_dones());
            assert!(word.read().plain_version() == Some(Version::Two));
        }
        word.add(Capabilities::DONES);
        assert!(word.publish(&terms(1, 2048)) && word.read().has_dones());
        assert!(word.read().plain_version().is_none() && word.read().options() == options);
    }

    #[test]
    fn messages_concern_the_session_in_version_two_or_while_watched() {
        for (version, watch) in [
            (Version::One, false),
            (Version::One, true),
            (Version::Two, false),
        ] {
            let word = TermsWord::new();
            word.publish(&Terms {
                version,
                watch,
                backward: BackwardSupport::None,
                ..terms(1, 4096)
            });
            assert_eq!(word.read().is_watched(), watch);
            assert_eq!(
                word.read().concerns_session(),
                watch || version == Version::Two
            );
            let plain = word.read().plain_version();
            assert_eq!(plain, (!watch).then_some(version));
            assert!(!word.read().permits_backward());
        }
    }
}
