// SPDX-License-Identifier: GPL-2.0

//! The implementation of a server transport: who finds it complete finds it initialised, and it is
//! detached once.

use std::any::TypeId;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{offset_of, MaybeUninit};
use std::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/svc/xprt.rs
//<   impl<K> SvcXprt<K> { implemented_by }
//<   struct Xprt
//<   impl<K, T: Implementation<K>> Xprt<K, T> { from_raw data detach }
//<   struct New
//<   impl<K, T: Implementation<K>> New<K, T> { base init }
parts!("svc_complete");

pub(crate) const MODEL: Model = Model {
    name: "svc_complete",
    runs: &[
        ("an event finds the transport meanwhile", found),
        ("two contexts detach the implementation", detached),
    ],
    spare: &[(
        "self.base.detached.xchg(true, Full)",
        "the exchange alone decides who detaches; SUNRPC counts references",
    )],
};

/// The transport, as far as it is accessed here.
#[repr(C)]
struct SvcXprt<K> {
    base: raw::svc_xprt,
    implementation: TypeId,
    complete: Atomic<bool>,
    detached: Atomic<bool>,
    kind: PhantomData<K>,
}

impl<K> SvcXprt<K> {
    fn as_raw(&self) -> *mut raw::svc_xprt {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

trait Implementation<K>: Sized + 'static {
    fn detach(&self, xprt: &SvcXprt<K>);
}

mod raw {
    pub(crate) struct svc_xprt;
    pub(crate) struct svc_xprt_class;
}

/// Initialises a value in place.
trait PinInit<T, E> {
    fn make(self) -> Result<T, E>;
}

/// Initialises a value in place.
unsafe fn raw_try_init<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    // SAFETY: The caller promises that the memory is right for a value.
    unsafe { slot.write(init.make()?) };
    Ok(())
}

/// The implementation: its memory, and how often it was detached.
struct Server {
    memory: Memory,
    detached: Atomic<u32>,
}

impl PinInit<Server, Error> for Server {
    fn make(self) -> Result<Server, Error> {
        self.memory.write();
        Ok(self)
    }
}

impl Implementation<()> for Server {
    fn detach(&self, _xprt: &SvcXprt<()>) {
        self.detached.add(1, Relaxed);
    }
}

/// Makes a transport without its implementation, and the implementation.
fn new() -> (Shared<New<(), Server>>, Server) {
    let xprt = Box::leak(Box::new(Xprt::<(), Server> {
        base: SvcXprt {
            base: raw::svc_xprt,
            implementation: TypeId::of::<Server>(),
            complete: Atomic::new(false),
            detached: Atomic::new(false),
            kind: PhantomData,
        },
        data: UnsafeCell::new(MaybeUninit::uninit()),
    }));
    xprt.base.complete.settle();
    xprt.base.detached.settle();
    let new = New {
        xprt: NonNull::from(xprt),
        class: std::ptr::null_mut(),
    };
    let server = Server {
        memory: Memory::new(),
        detached: Atomic::new(0),
    };
    (Shared::new(new), server)
}

/// An event looks for the implementation while it is made.
fn found() {
    let (new, server) = new();
    let event = spawn(move || {
        if let Some(xprt) = new.base().implemented_by::<Server>() {
            // SAFETY: The transport is complete.
            unsafe { xprt.data() }.memory.read();
        }
    });
    // SAFETY: The function was not called before.
    assert!(unsafe { new.init(server) }.is_ok());
    event.join().unwrap();
}

/// SUNRPC detaches the transport while it is freed for another reason.
fn detached() {
    let (new, server) = new();
    server.detached.settle();
    // SAFETY: The function was not called before.
    assert!(unsafe { new.init(server) }.is_ok());
    // SAFETY: The transport is complete.
    let detach = move || unsafe { new.xprt.as_ref().detach() };
    let other = spawn(detach);
    detach();
    other.join().unwrap();
    // SAFETY: The transport is complete.
    let server = unsafe { new.xprt.as_ref().data() };
    assert_eq!(server.detached.load(Relaxed), 1);
}
