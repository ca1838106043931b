// SPDX-License-Identifier: GPL-2.0

//! Page lists that no operation uses. They keep what they have allocated, so that an operation of
//! the same size allocates nothing.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::rdma::pd::Pd;
use crate::rdma::scatter::{Sink, Source};

/// The most lists of each kind that a connection keeps.
const MOST: usize = 8;

/// The spare page lists of one connection. They belong to its protection domain.
#[pin_data]
pub(super) struct Spare {
    #[pin]
    sources: SpinLock<KVec<Source>>,
    #[pin]
    sinks: SpinLock<KVec<Sink>>,
}

impl Spare {
    /// Makes an empty set. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<impl PinInit<Self>> {
        let sources = KVec::with_capacity(MOST, GFP_KERNEL)?;
        let sinks = KVec::with_capacity(MOST, GFP_KERNEL)?;
        Ok(pin_init!(Self {
            sources <- new_spinlock!(sources, "rpcrdma::Spare::sources"),
            sinks <- new_spinlock!(sinks, "rpcrdma::Spare::sinks"),
        }))
    }

    /// Returns an empty list for the pages of a reply. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(super) fn source(&self, pd: &Arc<Pd>) -> Result<Source> {
        let spare = self.sources.lock().pop();
        spare.map_or_else(|| Source::new(pd), Ok)
    }

    /// Returns an empty list for the pages of a call. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(super) fn sink(&self, pd: &Arc<Pd>) -> Result<Sink> {
        let spare = self.sinks.lock().pop();
        spare.map_or_else(|| Sink::new(pd), Ok)
    }

    /// Takes a list back, after freeing its pages. Does not sleep.
    #[inline]
    pub(super) fn put_source(&self, mut source: Source) {
        if source.clear() {
            keep(&self.sources, source);
        }
    }

    /// Takes a list back, after freeing its pages. Does not sleep.
    #[inline]
    pub(super) fn put_sink(&self, mut sink: Sink) {
        if sink.clear() {
            keep(&self.sinks, sink);
        }
    }

    /// Drops all lists. May sleep.
    pub(super) fn clear(&self) {
        let sources = core::mem::take(&mut *self.sources.lock());
        let sinks = core::mem::take(&mut *self.sinks.lock());
        drop((sources, sinks));
    }
}

/// Keeps a list, unless there are enough.
#[inline]
fn keep<T>(lists: &SpinLock<KVec<T>>, list: T) {
    let mut lists = lists.lock();
    // The room was made with the set. A list that finds none is dropped after the lock.
    let refused = lists.push_within_capacity(list);
    drop(lists);
    drop(refused);
}
