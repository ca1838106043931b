// SPDX-License-Identifier: GPL-2.0

//! Gives Receives and request slots larger buffers, as the session of a connection wants.

use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

use super::endpoint::{Endpoint, GROW};
use super::request::Request;
use crate::rdma::send::SendBuf;

impl WorkItem<GROW> for Endpoint {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.is_closed() {
            this.follow_session();
            enlarge_slots(&this);
        }
    }
}

/// Gives the slots that are idle send buffers for the longest message that may be sent. The other
/// slots get theirs later. Without memory they keep their own, and send shorter messages.
fn enlarge_slots(ep: &Endpoint) {
    // CAST: `usize` has at least 32 bits.
    let len = ep.thresholds().client_to_server as usize;
    for slot in ep.shared().owner().slots() {
        let request: &Request = slot.data();
        if !request.has_shorter_buffer(len) {
            continue;
        }
        match SendBuf::new(ep.pd(), len, kernel::alloc::flags::GFP_NOWAIT) {
            Ok(buf) => drop(request.exchange_idle_buffer(buf, ep)),
            Err(_) => return,
        }
    }
}
