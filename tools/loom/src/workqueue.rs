// SPDX-License-Identifier: GPL-2.0

//! A work item of a workqueue, with its barriers.
//!
//! Queueing an item is a `test_and_set_bit()` of its mark, a full barrier also if the item is
//! queued already. The worker clears the mark, and a full barrier follows before it calls the
//! function. An item does not run twice at once.
//!
//! C source: `kernel/workqueue.c`.

use std::cell::{Cell, RefCell};

use kernel::sync::atomic::{Atomic, Full, Release};
use kernel::sync::barrier::smp_mb;
use loom::sync::Mutex;
use loom::thread::JoinHandle;

/// A work item. Each time that it is queued, a thread of its own runs it.
pub(crate) struct Work {
    pending: Atomic<bool>,
    running: Mutex<()>,
    call: Cell<Option<&'static dyn Fn()>>,
    workers: RefCell<Vec<JoinHandle<()>>>,
}

impl Work {
    /// Makes an item.
    pub(crate) fn new() -> Self {
        let pending = Atomic::new(false);
        pending.settle();
        Self {
            pending,
            running: Mutex::new(()),
            call: Cell::new(None),
            workers: RefCell::default(),
        }
    }

    /// Sets the function, before the item is queued.
    pub(crate) fn set(&self, call: impl Fn() + 'static) {
        self.call.set(Some(Box::leak(Box::new(call))));
    }

    /// Queues the item, unless it is queued.
    pub(crate) fn queue(&'static self) {
        if self.pending.xchg(true, Full) {
            return;
        }
        let work = move || {
            let _running = self.running.lock().unwrap();
            self.pending.store(false, Release);
            smp_mb(Full);
            if let Some(call) = self.call.get() {
                call();
            }
        };
        self.workers.borrow_mut().push(loom::thread::spawn(work));
    }

    /// Waits until the item is neither queued nor running. Nothing queues it meanwhile, but itself.
    pub(crate) fn flush(&self) {
        loop {
            let Some(worker) = self.workers.borrow_mut().pop() else {
                return;
            };
            worker.join().unwrap();
        }
    }
}
