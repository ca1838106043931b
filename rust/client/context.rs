// SPDX-License-Identifier: GPL-2.0

//! What all transports of the module share.

use kernel::sync::Arc;

use crate::conn::peers::PeerTable;
use crate::conn::registry::Registry;
use crate::rdma::device::Registration;

/// What all transports of the module share.
#[derive(Clone)]
pub(crate) struct Context {
    /// Reports when a device goes away.
    pub(crate) devices: Arc<Registration>,
    /// What is known of servers from earlier connections.
    pub(crate) peers: Arc<PeerTable>,
    /// The connections, as debugfs shows them.
    pub(crate) connections: Arc<Registry>,
}
