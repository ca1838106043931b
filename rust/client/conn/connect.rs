// SPDX-License-Identifier: GPL-2.0

//! Makes a connection, decides when to reconnect to a server that is gone, and when RPCs learn of
//! the failure. [`backoff`] has the times.
//!
//! [`connect`] runs in the connect worker, which holds SUNRPC's send lock, and may sleep. After a
//! failure the objects made so far are dropped in reverse order.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::types::ScopeGuard;

use super::super::advice::{self, Reason, HOST_UNREACHABLE};
use super::super::call::{fence, SlotTable};
use super::super::config::{Config, Sizes, MAX_SEGMENTS, REGIONS_TOO_SMALL, TRAFFIC_CLASS};
use super::super::endpoint::{tags, Conn, Endpoint, Regions, Requester};
use super::super::quirks;
use super::super::transport::{peer_of, Client};
use super::session;
use crate::compat::casts::u32_as_usize;
use crate::compat::code::{ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ENOTCONN, EOPNOTSUPP, EPROTO};
use crate::conn::connection::{self, Parts, Queues};
use crate::conn::handshake;
use crate::conn::lifecycle::Lifecycle;
use crate::observe::trace;
use crate::proto::conn::{Event, Failure, State};
use crate::proto::requester::backoff;
use crate::proto::session::Announced;
use crate::rdma::cm::CmId;
use crate::rdma::device::{Device, Lease, Limits};
use crate::rdma::pd::Pd;
use crate::sunrpc::xprt::transport::{ConnectError, Outage};
use crate::sunrpc::xprt::{Xprt, XprtHandle};

/// The longest time between two attempts, in seconds.
pub(in crate::client) const LONGEST: u32 = backoff::LONGEST_MS / 1000;
/// The time in milliseconds that RPCs wait for a server that refuses or cannot be reached (for
/// example while our own device is absent) before they learn of the failure.
const HOLD: u32 = 8_000;
/// How long the resolution of an address or of a route may take, in milliseconds.
const RESOLVE_MS: u32 = 5_000;
/// How long the peer may take to answer a connection request, in milliseconds.
const CONNECT_MS: u32 = 60_000;
/// The same while there is another local address to try, after the latest attempt had an answer.
const CHOICE_MS: u32 = 5_000;
/// The time in milliseconds by which the connection manager's event about a resolution timeout may
/// be late.
const GRACE_MS: u32 = 1000;

/// The states of a client's connection.
type ClientLifecycle = Lifecycle<XprtHandle<Client>>;
/// The cm_id of a client's connection.
type ClientCmId = CmId<ClientLifecycle>;

/// Makes connection number `epoch` to the transport's address. The caller makes that connection the
/// current one.
///
/// # Errors
///
/// See [`ConnectError`].
pub(in crate::client) fn connect(
    client: &Client,
    xprt: &Xprt<Client>,
    epoch: u32,
) -> Result<Arc<Endpoint>, ConnectError> {
    let config = &Config::new(client.slots, false);
    let owner = xprt.handle();
    let (cm, lifecycle) = identifier(xprt).map_err(local(xprt, "identifier"))?;
    let bound = resolve_addr(&cm, &lifecycle, xprt)?;
    let device = cm.device().ok_or_else(|| why(Failure::Unreachable, xprt))?;
    let limits = device.limits();
    let settings = quirks::Settings::new(&limits);
    let (mr_depth, queues) = fit(xprt, config, (device, &limits), settings.send_wr)?;
    let reads = (limits.max_qp_rd_atom, settings.reads);
    let port = watched(client, xprt, &cm, bound);
    let lease = lifecycle.lease(&client.context.devices, device, port);
    let lease = lease.map_err(local(xprt, "device"))?;
    let cm = resolve_route(cm, &lease, &lifecycle, xprt)?;
    let pd = Pd::new(lease, Some(client.store.clone()));
    let pd = pd.map_err(local(xprt, "protection domain"))?;
    let regions = Regions::new(&pd, mr_depth).map_err(local(xprt, "memory regions"))?;
    let made = regions.counts().total;
    client.stats.mrs_allocated.add(made.into());
    trace::createmrs(peer_of(xprt), made);
    let role = Requester::new(queues.credits);
    let shared = Conn::new(epoch, xprt.handle(), role).map_err(local(xprt, "memory"))?;
    let receives = u32_as_usize(config.receive_size());
    let tags = (tags::count(config.slots) + quirks::TAGS, receives);
    let qp = connection::queue_pair(&cm, &pd, &queues, tags, shared.clone());
    let qp = qp.map_err(local(xprt, "queue pair"))?;
    // The guard exists before the first buffer, because a failure may leave buffers in some request
    // slots. A late removal of the device must not close the next connection.
    let undo = ScopeGuard::new(|| {
        lifecycle.on(Event::Close);
        fence::sweep(xprt, epoch);
    });
    let filled = SlotTable::of(xprt).begin_connection(&pd, config.inline_send, epoch);
    filled.map_err(local(xprt, "send buffers"))?;
    connection::post_receives(&owner, &qp, &queues).map_err(local(xprt, "receive buffers"))?;
    let ours = config.announce();
    handshake::request(&cm, ours, reads).map_err(local(xprt, "handshake"))?;
    wait(&lifecycle, State::Connecting, patience(client, port), xprt)?;
    let one = handshake::requester_terms(&owner, &cm, &lifecycle, &ours, MAX_SEGMENTS);
    let terms = (one, Announced::of(lifecycle.peer().as_ref()));
    shared.role().quirks.note_peer(lifecycle.peer().is_some());
    let ended = || lifecycle.has_ended();
    let settings = (config, settings, reads.0);
    let begun = session::begin(xprt, &shared, &qp, settings, terms, &ended);
    begun.map_err(|error| no_session(xprt, error))?;
    let parts = Parts {
        qp,
        pd,
        cm,
        lifecycle: lifecycle.clone(),
        shared,
    };
    let ep = Endpoint::new(parts, regions, queues.credits).map_err(local(xprt, "memory"))?;
    undo.dismiss();
    Ok(ep)
}

/// Returns a function that translates a local failure of `what`, and logs it if its cause is
/// unexpected.
fn local<'a>(xprt: &'a Xprt<Client>, what: &'a str) -> impl Fn(Error) -> ConnectError + 'a {
    move |error| match error {
        ENETUNREACH => why(Failure::Unreachable, xprt),
        EHOSTUNREACH => logged(xprt, HOST_UNREACHABLE, ConnectError::HostUnreachable),
        ENOTCONN => why(Failure::NotConnected, xprt),
        // iWARP devices connect at once, and report the peer's refusal here.
        ECONNREFUSED => why(Failure::Refused, xprt),
        ETIMEDOUT => why(Failure::TimedOut, xprt),
        _ => {
            let (errno, reason) = (error.to_errno(), advice::local(error));
            advice::log_local(xprt, reason, &fmt!("{what}: error {errno}: "));
            match error {
                // Another attempt may succeed. However, a transport that has never been connected
                // fails when an operation is not permitted or not supported.
                EINVAL | EPERM | EOPNOTSUPP if !has_worked(xprt) => ConnectError::BadAddress,
                _ => ConnectError::NoResources,
            }
        }
    }
}

/// Translates a failure to begin the session. A server whose answer about its configuration is not
/// accepted counts as refusing, so that each later attempt asks it again.
fn no_session(xprt: &Xprt<Client>, error: Error) -> ConnectError {
    if error != EPROTO {
        return local(xprt, "session")(error);
    }
    advice::log_local(xprt, advice::CONF, &"");
    ConnectError::Refused
}

/// Makes a cm_id for the transport's next connection, bound to the local address whose turn it is:
/// the first that the namespace has, and whose port is active. Without such an address, the route
/// to the peer selects the port.
///
/// Each cm_id has states of its own: the device of an address that was rejected may be removed.
fn identifier(xprt: &Xprt<Client>) -> Result<(ClientCmId, Arc<ClientLifecycle>)> {
    let new = || {
        let lifecycle = Arc::pin_init(Lifecycle::new(xprt.handle()), GFP_KERNEL)?;
        CmId::new(xprt.net(), lifecycle.clone()).map(|cm| (cm, lifecycle))
    };
    let bound = |local| new().ok().filter(|(cm, _)| cm.bind(&local).is_ok());
    let mut locals = xprt.data().local_addrs(&xprt.addr());
    locals.find_map(bound).map_or_else(new, Ok)
}

/// Resolves the address of the peer, which selects the device if no local address has. Returns
/// whether a local address has.
fn resolve_addr(
    cm: &ClientCmId,
    lifecycle: &ClientLifecycle,
    xprt: &Xprt<Client>,
) -> Result<bool, ConnectError> {
    let bound = cm.device().is_some();
    lifecycle.on(Event::Start);
    cm.resolve_addr(&xprt.addr(), TRAFFIC_CLASS.byte(), RESOLVE_MS)
        .map_err(|error| match error {
            ENETUNREACH => logged(xprt, advice::UNREACHABLE, ConnectError::Unreachable),
            EHOSTUNREACH => logged(xprt, HOST_UNREACHABLE, ConnectError::HostUnreachable),
            _ => why(Failure::Protocol, xprt),
        })?;
    wait(lifecycle, State::Resolving, RESOLVE_MS + GRACE_MS, xprt)?;
    Ok(bound)
}

/// Returns the port that a connection leaves when the link is lost, if there is another one to try.
/// A port that the route has selected although it lacks a link is not left.
fn watched(client: &Client, xprt: &Xprt<Client>, cm: &ClientCmId, bound: bool) -> Option<u32> {
    client.local_addrs(&xprt.addr()).nth(1)?;
    let active = |port| cm.device().is_some_and(|device| device.is_active(port));
    Some(cm.port()).filter(|&port| bound || active(port))
}

/// Waits until the attempt has left `state`, for `limit` milliseconds at most.
fn wait(
    lifecycle: &ClientLifecycle,
    state: State,
    limit: u32,
    xprt: &Xprt<Client>,
) -> Result<(), ConnectError> {
    let ended = lifecycle.wait_past(state, msecs_to_jiffies(limit));
    ended.map_err(|failure| why(failure, xprt))
}

/// Returns how long to wait for the peer's answer, in milliseconds. With a choice of ports an
/// attempt is short at first, and takes twice as long after each one without an answer.
fn patience(client: &Client, port: Option<u32>) -> u32 {
    let with_choice = (CHOICE_MS << client.misses().min(4)).min(CONNECT_MS);
    port.map_or(CONNECT_MS, |_| with_choice)
}

/// Resolves the route to the peer.
///
/// The function takes the cm_id and borrows the lease, so that a device's removal waits until the
/// resolution has ended and, if there is no route, until the cm_id is destroyed. The connection
/// manager is notified of the removal after this module. It would cancel the resolution of a cm_id
/// that is being destroyed, and read its device.
fn resolve_route(
    cm: ClientCmId,
    _lease: &Lease,
    lifecycle: &ClientLifecycle,
    xprt: &Xprt<Client>,
) -> Result<ClientCmId, ConnectError> {
    let begun = cm.resolve_route(RESOLVE_MS);
    begun.map_err(local(xprt, "route"))?;
    wait(lifecycle, State::Routing, RESOLVE_MS + GRACE_MS, xprt)?;
    Ok(cm)
}

/// Translates the failure of an attempt for the RPCs that wait for the connection, and logs it for
/// a mount.
fn why(failure: Failure, xprt: &Xprt<Client>) -> ConnectError {
    let (reason, error) = match failure {
        // A mount in a network namespace treats ENETUNREACH as the end of its network. A server
        // that has worked, or a device, may return.
        Failure::Unreachable | Failure::Protocol if has_worked(xprt) => {
            return ConnectError::HostUnreachable;
        }
        Failure::Refused => (advice::REFUSED, ConnectError::Refused),
        Failure::Unreachable => (advice::UNREACHABLE, ConnectError::Unreachable),
        Failure::NotConnected => (advice::LOST, ConnectError::Lost),
        Failure::TimedOut => (advice::TIMED_OUT, ConnectError::TimedOut),
        Failure::Protocol => (advice::UNRESOLVED, ConnectError::BadAddress),
    };
    logged(xprt, reason, error)
}

/// Logs why a mount cannot connect, and returns `error`. Logs nothing if the mount has worked
/// before, since it then waits, or if no task waits for the connection any more.
fn logged(xprt: &Xprt<Client>, reason: Reason, error: ConnectError) -> ConnectError {
    if !has_worked(xprt) && !xprt.is_abandoned() {
        advice::log(xprt, reason);
    }
    error
}

/// Returns whether the server has been reached before. RPCs wait for such a server, because it may
/// become reachable again. SUNRPC may add transports to a working mount, or replace its transport,
/// and assigns calls of that mount to them, connected or not.
fn has_worked(xprt: &Xprt<Client>) -> bool {
    xprt.counts().connects > 0 || !xprt.is_main()
}

/// Fits the pages of a region and the queues to the device, or logs why the device cannot be used.
/// The first device of a transport determines the largest payload, on which NFS relies from then
/// on. NFS uses the payload of the main transport: a transport that is added over a device with
/// smaller regions refuses the calls that do not fit.
fn fit(
    xprt: &Xprt<Client>,
    config: &Config,
    (device, limits): (&Device, &Limits),
    more_send_wr: u32,
) -> Result<(u32, Queues), ConnectError> {
    let fixed = xprt.counts().connects > 0;
    let sizes = Sizes::new(config, limits, more_send_wr).and_then(|sizes| {
        let fits = xprt.limit_payload(sizes.max_payload(), fixed);
        let used = fits.then_some((sizes.mr_depth, sizes.queues));
        used.ok_or(REGIONS_TOO_SMALL)
    });
    sizes.map_err(|lacks| {
        let name = device.name();
        advice::log_local(xprt, advice::UNFIT, &fmt!("device {name}: {lacks}: "));
        ConnectError::BadAddress
    })
}

/// Returns when the next attempt begins, on the clock of `outage`.
pub(in crate::client) fn next_attempt(outage: &Outage, random: u32) -> u32 {
    decision(outage).next(random)
}

/// Returns when to retry before RPCs learn of `error`; `None` if they must learn of it now.
pub(in crate::client) fn retry_unreported(
    xprt: &Xprt<Client>,
    error: ConnectError,
    outage: &Outage,
    random: u32,
) -> Option<u32> {
    use ConnectError::{BadAddress, HostUnreachable, Refused, Unreachable};
    match (has_worked(xprt), error) {
        // The mount command needs the error at once, unless another local address may do, which has
        // had no attempt since the server answered last. After a timeout SUNRPC asks again anyway.
        (false, BadAddress | Unreachable | HostUnreachable) => {
            let (client, addr) = (xprt.data(), xprt.addr());
            let left = u32_as_usize(client.misses()) < client.local_addrs(&addr).count();
            left.then_some(outage.now)
        }
        (true, Refused | Unreachable | HostUnreachable) if xprt.is_added() => {
            decision(outage).again(HOLD, random)
        }
        // SUNRPC asks again at once, or never. A mount may wait for the test of a transport.
        _ => None,
    }
}

fn decision(outage: &Outage) -> backoff::Outage {
    backoff::Outage {
        now: outage.now,
        attempt: outage.attempt,
        asked: outage.asked,
    }
}
