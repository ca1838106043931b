// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection, which the path of ordinary messages reads.

use super::super::super::wire::v2::FIRST_MESSAGE_MAX;
use super::super::super::wire::xchar::BackwardSupport;
use super::super::super::wire::Version;
use super::super::inline::Thresholds;
use super::{Output, Session, Side, Stage};

/// The effective terms. They change with [`Terms::generation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The side of this end.
    pub side: Side,
    /// The version of the messages that are sent.
    pub version: Version,
    /// The version is settled.
    pub settled: bool,
    /// Calls and replies must be reported to the session: [`Session::on_message`],
    /// [`Session::on_sent`], [`Session::on_replied`].
    pub watch: bool,
    /// The number of changes so far. It wraps around.
    pub generation: u32,
    /// Messages that were prepared under an earlier generation than this have to be prepared again.
    pub void_before: u32,
    /// The maximum number of bytes of a message that may be sent, header included: the lesser of
    /// the peer's receive size and our own send size.
    pub send: u32,
    /// The least size of a Receive that may be posted. The peer may send messages of this size.
    pub receive: u32,
    /// The longest inline reply on which a requester may rely. It offers a reply chunk for longer
    /// replies.
    pub expected: u32,
    /// A reply to the peer may be sent by Send With Invalidate, if its call had chunks.
    pub may_invalidate: bool,
    /// The peer may invalidate our R_keys with its replies.
    pub expect_invalidation: bool,
    /// The backward-direction messages that may be sent to the peer.
    pub backward: BackwardSupport,
}

impl Terms {
    /// The terms before the version is settled.
    //= V2-5-2 first message at most 1024 bytes
    pub(super) const START: Self = Self {
        side: Side::Client,
        version: Version::One,
        settled: false,
        watch: true,
        generation: 0,
        void_before: 0,
        send: FIRST_MESSAGE_MAX,
        receive: FIRST_MESSAGE_MAX,
        expected: FIRST_MESSAGE_MAX,
        may_invalidate: false,
        expect_invalidation: false,
        backward: BackwardSupport::SizeLimited,
    };

    /// Returns whether a message that was prepared under `generation` has to be prepared again.
    pub const fn voids(&self, generation: u32) -> bool {
        // The distance of two generations is less than half of their range.
        generation.wrapping_sub(self.void_before) > u32::MAX / 2
    }

    /// Returns the thresholds for planning calls and replies.
    //= XC-3.1-6 size decides when chunks are needed
    pub const fn thresholds(&self) -> Thresholds {
        let (client_to_server, server_to_client) = match self.side {
            Side::Client => (self.send, self.expected),
            Side::Server => (self.receive, self.send),
        };
        Thresholds {
            client_to_server,
            server_to_client,
            remote_invalidation: match self.side {
                Side::Client => self.expect_invalidation,
                Side::Server => self.may_invalidate,
            },
            version: self.version,
        }
    }

    /// Returns whether calls of the backward direction may be sent to the peer, or the peer may
    /// expect replies of the backward direction.
    //= XC-3.3-3 NONE permits no backward messages
    pub const fn permits_backward(&self) -> bool {
        matches!(
            self.backward,
            BackwardSupport::SizeLimited | BackwardSupport::General
        )
    }

    /// Returns whether a message for these terms may break `new` ones.
    fn is_void_under(&self, new: &Self) -> bool {
        self.send > new.send
            || self.version != new.version
            || self.may_invalidate && !new.may_invalidate
    }
}

impl Session {
    /// Computes the terms again after an input. Messages that were prepared for a larger limit, or
    /// another version, are void.
    //= V2-5.2-4 thresholds change without connection being lost
    pub(super) fn refresh(&mut self) {
        let old = self.terms;
        // The new terms have the old generation so far.
        let new = self.compute(old.generation, old.void_before);
        if self.lost || new == old {
            return;
        }
        let generation = old.generation.wrapping_add(1);
        // Messages may have been prepared: a server replies in a settled version.
        let prepared = old.settled || old.side == Side::Client;
        let void = prepared && old.is_void_under(&new);
        self.terms = Terms {
            generation,
            void_before: if void { generation } else { old.void_before },
            ..new
        };
        self.news.void |= void;
    }

    /// Returns the output about void messages, if there are any.
    pub(super) fn take_void(&mut self) -> Option<Output> {
        let void = core::mem::take(&mut self.news.void);
        void.then_some(Output::Void {
            before: self.terms.void_before,
        })
    }

    pub(super) fn compute(&self, generation: u32, void_before: u32) -> Terms {
        let base = Terms {
            side: self.config.side,
            settled: self.settled().is_some(),
            watch: self.must_watch(),
            generation,
            void_before,
            ..Terms::START
        };
        match (self.version(), base.settled) {
            (Version::Two, true) => self.version_two(base),
            (Version::Two, false) => Terms {
                version: Version::Two,
                expected: self.expected_first(),
                ..base
            },
            (Version::One, _) => self.version_one(base),
        }
    }

    /// Returns the lesser of the peer's receive size and our own send size, but at least the size
    /// that every peer can receive.
    fn send_limit(&self) -> u32 {
        let own = self.config.send.max(FIRST_MESSAGE_MAX);
        self.peer.send_limit().min(own)
    }

    /// Returns the version in which messages are sent.
    fn version(&self) -> Version {
        match &self.stage {
            Stage::Client(negotiation) => negotiation.version(),
            Stage::Waiting => Version::One,
            Stage::Pinned { version, .. } => *version,
        }
    }

    fn must_watch(&self) -> bool {
        match &self.stage {
            Stage::Client(negotiation) => negotiation.is_open(),
            Stage::Waiting => true,
            Stage::Pinned { version, replied } => *version == Version::Two && !*replied,
        }
    }

    /// Returns the terms of version one: those of the private data.
    //= V2-5.2-3 threshold is that of the version
    fn version_one(&self, base: Terms) -> Terms {
        let one = &self.config.one;
        let (send, receive) = match self.config.side {
            Side::Client => (one.client_to_server, one.server_to_client),
            Side::Server => (one.server_to_client, one.client_to_server),
        };
        Terms {
            version: Version::One,
            send,
            receive,
            expected: receive,
            may_invalidate: one.remote_invalidation && self.config.side == Side::Server,
            expect_invalidation: one.remote_invalidation && self.config.side == Side::Client,
            ..base
        }
    }

    /// Returns the longest reply to the first message on which a requester may rely: the length
    /// that both versions permit, if the peer's private data apply to both.
    fn expected_first(&self) -> u32 {
        match self.config.announced.sizes {
            Some(_) => self.config.one.server_to_client.min(self.expected()),
            None => FIRST_MESSAGE_MAX,
        }
    }

    /// Returns the terms of version two: those of the characteristics. Private data count only for
    /// sizes, and only if they say so.
    //= V2-5.1-2 default threshold of version two
    fn version_two(&self, base: Terms) -> Terms {
        let receive = self.receives.announced();
        Terms {
            version: Version::Two,
            //= V2-2.3-2 assume a threshold of 4096 bytes
            send: self.send_limit(),
            receive,
            expected: self.expected(),
            may_invalidate: self.peer.may_invalidate(),
            expect_invalidation: self.config.invalidation,
            backward: self.peer.backward_support(self.config.side == Side::Server),
            ..base
        }
    }
}
