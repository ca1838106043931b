// SPDX-License-Identifier: GPL-2.0

//! A connection that breaks while the transport begins to use it is closed; no close reaches the
//! connection after it.

use std::marker::PhantomData;

use kernel::sync::atomic::{Atomic, AtomicFlag, Full, Relaxed};
use kernel::sync::SpinLock;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< conn/state.rs
//<   mod usability
//<   impl<R, O: XprtRef> ConnState<R, O> { begin_use mark_broken force_close while_open close }
parts!("usability");

pub(crate) const MODEL: Model = Model {
    name: "usability",
    runs: &[
        ("a connection breaks as its use begins", breaks),
        ("a broken connection is closed, and replaced", replaced),
    ],
    spare: &[(
        "self.usability.",
        "the order of the two changes decides, which one variable has in itself",
    )],
};

/// The state of a connection, as far as it is accessed here.
struct ConnState<R, O> {
    open: SpinLock<bool>,
    usability: Atomic<u32>,
    forced: AtomicFlag,
    owner: O,
    session: Session,
    role: PhantomData<R>,
}

struct Session;

impl Session {
    fn end(&self) {}
}

trait XprtRef {
    fn force_close(&self);
}

/// A transport: how often it was closed, and its connection.
struct Owner {
    closed: Atomic<u32>,
    connection: Memory,
}

impl XprtRef for Owner {
    fn force_close(&self) {
        self.connection.read();
        self.closed.add(1, Relaxed);
    }
}

fn connection() -> Shared<ConnState<(), Owner>> {
    let conn = Shared::new(ConnState {
        open: SpinLock::new(true),
        usability: Atomic::new(usability::CONNECTING),
        forced: AtomicFlag::new(false),
        owner: Owner {
            closed: Atomic::new(0),
            connection: Memory::new(),
        },
        session: Session,
        role: PhantomData,
    });
    conn.usability.settle();
    conn.forced.settle();
    conn.owner.closed.settle();
    conn
}

/// The completion worker finds the queue pair broken while the connect worker begins to use it.
fn breaks() {
    let conn = connection();
    let worker = spawn(move || conn.mark_broken());
    conn.begin_use();
    worker.join().unwrap();
    assert_eq!(conn.owner.closed.load(Relaxed), 1);
}

/// The close worker closes the connection, and the next one takes its place.
fn replaced() {
    let conn = connection();
    conn.begin_use();
    let worker = spawn(move || conn.mark_broken());
    conn.close();
    conn.owner.connection.write();
    worker.join().unwrap();
}
