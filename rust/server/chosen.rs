// SPDX-License-Identifier: GPL-2.0

//! What the administrator and the service have chosen for a new connection.

use super::config::{self, MAX_BC_REQUESTS, MAX_REQUESTS, MAX_REQ_SIZE};
use crate::rdma::device::Limits;
use crate::wire::cm_private::{Settings, Size, Versions};
use crate::wire::Version;

/// The choices for one connection, read when it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// The largest payload in bytes.
    pub(super) max_payload: u32,
    /// The most credits of the requester.
    pub(super) credits: u32,
    /// The longest inline message in bytes, transport header included.
    pub(super) inline: u32,
    /// The most calls of ours that may be under way.
    pub(super) backward: u32,
    /// The lowest and the highest version of RPC-over-RDMA that is served.
    pub(super) versions: (Version, Version),
}

impl Chosen {
    /// Reads the choices for a connection of a service with this largest payload.
    pub(super) fn now(max_payload: u32) -> Self {
        Self {
            max_payload,
            credits: MAX_REQUESTS.get(),
            inline: MAX_REQ_SIZE.get(),
            backward: MAX_BC_REQUESTS,
            versions: config::versions(),
        }
    }

    /// Returns what we announce in the private data (RFC 8797 section 4) over a device: a device
    /// without memory management extensions cannot send a Send With Invalidate.
    pub(super) fn announce(&self, device: &Limits) -> Settings {
        Settings {
            remote_invalidation: device.mem_mgt_extensions,
            send: Size::from_bytes(self.inline),
            receive: Size::from_bytes(self.inline),
            versions: match self.versions {
                (_, Version::Two) => Some(Versions::ALL),
                (_, Version::One) => None,
            },
        }
    }
}
