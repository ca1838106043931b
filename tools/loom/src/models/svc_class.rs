// SPDX-License-Identifier: GPL-2.0

//! The registered class of server transports: a context that finds the pointer finds a complete
//! class.

use std::cell::UnsafeCell;

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/svc/class.rs
//<   static REGISTERED
//<   fn is_registered
//<   struct Class
//<   impl<L: Listener> Class<L>
parts!("svc_class");

pub(crate) const MODEL: Model = Model {
    name: "svc_class",
    runs: &[
        ("a transport is asked for its class", found),
        ("an operation looks its class up", looked_up),
    ],
    spare: &[(
        "REGISTERED.store",
        "after the class was unregistered nobody looks it up; null passes nothing on",
    )],
};

trait Listener {
    type Context;
}

mod raw {
    pub(crate) struct svc_xprt_class;
}

struct Server;

impl Listener for Server {
    type Context = Memory;
}

/// Makes a class that no other thread has seen.
fn class() -> Shared<Class<Server>> {
    REGISTERED.settle();
    Shared::new(Class::new(raw::svc_xprt_class, Memory::new()))
}

/// A context that has a transport checks whether it is one of this class.
fn found() {
    let class = class();
    let other = spawn(move || {
        if is_registered(class.as_raw()) {
            class.context().read();
        }
    });
    class.context().write();
    class.enter().unwrap();
    other.join().unwrap();
    class.leave();
}

/// A context without a class looks for one.
fn looked_up() {
    let class = class();
    let other = spawn(move || {
        if REGISTERED.load(Relaxed).is_null() {
            return;
        }
        // SAFETY: The class is registered.
        unsafe { Class::<Server>::registered() }.context().read();
    });
    class.context().write();
    class.enter().unwrap();
    other.join().unwrap();
    class.leave();
}
