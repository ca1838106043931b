// SPDX-License-Identifier: GPL-2.0

//! Attaching to a server transport: the operation of a transport that does not connect.

use kernel::prelude::*;

use super::super::super::svc::xprt::{Connected, SvcXprt};
use super::super::handle::Xprt;
use super::super::support::Attached;
use super::Transport;

/// Use of the connection over which a client calls a service, for the service's calls to that
/// client. There is one such transport for each connection at most.
///
/// The transport counts as connected from its creation until it is closed, and is not used any more
/// after that. SUNRPC calls [`Transport::close`] when the connection ends. The send lock is *not*
/// held then, and [`Rpc::send`](super::Rpc::send) may run at the same time. A close for another
/// reason must end the connection, too: the service would keep using this transport for it.
///
/// The class has no netids, so that no mount can use it.
pub(crate) trait Attach: Transport<Reconnect = Attached> {
    /// Attaches the new transport to the connection `server`, which must not be used after this has
    /// returned: what calls and their replies need is counted by itself. A handle of `xprt` that is
    /// given to the connection is to be dropped by [`Transport::close`]. Called once; may sleep.
    ///
    /// # Errors
    ///
    /// Any; no handle is left then.
    fn attach(&self, xprt: &Xprt<Self>, server: &SvcXprt<Connected>) -> Result;
}
