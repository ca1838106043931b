// SPDX-License-Identifier: GPL-2.0

//! The flag of a queue of calls that only threads of the service may fetch: it agrees with the
//! state under the lock.

use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::SpinLock;
use kernel::work::read_once;

use super::{parts, spawn, Shared};
use crate::Model;

//< server/call/queue.rs
//<   impl ReadyQueue { unstall set_stalled set_bounded threads_fetch }
parts!("ready");

pub(crate) const MODEL: Model = Model {
    name: "ready",
    runs: &[("the queue is resumed as its Reads are bounded", resumed)],
    spare: &[],
};

/// The queue, as far as it is accessed here.
struct ReadyQueue {
    state: SpinLock<ReadyState>,
    threads_fetch: Atomic<bool>,
}

struct ReadyState {
    messages: Vec<u32>,
    stalled: bool,
    bounded: bool,
}

/// Pages are free again while a client bounds the RDMA Reads.
fn resumed() {
    let queue = Shared::new(ReadyQueue {
        state: SpinLock::new(ReadyState {
            messages: vec![1],
            stalled: true,
            bounded: false,
        }),
        threads_fetch: Atomic::new(true),
    });
    queue.threads_fetch.settle();
    let pages = spawn(move || queue.unstall());
    queue.set_bounded(true);
    assert!(pages.join().unwrap());
    assert!(queue.threads_fetch(), "calls are fetched without a bound");
}
