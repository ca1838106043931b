// SPDX-License-Identifier: GPL-2.0

//! The client transport that calls over a server's connection, as the completion worker finds it:
//! the answer to a call finds the transport.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::SpinLock;

use super::{parts, spawn, Shared};
use crate::Model;

//< server/conn/owner.rs
//<   struct Backchannel
//<   impl<X: Clone + Unpin> Backchannel<X> { attach take get of_answer }
parts!("backchannel");

pub(crate) const MODEL: Model = Model {
    name: "backchannel",
    runs: &[
        ("an answer arrives", answered),
        ("the transport is closed meanwhile", closed),
    ],
    spare: &[],
};

#[derive(Clone, Copy)]
struct Version;

mod backward {
    use super::Version;

    pub(super) fn is_answer(_version: Version, _bytes: &[u8]) -> bool {
        true
    }
}

fn place() -> Shared<Backchannel<u32>> {
    let place = Shared::new(Backchannel {
        exists: Atomic::new(false),
        xprt: SpinLock::new(None),
    });
    place.exists.settle();
    place
}

/// A call is sent and answered. The device orders the answer behind the call.
fn answered() {
    let place = place();
    let device = Shared::new(Atomic::new(false));
    device.settle();
    let worker = spawn(move || {
        if device.load(Acquire) {
            assert!(place.of_answer(|| Version, &[]) == Some(1), "no transport");
        }
    });
    place.attach(1).unwrap();
    device.store(true, Release);
    worker.join().unwrap();
}

/// The transport is closed, and another one attached, while a message arrives.
fn closed() {
    let place = place();
    place.attach(1).unwrap();
    let worker = spawn(move || {
        let found = place.of_answer(|| Version, &[]);
        assert!(matches!(found, None | Some(1) | Some(2)));
    });
    let other = spawn(move || place.attach(2).is_ok());
    let taken = place.take();
    worker.join().unwrap();
    let attached = other.join().unwrap();
    assert!(taken.is_some());
    assert!(attached == place.exists.load(Relaxed), "the flag is wrong");
}
