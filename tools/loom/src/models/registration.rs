// SPDX-License-Identifier: GPL-2.0

//! The registration with `ib_core`: a callback finds the registration complete, or none.

use std::ptr::NonNull;

use kernel::error::{from_result, to_result};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::SpinLock;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< rdma/device/registration.rs
//<   static REGISTRATION
//<   impl Registration { register is_registered add }
parts!("registration");

pub(crate) const MODEL: Model = Model {
    name: "registration",
    runs: &[("a device is added meanwhile", added)],
    spare: &[
        (
            "REGISTRATION.store",
            "without a registration there is no callback; null passes nothing on",
        ),
        ("core::ptr::eq", "who asks has made the registration"),
        ("this.devices.lock()", "the model adds one device"),
    ],
};

/// The registration, as far as it is accessed here.
struct Registration {
    client: Client,
    completions: Completions,
    devices: SpinLock<Devices>,
}

/// The client of `ib_core`. It cannot be registered, and a device is added nevertheless: a callback
/// that runs before the registration has failed.
struct Client;

impl Client {
    fn get(&self) {}
}

struct Completions(Memory);

impl Clone for Completions {
    fn clone(&self) -> Self {
        self.0.read();
        Self(Memory::new())
    }
}

struct Devices;

impl Devices {
    fn push(&mut self, _entry: LeasedDevice, _flags: ()) -> Result {
        Ok(())
    }
}

struct LeasedDevice;

impl LeasedDevice {
    fn new(_device: NonNull<u32>, _completions: Completions) -> Result<Self> {
        Ok(Self)
    }
}

struct MemallocScope;

impl MemallocScope {
    fn noio() -> Self {
        Self
    }
}

mod bindings {
    pub(super) type ib_device = u32;

    pub(super) unsafe fn ib_register_client((): ()) -> i32 {
        -19
    }
}

/// `ib_core` adds a device while the client is being registered.
fn added() {
    REGISTRATION.settle();
    let this = Shared::new(Registration {
        client: Client,
        completions: Completions(Memory::new()),
        devices: SpinLock::new(Devices),
    });
    let other = spawn(|| {
        let mut device = 1;
        // SAFETY: The device outlives the call.
        unsafe { Registration::add(&raw mut device) }
    });
    this.completions.0.write();
    assert!(!this.is_registered());
    assert!(this.register().is_err());
    other.join().unwrap();
}
