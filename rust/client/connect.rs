// SPDX-License-Identifier: GPL-2.0

//! Making a connection.
//!
//! Runs in the connect worker, which holds SUNRPC's send lock, and may sleep. Whatever fails,
//! what was made so far goes away by itself, in the order its owners are declared in.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{msecs_to_jiffies, Jiffies};
use kernel::types::ScopeGuard;

use super::config::{Config, Sizing, MAX_SEGMENTS};
use super::endpoint::{Endpoint, Parts};
use super::events::Events;
use super::link::Link;
use super::pools::Pools;
use super::transport::{Client, Unplug};
use super::{fence, names, request};
use crate::observe::trace;
use crate::proto::conn::{Event, Failure, State};
use crate::proto::inline::Thresholds;
use crate::rdma::cm::{CmId, ConnectParams};
use crate::rdma::cq::Cq;
use crate::rdma::device::{Device, Lease};
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Qp, QpConfig};
use crate::rdma::send::SendBuf;
use crate::sunrpc::xprt::transport::ConnectError;
use crate::sunrpc::xprt::Xprt;
use crate::wire::cm_private;

/// Times the device resends a packet before it gives up.
const RETRIES: u8 = 6;
/// Milliseconds that the connection manager may be late with its own word that resolving took too long.
const GRACE_MS: u32 = 1000;

/// Makes a connection to the transport's address. The caller makes it the current one.
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
    let events =
        Arc::pin_init(Events::new(xprt.handle()), GFP_KERNEL).map_err(local(xprt, "memory"))?;
    let cm = CmId::new(xprt.net(), events.clone()).map_err(local(xprt, "identifier"))?;
    resolve_addr(&cm, &events, xprt, config)?;

    let device = cm.device().ok_or_else(|| why(Failure::Unreachable, xprt))?;
    let sizing = fit(config, &device)?;
    let reads = device.limits().max_qp_rd_atom;
    let unplug = Unplug {
        xprt: xprt.handle(),
        device: device.name(),
        events: events.clone(),
    };
    let unplug = Arc::new(unplug, GFP_KERNEL).map_err(|_| ConnectError::NoResources)?;
    let lease = client
        .devices()
        .lease(&device, unplug)
        .map_err(local(xprt, "device"))?;
    let cm = resolve_route(cm, &lease, &events, xprt, config)?;
    let pd = Pd::new(lease).map_err(local(xprt, "protection domain"))?;
    let pools = Pools::new(&pd, sizing.mr_depth).map_err(local(xprt, "memory regions"))?;
    client.stats().mrs_allocated(pools.total());
    trace::createmrs(names::peer(xprt), pools.total());
    let link = Link::new(xprt.handle(), epoch, sizing.credits).map_err(local(xprt, "memory"))?;
    let qp =
        queue_pair(&cm, &pd, config, &sizing, link.clone()).map_err(local(xprt, "queue pair"))?;
    // Before the first buffer is there: it may not be there for all.
    let outfitted = ScopeGuard::new(|| fence::sweep(xprt, epoch));
    outfit(xprt, &pd, config, epoch).map_err(local(xprt, "send buffers"))?;
    receive(xprt, &qp, &sizing).map_err(local(xprt, "receive buffers"))?;
    shake_hands(&cm, &events, xprt, config, reads)?;
    let thresholds = agree(xprt, &cm, &events, config);
    // RFC 8797 section 4.1 wants both peers to have set R, but Linux's server invalidates without
    // having set it. What we have announced is what we must be ready for.
    link.established(config.announce().remote_invalidation);
    let ep = Endpoint::new(Parts {
        epoch,
        thresholds,
        sizing,
        qp,
        pd,
        pools,
        cm,
        events,
        link,
    })
    .map_err(local(xprt, "memory"))?;
    outfitted.dismiss();
    Ok(ep)
}

/// Says what a failure of `what`, on our side, comes to.
fn local<'a>(xprt: &'a Xprt<Client>, what: &'a str) -> impl Fn(Error) -> ConnectError + 'a {
    move |error| match error {
        ENETUNREACH => why(Failure::Unreachable, xprt),
        EHOSTUNREACH => ConnectError::HostUnreachable,
        ENOTCONN => ConnectError::Lost,
        // From devices that connect at once (iWARP).
        ECONNREFUSED => ConnectError::Refused,
        ETIMEDOUT => ConnectError::TimedOut,
        _ => {
            let (peer, errno) = (xprt.shown().addr, error.to_errno());
            pr_err!("connecting to {peer}: {what}: error {errno}\n");
            beyond_us(error, xprt)
        }
    }
}

/// Another attempt may not meet a failure; but what has never worked, and is not allowed or not
/// possible, is not tried for ever.
fn beyond_us(error: Error, xprt: &Xprt<Client>) -> ConnectError {
    match error {
        EINVAL | EPERM | EOPNOTSUPP if !has_worked(xprt) => ConnectError::BadAddress,
        _ => ConnectError::NoResources,
    }
}

/// Finds the device that leads to the peer.
fn resolve_addr(
    cm: &CmId<Events>,
    events: &Events,
    xprt: &Xprt<Client>,
    config: &Config,
) -> Result<(), ConnectError> {
    events.on(Event::Start);
    cm.resolve_addr(&xprt.addr(), config.resolve_ms)
        .map_err(|error| match error {
            ENETUNREACH => ConnectError::Unreachable,
            EHOSTUNREACH => ConnectError::HostUnreachable,
            _ => why(Failure::Protocol, xprt),
        })?;
    events
        .wait_past(State::Resolving, search_time(config))
        .map_err(|failure| why(failure, xprt))
}

/// Finds the way to the peer.
///
/// The removal of the device waits for the lease, so for the end of this, and if there is no way for
/// that of the identifier: the connection manager, which learns of the removal after us, would
/// cancel the search of an identifier that may just be going, and look for its device.
fn resolve_route(
    cm: CmId<Events>,
    _lease: &Lease,
    events: &Events,
    xprt: &Xprt<Client>,
    config: &Config,
) -> Result<CmId<Events>, ConnectError> {
    cm.resolve_route(config.resolve_ms)
        .map_err(local(xprt, "route"))?;
    events
        .wait_past(State::Routing, search_time(config))
        .map_err(|failure| why(failure, xprt))?;
    Ok(cm)
}

/// How long the connection manager may be looking for an address or a route.
fn search_time(config: &Config) -> Jiffies {
    msecs_to_jiffies(config.resolve_ms + GRACE_MS)
}

/// What RPCs that wait for the connection are told.
fn why(failure: Failure, xprt: &Xprt<Client>) -> ConnectError {
    match failure {
        Failure::Refused => ConnectError::Refused,
        // To a mount in a network namespace, ENETUNREACH says that there is no network any more, and
        // is final. A server that has been there, and a device, may come back.
        Failure::Unreachable | Failure::Protocol if has_worked(xprt) => {
            ConnectError::HostUnreachable
        }
        Failure::Unreachable => ConnectError::Unreachable,
        Failure::NotConnected => ConnectError::Lost,
        Failure::TimedOut => ConnectError::TimedOut,
        Failure::Protocol => ConnectError::BadAddress,
    }
}

/// Has there been a way to the server? Then there may be one again, and RPCs wait for it. SUNRPC adds
/// transports to a mount that works, and gives them its calls, connected or not.
pub(super) fn has_worked(xprt: &Xprt<Client>) -> bool {
    xprt.counts().connects > 0 || !xprt.is_main()
}

/// Sends the connection request and waits for the answer. `reads`: RDMA Reads that the device
/// serves at a time.
fn shake_hands(
    cm: &CmId<Events>,
    events: &Events,
    xprt: &Xprt<Client>,
    config: &Config,
    reads: u8,
) -> Result<(), ConnectError> {
    let private_data = cm_private::encode(config.announce());
    cm.connect(&ConnectParams {
        private_data: &private_data,
        // We never read the peer's memory; it reads ours.
        initiator_depth: 0,
        responder_resources: reads,
        retry_count: RETRIES,
        // A peer without a posted Receive has broken the credit rules.
        rnr_retry_count: 0,
        flow_control: false,
    })
    .map_err(local(xprt, "handshake"))?;
    events
        .wait_past(State::Connecting, msecs_to_jiffies(config.connect_ms))
        .map_err(|failure| why(failure, xprt))
}

/// Settles the thresholds with what the peer has announced.
fn agree(xprt: &Xprt<Client>, cm: &CmId<Events>, events: &Events, config: &Config) -> Thresholds {
    let peer = events.peer();
    trace::private_data(names::peer(xprt), peer.as_ref());
    let agreed = Thresholds::for_client(&config.announce(), peer);
    trace::inline_thresh(
        &agreed,
        agreed.max_inline_call(MAX_SEGMENTS),
        agreed.max_inline_reply(MAX_SEGMENTS),
        cm.local_addr().bytes(),
        xprt.addr().bytes(),
    );
    agreed
}

/// Fits queues and regions to the device, or says why it will not do.
fn fit(config: &Config, device: &Device<'_>) -> Result<Sizing, ConnectError> {
    Sizing::new(config, &device.limits()).map_err(|unfit| {
        let name = device.name();
        pr_err!("device {} cannot be used: {}\n", name, unfit.reason());
        ConnectError::BadAddress
    })
}

fn queue_pair(
    cm: &CmId<Events>,
    pd: &Arc<Pd>,
    config: &Config,
    sizing: &Sizing,
    link: Arc<Link>,
) -> Result<Qp<Link>> {
    let cq = Cq::new(pd, sizing.send_wr + sizing.receives)?;
    let config = QpConfig {
        send_wr: sizing.send_wr,
        recv_wr: sizing.receives,
        tags: request::tags(config.slots),
        // CAST: `usize` has at least 32 bits.
        recv_size: config.inline_receive as usize,
        recv_batch: sizing.receive_batch,
    };
    Qp::new(cm, pd, cq, &config, link)
}

/// Posts all Receives; the queue pair posts them again as they are used.
fn receive(xprt: &Xprt<Client>, qp: &Qp<Link>, sizing: &Sizing) -> Result {
    let posted = qp.post_receives();
    let (peer, cq) = (names::peer(xprt), qp.cq_id());
    match posted {
        Ok(()) => trace::post_recvs(peer, cq, sizing.receives, sizing.receives),
        Err(error) => trace::post_recvs_err(peer, cq, error.to_errno()),
    }
    posted
}

/// Gives every request slot a send buffer for this connection.
fn outfit(xprt: &Xprt<Client>, pd: &Arc<Pd>, config: &Config, epoch: u32) -> Result {
    for slot in xprt.slots() {
        // CAST: as above.
        let buf = SendBuf::new(pd, config.inline_send as usize, GFP_KERNEL)?;
        slot.data().equip(buf, epoch);
    }
    Ok(())
}
