// SPDX-License-Identifier: GPL-2.0

//! The address of a transport as SUNRPC shows it: who follows the pointer finds the text.

use std::marker::PhantomData;

use kernel::sync::atomic::{Acquire, Atomic, Release};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< sunrpc/xprt/address_strings.rs
//<   impl<T: Transport> Xprt<T> { publish }
parts!("address");

pub(crate) const MODEL: Model = Model {
    name: "address",
    runs: &[("the address is shown meanwhile", shown)],
    spare: &[],
};

trait Transport {}

impl Transport for () {}

/// The transport, as far as it is accessed here: the first string of an address.
struct Xprt<T> {
    raw: *mut rpc_xprt,
    kind: PhantomData<T>,
}

struct rpc_xprt {
    address_strings: Atomic<*const kernel::ffi::c_char>,
}

impl<T> Xprt<T> {
    fn as_raw(&self) -> *mut rpc_xprt {
        self.raw
    }
}

fn u32_as_usize(value: u32) -> usize {
    value as usize
}

/// SUNRPC reads the text by way of the pointer. loom has no dependencies, so the load acquires.
fn shown() {
    let address_strings = Atomic::new(std::ptr::null());
    address_strings.settle();
    let raw = Shared::new(rpc_xprt { address_strings });
    let xprt = Xprt::<()> {
        raw: std::ptr::from_ref(&*raw).cast_mut(),
        kind: PhantomData,
    };
    let text = Shared::new(Memory::new());
    let reader = spawn(move || {
        if !raw.address_strings.load(Acquire).is_null() {
            text.read();
        }
    });
    text.write();
    // SAFETY: The text is never freed.
    unsafe { xprt.publish(0, std::ptr::from_ref(&*text).cast()) };
    reader.join().unwrap();
}
