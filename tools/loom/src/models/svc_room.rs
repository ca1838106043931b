// SPDX-License-Identifier: GPL-2.0

//! A server's connection that has no space for replies: no wake-up is lost.
//!
//! SUNRPC asks for space after it has changed `xpt_flags`, and does not enqueue a transport without
//! space. The context that makes space enqueues the transport afterwards. Each side writes the
//! value that the other one reads.

use std::marker::PhantomData;

use kernel::bindings as k;
use kernel::sync::atomic::{Atomic, Full};
use kernel::sync::barrier::smp_mb;
use kernel::work::{read_once, write_once};

use super::{parts, spawn, sunrpc, Shared};
use crate::Model;

//< sunrpc/svc/xprt.rs
//<   impl<K> SvcXprt<K> { set enqueue }
//<   impl SvcXprt<Connected> { data_arrived room_regained }
//<   fn finds_room
//<   fn finds_room_now
//< server/call/load.rs
//<   const PARKED
//<   impl Load { has_room set_parked }
parts!("svc_room");

pub(crate) const MODEL: Model = Model {
    name: "svc_room",
    runs: &[
        ("a call arrives while room is made", call_arrives),
        (
            "a thread has received while room is made",
            thread_has_received,
        ),
    ],
    spare: &[],
};

/// The parked replies with which there is no space, as the load has them: one.
const MOST_PARKED: u32 = 1 << 1;

/// Marks a connection.
enum Connected {}

/// The transport, as far as it is accessed here.
struct SvcXprt<K> {
    base: *mut raw::svc_xprt,
    kind: PhantomData<K>,
}

impl<K> SvcXprt<K> {
    fn as_raw(&self) -> *mut raw::svc_xprt {
        self.base
    }
}

/// The load of a connection, as far as it is accessed here: that without pages.
struct Load {
    word: Atomic<u32>,
}

impl Load {
    fn are_scarce(&self) -> bool {
        false
    }

    fn may_take(&self, word: u32, _busy: u32) -> bool {
        word & PARKED < MOST_PARKED
    }
}

mod raw {
    pub(super) use super::sunrpc::{svc_xprt, svc_xprt_enqueue, XPT_DATA};
}

/// A connection with one parked reply, and flags.
fn connection(flags: usize) -> (Shared<SvcXprt<Connected>>, Shared<Load>) {
    let load = Shared::new(Load {
        word: Atomic::new(MOST_PARKED),
    });
    load.word.settle();
    let has_room = move || finds_room(|| load.has_room(0));
    let base = sunrpc::svc_xprt::new(flags, has_room);
    let kind = PhantomData;
    (Shared::new(SvcXprt { base, kind }), load)
}

/// Makes space.
fn make_room(xprt: &SvcXprt<Connected>, load: &Load) {
    load.set_parked(false, 0);
    xprt.room_regained();
}

/// A call arrives at a transport that is not busy.
fn call_arrives() {
    let (xprt, load) = connection(0);
    let other = spawn(move || make_room(&xprt, &load));
    xprt.data_arrived();
    other.join().unwrap();
    assert!(sunrpc::is_busy(xprt.base), "nobody enqueues the transport");
}

/// A thread of the service ends the busy state of a transport that has more calls.
fn thread_has_received() {
    let (xprt, load) = connection(1 << sunrpc::XPT_BUSY | 1 << sunrpc::XPT_DATA);
    let other = spawn(move || make_room(&xprt, &load));
    sunrpc::svc_xprt_received(xprt.base);
    other.join().unwrap();
    assert!(sunrpc::is_busy(xprt.base), "nobody enqueues the transport");
}
