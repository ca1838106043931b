// SPDX-License-Identifier: GPL-2.0

//! Handles of a server transport: `xpo_free` waits until the last one is dropped.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Completion;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/svc/xprt.rs
//<   struct Handle
//<   impl<K> Deref for Handle<K>
//<   impl<K> Drop for Handle<K>
//<   impl<K> SvcXprt<K> { handle wait_unused }
parts!("svc_handles");

pub(crate) const MODEL: Model = Model {
    name: "svc_handles",
    runs: &[("two contexts drop their handles", two_handles)],
    spare: &[],
};

/// The transport, as far as it is accessed here.
pub(crate) struct SvcXprt<K> {
    handles: Atomic<i32>,
    unused: Completion,
    memory: Memory,
    kind: PhantomData<K>,
}

/// Two contexts use the transport and drop their handles, one of them a handle that it makes.
fn two_handles() {
    let xprt = Shared::new(SvcXprt::<()> {
        handles: Atomic::new(1),
        unused: Completion::new(),
        memory: Memory::new(),
        kind: PhantomData,
    });
    let (first, second) = (xprt.handle(), xprt.handle());
    spawn(move || {
        first.memory.read();
        let other = first.handle();
        drop(first);
        other.memory.read();
    });
    spawn(move || second.memory.read());
    xprt.wait_unused();
    // The transport is freed.
    xprt.memory.write();
}
