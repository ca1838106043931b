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
//<   impl Registration { register add }
parts!("registration");

pub(crate) const MODEL: Model = Model {
    name: "registration",
    runs: &[
        ("a device is added meanwhile", added),
        ("two registrations", two),
    ],
    spare: &[("this.devices.lock()", "the model adds one device")],
};

/// The registration, as far as it is accessed here.
struct Registration {
    client: Client,
    completions: Completions,
    devices: SpinLock<Devices>,
}

/// The client of `ib_core`. It cannot be registered, and a device is added nevertheless: a callback
/// that runs before the registration has failed.
#[derive(Clone, Copy)]
struct Client(Shared<Memory>);

impl Client {
    fn get(&self) -> Shared<Memory> {
        self.0
    }
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

#[derive(Clone)]
struct LeasedDevice {
    events: Events,
}

impl LeasedDevice {
    fn new(_device: NonNull<u32>, _completions: Completions, _event: Event) -> Result<Self> {
        Ok(Self { events: Events })
    }
}

/// The handler of a device's events. The model has no event.
#[derive(Clone)]
struct Events;

impl Events {
    fn get(&self) {}
}

type Event = fn();

impl Registration {
    fn event() {}
}

struct MemallocScope;

impl MemallocScope {
    fn noio() -> Self {
        Self
    }
}

mod bindings {
    pub(super) type ib_device = u32;

    /// Registers clients of one name, of which there is one at a time.
    pub(super) unsafe fn ib_register_client(name: super::Shared<super::Memory>) -> i32 {
        name.write();
        -19
    }

    pub(super) unsafe fn ib_register_event_handler(_events: ()) {}
}

fn registration(client: Client) -> Shared<Registration> {
    Shared::new(Registration {
        client,
        completions: Completions(Memory::new()),
        devices: SpinLock::new(Devices),
    })
}

/// Two registrations of one name: one of them is refused before `ib_core` knows of it, or comes
/// after the other.
fn two() {
    REGISTRATION.settle();
    let client = Client(Shared::new(Memory::new()));
    let [first, second] = [client; 2].map(registration);
    let other = spawn(move || first.register());
    assert!(second.register().is_err());
    assert!(other.join().unwrap().is_err());
}

/// `ib_core` adds a device while the client is being registered.
fn added() {
    REGISTRATION.settle();
    let this = registration(Client(Shared::new(Memory::new())));
    let other = spawn(|| {
        let mut device = 1;
        // SAFETY: The device outlives the call.
        unsafe { Registration::add(&raw mut device) }
    });
    this.completions.0.write();
    assert!(this.register().is_err());
    other.join().unwrap();
}
