// SPDX-License-Identifier: GPL-2.0

//! What a responder does with the completions of its connection.

use super::flights::{Flight, BACKWARD};
use super::owner::Owner;
use super::pulled::Pull;
use super::responder::{Conn, Incoming, QueuePair, Responder};
use crate::conn::role::Role;
use crate::proto::conn::Event;
use crate::rdma::qp::{Tag, WcError};

impl Role for Responder {
    type Owner = Owner;

    const ANSWERS: bool = true;

    fn established(conn: &Conn) {
        conn.role().lifecycle.on(Event::Message);
    }

    #[inline]
    fn received(conn: &Conn, _qp: &QueuePair, msg: Incoming<'_>) {
        if conn.owner().route().answer(msg.bytes()) {
            return;
        }
        // There is room for all Receives that exist. After the connection was closed there is none.
        if conn.role().arrived(msg.hold()).is_ok() {
            conn.owner().data_arrived();
        }
    }

    fn completed(conn: &Conn, _qp: &QueuePair, tag: Tag, outcome: Result<(), WcError>) {
        if outcome.is_err() {
            // What was posted stays until the queue pair is drained.
            return conn.force_close();
        }
        if tag == BACKWARD {
            return conn.owner().route().wake_senders();
        }
        match conn.role().flights.completed(tag) {
            Some(Flight::Reply(source)) => conn.role().spare.put_source(source),
            Some(Flight::Pull(pull)) => fetched(conn, pull),
            None => {}
        }
    }

    fn room(conn: &Conn, qp: &QueuePair) {
        conn.owner().route().wake_senders();
        match conn.role().flights.resume(qp) {
            Ok(true) => conn.owner().room_regained(),
            Ok(false) => {}
            Err(_) => conn.force_close(),
        }
    }
}

/// Passes a call on whose RDMA Reads have completed.
fn fetched(conn: &Conn, pull: Pull) {
    if conn.role().fetched(pull).is_ok() {
        conn.owner().data_arrived();
    }
}
