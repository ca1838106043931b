// SPDX-License-Identifier: GPL-2.0

//! The registered class of server transports: who finds the pointer finds a class that is complete.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::Deref;
use std::pin::Pin;

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

use super::{parts, spawn, Memory};
use crate::Model;

//< sunrpc/svc/class.rs
//<   static REGISTERED
//<   fn is_registered
//<   struct Class
//<   impl<L: Listener> Class<L>
//<   fn register
//<   struct ClassRegistration
//<   impl<L: Listener> Drop for ClassRegistration<L>
parts!("svc_class");

pub(crate) const MODEL: Model = Model {
    name: "svc_class",
    runs: &[
        ("a transport is asked for its class", found),
        ("an operation looks its class up", looked_up),
        ("a second class is refused", refused),
    ],
    spare: &[(
        "REGISTERED.store",
        "after the class was unregistered nobody looks it up; null passes nothing on",
    )],
};

trait Implementation<K> {
    const OPS: u32;
}

struct Listening;

trait Listener: Implementation<Listening> + 'static {
    const NAME: &'static CStr;
    const MAX_PAYLOAD: u32;
    const IDENT: i32;
    type Context;
}

struct Server;

impl Implementation<Listening> for Server {
    const OPS: u32 = 1;
}

impl Listener for Server {
    const NAME: &'static CStr = c"rdma";
    const MAX_PAYLOAD: u32 = 1;
    const IDENT: i32 = 1;
    type Context = Memory;
}

trait CStrExt {
    fn as_char_ptr(&self) -> *const kernel::ffi::c_char;
}

impl CStrExt for CStr {
    fn as_char_ptr(&self) -> *const kernel::ffi::c_char {
        self.as_ptr()
    }
}

struct ThisModule;

impl ThisModule {
    fn as_ptr(&self) -> *const Self {
        self
    }
}

/// A box that is never freed: another thread may have found its address.
struct KBox<T: 'static>(&'static T);

impl<T> KBox<T> {
    fn pin(value: T, _flags: ()) -> Result<Pin<Self>> {
        // SAFETY: The value does not move.
        Ok(unsafe { Pin::new_unchecked(Self(Box::leak(Box::new(value)))) })
    }
}

impl<T> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

mod raw {
    pub(crate) struct svc_xprt_class {
        pub(super) xcl_name: *const kernel::ffi::c_char,
        pub(super) xcl_owner: *const super::ThisModule,
        pub(super) xcl_ops: &'static u32,
        pub(super) xcl_max_payload: u32,
        pub(super) xcl_ident: i32,
        pub(super) xcl_list: usize,
    }

    impl Default for svc_xprt_class {
        fn default() -> Self {
            Self {
                xcl_name: std::ptr::null(),
                xcl_owner: std::ptr::null(),
                xcl_ops: &0,
                xcl_max_payload: 0,
                xcl_ident: 0,
                xcl_list: 0,
            }
        }
    }

    /// SUNRPC's lock orders operations behind the registration; the model does without.
    pub(super) unsafe fn svc_reg_xprt_class(_class: *mut svc_xprt_class) -> i32 {
        0
    }

    pub(super) unsafe fn svc_unreg_xprt_class(_class: *mut svc_xprt_class) {}
}

fn registered(_rc: i32, _kind: &str, _name: &CStr) -> Result {
    Ok(())
}

/// Registers the class while another thread runs `look`.
fn register_while(look: fn()) {
    REGISTERED.settle();
    let other = spawn(look);
    let context = Memory::new();
    context.write();
    // SAFETY: The model has no replies.
    let class = unsafe { register::<Server>(&ThisModule, context) };
    other.join().unwrap();
    assert!(class.is_ok());
}

/// A context that has a transport looks whether it is one of this class.
fn found() {
    register_while(|| {
        let class = REGISTERED.load(Relaxed);
        if is_registered(class) {
            // SAFETY: The class is registered, and never freed.
            unsafe { &*class.cast::<Class<Server>>() }.context.read();
        }
    });
}

/// An operation of the class looks it up.
fn looked_up() {
    register_while(|| {
        if !REGISTERED.load(Relaxed).is_null() {
            // SAFETY: The class is registered.
            unsafe { Class::<Server>::registered() }.context.read();
        }
    });
}

/// Two contexts register a class.
fn refused() {
    REGISTERED.settle();
    // SAFETY: The model has no replies.
    let register = || unsafe { register::<Server>(&ThisModule, Memory::new()) };
    let other = spawn(register);
    let here = register();
    let other = other.join().unwrap();
    assert!(here.is_ok() != other.is_ok(), "one class is registered");
}
