// SPDX-License-Identifier: GPL-2.0

//! Makes more memory regions when they run low.
//!
//! A call takes all its regions or none, and a call that is prepared while it waits for its turn
//! holds its regions. So the idle regions do not always suffice for the call whose turn it is. That
//! call then gets the regions of the calls behind it (see [`super::send`]), which have to be
//! prepared again. With more regions, this is rare.

use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

use super::config::MAX_SEGMENTS;
use super::endpoint::{Endpoint, REPLENISH};
use crate::conn::traced;
use crate::observe::trace;

/// The number of regions that are made at a time: as many as the largest call takes, for its own
/// payload and for the reply.
const BATCH: u32 = 2 * MAX_SEGMENTS;

/// Has a worker make more regions. It wakes the RPCs that wait for regions when they are made. It
/// wakes them after a failure as well: the regions in use come back in time. Any context.
pub(super) fn order(ep: &Arc<Endpoint>) {
    // The queue refuses an item that is queued already, and that one suffices.
    let _ = ep
        .shared()
        .owner()
        .queue()
        .enqueue::<_, REPLENISH>(ep.clone());
}

impl WorkItem<REPLENISH> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            replenish(&this);
        }
        this.shared().owner().wake_write_space();
    }
}

/// Makes more regions if few are idle.
fn replenish(ep: &Endpoint) {
    let xprt = ep.shared().owner();
    let before = ep.pools.total();
    let filled = ep.pools.refill(BATCH);
    // No other context makes regions, so the difference is the number that was made here.
    let made = ep.pools.total() - before;
    if made == 0 && filled.is_ok() {
        return;
    }
    ep.set_no_more_regions(filled.is_err());
    xprt.data().stats().mrs_allocated(made);
    trace::createmrs(traced::peer(xprt), made);
}
