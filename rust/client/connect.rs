// SPDX-License-Identifier: GPL-2.0

//! Makes a connection.
//!
//! This runs in the connect worker, which holds SUNRPC's send lock, and may sleep. After a failure
//! the objects made so far are dropped, in the reverse order of their making.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{msecs_to_jiffies, Jiffies};
use kernel::types::ScopeGuard;

use super::advice::{self, Reason};
use super::config::{Config, MAX_SEGMENTS};
use super::endpoint::Endpoint;
use super::pools::Pools;
use super::requester::{Conn, Requester};
use super::sizing::Sizing;
use super::transport::Client;
use super::{fence, pulls, session, tags};
use crate::conn::connection::{self, Parts};
use crate::conn::lifecycle::Lifecycle;
use crate::conn::{handshake, removal, traced};
use crate::observe::trace;
use crate::proto::conn::{Event, Failure, State};
use crate::rdma::cm::CmId;
use crate::rdma::device::{Device, Lease};
use crate::rdma::pd::Pd;
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::transport::ConnectError;
use crate::sunrpc::xprt::{Xprt, XprtHandle};

/// The time in milliseconds by which the connection manager may be late with its event that
/// resolving took too long.
const GRACE_MS: u32 = 1000;

/// The states of a client's connection.
type ClientLifecycle = Lifecycle<XprtHandle<Client>>;
/// The connection manager's identifier of a client's connection.
type ClientCmId = CmId<ClientLifecycle>;

/// Makes connection number `epoch` to the transport's address. The caller makes it the current one.
///
/// # Errors
///
/// See [`ConnectError`].
pub(super) fn connect(
    client: &Client,
    xprt: &Xprt<Client>,
    epoch: u32,
) -> Result<Arc<Endpoint>, ConnectError> {
    let config = &client.config().refreshed();
    let owner = xprt.handle();
    let lifecycle = Lifecycle::new(xprt.handle());
    let lifecycle = Arc::pin_init(lifecycle, GFP_KERNEL).map_err(local(xprt, "memory"))?;
    let cm = CmId::new(xprt.net(), lifecycle.clone()).map_err(local(xprt, "identifier"))?;
    resolve_addr(&cm, &lifecycle, xprt, config)?;

    let device = cm.device().ok_or_else(|| why(Failure::Unreachable, xprt))?;
    let Sizing { mr_depth, queues } = fit(xprt, config, device)?;
    let limits = device.limits();
    let (reads, own_reads) = (limits.max_qp_rd_atom, config.own_reads(&limits));
    let lease = removal::lease(client.devices(), device, xprt.handle(), &lifecycle)
        .map_err(local(xprt, "device"))?;
    let cm = resolve_route(cm, &lease, &lifecycle, xprt, config)?;
    let pd =
        Pd::new(lease, Some(client.store().clone())).map_err(local(xprt, "protection domain"))?;
    let pools = Pools::new(&pd, mr_depth).map_err(local(xprt, "memory regions"))?;
    client.stats().mrs_allocated(pools.total());
    trace::createmrs(traced::peer(&owner), pools.total());
    let role = Requester::new(queues.credits);
    let shared = Conn::new(epoch, xprt.handle(), role).map_err(local(xprt, "memory"))?;
    // CAST: `usize` has at least 32 bits.
    let receive_size = config.receive_size() as usize;
    let tags = (tags::count(config.slots) + pulls::MOST, receive_size);
    let qp = connection::queue_pair(&cm, &pd, &queues, tags, shared.clone())
        .map_err(local(xprt, "queue pair"))?;
    // Made before the first buffer: a failure may leave some request slots without one. A removal
    // of the device that comes late must not close the next connection.
    let undo = ScopeGuard::new(|| {
        lifecycle.on(Event::Close);
        fence::sweep(xprt, epoch);
    });
    allocate_send_buffers(xprt, &pd, config, epoch).map_err(local(xprt, "send buffers"))?;
    connection::post_receives(&owner, &qp, &queues).map_err(local(xprt, "receive buffers"))?;
    shake_hands(&cm, &lifecycle, xprt, config, (reads, own_reads))?;
    let settings = config.announce();
    let one = handshake::requester_terms(&owner, &cm, &lifecycle, &settings, MAX_SEGMENTS);
    let terms = (one, handshake::announced(&lifecycle));
    let any = lifecycle.peer().is_some();
    shared.role().legacy.note_private_data(any);
    session::begin(client, xprt, &shared, (&qp, reads), config, terms)
        .map_err(|error| no_session(xprt, error))?;
    let parts = Parts {
        qp,
        pd,
        cm,
        lifecycle: lifecycle.clone(),
        shared,
        calls: queues.credits,
    };
    let ep = Endpoint::new(parts, pools).map_err(local(xprt, "memory"))?;
    undo.dismiss();
    Ok(ep)
}

/// Returns a function that translates a failure of `what`, on our side, and logs it if its cause is
/// unexpected.
fn local<'a>(xprt: &'a Xprt<Client>, what: &'a str) -> impl Fn(Error) -> ConnectError + 'a {
    move |error| match error {
        ENETUNREACH => why(Failure::Unreachable, xprt),
        EHOSTUNREACH => host_unreachable(xprt),
        ENOTCONN => why(Failure::NotConnected, xprt),
        // iWARP devices connect at once, and report the peer's refusal here.
        ECONNREFUSED => why(Failure::Refused, xprt),
        ETIMEDOUT => why(Failure::TimedOut, xprt),
        _ => {
            let (errno, reason) = (error.to_errno(), advice::local(error));
            advice::log_local(xprt, reason, &fmt!("{what}: error {errno}: "));
            unexpected(error, xprt)
        }
    }
}

/// Translates a failure to begin the session. A server whose answer to CONF_RDMA is not accepted
/// counts as one that refuses, so that it is asked again later each time.
fn no_session(xprt: &Xprt<Client>, error: Error) -> ConnectError {
    if error != EPROTO {
        return local(xprt, "session")(error);
    }
    advice::log_local(xprt, Reason::Conf, &"");
    ConnectError::Refused
}

/// Translates an unexpected failure. Another attempt may succeed. But a connection that has never
/// worked is not tried for ever when something is not allowed or not possible.
fn unexpected(error: Error, xprt: &Xprt<Client>) -> ConnectError {
    match error {
        EINVAL | EPERM | EOPNOTSUPP if !has_worked(xprt) => ConnectError::BadAddress,
        _ => ConnectError::NoResources,
    }
}

/// Finds the device that leads to the peer.
fn resolve_addr(
    cm: &ClientCmId,
    lifecycle: &ClientLifecycle,
    xprt: &Xprt<Client>,
    config: &Config,
) -> Result<(), ConnectError> {
    lifecycle.on(Event::Start);
    cm.resolve_addr(&xprt.addr(), config.resolve_ms)
        .map_err(|error| match error {
            ENETUNREACH => unreachable(xprt),
            EHOSTUNREACH => host_unreachable(xprt),
            _ => why(Failure::Protocol, xprt),
        })?;
    lifecycle
        .wait_past(State::Resolving, search_time(config))
        .map_err(|failure| why(failure, xprt))
}

/// Finds the way to the peer.
///
/// The function takes the identifier, and borrows the lease, so that a device's removal waits for
/// the end of the search; and if there is no way to the peer, for the end of the identifier. The
/// connection manager learns of the removal after us. It would cancel the search of an identifier
/// that is being destroyed, and look for its device.
fn resolve_route(
    cm: ClientCmId,
    _lease: &Lease,
    lifecycle: &ClientLifecycle,
    xprt: &Xprt<Client>,
    config: &Config,
) -> Result<ClientCmId, ConnectError> {
    cm.resolve_route(config.resolve_ms)
        .map_err(local(xprt, "route"))?;
    lifecycle
        .wait_past(State::Routing, search_time(config))
        .map_err(|failure| why(failure, xprt))?;
    Ok(cm)
}

/// Returns how long the connection manager may be looking for an address or a route.
fn search_time(config: &Config) -> Jiffies {
    msecs_to_jiffies(config.resolve_ms + GRACE_MS)
}

/// Translates the failure of an attempt for the RPCs that wait for the connection, and logs it for
/// a mount.
fn why(failure: Failure, xprt: &Xprt<Client>) -> ConnectError {
    tell(xprt, reason(failure));
    match failure {
        Failure::Refused => ConnectError::Refused,
        // A mount in a network namespace takes ENETUNREACH as the end of its network. A server that
        // has worked, or a device, may come back.
        Failure::Unreachable | Failure::Protocol if has_worked(xprt) => {
            ConnectError::HostUnreachable
        }
        Failure::Unreachable => ConnectError::Unreachable,
        Failure::NotConnected => ConnectError::Lost,
        Failure::TimedOut => ConnectError::TimedOut,
        Failure::Protocol => ConnectError::BadAddress,
    }
}

/// Logs why a mount cannot connect. A mount that has worked waits, and nothing is logged then; nor
/// if nobody waits for the connection any more.
fn tell(xprt: &Xprt<Client>, reason: Reason) {
    if !has_worked(xprt) && !xprt.is_abandoned() {
        advice::log(xprt, reason);
    }
}

/// Translates the failure of an attempt for the log.
const fn reason(failure: Failure) -> Reason {
    match failure {
        Failure::Refused => Reason::Refused,
        Failure::Unreachable => Reason::Unreachable,
        Failure::NotConnected => Reason::Lost,
        Failure::TimedOut => Reason::TimedOut,
        Failure::Protocol => Reason::Unresolved,
    }
}

/// Logs that no route leads to the address, for a mount, and returns the error for RPCs.
fn unreachable(xprt: &Xprt<Client>) -> ConnectError {
    tell(xprt, Reason::Unreachable);
    ConnectError::Unreachable
}

/// Logs that there is no way to the host, for a mount, and returns the error for RPCs.
fn host_unreachable(xprt: &Xprt<Client>) -> ConnectError {
    tell(xprt, Reason::HostUnreachable);
    ConnectError::HostUnreachable
}

/// Returns whether the server has been reached before: then it may be reachable again, and RPCs
/// wait for it. SUNRPC adds further transports to a mount that works, and gives them calls of that
/// mount, connected or not.
pub(super) fn has_worked(xprt: &Xprt<Client>) -> bool {
    xprt.counts().connects > 0 || !xprt.is_main()
}

/// Sends the connection request and waits for the answer. `reads` are the numbers of RDMA Reads
/// that the device serves at a time, and that it may have outstanding.
fn shake_hands(
    cm: &ClientCmId,
    lifecycle: &ClientLifecycle,
    xprt: &Xprt<Client>,
    config: &Config,
    reads: (u8, u8),
) -> Result<(), ConnectError> {
    handshake::request(cm, config.announce(), reads).map_err(local(xprt, "handshake"))?;
    lifecycle
        .wait_past(State::Connecting, msecs_to_jiffies(config.connect_ms))
        .map_err(|failure| why(failure, xprt))
}

/// Fits queues and regions to the device, or logs why the device cannot be used.
fn fit(xprt: &Xprt<Client>, config: &Config, device: &Device) -> Result<Sizing, ConnectError> {
    Sizing::new(config, &device.limits()).map_err(|unfit| {
        let (name, lacks) = (device.name(), unfit.reason());
        advice::log_local(xprt, Reason::Unfit, &fmt!("device {name}: {lacks}: "));
        ConnectError::BadAddress
    })
}

/// Gives every request slot a send buffer for connection number `epoch`.
fn allocate_send_buffers(xprt: &Xprt<Client>, pd: &Arc<Pd>, config: &Config, epoch: u32) -> Result {
    for slot in xprt.slots() {
        // CAST: `usize` has at least 32 bits.
        let buf = SendBuf::new(pd, config.inline_send as usize, GFP_KERNEL)?;
        slot.data().begin_connection(buf, epoch);
    }
    Ok(())
}
