// SPDX-License-Identifier: GPL-2.0

//! More memory regions when they run low.
//!
//! What a call takes is taken all or nothing, and calls that are prepared while they wait for their
//! turn hold theirs. So regions that are left are not always enough for the call whose turn it is. It
//! gets those of the calls behind it then (see [`super::send`]), which have to be prepared anew; with
//! more regions that remains rare.

use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

use super::config::MAX_SEGMENTS;
use super::endpoint::{Endpoint, SUPPLY};
use super::names;
use crate::observe::trace;

/// Regions added at a time: as many as the largest call takes, for what it sends and for the reply.
const BATCH: u32 = 2 * MAX_SEGMENTS;

/// Orders more regions; RPCs that wait for some are woken when they are there, and also when the
/// order could not be filled: what is in use then comes back in time. Any context.
pub(super) fn order(ep: &Arc<Endpoint>) {
    // Refused only when it is queued already.
    let _ = ep.link.xprt().queue().enqueue::<_, SUPPLY>(ep.clone());
}

impl WorkItem<SUPPLY> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            deliver(&this);
        }
        this.link.xprt().wake_write_space();
    }
}

/// Makes more regions if few are idle, or as many as can be had.
fn deliver(ep: &Endpoint) {
    let before = ep.pools.total();
    let filled = ep.pools.refill(BATCH);
    // Nobody else makes any.
    let made = ep.pools.total() - before;
    if made == 0 && filled.is_ok() {
        return;
    }
    ep.note_dry(filled.is_err());
    ep.link.xprt().data().stats().mrs_allocated(made);
    trace::createmrs(names::peer(ep.link.xprt()), made);
}
