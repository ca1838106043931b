// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection.

use crate::proto::inline::Thresholds;
use crate::wire::cm_private::Settings;
use crate::wire::Version;

/// What both peers of a connection keep to. The handshake sets the terms once; no message of
/// version one changes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The longest message in each direction.
    pub(crate) thresholds: Thresholds,
    /// Whether the peer may invalidate our R_keys.
    pub(crate) remote_invalidation: bool,
}

impl Terms {
    /// Returns the terms of a requester that has announced `local` and has found `peer` in the
    /// responder's private data, if it had any.
    ///
    /// RFC 8797 section 4.1 lets a responder invalidate only if both peers have set the R bit, but
    /// Linux's server invalidates without having set it. So the bit that we have announced counts.
    pub(super) fn of_requester(local: &Settings, peer: Option<Settings>) -> Self {
        Self {
            thresholds: Thresholds::for_client(local, peer),
            remote_invalidation: local.remote_invalidation,
        }
    }

    /// Returns the version that the connection speaks.
    #[inline]
    pub(crate) const fn version(&self) -> Version {
        self.thresholds.version
    }
}
