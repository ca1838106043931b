// SPDX-License-Identifier: GPL-2.0

//! Events of connections and their devices, and breaches of the protocol by a requester.

use kernel::fmt;
use kernel::prelude::*;

use crate::observe::trace::{Peer, SockAddrBytes, StackString};

events! {
    /// Traces an asynchronous event (`enum ib_event_type`) of a connection's queue pair. `peer` is
    /// an address in the form of `struct sockaddr`.
    fn qp_error(event: u32, device: &'a dyn fmt::Display, peer: &'a [u8]) => svcrdma_qp_error {
        event: event,
        device: StackString::new(&fmt!("{}", device)),
        peer: SockAddrBytes::new(peer),
    }

    /// Traces that the device of a connection to `peer` is being removed.
    fn device_removal(device: &'a dyn fmt::Display, peer: &'a [u8]) => svcrdma_device_removal {
        name: StackString::new(&fmt!("{}", device)),
        peer: SockAddrBytes::new(peer),
    }
}

events! {
    class(peer: Peer, status: i32) {
        addr: peer.endpoint(),
        status: status as isize,
    }

    /// Traces that no protection domain could be allocated for a connection. `status` is a
    /// negative errno, as in the next three events.
    fn pd_err => svcrdma_pd_err;

    /// Traces that no queue pair could be created for a connection.
    fn qp_err => svcrdma_qp_err;

    /// Traces that a connection is refused, because its requester or its device allows no RDMA
    /// Reads.
    fn initdepth_err => svcrdma_initdepth_err;

    /// Traces that a connection could not be accepted.
    fn accept_err => svcrdma_accept_err;
}

events! {
    /// Traces a breach of the protocol by a requester. `name` is that of its counter, `what` has
    /// the details. `xid` is zero if the breach belongs to no message.
    fn breach(peer: Peer, xid: u32, name: &'static str, what: &'a dyn core::fmt::Display)
        => svcrdma_breach {
        addr: peer.endpoint(),
        xid: xid,
        name: StackString::new(&name),
        what: StackString::new(&what),
    }
}
