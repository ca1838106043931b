// SPDX-License-Identifier: GPL-2.0

//! Draining a queue pair: after `ib_drain_qp()` the counts of the completion worker show whether
//! all work requests were flushed.

use std::cell::UnsafeCell;
use std::marker::PhantomData;

use kernel::sync::atomic::{Atomic, AtomicFlag, Relaxed, Release};
use kernel::sync::SpinLock;
use kernel::work::write_once;

use super::{parts, spawn, Shared};
use crate::Model;

//< rdma/qp/drain.rs
//<   impl Marker { done }
//<   impl<C: Completions> Qp<C> { enter_error flush }
//< rdma/recv/queue.rs
//<   impl RecvQueue { note_completed is_flushed }
parts!("drain");

pub(crate) const MODEL: Model = Model {
    name: "drain",
    runs: &[("the last completions are handled", flushed)],
    spare: &[
        ("self.sending.lock()", "nothing is posted any more"),
        ("self.idle.lock()", "nothing is posted any more"),
    ],
};

trait Completions {}

impl Completions for () {}

/// The queue pair, as far as it is accessed here.
struct Qp<C> {
    qp: *mut bindings::ib_qp,
    sending: SpinLock<Sending>,
    marker: Marker,
    recv_queue: RecvQueue,
    consumer: PhantomData<C>,
}

struct Sending {
    queue: SendQueue,
}

struct SendQueue;

impl SendQueue {
    fn posted(&self) -> u64 {
        1
    }
}

impl<C> Qp<C> {
    fn post_marker(&self) -> bool {
        true
    }
}

#[repr(C)]
struct Marker {
    completed: AtomicFlag,
}

struct RecvQueue {
    completed: Atomic<u32>,
    worker: UnsafeCell<Worker>,
    idle: SpinLock<Idle>,
}

struct Worker {
    completed: u32,
}

struct Idle {
    posted: u32,
}

mod pin_init {
    pub(super) fn zeroed<T: Default>() -> T {
        T::default()
    }
}

mod bindings {
    use kernel::sync::atomic::{Acquire, Atomic};

    pub(super) const ib_qp_state_IB_QPS_ERR: u32 = 6;
    pub(super) const ib_qp_attr_mask_IB_QP_STATE: u32 = 1;

    /// The queue pair: whether the worker has handled the last completion.
    pub(super) type ib_qp = Atomic<bool>;

    #[derive(Default)]
    pub(super) struct ib_qp_attr {
        pub(super) qp_state: u32,
        pub(super) cap: u32,
    }

    pub(super) struct ib_cq;

    #[derive(Clone, Copy)]
    pub(super) struct Entry {
        pub(super) wr_cqe: *mut u8,
    }

    pub(super) struct ib_wc {
        pub(super) __bindgen_anon_1: Entry,
    }

    pub(super) unsafe fn ib_modify_qp(_qp: *mut ib_qp, _attr: *mut ib_qp_attr, _mask: i32) -> i32 {
        0
    }

    /// Waits for the worker. A completion orders this wait behind it.
    pub(super) unsafe fn ib_drain_qp(qp: *mut ib_qp) {
        // SAFETY: The queue pair exists.
        while !unsafe { &*qp }.load(Acquire) {
            loom::thread::yield_now();
        }
    }
}

/// The completion worker handles a Receive, and the marker on the send queue.
fn flushed() {
    let drained = Shared::new(Atomic::new(false));
    drained.settle();
    let qp = Shared::new(Qp::<()> {
        qp: std::ptr::from_ref(&*drained).cast_mut(),
        sending: SpinLock::new(Sending { queue: SendQueue }),
        marker: Marker {
            completed: AtomicFlag::new(false),
        },
        recv_queue: RecvQueue {
            completed: Atomic::new(0),
            worker: UnsafeCell::new(Worker { completed: 0 }),
            idle: SpinLock::new(Idle { posted: 1 }),
        },
        consumer: PhantomData,
    });
    qp.marker.completed.settle();
    qp.recv_queue.completed.settle();
    let worker = spawn(move || {
        let wr_cqe = std::ptr::from_ref(&qp.marker).cast_mut().cast();
        let mut wc = bindings::ib_wc {
            __bindgen_anon_1: bindings::Entry { wr_cqe },
        };
        // SAFETY: The thread is the worker, and the marker exists.
        unsafe {
            qp.recv_queue.note_completed();
            Marker::done(std::ptr::null_mut(), &raw mut wc);
        }
        drained.store(true, Release);
    });
    assert!(qp.flush(), "a queue pair that is drained counts as failed");
    worker.join().unwrap();
}
