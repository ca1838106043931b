// SPDX-License-Identifier: GPL-2.0

//! Events in the life of a connection.

use kernel::fmt;
use kernel::prelude::*;

use super::text::Text;
use super::{Peer, SockAddrBytes};
use crate::proto::conn::{Event, State};
use crate::proto::inline::Thresholds;
use crate::wire::cm_private::Settings;

events! {
    /// The connect worker is done: `rc` is what waiting tasks get. `status` is 1 when connected,
    /// otherwise the errno with which the attempt ended.
    fn connect(peer: Peer, rc: i32, status: i32) => xprtrdma_connect {
        addr: peer.addr,
        port: peer.port,
        rc: rc,
        connect_status: status,
    }

    /// A connection is being torn down. `status` as in [`connect`], before the teardown.
    fn disconnect(peer: Peer, rc: i32, status: i32) => xprtrdma_disconnect {
        addr: peer.addr,
        port: peer.port,
        rc: rc,
        connect_status: status,
    }

    /// A connection was established with these thresholds; `send` and `recv` are what remains of
    /// them for the RPC message after the longest header. Addresses are kernel socket addresses.
    fn inline_thresh(agreed: &'a Thresholds, send: u32, recv: u32, src: &'a [u8], dst: &'a [u8])
        => xprtrdma_inline_thresh {
        inline_send: agreed.client_to_server,
        inline_recv: agreed.server_to_client,
        max_send: send,
        max_recv: recv,
        src: SockAddrBytes::new(src),
        dst: SockAddrBytes::new(dst),
    }

    /// What the peer's CM Private Data announced; `None` when it had none that we understand.
    fn private_data(peer: Peer, settings: Option<&'a Settings>) => xprtrdma_private_data {
        addr: peer.addr,
        port: peer.port,
        found: settings.is_some(),
        reminv: settings.unwrap_or(&Settings::DEFAULT).remote_invalidation,
        send: settings.unwrap_or(&Settings::DEFAULT).send.bytes(),
        recv: settings.unwrap_or(&Settings::DEFAULT).receive.bytes(),
    }

    /// The peer has been silent while it owed so many replies, and is asked for a sign of life.
    fn probe(peer: Peer, owed: usize) => xprtrdma_probe {
        addr: peer.addr,
        port: peer.port,
        owed: super::count(owed),
    }

    /// The connection went from one state to another.
    fn conn_state(peer: Peer, event: Event, from: State, to: State) => xprtrdma_conn_state {
        addr: peer.addr,
        port: peer.port,
        event: event_name(event),
        from: state_name(from),
        to: state_name(to),
    }

    /// The device of a connection to `dst` is going away.
    fn device_removal(device: &'a dyn fmt::Display, dst: &'a [u8]) => xprtrdma_device_removal {
        name: Text::new(&fmt!("{}", device)),
        dst: SockAddrBytes::new(dst),
    }

    /// SUNRPC asked for a disconnect, to test recovery.
    fn op_inject_dsc(peer: Peer) => xprtrdma_op_inject_dsc {
        addr: peer.addr,
        port: peer.port,
    }

    /// SUNRPC asked for a connection; the worker will start after `delay` jiffies.
    fn op_connect(peer: Peer, delay: usize) => xprtrdma_op_connect {
        addr: peer.addr,
        port: peer.port,
        delay: delay,
    }

    /// SUNRPC set the time-outs for connecting, in jiffies.
    fn op_set_cto(peer: Peer, connect: usize, reconnect: usize) => xprtrdma_op_set_cto {
        addr: peer.addr,
        port: peer.port,
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
        State::Dead => c"dead",
    }
}

fn event_name(event: Event) -> &'static CStr {
    match event {
        Event::Start => c"start",
        Event::AddrResolved => c"address resolved",
        Event::AddrError => c"address error",
        Event::RouteResolved => c"route resolved",
        Event::RouteError => c"route error",
        Event::Established => c"established",
        Event::ConnectError => c"connect error",
        Event::Unreachable => c"unreachable",
        Event::Rejected => c"rejected",
        Event::RejectedStale => c"rejected, stale",
        Event::Timeout => c"timeout",
        Event::Disconnected => c"disconnected",
        Event::DeviceRemoval => c"device removal",
        Event::AddrChange => c"address change",
        Event::Close => c"close",
        Event::Drained => c"drained",
    }
}
