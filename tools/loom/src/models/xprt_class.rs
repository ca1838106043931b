// SPDX-License-Identifier: GPL-2.0

//! The registered classes of client transports: a context that finds a class finds it complete.

use std::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/xprt/class.rs
//<   static REGISTERED
//<   impl Class { find enter leave }
parts!("xprt_class");

pub(crate) const MODEL: Model = Model {
    name: "xprt_class",
    runs: &[
        ("a transport is set up", set_up),
        ("two classes are registered", two),
    ],
    spare: &[
        (
            "entry.load(Acquire) == class",
            "who unregisters a class has registered it",
        ),
        (
            "entry.store",
            "after the class was unregistered nobody looks it up; null passes nothing on",
        ),
    ],
};

/// The class, as far as it is accessed here.
struct Class {
    raw: raw::xprt_class,
    memory: Memory,
}

impl Class {
    fn as_raw(&self) -> *const raw::xprt_class {
        &self.raw
    }
}

mod raw {
    pub(super) struct xprt_class {
        pub(super) ident: i32,
    }
}

fn class(ident: i32) -> Shared<Class> {
    REGISTERED.iter().for_each(Atomic::settle);
    Shared::new(Class {
        raw: raw::xprt_class { ident },
        memory: Memory::new(),
    })
}

/// Two contexts register a class each.
fn two() {
    let classes = [1, 2].map(class);
    let enter = |class: Shared<Class>| Class::enter(std::ptr::from_ref(class.0).cast_mut());
    let other = spawn(move || enter(classes[0]));
    enter(classes[1]).unwrap();
    other.join().unwrap().unwrap();
    assert!(Class::find(1).is_some() && Class::find(2).is_some());
}

/// `setup` looks its class up while that is being registered.
fn set_up() {
    let class = class(1);
    let other = spawn(move || {
        if let Some(class) = Class::find(1) {
            class.memory.read();
        }
    });
    let this = std::ptr::from_ref(&*class).cast_mut();
    class.memory.write();
    Class::enter(this).unwrap();
    other.join().unwrap();
    Class::leave(this);
}
