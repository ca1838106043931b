// SPDX-License-Identifier: GPL-2.0

//! Handles of a client transport: teardown waits until the last one is dropped.

use std::ops::Deref;
use std::ptr::NonNull;

use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Completion;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/xprt/handle.rs
//<   struct XprtHandle
//<   impl<T: Transport> Deref for XprtHandle<T>
//<   impl<T: Transport> Clone for XprtHandle<T>
//<   impl<T: Transport> Drop for XprtHandle<T>
//<   impl<T: Transport> Xprt<T> { handle wait_unused }
parts!("xprt_handles");

pub(crate) const MODEL: Model = Model {
    name: "xprt_handles",
    runs: &[("two contexts drop their handles", two_handles)],
    spare: &[],
};

/// The transport, as far as it is accessed here.
pub(crate) struct Xprt<T: Transport> {
    state: XprtState,
    data: T,
}

struct XprtState {
    handles: Atomic<i32>,
    unused: Completion,
}

/// A kind of transports.
pub(crate) trait Transport {}

impl Transport for Memory {}

/// Two contexts use the transport and drop their handles, one of them a handle that it makes.
fn two_handles() {
    let xprt = Shared::new(Xprt {
        state: XprtState {
            handles: Atomic::new(1),
            unused: Completion::new(),
        },
        data: Memory::new(),
    });
    let (first, second) = (xprt.handle(), xprt.handle());
    spawn(move || {
        first.data.read();
        let other = first.clone();
        drop(first);
        other.data.read();
    });
    spawn(move || second.data.read());
    xprt.wait_unused();
    // The transport is freed.
    xprt.data.write();
}
