// SPDX-License-Identifier: GPL-2.0

//! The models, and their common parts.

use std::ops::Deref;

use loom::cell::UnsafeCell;

use crate::{sunrpc, Model};

mod address;
mod backchannel;
mod bc_request;
mod claims;
mod closed;
mod counters;
mod drain;
mod kept;
mod lease;
mod listener;
mod log;
mod progress;
mod puts;
mod ready;
mod registration;
mod slot;
mod svc_class;
mod svc_complete;
mod svc_handles;
mod svc_offer;
mod svc_room;
mod terms;
mod usability;
mod xprt_class;
mod xprt_handles;

/// All models.
pub(crate) const ALL: &[&Model] = &[
    &address::MODEL,
    &backchannel::MODEL,
    &bc_request::MODEL,
    &claims::MODEL,
    &closed::MODEL,
    &counters::MODEL,
    &drain::MODEL,
    &kept::MODEL,
    &lease::MODEL,
    &listener::MODEL,
    &log::MODEL,
    &progress::MODEL,
    &puts::MODEL,
    &ready::MODEL,
    &registration::MODEL,
    &slot::MODEL,
    &svc_class::MODEL,
    &svc_complete::MODEL,
    &svc_handles::MODEL,
    &svc_offer::MODEL,
    &svc_room::MODEL,
    &terms::MODEL,
    &usability::MODEL,
    &xprt_class::MODEL,
    &xprt_handles::MODEL,
];

/// The parts that `build.rs` has taken for a model.
macro_rules! parts {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}
pub(crate) use parts;

/// Memory that is accessed without a lock. loom reports accesses that nothing orders.
pub(crate) struct Memory(UnsafeCell<u32>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes memory.
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    /// Writes, or frees the memory.
    #[track_caller]
    pub(crate) fn write(&self) {
        self.0.with_mut(|_| {});
    }

    /// Reads.
    #[track_caller]
    pub(crate) fn read(&self) {
        self.0.with(|_| {});
    }
}

/// A value that all threads of a model share. The value is never dropped: an execution that loom
/// stops may have borrowed it.
pub(crate) struct Shared<T: 'static>(pub(crate) &'static T);

impl<T> Shared<T> {
    /// Shares a value.
    pub(crate) fn new(value: T) -> Self {
        Self(Box::leak(Box::new(value)))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: loom runs one thread of a model at a time, and checks accesses to memory.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: loom runs one thread of a model at a time, and checks accesses to memory.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

/// Starts a thread.
pub(crate) fn spawn<T: 'static>(work: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(work)
}
