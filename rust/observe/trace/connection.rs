// SPDX-License-Identifier: GPL-2.0

//! Events of connections, and of the calls that a server makes over them.

use kernel::fmt;
use kernel::prelude::*;

use super::{count, Peer, SockAddrBytes, StackString};
use crate::proto::backward::Refusal;
use crate::proto::conn::{Event, State};
use crate::proto::inline::Thresholds;
use crate::wire::cm_private::Settings;

events! {
    /// Traces the end of a connection attempt. `rc` is the result for waiting tasks. `status` is 1
    /// if connected, and otherwise the errno of the attempt.
    fn connect(peer: Peer, rc: i32, status: i32) => xprtrdma_connect {
        peer(peer),
        rc: rc,
        connect_status: status,
    }

    /// Traces that a connection is being torn down. `status` is 1 if it was connected, and
    /// otherwise the errno of the attempt.
    fn disconnect(peer: Peer, rc: i32, status: i32) => xprtrdma_disconnect {
        peer(peer),
        rc: rc,
        connect_status: status,
    }

    /// Traces the inline thresholds of a new connection. `send` and `recv` are the bytes that
    /// remain for the RPC message behind the longest header. Addresses are in the form of `struct
    /// sockaddr`.
    fn inline_thresh(agreed: &'a Thresholds, send: u32, recv: u32, src: &'a [u8], dst: &'a [u8])
        => xprtrdma_inline_thresh {
        inline_send: agreed.client_to_server,
        inline_recv: agreed.server_to_client,
        max_send: send,
        max_recv: recv,
        src: SockAddrBytes::new(src),
        dst: SockAddrBytes::new(dst),
    }

    /// Traces the settings in the peer's CM private data, or `None` if there were no valid ones.
    fn private_data(peer: Peer, settings: Option<&'a Settings>) => xprtrdma_private_data {
        peer(peer),
        found: settings.is_some(),
        reminv: settings.unwrap_or(&Settings::DEFAULT).remote_invalidation,
        send: settings.unwrap_or(&Settings::DEFAULT).send.bytes(),
        recv: settings.unwrap_or(&Settings::DEFAULT).receive.bytes(),
    }

    /// Traces that a probe is posted, because the peer sent nothing while `owed` replies were
    /// outstanding.
    fn probe(peer: Peer, owed: usize) => xprtrdma_probe {
        peer(peer),
        owed: count(owed),
    }

    /// Traces that an event changed the state of a connection.
    fn conn_state(peer: Peer, event: Event, from: State, to: State) => xprtrdma_conn_state {
        peer(peer),
        event: event_name(event),
        from: state_name(from),
        to: state_name(to),
    }

    /// Traces that the device of a connection to `dst` is being removed.
    fn device_removal(device: &'a dyn fmt::Display, dst: &'a [u8]) => xprtrdma_device_removal {
        name: StackString::new(&fmt!("{}", device)),
        dst: SockAddrBytes::new(dst),
    }

    /// Traces that SUNRPC requested a disconnect as a test of recovery.
    fn op_inject_dsc(peer: Peer) => xprtrdma_op_inject_dsc {
        peer(peer),
    }

    /// Traces that SUNRPC requested a connection. The worker starts after `delay` jiffies.
    fn op_connect(peer: Peer, delay: usize) => xprtrdma_op_connect {
        peer(peer),
        delay: delay,
    }

    /// Traces that SUNRPC set the timeouts of connecting, in jiffies.
    fn op_set_cto(peer: Peer, connect: usize, reconnect: usize) => xprtrdma_op_set_cto {
        peer(peer),
        connect: connect,
        reconnect: reconnect,
    }
}

fn state_name(state: State) -> &'static CStr {
    match state {
        State::Idle => c"idle",
        State::Resolving => c"resolving",
        State::Routing => c"routing",
        State::Connecting => c"connecting",
        State::Up => c"up",
        State::Draining => c"draining",
    }
}

fn event_name(event: Event) -> &'static CStr {
    match event {
        Event::Start => c"start",
        Event::AddrResolved => c"address resolved",
        Event::AddrError => c"address error",
        Event::RouteResolved => c"route resolved",
        Event::RouteError => c"route error",
        Event::Request => c"request",
        Event::Established => c"established",
        Event::Message => c"message",
        Event::ConnectError => c"connect error",
        Event::Unreachable => c"unreachable",
        Event::Rejected => c"rejected",
        Event::RejectedStale => c"rejected, stale",
        Event::Timeout => c"timeout",
        Event::Disconnected => c"disconnected",
        Event::DeviceRemoval => c"device removal",
        Event::AddrChange => c"address change",
        Event::Close => c"close",
    }
}

events! {
    /// Traces that SUNRPC requested a backchannel, for `reqs` calls at a time.
    fn cb_setup(peer: Peer, reqs: u32) => xprtrdma_cb_setup {
        peer(peer),
        reqs: reqs,
    }

    /// Traces that a call of the server arrived.
    fn cb_call(peer: Peer, xid: u32) => xprtrdma_cb_call {
        peer(peer),
        xid: xid,
    }

    /// Traces that the reply to a call of the server was posted.
    fn cb_reply(peer: Peer, xid: u32) => xprtrdma_cb_reply {
        peer(peer),
        xid: xid,
    }

    /// Traces that a call of the server was dropped.
    fn cb_refused(peer: Peer, xid: u32, refusal: Refusal) => xprtrdma_cb_refused {
        peer(peer),
        xid: xid,
        reason: refusal_name(refusal),
    }
}

fn refusal_name(refusal: Refusal) -> &'static CStr {
    match refusal {
        Refusal::Form => c"not a call in RDMA_MSG",
        Refusal::Chunks => c"chunks",
        Refusal::Xid => c"two XIDs",
        Refusal::TooLong => c"too long",
        Refusal::Overflow => c"more calls than granted",
        Refusal::NotServed => c"nobody serves it",
    }
}
