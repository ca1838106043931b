// SPDX-License-Identifier: GPL-2.0

//! The leases of a device: its removal waits until the last one is dropped.

use kernel::prelude::*;
use kernel::sync::{Arc, Completion, SpinLock as Mutex};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< rdma/device/lease.rs
//<   struct LeasedDevice { leases unused }
//<   struct Leases
//<   enum Change
//<   impl LeasedDevice { lease remove port_down next_to_notify }
//<   struct Lease
//<   impl Drop for Lease
parts!("lease");

pub(crate) const MODEL: Model = Model {
    name: "lease",
    runs: &[
        ("the device is removed while a lease is dropped", dropped),
        ("the device is removed while it is leased", leased),
        ("a port loses its link while a lease is dropped", unlinked),
    ],
    spare: &[],
};

type Changed = dyn Fn(Change);
/// A vector whose `push` takes flags.
struct KVVec<T>(Vec<T>);

impl<T> KVVec<T> {
    fn push(&mut self, value: T, _flags: ()) -> Result {
        self.0.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    fn retain(&mut self, kept: impl FnMut(&mut T) -> bool) {
        self.0.retain_mut(kept);
    }
}

impl<'a, T> IntoIterator for &'a KVVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

struct MemallocScope;

impl MemallocScope {
    fn noio() -> Self {
        Self
    }
}

fn device() -> Arc<LeasedDevice> {
    Arc::new(LeasedDevice {
        leases: Mutex::new(Leases {
            removing: false,
            count: 0,
            handlers: KVVec(Vec::new()),
        }),
        unused: Completion::new(),
    })
}

fn changed() -> Arc<Changed> {
    Arc::new(|_| ())
}

/// The last lease is dropped while the device is removed.
fn dropped() {
    let (device, memory) = (device(), Shared::new(Memory::new()));
    let lease = device.clone().lease(changed()).unwrap();
    let owner = spawn(move || {
        memory.read();
        drop(lease);
    });
    device.remove();
    // The device is freed.
    memory.write();
    owner.join().unwrap();
}

/// The device is leased while it is removed, or the lease is refused.
fn leased() {
    let (device, memory) = (device(), Shared::new(Memory::new()));
    let leased = device.clone();
    let owner = spawn(move || {
        if let Ok(lease) = leased.lease(changed()) {
            memory.read();
            drop(lease);
        }
    });
    device.remove();
    memory.write();
    owner.join().unwrap();
}

/// The memory of a handler is freed once its lease has been dropped.
fn unlinked() {
    let (device, memory) = (device(), Shared::new(Memory::new()));
    let handler: Arc<Changed> = Arc::new(move |change| {
        if let Change::PortDown(1) = change {
            memory.read();
        }
    });
    let lease = device.clone().lease(handler).unwrap();
    let owner = spawn(move || {
        drop(lease);
        memory.write();
    });
    device.port_down(1);
    owner.join().unwrap();
}
