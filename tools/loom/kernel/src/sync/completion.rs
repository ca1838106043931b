// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::Completion`.

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Condvar, Mutex};

/// A completion. Its lock orders what precedes a completion before what follows the wait.
pub struct Completion {
    lock: Mutex<()>,
    changed: Condvar,
    /// Changes under the lock.
    done: AtomicU32,
}

impl Completion {
    /// Makes a completion.
    #[expect(clippy::new_without_default, reason = "the kernel's type has none")]
    pub fn new() -> Self {
        Self {
            lock: Mutex::new(()),
            changed: Condvar::new(),
            done: AtomicU32::new(0),
        }
    }

    /// `completion_done()`, which first looks without the lock.
    pub fn is_done(&self) -> bool {
        let done = self.done.load(Relaxed) != 0;
        if done {
            drop(self.lock.lock().unwrap());
        }
        done
    }

    /// `complete()`.
    pub fn complete(&self) {
        self.add(1);
    }

    /// `complete_all()`.
    pub fn complete_all(&self) {
        self.add(u32::MAX);
    }

    fn add(&self, more: u32) {
        let _lock = self.lock.lock().unwrap();
        let done = self.done.load(Relaxed);
        self.done.store(done.saturating_add(more), Relaxed);
        self.changed.notify_all();
    }

    /// `wait_for_completion()`. loom reports a wait without end.
    pub fn wait_for_completion(&self) {
        let mut lock = self.lock.lock().unwrap();
        while self.done.load(Relaxed) == 0 {
            lock = self.changed.wait(lock).unwrap();
        }
        let done = self.done.load(Relaxed);
        if done != u32::MAX {
            self.done.store(done - 1, Relaxed);
        }
    }
}
