// SPDX-License-Identifier: GPL-2.0

//! What a responder does with the completions of its connection.

use kernel::prelude::*;

use super::breach;
use super::call::Call;
use super::config::{MAX_BC_REQUESTS, RECEIVED};
use super::flights::{lane, BACKWARD, CONTROL, TAKEN_BACK};
use super::owner::Owner;
use super::responder::{Conn, Incoming, QueuePair, Responder};
use super::{early, release, session};
use crate::conn::live::Now;
use crate::conn::owner::Owner as _;
use crate::conn::role::Role;
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
    /// A thread of nfsd goes on with a call, so other workers would be woken for nothing.
    const WORKERS: Workers = Workers::Core;

    fn established(conn: &Conn) {
        conn.role().lifecycle.on(Event::Message);
    }

    #[inline]
    fn received(conn: &Conn, qp: &QueuePair, msg: Incoming<'_>, _now: Now) {
        RECEIVED.add(lane(qp), 1);
        trace::server::wc_recv(traced::cid(qp, msg.index()), msg.bytes().len());
        if msg.invalidated().is_some() {
            return breach::close(conn, 0, RequesterBreach::Invalidate);
        }
        if session::received(conn, qp, msg.bytes()) {
            return;
        }
        if conn.owner().route().answer(|| conn.version(), msg.bytes()) {
            return;
        }
        if early::fetch(conn, qp, &msg) {
            return;
        }
        // There is room for all Receives that exist. After the connection was closed there is none.
        if conn.role().arrived(msg.hold()).is_ok() {
            conn.owner().data_arrived();
        }
    }

    #[inline(always)]
    fn completed(conn: &Conn, qp: &QueuePair, tag: Tag, outcome: Result<(), WcError>) {
        if let Err(error) = outcome {
            // What was posted stays until the queue pair is drained.
            return breach::failed(conn, qp, tag, &error);
        }
        if tag == BACKWARD {
            return conn.owner().route().wake_senders();
        }
        if tag == TAKEN_BACK {
            return conn.role().exposures.reap();
        }
        match conn.role().flights.fetched(tag) {
            Some(call) => fetched(conn, qp, tag, call),
            None => release::sent(conn, qp),
        }
        release::resume_parked(conn, qp);
    }

    fn room(conn: &Conn, qp: &QueuePair) {
        conn.owner().route().wake_senders();
        release::resume(conn, qp);
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
        breach::broken(conn, qp, error);
    }

    fn device_event(conn: &Conn, event: u32) {
        let device: &dyn kernel::fmt::Display = &conn.role().device;
        trace::server::qp_error(event, device, conn.owner().address().bytes());
    }
}

/// Passes a call on whose RDMA Reads have completed.
#[inline(always)]
fn fetched(conn: &Conn, qp: &QueuePair, tag: Tag, call: KBox<Call>) {
    if let Some(pull) = &call.pull {
        let cid = traced::cid(qp, tag.get());
        trace::server::wc_read(cid, pull.bytes, pull.posted);
        trace::server::cc_release(cid, pull.sink.work_requests());
    }
    match conn.role().fetched(call) {
        Ok(()) => conn.owner().data_arrived(),
        // The call is lost. The connection is closed already, as there is room for all calls.
        Err(_) => conn.force_close(),
    }
}
