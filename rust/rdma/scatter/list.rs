// SPDX-License-Identifier: GPL-2.0

//! The inside of a page list: pages, and work requests that refer to them.

use kernel::alloc::Flags;
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::requests::Requests;
use crate::rdma::pd::Pd;
use crate::rdma::progress::Deferrable;
use crate::rdma::stack::Linked;

/// Number of pages that a new list has room for.
const PAGES: usize = 4;

/// Pages of one kind, and work requests that refer to them.
///
/// Fields are dropped in this order: the memory is unmapped before the pages are freed.
pub(in super::super) struct List<P> {
    pub(in super::super) requests: Requests,
    pub(super) pages: KVec<P>,
    next: Option<KBox<List<P>>>,
}

impl<P> Linked for List<P> {
    type Boxed = KBox<Self>;

    fn link(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }
}

impl<P> List<P> {
    /// Makes an empty list. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: &Arc<Pd>, direction: DataDirection, gfp: Flags) -> Result<KBox<Self>> {
        let list = Self {
            requests: Requests::new(pd, direction, gfp)?,
            pages: KVec::with_capacity(PAGES, gfp)?,
            next: None,
        };
        Ok(KBox::new(list, gfp)?)
    }

    /// Frees the list now or, if the device may be using it, when its queue pair is drained.
    pub(super) fn release(mut this: KBox<Self>)
    where
        Self: Deferrable<Boxed = KBox<Self>>,
    {
        if this.requests.in_flight() {
            // The list gives up its reference, or the two would keep each other alive.
            if let Some(progress) = this.requests.take_progress() {
                // If the queue pair was drained meanwhile, the list comes back, and is freed here.
                drop(progress.defer::<Self>(this));
            }
        }
    }
}
