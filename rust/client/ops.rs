// SPDX-License-Identifier: GPL-2.0

//! The operations that SUNRPC calls.

use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use super::advice;
use super::backchannel;
use super::call::send::PrepareError;
use super::call::slot::Slot;
use super::call::{fence, send, SlotTable};
use super::config::{self, Config, MAX_PAYLOAD};
use super::conn::{self, connect, session};
use super::endpoint::{silence, Endpoint};
use super::transport::{peer_of, Client, Context};
use crate::observe::connections::Loss;
use crate::observe::stats::XprtLine;
use crate::observe::trace;
use crate::proto::backward::CREDITS;
use crate::proto::inline::Thresholds;
use crate::sunrpc::xprt::backchannel::BackchannelReply;
use crate::sunrpc::xprt::rqst::Rqst;
use crate::sunrpc::xprt::transport::{ConnectError, Outage, SendError, Transport};
use crate::sunrpc::xprt::Xprt;

#[vtable]
impl Transport for Client {
    type Slot = Slot;
    type Context = Context;

    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    const NAME: &'static CStr = c"rdma";
    const NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const PROTO: &'static CStr = c"rdma";
    const RECONNECT_MAX: u32 = connect::LONGEST;
    const LIVENESS_INTERVAL: u32 = silence::INTERVAL;
    const BACKCHANNEL_SLOTS: u32 = CREDITS;
    const BACKCHANNEL_REQUESTS: u32 = 2 * CREDITS;

    fn slots() -> u32 {
        config::SLOTS.get()
    }

    fn max_payload() -> usize {
        MAX_PAYLOAD
    }

    fn new(slots: u32, context: &Context) -> impl PinInit<Self, Error> {
        let backward_max = backchannel::max_message(&Thresholds::DEFAULT);
        Client::init(slots, context.clone(), backward_max)
    }

    fn new_slot(index: u32) -> impl PinInit<Slot, Error> {
        Slot::new(index)
    }

    fn close(&self, xprt: &Xprt<Self>) {
        let current = self.endpoint.lock().take();
        // Without a connection, SUNRPC no longer needs the transport, which had lost it before.
        let loss = current.map_or(Loss::Closed, |ep| end(self, xprt, ep));
        if loss == Loss::Closed && !xprt.has_calls() {
            self.store.close();
        }
    }

    fn destroy(&self, xprt: &Xprt<Self>) {
        self.close(xprt);
    }

    fn stats(&self, xprt: &Xprt<Self>, out: &SeqFile) {
        let calls = SlotTable::of(xprt).counts();
        seq_print!(out, "{}", XprtLine(&xprt.counts(), &self.stats, &calls));
    }

    fn inject_disconnect(&self, xprt: &Xprt<Self>) {
        trace::op_inject_dsc(peer_of(xprt));
        xprt.force_disconnect();
    }

    fn prepare(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result {
        rqst.recv_buf().fill_sparse()?;
        match send::prepare(&rqst, &self.stats) {
            Err(PrepareError::Impossible(error)) => Err(error),
            // `send` prepares the call again.
            _ => Ok(()),
        }
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) -> Result<(), SendError> {
        send::send(self, xprt, &rqst)
    }

    fn invalidate_call(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        fence::withdraw(self, &rqst);
    }

    fn release(&self, _xprt: &Xprt<Self>, rqst: Rqst<'_, Self>) {
        fence::release(self, &rqst);
    }

    fn large_buffer_allocated(&self, len: usize) {
        self.stats.hardway(len);
    }

    fn connect(&self, xprt: &Xprt<Self>) -> Result<(), ConnectError> {
        // The credits of the last connection are void. The server's grants count as soon as the
        // queue pair of the new connection can receive.
        xprt.reset_congestion();
        let made = connect::connect(self, xprt, self.next_epoch());
        self.note_answer(matches!(made, Ok(_) | Err(ConnectError::Refused)));
        conn::show_attempt(self, xprt, &made);
        let rc = made.as_ref().err().map_or(0, |error| error.to_errno());
        let status = if rc == 0 { 1 } else { rc };
        trace::connect(peer_of(xprt), rc, status);
        let ep = made?;
        session::set_backward_max(ep.shared());
        *self.endpoint.lock() = Some(ep.clone());
        SlotTable::of(xprt).set_endpoint(&ep);
        ep.shared().begin_use();
        // ORDERING: either `backchannel_setup` finds this connection, or it has looked for one
        // before `set_endpoint`, whose lock then makes the flag visible here.
        if self.serves_backward.load(Relaxed) {
            ep.serve_backward().map_err(|_| ConnectError::NoResources)?;
        }
        Ok(())
    }

    fn next_attempt(&self, outage: &Outage, random: u32) -> u32 {
        connect::next_attempt(outage, random)
    }

    fn retry_unreported(
        &self,
        xprt: &Xprt<Self>,
        error: ConnectError,
        outage: &Outage,
        random: u32,
    ) -> Option<u32> {
        connect::retry_unreported(xprt, error, outage, random)
    }

    fn check_liveness(&self, xprt: &Xprt<Self>) {
        if let Some(ep) = self.endpoint() {
            let (calls, unanswered) = SlotTable::of(xprt).calls(ep.epoch());
            if ep.is_stuck(calls.fencing) {
                fence::order_close(&ep);
            }
            if ep.check_silence(unanswered) {
                advice::log_unanswered(xprt, advice::MUTE);
            }
            session::check(&ep, &Config::new(self.slots, ep.is_at_work()));
            // The connection has taken the memory that it needs.
            self.store.clear();
        }
    }

    fn timer(&self, xprt: &Xprt<Self>, rqst: Rqst<'_, Self>, fails: bool) {
        if !fails {
            fence::timed_out(xprt, &rqst);
        }
    }

    fn connect_scheduled(&self, xprt: &Xprt<Self>, delay: usize) {
        trace::op_connect(peer_of(xprt), delay);
    }

    fn attempt_planned(&self, _xprt: &Xprt<Self>, delay: u32) {
        if let Some(registered) = self.registered.as_ref() {
            registered.planned(delay);
        }
    }

    fn timeouts_changed(&self, xprt: &Xprt<Self>, connect: usize, reconnect: usize) {
        trace::op_set_cto(peer_of(xprt), connect, reconnect);
    }

    fn backchannel_setup(&self, xprt: &Xprt<Self>, count: u32) -> Result {
        trace::cb_setup(peer_of(xprt), count);
        // ORDERING: `connect` says how this flag and the connection become visible.
        self.serves_backward.store(true, Relaxed);
        self.endpoint().map_or(Ok(()), |ep| ep.serve_backward())
    }

    fn backchannel_max_message(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        self.backward_max.load(Relaxed) as usize
    }

    fn send_backchannel_reply(
        &self,
        xprt: &Xprt<Self>,
        reply: BackchannelReply<'_>,
    ) -> Result<(), SendError> {
        backchannel::send(self, xprt, &reply)
    }
}

/// Closes a connection that was the current one. Returns why the transport lost it. May sleep.
fn end(client: &Client, xprt: &Xprt<Client>, ep: Arc<Endpoint>) -> Loss {
    trace::disconnect(peer_of(xprt), 0, 1);
    session::lost(&ep);
    let loss = ep.loss();
    if matches!(loss, Loss::Peer | Loss::Failed) {
        advice::log_unanswered(xprt, advice::LEFT);
    }
    if let Some(registered) = client.registered.as_ref() {
        registered.down(loss);
    }
    ep.close();
    fence::sweep(xprt, ep.epoch());
    // This is usually the last reference: buffers, regions and queues return their memory.
    drop(ep);
    loss
}
