// SPDX-License-Identifier: GPL-2.0

//! The operations SUNRPC calls.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

use super::config::{self, Config, MAX_PAYLOAD};
use super::endpoint::Endpoint;
use super::events::Events;
use super::marshal::{self, MarshalError};
use super::request::{Request, Seat};
use super::{backward, connect, fence, names, probe, retry, send};
use crate::observe::stats::{write_xprt_line, Generic, Stats};
use crate::observe::trace;
use crate::proto::backward::CREDITS;
use crate::proto::conn::Event;
use crate::proto::inline::Thresholds;
use crate::rdma::device::{Name, Registration, Removal};
use crate::sunrpc::xprt::backward::BackwardReply;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::stats::StatsWriter;
use crate::sunrpc::xprt::transport::{ConnectError, CreateArgs, Outage, SendError, Transport};
use crate::sunrpc::xprt::{Xprt, XprtHandle};

/// One RDMA transport of SUNRPC: at most one connection at a time.
#[pin_data]
pub(crate) struct Client {
    config: Config,
    stats: Stats,
    /// Number of the latest attempt to connect.
    epoch: Atomic<u32>,
    /// The connection, once it is established and until it is closed.
    #[pin]
    endpoint: SpinLock<Option<Arc<Endpoint>>>,
    devices: Arc<Registration>,
    /// Whether somebody serves the server's calls; stays set.
    backward: Atomic<bool>,
    /// Longest message of such a call or of its reply, over the latest connection.
    backward_max: Atomic<u32>,
    /// A device, the server's or ours, does not do probes; stays set.
    unprobed: Atomic<bool>,
}

impl Client {
    /// The connection, if there is one.
    #[inline]
    pub(super) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().clone()
    }

    /// What was fixed when the transport was made.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Counters of this transport.
    #[inline]
    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The registration through which we hear of devices that go away.
    pub(super) fn devices(&self) -> &Arc<Registration> {
        &self.devices
    }

    /// Whether there are to be no probes.
    pub(super) fn unprobed(&self) -> bool {
        self.unprobed.load(Relaxed)
    }

    /// A probe has failed for a reason of its own: no more of them.
    pub(super) fn leave_unprobed(&self) {
        self.unprobed.store(true, Relaxed);
    }

    /// A number that no connection of late has had. Never zero.
    fn next_epoch(&self) -> u32 {
        // One connection is made at a time, so nobody else counts.
        match self.epoch.fetch_add(1, Relaxed).wrapping_add(1) {
            0 => self.next_epoch(),
            epoch => epoch,
        }
    }
}

impl Transport for Client {
    type Slot = Request;
    type Context = Arc<Registration>;

    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    const NAME: &'static CStr = c"rdma";
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const PROTO: &'static CStr = c"rdma";
    const RECONNECT_MAX: u32 = retry::LONGEST;
    const WATCH_INTERVAL: u32 = probe::INTERVAL;
    const BACKWARD_SLOTS: u32 = CREDITS;
    const BACKWARD_CALLS: u32 = 2 * CREDITS;

    fn slots() -> u32 {
        config::slots()
    }

    fn max_payload() -> usize {
        MAX_PAYLOAD
    }

    fn new(args: &CreateArgs, devices: &Arc<Registration>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            config: Config::new(args.slots),
            stats: Stats::new(),
            epoch: Atomic::new(0),
            endpoint <- new_spinlock!(None, "rpcrdma::Client::endpoint"),
            devices: devices.clone(),
            backward: Atomic::new(false),
            // What the first connection can carry in any case.
            backward_max: Atomic::new(backward::max_message(&Thresholds::DEFAULT)),
            unprobed: Atomic::new(false),
        })
    }

    fn new_slot(index: u32) -> impl PinInit<Request, Error> {
        Request::new(index)
    }

    fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
        let epoch = self.next_epoch();
        let made = connect::connect(self, xprt, epoch);
        let rc = made.as_ref().err().map_or(0, |error| error.to_errno());
        trace::connect(names::peer(xprt), rc, if rc == 0 { 1 } else { rc });
        let ep = made?;
        // The credits of the last connection are void before anything can be sent on this one.
        xprt.reset_congestion();
        self.backward_max
            .store(backward::max_message(&ep.thresholds), Relaxed);
        *self.endpoint.lock() = Some(ep.clone());
        for slot in xprt.slots() {
            slot.data().attach(ep.clone());
        }
        ep.link.go_live();
        // ORDERING: either this comes after `backward_wanted` has looked for a connection, and the
        // lock makes the flag visible, or that finds this connection.
        if self.backward.load(Relaxed) {
            ep.serve_backward().map_err(|_| ConnectError::NoResources)?;
        }
        Ok(())
    }

    fn next_attempt(&self, outage: &Outage, random: u32) -> u32 {
        retry::next(outage, random)
    }

    fn try_again(
        &self,
        xprt: &Xprt<Self>,
        error: ConnectError,
        outage: &Outage,
        random: u32,
    ) -> Option<u32> {
        retry::again(xprt, error, outage, random)
    }

    fn close(&self, xprt: &Xprt<Self>) {
        let Some(ep) = self.endpoint.lock().take() else {
            return;
        };
        trace::disconnect(names::peer(xprt), 0, 1);
        ep.close();
        fence::sweep(xprt, ep.epoch);
    }

    fn destroy(&self, xprt: &Xprt<Self>) {
        self.close(xprt);
    }

    fn prepare(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result {
        rqst.fill_sparse()?;
        let mut seat = rqst.slot().data().lock();
        let Seat { ep, state } = &mut *seat;
        let Some(ep) = ep.as_ref().filter(|ep| !ep.is_closed()) else {
            return Ok(());
        };
        match marshal::prepare(ep, &rqst, state, &self.stats) {
            Err(MarshalError::Impossible(error)) => Err(error),
            // Sending makes up for it.
            Err(MarshalError::NoRegions | MarshalError::NoBuffer | MarshalError::NoMapping) => {
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
        send::send(self, xprt, &rqst)
    }

    fn withdraw(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        fence::withdraw(self, xprt, &rqst);
    }

    fn release(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        fence::release(self, xprt, &rqst);
    }

    fn backward_wanted(&self, xprt: &Xprt<Self>, count: u32) -> Result {
        trace::cb_setup(names::peer(xprt), count);
        // ORDERING: see `connect`.
        self.backward.store(true, Relaxed);
        self.endpoint().map_or(Ok(()), |ep| ep.serve_backward())
    }

    fn backward_max_message(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        self.backward_max.load(Relaxed) as usize
    }

    fn send_backward(&self, xprt: &Xprt<Self>, reply: BackwardReply<'_>) -> Result<(), SendError> {
        backward::send(self, xprt, &reply)
    }

    fn watch(&self, xprt: &Xprt<Self>) {
        if let Some(ep) = self.endpoint() {
            probe::look(self, xprt, &ep);
        }
    }

    fn stats(&self, xprt: &Xprt<Self>, out: &mut StatsWriter<'_>) {
        let counts = xprt.counts();
        let generic = Generic {
            bind_count: counts.binds,
            connect_count: counts.connects,
            connect_secs: counts.connect_secs,
            idle_secs: counts.idle_secs,
            sends: counts.sends,
            recvs: counts.recvs,
            bad_xids: counts.bad_xids,
            req_u: counts.req_u,
            bklog_u: counts.bklog_u,
        };
        // The writer never fails.
        let _ = write_xprt_line(out, &generic, &self.stats);
    }

    fn outgrown(&self, len: usize) {
        self.stats.hardway(len);
    }

    fn connect_ordered(&self, xprt: &Xprt<Self>, delay: usize) {
        trace::op_connect(names::peer(xprt), delay);
    }

    fn timeouts_set(&self, xprt: &Xprt<Self>, connect: usize, reconnect: usize) {
        trace::op_set_cto(names::peer(xprt), connect, reconnect);
    }

    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        trace::op_inject_dsc(names::peer(xprt));
        xprt.force_disconnect();
    }
}

/// Told when the device of a connection goes away.
pub(super) struct Unplug {
    pub(super) xprt: XprtHandle<Client>,
    /// What the device is called.
    pub(super) device: Name,
    /// Where an attempt to connect waits that the removal would have to wait for.
    pub(super) events: Arc<Events>,
}

impl Removal for Unplug {
    fn device_removed(&self) {
        trace::device_removal(
            &self.device as &dyn kernel::fmt::Display,
            self.xprt.addr().bytes(),
        );
        // The connection manager learns of it after us: too late for who waits for a peer.
        self.events.on(Event::DeviceRemoval);
        self.xprt.force_disconnect();
    }
}
