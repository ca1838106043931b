// SPDX-License-Identifier: GPL-2.0

//! What a connection has agreed on by the Connection Configuration Protocol of RFC 5666.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::proto::inline::Thresholds;
use crate::proto::legacy::service::{self, Reads};
use crate::wire::Version;
use crate::work::Once;

/// What a connection has agreed on with this protocol.
pub(super) struct Configured {
    /// The length of this side's Receives in bytes, and of the longest message that it sends.
    inline: Atomic<u32>,
    /// The RDMA Reads that this side may have outstanding.
    reads: Atomic<u32>,
    /// The longest inline reply in bytes that the client accepts; zero before it has said so.
    max_reply: Atomic<u32>,
    /// The RDMA Reads that the client can have active, or `u32::MAX` if these are enough.
    theirs: Atomic<u32>,
}

impl Configured {
    /// Makes the state of a connection over which nothing was asked.
    pub(super) const fn new() -> Self {
        Self {
            inline: Atomic::new(0),
            reads: Atomic::new(0),
            max_reply: Atomic::new(0),
            theirs: Atomic::new(u32::MAX),
        }
    }

    /// Sets the length of this side's Receives, and how many RDMA Reads it may have outstanding.
    pub(super) fn set(&self, inline: u32, reads: u8) {
        self.inline.store(inline, Relaxed);
        self.reads.store(reads.into(), Relaxed);
    }

    /// Returns the length of this side's Receives in bytes.
    pub(super) fn inline(&self) -> u32 {
        self.inline.load(Relaxed)
    }

    /// Returns the RDMA Reads that this side may have outstanding.
    pub(super) fn reads(&self) -> u32 {
        self.reads.load(Relaxed)
    }

    /// Sets the longest inline reply in bytes that the client accepts.
    pub(super) fn set_max_reply(&self, max: u32) {
        self.max_reply.store(max, Relaxed);
    }

    /// Sets the RDMA Reads that the client can have active.
    pub(super) fn set_theirs(&self, reads: u32) {
        let enough = service::reads(reads, self.reads()) == Reads::Free;
        self.theirs
            .store(if enough { u32::MAX } else { reads }, Relaxed);
    }

    /// Returns whether the connection alone bounds the RDMA Reads that this side issues.
    pub(super) fn is_free(&self) -> bool {
        self.theirs.load(Relaxed) == u32::MAX
    }

    /// Returns the RDMA Reads that this side may issue.
    #[cold]
    pub(super) fn allowed(&self) -> Reads {
        service::reads(self.theirs.load(Relaxed), self.reads())
    }

    /// Applies what the client has said to the terms of the connection. It has precedence over
    /// private data, which is what the client said before. Version two has other ways to say it.
    #[inline]
    pub(super) fn apply(&self, terms: Thresholds) -> Thresholds {
        match (self.max_reply.read_once(), terms.version) {
            (0, _) | (_, Version::Two) => terms,
            (server_to_client, Version::One) => Thresholds {
                server_to_client,
                ..terms
            },
        }
    }
}
