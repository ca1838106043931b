// SPDX-License-Identifier: GPL-2.0

//! The mark of a connection that is closed: no call stays prepared for it.

use std::marker::PhantomData;

use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::SpinLock;

use super::{parts, spawn, Shared};
use crate::Model;

//< conn/connection.rs
//<   impl<R: Role> Connection<R> { is_closed close }
parts!("closed");

pub(crate) const MODEL: Model = Model {
    name: "closed",
    runs: &[("a call is prepared while its connection closes", closes)],
    spare: &[],
};

trait Role {}

impl Role for () {}

/// The connection, as far as it is accessed here.
struct Connection<R: Role> {
    closed: AtomicFlag,
    lost: Rest,
    parts: Parts,
    role: PhantomData<R>,
}

/// Everything that closing takes out of use.
struct Parts {
    lifecycle: Rest,
}

struct Rest;

enum Event {
    Close,
}

/// Why a connection was lost.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Closed,
    Peer,
}

impl Rest {
    fn on(&self, Event::Close: Event) {}

    fn populate(&self, _: Loss) -> bool {
        true
    }

    fn was_up(&self) -> bool {
        true
    }

    fn abort(&self) {}

    fn expect_flush(&self) {}

    fn drain(&self) {}

    fn close(&self) {}
}

impl<R: Role> Connection<R> {
    fn loss(&self) -> Loss {
        Loss::Peer
    }

    fn qp(&self) -> Rest {
        Rest
    }

    fn shared(&self) -> Rest {
        Rest
    }
}

/// A call is prepared under the lock of its slot, unless the connection is closed. The sweep after
/// the close takes the call back under the same lock.
fn closes() {
    let conn = Shared::new(Connection {
        closed: AtomicFlag::new(false),
        lost: Rest,
        parts: Parts { lifecycle: Rest },
        role: PhantomData::<()>,
    });
    conn.closed.settle();
    let prepared = Shared::new(SpinLock::new(false));
    let task = spawn(move || {
        let mut prepared = prepared.lock();
        *prepared = !conn.is_closed();
    });
    conn.close();
    *prepared.lock() = false;
    task.join().unwrap();
    assert!(!*prepared.inspect(), "a call stays prepared");
}
