// SPDX-License-Identifier: GPL-2.0

//! Inline thresholds: the longest message that one Send can carry, in each direction.
//!
//! RFC 8797 section 4.2: the lesser of the sender's send size and the receiver's receive size, as
//! the peers announced them in their private data. Settings may differ at every connection.

use super::super::wire::cm_private::Settings;
use super::super::wire::Version;

/// The terms that follow from the settings which the two peers of a connection have announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Longest message from client to server in bytes, transport header included.
    pub client_to_server: u32,
    /// Longest message from server to client in bytes, transport header included.
    pub server_to_client: u32,
    /// Both peers support remote invalidation (RFC 8797 section 4.1).
    pub remote_invalidation: bool,
    /// The version whose headers these messages have; those of version two are a word longer.
    pub version: Version,
}

impl Thresholds {
    /// The thresholds before or without private data: 1024 bytes each way.
    //= 8166-3.3.3-1 threshold is 1024 bytes each way
    pub const DEFAULT: Self = Self::agree(&Settings::DEFAULT, &Settings::DEFAULT);

    /// Returns the thresholds of a client that announced `local` and found `peer`, if anything, in
    /// the server's private data.
    //= 8797-1-1 without them the defaults hold
    //= 8797-4-1 settings may change at every reconnect
    pub fn for_client(local: &Settings, peer: Option<Settings>) -> Self {
        Self::agree(local, &peer.unwrap_or_default())
    }

    /// Returns the thresholds of a server that announced `local` and found `peer`, if anything, in
    /// the client's private data.
    pub fn for_server(local: &Settings, peer: Option<Settings>) -> Self {
        Self::agree(&peer.unwrap_or_default(), local)
    }

    //= 8797-4.2-2 lesser of client's send, server's receive
    //= 8797-4.2-3 lesser of server's send, client's receive
    const fn agree(client: &Settings, server: &Settings) -> Self {
        Self {
            client_to_server: min(client.send.bytes(), server.receive.bytes()),
            server_to_client: min(server.send.bytes(), client.receive.bytes()),
            remote_invalidation: client.remote_invalidation && server.remote_invalidation,
            version: Version::One,
        }
    }

    /// Returns the length in bytes of the longest RPC call that fits inline beside any header whose
    /// chunks have at most `max_segs` segments each: a read chunk, and a write chunk or a reply
    /// chunk. [`super::requester::plan`] computes the exact header instead and may fit more.
    pub fn max_inline_call(&self, max_segs: u32) -> u32 {
        // CAST: lossless where `usize` has 32 bits or more.
        let segs = max_segs as usize;
        subtract(
            self.client_to_server,
            self.version.header_len(segs, Some(segs), None),
        )
    }

    /// Returns the length in bytes of the longest RPC reply that fits inline beside a header that
    /// returns one write chunk of at most `max_segs` segments.
    pub fn max_inline_reply(&self, max_segs: u32) -> u32 {
        // CAST: lossless where `usize` has 32 bits or more.
        let segs = max_segs as usize;
        subtract(
            self.server_to_client,
            self.version.header_len(0, Some(segs), None),
        )
    }

    /// Returns the length in bytes of the longest backward-direction call. The server is its
    /// sender. It must fit inline without chunks (RFC 8167 section 4.1).
    //= 8167-4-1 no chunks and fit inline
    pub fn max_backward_call(&self) -> u32 {
        subtract(self.server_to_client, self.version.min_header())
    }

    /// Returns the length in bytes of the longest backward-direction reply. The client is its
    /// sender.
    pub fn max_backward_reply(&self) -> u32 {
        subtract(self.client_to_server, self.version.min_header())
    }
}

/// Returns `threshold - header`, or zero if the header is longer.
fn subtract(threshold: u32, header: usize) -> u32 {
    threshold.saturating_sub(u32::try_from(header).unwrap_or(u32::MAX))
}

const fn min(a: u32, b: u32) -> u32 {
    if a < b {
        a
    } else {
        b
    }
}
