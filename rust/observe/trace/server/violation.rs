// SPDX-License-Identifier: GPL-2.0

//! Breaches of the protocol by a requester.

use core::fmt::Display;

use crate::observe::trace::{Peer, Text};

events! {
    /// Traces a breach of the protocol by a requester. `name` is that of its counter, `what` has
    /// the details. `xid` is zero if the breach belongs to no message.
    fn breach(peer: Peer, xid: u32, name: &'static str, what: &'a dyn Display)
        => svcrdma_breach {
        addr: peer.endpoint(),
        xid: xid,
        name: Text::new(&name),
        what: Text::new(&what),
    }
}
