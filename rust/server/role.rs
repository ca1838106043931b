// SPDX-License-Identifier: GPL-2.0

//! The completions of a responder's connection.

use kernel::prelude::*;

use super::backchannel;
use super::call::context::Call;
use super::call::in_flight::{lane, BACKCHANNEL, CONTROL, INVALIDATION};
use super::config::{MAX_BC_REQUESTS, RECEIVED};
use super::conn::endpoint::{Conn, Incoming, QueuePair, Responder};
use super::conn::owner::Owner;
use super::conn::{endpoint, failure, session};
use super::recv::read;
use crate::conn::role::{Role, XprtRef as _};
use crate::conn::terms::TermsSnapshot;
use crate::conn::traced;
use crate::observe::stats::RequesterBreach;
use crate::observe::trace;
use crate::proto::conn::Event;
use crate::proto::session::Output;
use crate::rdma::cq::Workers;
use crate::rdma::qp::{Tag, WcError};
use crate::wire::Direction;

impl Role for Responder {
    type Owner = Owner;

    const HOLDS: bool = true;
    const ANSWERS: bool = true;
    const CONTROL: Tag = CONTROL;
    /// A thread of nfsd continues the call, so waking other workers would be useless.
    const WORKERS: Workers = Workers::Core;

    fn established(conn: &Conn) {
        conn.role().lifecycle.on(Event::Message);
    }

    #[inline(always)]
    fn received(conn: &Conn, qp: &QueuePair, msg: Incoming<'_>, _now: TermsSnapshot) {
        RECEIVED.add(lane(qp), 1);
        trace::server::wc_recv(traced::cid(qp, msg.index()), msg.bytes().len());
        if msg.invalidated().is_some() {
            return failure::close(conn, 0, RequesterBreach::Invalidate);
        }
        if session::received(conn, qp, msg.bytes()) {
            return;
        }
        let backchannel = conn.owner().backchannel();
        if let Some(xprt) = backchannel.of_answer(|| conn.version(), msg.bytes()) {
            return backchannel::answer(conn, &xprt, msg.bytes());
        }
        if read::fetch_early(conn, qp, &msg) {
            return;
        }
        // The queue has space for all Receives, and none after the connection has been closed.
        drop(conn.role().ready.push_message(msg.hold()));
    }

    #[inline(always)]
    fn completed(conn: &Conn, qp: &QueuePair, tag: Tag, outcome: Result<(), WcError>) {
        if let Err(error) = outcome {
            // The operations remain until the queue pair is drained.
            return failure::failed(conn, qp, tag, &error);
        }
        if tag == BACKCHANNEL {
            return conn.owner().wake_senders();
        }
        if tag == INVALIDATION {
            return conn.role().quirks.invalidated();
        }
        match conn.role().in_flight.fetched(tag) {
            Some((number, call)) => fetched(conn, qp, number, call),
            None => endpoint::free_sent(conn, qp),
        }
        endpoint::resume_parked(conn, qp);
    }

    fn room(conn: &Conn, qp: &QueuePair) {
        conn.owner().wake_senders();
        let role = conn.role();
        // A reply that the requester has read keeps memory, so it goes first.
        role.quirks.resume((conn, qp, &role.in_flight));
        endpoint::resume(conn, qp);
    }

    fn credits(conn: &Conn, direction: Direction) -> u32 {
        match direction {
            Direction::Call => MAX_BC_REQUESTS,
            Direction::Reply => conn.role().calls.granted(),
        }
    }

    fn decided(conn: &Conn, _qp: &QueuePair, output: Output) {
        session::decided(conn, &output);
    }

    fn broken(conn: &Conn, qp: &QueuePair, error: &WcError) {
        failure::broken(conn, qp, error);
    }

    fn device_event(conn: &Conn, event: u32) {
        let device: &dyn kernel::fmt::Display = &conn.role().device;
        trace::server::qp_error(event, device, conn.owner().address().bytes());
    }
}

/// Queues a call whose RDMA Reads have completed. Their memory is unmapped here, because all
/// threads of the service may be waiting for space in the DMA layer.
#[inline(always)]
fn fetched(conn: &Conn, qp: &QueuePair, number: u32, mut call: KBox<Call>) {
    if let Some(read) = &mut call.read {
        let cid = traced::cid(qp, number);
        trace::server::wc_read(cid, read.bytes, read.posted);
        trace::server::cc_release(cid, read.store.sink.work_requests());
        let _ = read.store.sink.pages();
    }
    if conn.role().ready.push_fetched(call).is_err() {
        // The call is lost. The queue has space for all calls, so the connection is closed already.
        conn.force_close();
    }
}
