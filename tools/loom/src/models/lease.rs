// SPDX-License-Identifier: GPL-2.0

//! The leases of a device: its removal waits until the last one is dropped.

use kernel::prelude::*;
use kernel::sync::{Arc, Completion, SpinLock as Mutex};

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< rdma/device/lease.rs
//<   struct LeasedDevice { leases unused }
//<   struct Leases
//<   struct Holder
//<   impl LeasedDevice { lease remove next_to_notify }
//<   struct Lease
//<   impl Drop for Lease
parts!("lease");

pub(crate) const MODEL: Model = Model {
    name: "lease",
    runs: &[
        ("the device is removed while a lease is dropped", dropped),
        ("the device is removed while it is leased", leased),
    ],
    spare: &[],
};

type Removal = dyn Fn();
/// A vector whose `push` takes flags.
struct KVec<T>(Vec<T>);

impl<T> KVec<T> {
    fn push(&mut self, value: T, _flags: ()) -> Result {
        self.0.push(value);
        Ok(())
    }

    fn remove(&mut self, index: usize) -> Result<T> {
        Ok(self.0.remove(index))
    }
}

impl<T> std::ops::Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> std::ops::DerefMut for KVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
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
            last: 0,
            holders: KVec(Vec::new()),
        }),
        unused: Completion::new(),
    })
}

fn removal() -> Arc<Removal> {
    Arc::new(|| ())
}

/// The last lease is dropped while the device is removed.
fn dropped() {
    let (device, memory) = (device(), Shared::new(Memory::new()));
    let lease = device.clone().lease(removal()).unwrap();
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
        if let Ok(lease) = leased.lease(removal()) {
            memory.read();
            drop(lease);
        }
    });
    device.remove();
    memory.write();
    owner.join().unwrap();
}
