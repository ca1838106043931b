// SPDX-License-Identifier: GPL-2.0

//! The progress of a queue pair: memory is used again only when the device has finished with it.

use kernel::sync::atomic::{Acquire, Atomic, AtomicFlag, Full, Relaxed, Release};
use kernel::sync::{Arc, SpinLock};
use kernel::work::read_once;

use super::{parts, spawn, Memory, Shared};
use crate::Model;

//< rdma/progress.rs
//<   struct Progress
//<   impl Progress { retired retire is_drained is_broken set_broken set_fatal }
//<   impl Progress { take_fatal set_drained defer }
//<   fn release
//<   struct LastUse
//<   impl LastUse { set in_flight take_progress }
parts!("progress");

pub(crate) const MODEL: Model = Model {
    name: "progress",
    runs: &[
        ("a work request completes", completes),
        ("the queue pair is drained", drained),
        ("an object is dropped meanwhile", dropped),
        ("an error is reported once", reported),
    ],
    spare: &[(
        "self.fatal.xchg(false, Full)",
        "a flag that passes nothing on; the exchange alone decides who reports",
    )],
};

/// The objects whose owner has dropped them, and whether they were freed.
struct Deferred {
    objects: LinkedStack<Object>,
}

impl Deferred {
    fn new() -> Self {
        Self {
            objects: LinkedStack(Vec::new()),
        }
    }
}

struct LinkedStack<T: Linked>(Vec<T::Boxed>);

impl<T: Linked> LinkedStack<T> {
    fn push(&mut self, object: T::Boxed) {
        self.0.push(object);
    }
}

trait Linked {
    type Boxed: std::ops::DerefMut<Target = Self>;
}

/// A buffer that the device uses until a work request has completed.
struct Object {
    last_use: LastUse,
    memory: Shared<Memory>,
}

impl Linked for Object {
    type Boxed = Box<Self>;
}

impl Drop for Object {
    fn drop(&mut self) {
        self.memory.write();
    }
}

fn progress() -> Arc<Progress> {
    let progress = Progress {
        retired: Atomic::new(0),
        drained: Atomic::new(false),
        broken: Atomic::new(false),
        fatal: AtomicFlag::new(false),
        deferred: SpinLock::new(Deferred::new()),
    };
    progress.retired.settle();
    progress.drained.settle();
    progress.broken.settle();
    progress.fatal.settle();
    Arc::new(progress)
}

fn last_use(progress: &Arc<Progress>) -> LastUse {
    let mut last_use = LastUse::default();
    last_use.set(progress, 1);
    last_use
}

/// The completion worker has handled the effects of a work request; the owner uses the memory.
fn completes() {
    let (progress, memory) = (progress(), Shared::new(Memory::new()));
    let last_use = last_use(&progress);
    let worker = spawn(move || {
        memory.write();
        progress.retire(1);
    });
    if !last_use.in_flight() {
        memory.write();
    }
    worker.join().unwrap();
}

/// The device no longer uses anything; the owner uses the memory.
fn drained() {
    let (progress, memory) = (progress(), Shared::new(Memory::new()));
    let last_use = last_use(&progress);
    let worker = spawn(move || {
        memory.write();
        progress.set_drained();
    });
    if !last_use.in_flight() {
        memory.write();
    }
    worker.join().unwrap();
}

/// The owner drops the object while the queue pair is drained: the object is freed, and not before.
fn dropped() {
    let (progress, memory) = (progress(), Shared::new(Memory::new()));
    let object = Box::new(Object {
        last_use: last_use(&progress),
        memory,
    });
    let drained = progress.clone();
    let worker = spawn(move || {
        memory.write();
        drained.set_drained();
    });
    release::<Object>(
        object,
        |object| &mut object.last_use,
        |deferred| &mut deferred.objects,
    );
    worker.join().unwrap();
    let left = &progress.deferred.inspect().objects.0;
    assert!(left.is_empty(), "an object stays");
}

/// An error is reported by one of two handlers, or by a later one.
fn reported() {
    let progress = progress();
    let [failing, worker] = [(); 2].map(|()| progress.clone());
    let failing = spawn(move || failing.set_fatal());
    let worker = spawn(move || worker.take_fatal());
    let here = progress.take_fatal();
    failing.join().unwrap();
    let taken = [here, worker.join().unwrap(), progress.take_fatal()];
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
}
