// SPDX-License-Identifier: GPL-2.0

//! More memory regions when they run low.

use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

use super::endpoint::Endpoint;
use super::names;
use crate::observe::trace;

/// Regions added at a time.
const BATCH: u32 = 32;

/// Orders more regions; RPCs that wait for some are woken when they are there, and also when the
/// order could not be filled: what is in use then comes back in time. Any context.
pub(super) fn order(ep: &Arc<Endpoint>) {
    // Refused only when it is queued already.
    let _ = ep.link.xprt().queue().enqueue(ep.clone());
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() && this.pool.available() == 0 {
            if this.pool.grow(BATCH).is_ok() {
                this.link.xprt().data().stats().mrs_allocated(BATCH);
                trace::createmrs(names::peer(this.link.xprt()), BATCH);
            }
        }
        this.link.xprt().wake_write_space();
    }
}
